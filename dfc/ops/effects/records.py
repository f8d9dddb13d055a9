"""Records: what a reader gives next, what is inside of it, and its bytes as numbers.

    record_next(RecordAttributes): position, t -> bytes, location, position, t     the next record of a reader
    parse_example(ExampleAttributes): bytes, location, t -> values.., t            the features of a `tf.train.Example`
    decode_raw(DecodeAttributes): bytes, location, t -> x, t                       a string as a vector of numbers
    decode_image(ImageAttributes): bytes, location, t -> pixels, flags.., t        a string as an image of one size

`t` is the token of `@records`. `position`, i64[2], is the state of a reader: how many elements of its stream are
behind it, and how many of them were damaged and left out. A string is two values: `bytes`, u8 with room for the
longest record, and `location`, i64[3]: where in it the string begins, how many bytes it has, and the number of the
record it is of, for messages. Whatever lies elsewhere in `bytes` means nothing. So the strings inside of a record are
locations in its own bytes, and nothing is copied but what is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import BOOL, F32, I64, U8, DType
from dfc.ir.types import TensorType
from dfc.ops.effects.host_ops import HostOps, not_evaluated
from dfc.ops.record import OpError, Parameter
from dfc.ops.rules.op_rules import DEFAULTS

NEXT, PARSE, DECODE, IMAGE = "record_next", "parse_example", "decode_raw", "decode_image"
RECORDS = "@records"
POSITION = TensorType(I64, (dim(2),))
LOCATION = TensorType(I64, (dim(3),))
STRING = "string"
"""The kind of a feature that is a string; the others are `numbers`."""


@dataclass(frozen=True, slots=True)
class RecordAttributes(Attributes):
    """The full name of a reader, and its stream: files by a pattern, so many passes, `shuffled` as "records", "files"
    or "", each `parts`-th element from `part` on. `longest` is the room for a record, in bytes; `format` is what the
    files are, as in `dfc_runtime.records.formats`; of some their fields are known, and how tables are written."""

    resource: str
    pattern: str
    passes: int
    shuffled: str
    seed: int
    on_error: str
    part: int
    parts: int
    longest: int
    format: str = "records"
    field_names: tuple[str, ...] = ()
    field_types: tuple[str, ...] = ()
    head: bool = True
    separator: str = ","


@dataclass(frozen=True, slots=True)
class ExampleAttributes(Attributes):
    """The features that are wanted: their names, whether each is a "string" or "numbers", and the type of its value
    (of a string: of its location). `resource` is the reader, for messages; `format` is "example", or "packed" for
    fields one behind the other."""

    resource: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    types: tuple[TensorType, ...]
    format: str = "example"


@dataclass(frozen=True, slots=True)
class DecodeAttributes(Attributes):
    """`size` numbers of type `dtype`, little-endian."""

    resource: str
    dtype: DType
    size: Dim


@dataclass(frozen=True, slots=True)
class ImageAttributes(Attributes):
    """An image of `height` times `width` pixels. Where it is `flagged`, a second result says whether the string is an
    image; else one that is none is an error."""

    resource: str
    height: int
    width: int
    flagged: bool = False


def _infer_next(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, RecordAttributes)
    if list(types) != [POSITION]:
        raise OpError("E0302", f"the position of a reader is {POSITION}", blame=0)
    return TensorType(U8, (dim(attributes.longest),)), LOCATION, POSITION


def _infer_parse(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, ExampleAttributes)
    _check_string(types)
    if not len(attributes.names) == len(attributes.kinds) == len(attributes.types):
        raise OpError("E0315", "each feature has a name, a kind and a type")
    from dfc_runtime.records.fields import NUMPY_TYPES, PACKED  # most programs read none

    is_packed = attributes.format == PACKED
    for kind, type_ in zip(attributes.kinds, attributes.types, strict=True):
        is_number = kind == "numbers" and (type_.dtype in (F32, I64) or (is_packed and str(type_.dtype) in NUMPY_TYPES))
        if type_ != LOCATION if kind == STRING else not is_number:
            raise OpError("E0302", f"an example holds strings, f32 and i64, and no {kind} of {type_}")
    return attributes.types


def _infer_decode(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, DecodeAttributes)
    _check_string(types)
    return (TensorType(attributes.dtype, (attributes.size,)),)


def _infer_image(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, ImageAttributes)
    _check_string(types)
    from dfc_runtime.records.images.decoding import CHANNELS, LARGEST_SIDE  # as above

    sides = attributes.height, attributes.width
    if not all(1 <= side <= LARGEST_SIDE for side in sides):
        raise OpError("E0315", f"an image has from 1 to {LARGEST_SIDE} rows and columns")
    pixels = TensorType(U8, tuple(map(dim, (*sides, CHANNELS))))
    return (pixels, TensorType(BOOL)) if attributes.flagged else (pixels,)


def _check_string(types: Sequence[TensorType]) -> None:
    is_string = len(types) == 2 and types[0].dtype == U8 and types[0].rank == 1 and types[1] == LOCATION
    if not is_string:
        raise OpError("E0302", "a string is u8[n] and i64[3]", blame=0)


_OPS = HostOps(
    family="records",
    resource=RECORDS,
    no_gradient="a gradient does not pass through what is read",
    evaluate=not_evaluated("records are read while a program runs, and only a compiled one does"),
    rules=replace(DEFAULTS, alone="reads records"),
)
_OPS.register(
    NEXT,
    "Reads the next record of a stream, or ends with the end of data.",
    "proc record_next(const resource: str, position: i64[2])",
    (Parameter("position"),),
    _infer_next,
    RecordAttributes,
    ("the position is that of the reader, and the one that comes out is its next one.",),
)
_OPS.register(
    PARSE,
    "Finds features of an example: numbers, and the locations of strings.",
    "proc parse_example_[L](const resource: str, bytes: u8[L], location: i64[3])",
    (Parameter("bytes"), Parameter("location")),
    _infer_parse,
    ExampleAttributes,
    ("features are strings, or numbers of f32 or i64, of a shape that is known.",),
)
_OPS.register(
    DECODE,
    "The bytes of a string as numbers, lowest byte first.",
    "proc decode_raw_[L](const resource: str, bytes: u8[L], location: i64[3])",
    (Parameter("bytes"), Parameter("location")),
    _infer_decode,
    DecodeAttributes,
    ("the string has as many bytes as these numbers.",),
)
_OPS.register(
    IMAGE,
    "The JPEG or PNG image in a string, resized, as red, green and blue.",
    "proc decode_image_[L](const resource: str, bytes: u8[L], location: i64[3])",
    (Parameter("bytes"), Parameter("location")),
    _infer_image,
    ImageAttributes,
    ("the height and the width are known.",),
)
