"""Requests for images: the string of a record becomes pixels, or what is wrong with it is said as the program asks.

Assumes sites that were checked (`formats.record_sites`) and a decoder that is there. Guarantees that a damaged image is
a damaged record: a `RecordError` (E0914) with its file, number and offset, or pixels of zeros and a flag.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import RecordError
from dfc_runtime.records.images.decoding import DamagedImage, Pixels

Locate = Callable[[int], tuple[str, str, int, int]]
"""Of the record with a number: in words with where it is, its file, its number in that, and its offset."""
Decode = Callable[[bytes, int, int], Pixels]
"""As `images.decode`."""


def decode_image(decode: Decode, locate: Locate, request: HostRequest) -> None:
    """Fills in pixels, and whether they are those of an image where the site has an output for that."""
    (data, location), (pixels, *flags) = request.inputs, request.outputs
    begin, size, number = (int(each) for each in location)
    height, width, _ = pixels.shape
    try:
        pixels[...] = decode(data[begin : begin + size].tobytes(), height, width)
        is_intact = True
    except DamagedImage as problem:
        if not flags:
            where, file, record, offset = locate(number)
            text = f"the image in {where}, is damaged: {problem}"
            raise RecordError(text, code="E0914", file=file, record=record, offset=offset) from None
        pixels[...] = 0
        is_intact = False
    for flag in flags:
        flag[...] = is_intact
