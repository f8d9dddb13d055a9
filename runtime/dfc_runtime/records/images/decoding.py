"""Images: the bytes of a JPEG or PNG file as pixels of one size, by the library Pillow.

Assumes that `require_decoder` was called before. Guarantees pixels that are a function of the bytes, the size and the
version of the library alone; that whatever is wrong with the bytes is a `DamagedImage`; and that nothing else of Pillow
is touched: no other format is tried, and no setting of it is changed or asked for. Without a call it imports neither
Pillow nor NumPy: programs are checked without them.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dfc_runtime.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dfc_runtime.records.images.resizing import NativeResize

Pixels: TypeAlias = "NDArray[np.uint8]"
CHANNELS = 3
MOST_PIXELS = 1 << 28
"""Of an image before it is resized: Pillow takes four bytes for each."""
LARGEST_SIDE = 1 << 14
"""Of an image behind that."""
JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
"""How files begin."""
HELPS = "install it: pip install 'dfc-runtime[images]'"


class DamagedImage(Exception):
    """Bytes that are no image; the text says why."""


def require_decoder() -> None:
    """`UnsupportedError` where the library is missing."""
    try:
        from PIL import JpegImagePlugin, PngImagePlugin  # only programs with images have it
    except ImportError as problem:
        text = f"the program decodes images, which needs the library Pillow ({problem})\n  {HELPS}"
        raise UnsupportedError(text, code="E1001") from None
    del JpegImagePlugin, PngImagePlugin


def decode(data: bytes, height: int, width: int, resize: NativeResize | None = None) -> Pixels:
    """The image as `[height, width, 3]`, red, green and blue; code resizes it, where there is some.

    A JPEG image that is at least twice as large both ways is decoded at a half, a quarter or an eighth, by the
    decoder's own transform. What comes out is resized by linear interpolation over as many pixels as become one (a
    triangle, in whole numbers), whatever its proportions are, first along rows and then along columns. Transparency is
    left out, of 16 bits the upper ones count.
    """
    try:
        image, box = _opened(data, height, width)
        return _resized(_in_colour(image), box, (height, width), resize)
    except DamagedImage:
        raise
    except Exception as problem:  # its parsers raise whatever they come across
        raise DamagedImage(_reason(problem)) from None


@cache
def _jpeg_file() -> Any:
    """Pillow's class for JPEG files, without what they say of the camera: Pillow would look there for dots an inch, and
    warn of what is damaged in it, though no pixel depends on that."""
    from PIL.Image import Exif  # as above
    from PIL.JpegImagePlugin import JpegImageFile

    class PixelsAlone(JpegImageFile):
        def getexif(self) -> Exif:
            return Exif()

    return PixelsAlone


def _opened(data: bytes, height: int, width: int) -> tuple[Any, tuple[float, float, float, float] | None]:
    """An image whose head is read, and the part of it that counts where it will be decoded smaller."""
    from PIL.JpegImagePlugin import JpegImageFile  # as above
    from PIL.PngImagePlugin import PngImageFile

    if data.startswith(JPEG):
        image = _jpeg_file()(io.BytesIO(data))
    elif data.startswith(PNG):
        image = PngImageFile(io.BytesIO(data))
    else:
        raise DamagedImage("it is neither a JPEG nor a PNG file")
    columns, rows = image.size
    if columns * rows > MOST_PIXELS:
        raise DamagedImage(f"it says that it has {columns:,} x {rows:,} pixels, and at most {MOST_PIXELS:,} are taken")
    drafted = image.draft(None, (width, height)) if isinstance(image, JpegImageFile) else None
    return image, None if drafted is None else drafted[1]


def _in_colour(image: Any) -> Any:
    """The image with all of its pixels, in red, green and blue."""
    import numpy as np  # as above
    from PIL import Image

    image.load()
    image.info.pop("transparency", None)  # else it is a warning for some palettes
    if image.mode.startswith("I"):  # 16 bits a pixel, which `convert` would clip
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image if image.mode == "RGB" else image.convert("RGB")


def _resized(
    image: Any, box: tuple[float, float, float, float] | None, size: tuple[int, int], resize: NativeResize | None
) -> Pixels:
    """In another size, by code or by Pillow, which are asked for the same: of both directions at once Pillow begins
    with the one or the other, by its version and the form of the image."""
    import numpy as np  # as above
    from PIL import Image

    from dfc_runtime.records.images.memory import pixels_of

    (height, width), (columns, rows) = size, image.size
    extent = (rows, columns) if box is None else (box[3], box[2])
    if (rows, columns, *extent) != (*size, *size):
        if resize is not None:
            address, kept = pixels_of(image)
            pixels = resize(address, (rows, columns), extent, size)
            del kept
            if pixels is not None:
                return pixels
        linear = Image.Resampling.BILINEAR
        image = image.resize((width, rows), linear, (0, 0, extent[1], rows))
        image = image.resize((width, height), linear, (0, 0, width, extent[0]))
    return np.frombuffer(image.tobytes(), np.uint8).reshape(height, width, CHANNELS)


def _reason(problem: Exception) -> str:
    """What Pillow says, as part of a sentence."""
    return str(problem).split("\n", 1)[0] or type(problem).__name__
