"""Records as named features: the message `tf.train.Example`, read and written without Protocol Buffers.

    Example  { Features features = 1 }         Features { map<string, Feature> feature = 1 }
    Feature  { one of: BytesList = 1, FloatList = 2, Int64List = 3 }
    lists    { repeated bytes | float | int64 value = 1 }, numbers packed into one field or not

Assumes nothing of the bytes. Guarantees what the language of the format says: unknown fields are passed over, the last
of several values of a name counts, parts of one list join; and for what is no such message an error with the offset of
the first byte that does not fit (E0915). Memory is a small multiple of the bytes. What is written has its names in
order, so equal features have equal bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RecordError, counted
from dfc_runtime.records import wire
from dfc_runtime.records.wire import FOUR, LENGTH, VARINT, WireError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["bytes", "float", "int64", ""]
Values: TypeAlias = "list[bytes] | NDArray[np.float32] | NDArray[np.int64]"
KINDS: tuple[Kind, ...] = ("", "bytes", "float", "int64")
"""By the number of the field; a feature may have none."""
_BYTES, _FLOAT, _INT64 = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Span:
    """Values as they lie in a record: one text, packed numbers (`is_packed`), or one number by itself."""

    begin: int
    end: int
    is_packed: bool


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """A feature as it lies in a record."""

    kind: Kind
    spans: tuple[Span, ...] = ()


def decode_example(data: bytes) -> dict[str, Values]:
    """The features of one record by name: a list of bytes, f32[n] or i64[n]; an empty list where there is no kind.
    `RecordError` (E0915) if it is none."""
    try:
        return {name: values_of(data, layout) for name, layout in layouts(data).items()}
    except WireError as problem:
        raise no_example(problem) from None


def encode_example(features: Mapping[str, Values | Sequence[bytes] | bytes]) -> bytes:
    """A record of these features: bytes, or an array of f32, or of integers, of any shape, as one list. `TypeError`
    for other elements."""
    entries: list[bytes] = []
    for name in sorted(features):
        kind, values = _encoded(features[name])
        feature = wire.to_field(kind, values) if kind else b""
        entries.append(wire.to_field(1, wire.to_field(1, name.encode()) + wire.to_field(2, feature)))
    return wire.to_field(1, b"".join(entries))


def no_example(problem: WireError, where: str = "the record", file: str = "", record: int = -1) -> RecordError:
    """The error about a record that is no example."""
    text = f"{where} is no example: at its byte {problem.offset}: {problem.reason}"
    return RecordError(text, code="E0915", file=file, record=record, offset=problem.offset)


# ---------------------------------------------------------------- decoding --


def layouts(data: bytes, names: Collection[str] | None = None) -> dict[str, FeatureLayout]:
    """Where the values of each feature lie, or of those of these names: others are not looked into. `WireError` if it
    is no example."""
    features: dict[str, FeatureLayout] = {}
    for number, kind, begin, end in wire.fields(data, 0, len(data)):
        if (number, kind) == (1, LENGTH):
            for inner, inner_kind, first, last in wire.fields(data, begin, end):
                if (inner, inner_kind) == (1, LENGTH):
                    name, layout = _entry(data, first, last, names)
                    if names is None or name in names:
                        features[name] = layout
    return features


def _entry(data: bytes, begin: int, end: int, names: Collection[str] | None) -> tuple[str, FeatureLayout]:
    """A name and its feature, if that is asked for."""
    name, layout, values = "", FeatureLayout(""), list[tuple[int, int]]()
    for number, kind, first, last in wire.fields(data, begin, end):
        if (number, kind) == (1, LENGTH):
            try:
                name = data[first:last].decode(errors="strict" if names is None else "surrogateescape")
            except UnicodeDecodeError as problem:
                raise WireError(first + problem.start, "a name is not UTF-8") from None
        elif (number, kind) == (2, LENGTH):
            values.append((first, last))
    if names is None or name in names:
        for first, last in values:
            layout = _feature(data, first, last, layout)
    return name, layout


def _feature(data: bytes, begin: int, end: int, layout: FeatureLayout) -> FeatureLayout:
    for number, kind, first, last in wire.fields(data, begin, end):
        if kind == LENGTH and number in (_BYTES, _FLOAT, _INT64):
            spans = tuple(_list(data, first, last, number))
            is_same = layout.kind == KINDS[number]
            layout = FeatureLayout(KINDS[number], layout.spans + spans if is_same else spans)
    return layout


def _list(data: bytes, begin: int, end: int, of: int) -> list[Span]:
    single = {_FLOAT: FOUR, _INT64: VARINT}.get(of)
    spans: list[Span] = []
    for number, kind, first, last in wire.fields(data, begin, end):
        if number != 1 or kind not in (LENGTH, single):
            continue
        if of == _FLOAT and (last - first) % 4:
            raise WireError(first, f"{counted(last - first, 'byte')} cannot be a whole number of floats")
        span = Span(first, last, is_packed=of != _BYTES and kind == LENGTH)
        if of == _INT64 and span.is_packed:
            _whole(data, span)
        spans.append(span)
    return spans


def values_of(data: bytes, layout: FeatureLayout) -> Values:
    """The values of one feature; `WireError` if they are none of its kind."""
    if layout.kind == "float":
        return np.frombuffer(b"".join([data[each.begin : each.end] for each in layout.spans]), "<f4")
    if layout.kind == "int64":
        lists = [_whole(data, span) for span in layout.spans]
        return np.concatenate([np.zeros(0, np.int64), *lists])
    return [data[each.begin : each.end] for each in layout.spans]


def _whole(data: bytes, span: Span) -> NDArray[np.int64]:
    return wire.varints(np.frombuffer(data, np.uint8)[span.begin : span.end], span.begin)


# ---------------------------------------------------------------- encoding --


def _encoded(values: Values | Sequence[bytes] | bytes) -> tuple[int, bytes]:
    """The number of the kind, and the list."""
    if isinstance(values, bytes):
        return _BYTES, wire.to_field(1, values)
    if not isinstance(values, np.ndarray):
        return (_BYTES if len(values) else 0), b"".join([wire.to_field(1, value) for value in values])
    flat = values.reshape(-1)
    if flat.dtype.kind in "iub" and (flat.dtype != np.uint64 or not len(flat) or int(flat.max()) < 1 << 63):
        return _INT64, wire.to_field(1, wire.to_varints(flat.astype(np.int64))) if len(flat) else b""
    if flat.dtype == np.float32:
        return _FLOAT, wire.to_field(1, flat.astype("<f4").tobytes()) if len(flat) else b""
    raise TypeError(f"an example holds bytes, f32 and i64, and no {values.dtype}")
