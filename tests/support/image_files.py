"""Files of images for tests: PNG by its definition, JPEG by Pillow, archives of both with labels."""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def smooth(height: int, width: int, seed: int = 0) -> Pixels:
    """A picture without sharp edges, which JPEG keeps nearly as it is."""
    rows, columns = np.mgrid[:height, :width] / max(height, width)
    waves = np.random.default_rng(seed).uniform(1, 5, (3, 2))
    return np.stack([127 + 120 * np.sin(a * rows + b * columns) for a, b in waves], axis=-1).astype(np.uint8)


def png(pixels: NDArray[np.generic]) -> bytes:
    """A file of grey (8 or 16 bits), or of red, green and blue, perhaps with alpha."""
    colour = {2: 0, 3: {3: 2, 4: 6}.get(pixels.shape[-1], 0)}[pixels.ndim]
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8 * pixels.itemsize, colour, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(row.dtype.newbyteorder(">")).tobytes() for row in pixels)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def jpeg(pixels: Pixels) -> bytes:
    """A file of high quality."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=0)
    return file.getvalue()


def write_samples(path: Path, images: Sequence[bytes]) -> Path:
    """An archive with these images, whose labels are their numbers."""
    with tarfile.open(path, "w") as tar:
        for number, image in enumerate(images):
            for ending, data in (("cls", b"%d" % number), ("jpg", image)):
                member = tarfile.TarInfo(f"{number}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path
