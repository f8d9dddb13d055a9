"""Requests about records in a manifest: what handlers take for granted is checked when it is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc_runtime.formats.manifest import HostSite, SiteOperand
from dfc_runtime.formats.site_reading import check_sites
from tests.support.bundles import LOCATION, Sketch, entry, state

POSITION, STRING = SiteOperand("i64", (2,)), SiteOperand("i64", (3,))
BYTES = SiteOperand("u8", (64,))
STREAM = {
    "resource": "files",
    "pattern": "*.rec",
    "passes": 2,
    "shuffled": "",
    "seed": -3,
    "on_error": "skip",
    "part": 1,
    "parts": 2,
    "longest": 64,
}
TABLE = {
    "format": "tables",
    "field_names": ("a", "b"),
    "field_types": ("string", "f16[3]"),
    "head": True,
    "separator": ";",
}
ROWS = {**STREAM, **TABLE}
FEATURES = {"resource": "files", "names": ("a", "b"), "kinds": ("string", "numbers")}
NEXT = HostSite("record_next", "read", STREAM, (POSITION,), (BYTES, STRING, POSITION), (), LOCATION)
PARSE = HostSite("parse_example", "read", FEATURES, (BYTES, STRING), (STRING, SiteOperand("f32", (3,))), (), LOCATION)
UNPACK = replace(PARSE, attributes={**FEATURES, "format": "packed"}, outputs=(STRING, SiteOperand("f16", (3,))))
DECODE = HostSite(
    "decode_raw", "read", {"resource": "files"}, (BYTES, STRING), (SiteOperand("i16", ("N",)),), (), LOCATION
)
PIXELS = SiteOperand("u8", (8, 9, 3))
IMAGE = replace(DECODE, kind="decode_image", outputs=(PIXELS,))


def check(*sites: HostSite) -> None:
    reader = state("files", "i64[2]")
    check_sites(Sketch(entries=[(entry("read", {}), "read")], state=[reader], sites=list(sites)).manifest())


def test_sites_as_the_compiler_writes_them_are_taken() -> None:
    check(IMAGE, replace(IMAGE, outputs=(PIXELS, SiteOperand("bool", ()))))
    check(NEXT, PARSE, DECODE, replace(NEXT, attributes={**STREAM, "format": "lines"}))
    check(replace(NEXT, attributes=ROWS), UNPACK)


WRONG = {
    "of no reader": replace(NEXT, attributes={**STREAM, "resource": "file"}),
    "an unknown format": replace(NEXT, attributes={**STREAM, "format": "pages"}),
    "fields without types": replace(NEXT, attributes={**ROWS, "field_types": ("string",)}),
    "fields of no type": replace(NEXT, attributes={**ROWS, "field_types": ("string", "f17")}),
    "fields without room": replace(NEXT, attributes={**ROWS, "field_types": ("string", "u8[49]")}),
    "rows without a separator": replace(NEXT, attributes={**ROWS, "separator": ""}),
    "more packed than there is": replace(UNPACK, outputs=(STRING, SiteOperand("f16", (25,)))),
    "no passes": replace(NEXT, attributes={**STREAM, "passes": 0}),
    "no such part": replace(NEXT, attributes={**STREAM, "part": 2}),
    "a truth value": replace(NEXT, attributes={**STREAM, "seed": True}),
    "no pattern": replace(NEXT, attributes={name: value for name, value in STREAM.items() if name != "pattern"}),
    "other room": replace(NEXT, attributes={**STREAM, "longest": 65}),
    "no position": replace(NEXT, inputs=()),
    "more features than values": replace(PARSE, attributes={**FEATURES, "names": ("a", "b", "c")}),
    "an unknown kind": replace(PARSE, attributes={**FEATURES, "kinds": ("string", "text")}),
    "bytes of no known size": replace(PARSE, inputs=(SiteOperand("u8", ("N",)), STRING)),
    "features of f64": replace(PARSE, outputs=(STRING, SiteOperand("f64", ()))),
    "two vectors": replace(DECODE, outputs=DECODE.outputs * 2),
    "no image": replace(IMAGE, outputs=()),
    "an image without colours": replace(IMAGE, outputs=(SiteOperand("u8", (8, 9)),)),
    "an image of no known size": replace(IMAGE, outputs=(SiteOperand("u8", ("N", 9, 3)),)),
    "an image that is too large": replace(IMAGE, outputs=(SiteOperand("u8", (8, 16385, 3)),)),
    "a flag that is none": replace(IMAGE, outputs=(PIXELS, SiteOperand("u8", ()))),
    "another string": replace(DECODE, inputs=(BYTES, POSITION)),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_handlers_could_not_take_is_refused(what: str) -> None:
    with pytest.raises(ValueError, match=r"in entry read is of no reader"):
        check(WRONG[what])
