"""Sites of host calls that are about records: whether one says all that its handler takes for granted.

Assumes a site whose own form was checked. What is otherwise than the compiler writes it is a `ValueError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dfc_runtime.formats import fields
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.manifest import DECODE_IMAGE, DECODE_RAW, RECORD_NEXT, HostSite, SiteOperand, StateEntry
from dfc_runtime.records.fields import NUMPY_TYPES, PACKED, STRING, STRING_BYTES
from dfc_runtime.records.formats import FORMATS, RECORDS, layout_of
from dfc_runtime.records.images.decoding import CHANNELS, LARGEST_SIDE

POSITION, LOCATION = SiteOperand("i64", (2,)), SiteOperand("i64", (3,))
FLAG = SiteOperand("bool", ())
MOST = {"passes": 2**31, "parts": 2**20, "longest": 2**30}


def check_record_site(site: HostSite, state: Mapping[str, StateEntry]) -> None:
    """It is of a reader that is there, and its operands are those of its kind."""
    name = site.attributes.get("resource")
    is_reader = isinstance(name, str) and name in state and (state[name].dtype, state[name].shape) == ("i64", (2,))
    if not is_reader or not (_is_next(site) if site.kind == RECORD_NEXT else _is_of_a_string(site)):
        raise ValueError(f"the {site.kind} in entry {fields.shown(site.entry)} is of no reader")


def _is_next(site: HostSite) -> bool:
    stated = site.attributes
    texts = all(isinstance(stated.get(key), str) for key in ("pattern", "shuffled", "on_error"))
    numbers = [stated.get(key) for key in ("passes", "parts", "longest", "part", "seed")]
    if not texts or stated.get("format", RECORDS) not in FORMATS or not all(type(each) is int for each in numbers):
        return False
    passes, parts, longest, part, _ = (each if isinstance(each, int) else 0 for each in numbers)
    in_bounds = all(1 <= each <= most for each, most in zip((passes, parts, longest), MOST.values(), strict=True))
    outputs = (SiteOperand("u8", (longest,)), LOCATION, POSITION)
    in_bounds = in_bounds and _has_fields(site, longest)
    return in_bounds and 0 <= part < parts and site.inputs == (POSITION,) and site.outputs == outputs


def _has_fields(site: HostSite, room: int) -> bool:
    """Whether a reader of packed records says what is in them, and has room for that."""
    form = FORMATS[str(site.attributes.get("format", RECORDS))]
    if not form.is_packed:
        return True
    separator = site.attributes.get("separator")
    try:
        fits = layout_of(site.attributes).size <= room
    except ValueError:
        return False
    is_ascii = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
    return fits and is_ascii and isinstance(site.attributes.get("head"), bool)


def _is_of_a_string(site: HostSite) -> bool:
    if len(site.inputs) != 2 or site.inputs[1] != LOCATION:
        return False
    data = site.inputs[0]
    if data.dtype != "u8" or len(data.shape) != 1 or not isinstance(data.shape[0], int):
        return False
    if site.kind == DECODE_IMAGE:
        return _are_pixels(site.outputs)
    return len(site.outputs) == 1 if site.kind == DECODE_RAW else _are_features(site, data.shape[0])


def _are_pixels(outputs: Sequence[SiteOperand]) -> bool:
    """Whether these are an image, and perhaps a flag."""
    pixels, *flags = outputs or (FLAG,)
    sides = [each for each in pixels.shape[:2] if isinstance(each, int) and 1 <= each <= LARGEST_SIDE]
    has_form = len(sides) == 2 and pixels == SiteOperand("u8", (*sides, CHANNELS))
    return has_form and flags in ([], [FLAG])


def _are_features(site: HostSite, room: int) -> bool:
    names, kinds = site.attributes.get("names"), site.attributes.get("kinds")
    if not isinstance(names, tuple) or not isinstance(kinds, tuple):
        return False
    if not len(names) == len(kinds) == len(site.outputs):
        return False
    is_packed, size = site.attributes.get("format") == PACKED, 0
    for kind, output in zip(kinds, site.outputs, strict=True):
        sizes = [each for each in output.shape if isinstance(each, int)]
        is_number = kind == "numbers" and output.dtype in (NUMPY_TYPES if is_packed else ("f32", "i64"))
        if len(sizes) != len(output.shape) or (output != LOCATION if kind == STRING else not is_number):
            return False
        size += STRING_BYTES if kind == STRING else math.prod(sizes) * SIZES[output.dtype]
    return size <= room or not is_packed
