"""Attribute records as plain values and back: what printed graphs, bundles and messages use to name them.

How a printed graph (`.dfg` text) spells any op: `graph.OP(operands.., FIELD = value, ..)`, where OP is the name of the
op record and each FIELD one field of its attribute record, with a trailing `_` if the word is a keyword
(`graph.and_(a, b)`, `graph.iota(type_ = i32[N])`). Fields with their default may be left out. A field is written as

- bool, int, float, str: the literal;  Dim: a dimension expression;  DType: its name;  TensorType: `f32[B, 3]`
- a tuple: a list `[a, b]`;  an enum: its value as a string;  None: left out
- a record inside: the list of its fields (RangeSelector: `[start, size, step]`); its only field (OperandSelector: `2`)
- the Literal of a constant: `type_ = f32[2], value = [1.0, 2.5]` (nested lists), or `type_ = .., hex = "0000803f.."`,
  its little-endian bytes in row-major order, where numbers do not round-trip (NaN, infinities, -0.0, big arrays)

Assumes attribute fields of the kinds listed in `dfc.ir.attributes`.
Guarantees `decode(type(a), dict(encode(a))) == a` for every attribute record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from dfc.ir.attributes import Attributes, Literal
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import DType, DTypeVariable, from_numpy
from dfc.ir.types import TensorType

Plain = bool | int | float | str | complex | Dim | DType | DTypeVariable | TensorType | list["Plain"]

MAX_LISTED = 64


class FieldError(ValueError):
    """A plain value does not fit the field it is given for."""

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"`{field}` wants {expected}")
        self.field = field
        self.expected = expected


def encode(attributes: Attributes) -> list[tuple[str, Plain]]:
    """The fields that differ from their defaults, in the order of their declaration."""
    encoded: list[tuple[str, Plain]] = []
    for field in fields(attributes):
        value = getattr(attributes, field.name)
        if isinstance(value, Literal):
            return _encode_constant(value)
        if value is not None and not (value == field.default and type(value) is type(field.default)):
            encoded.append((field.name, _encode(value)))
    return encoded


def _encode(value: object) -> Plain:
    match value:
        case Enum():
            return cast(Plain, value.value)
        case tuple():
            return [_encode(item) for item in cast(tuple[object, ...], value)]
        case bool() | int() | float() | str() | Dim() | DType() | DTypeVariable() | TensorType():
            return value
        case Attributes():
            raise TypeError(f"no plain form for {value!r}")
        case _ if is_dataclass(value) and not isinstance(value, type):
            inner = [_encode(getattr(value, field.name)) for field in fields(value)]
            return inner[0] if len(inner) == 1 else inner
        case _:
            raise TypeError(f"no plain form for {value!r}")


def _encode_constant(literal: Literal) -> list[tuple[str, Plain]]:
    array = literal.array
    dtype = from_numpy(array.dtype)
    assert dtype is not None, array.dtype
    type_ = TensorType(dtype, tuple(dim(n) for n in array.shape))
    if is_listable(literal):
        return [("type", type_), ("value", cast(Plain, array.tolist()))]
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return [("type", type_), ("hex", little.tobytes().hex())]


def is_listable(literal: Literal) -> bool:
    """Whether a constant is small and survives being written as numbers."""
    array = literal.array
    if array.size > MAX_LISTED or array.dtype.kind == "c" or 0 in array.shape:
        return False
    if array.dtype.kind in "biu":
        return True
    wide = array.astype(np.float64)
    return bool(np.all(np.isfinite(wide)) and not np.any((wide == 0) & np.signbit(wide)))


def decode(cls: type[Attributes], values: Mapping[str, Plain]) -> Attributes:
    """The attribute record with these fields; `FieldError` if one is missing, unknown or of the wrong kind."""
    hints = _hints(cls)
    if Literal in hints.values():
        make = cast(Callable[[Literal], Attributes], cls)
        return make(_decode_constant(values))
    for name in values:
        if name not in hints:
            raise FieldError(name, f"to be one of {', '.join(hints) or 'nothing: this op has no attributes'}")
    present: dict[str, Any] = {}
    for field in fields(cls):
        if field.name in values:
            present[field.name] = _decode(field.name, hints[field.name], values[field.name])
        elif _required(field) and type(None) in get_args(hints[field.name]):
            present[field.name] = None
        elif _required(field):
            raise FieldError(field.name, "a value")
    return cls(**present)


@cache
def _hints(cls: type[object]) -> dict[str, object]:
    return get_type_hints(cls)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _decode(name: str, hint: object, value: Plain) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise FieldError(name, "a list")
        return tuple(_decode(name, arguments[0], item) for item in value)
    if origin in (UnionType, Union):
        return _decode_union(name, arguments, value)
    assert isinstance(hint, type), hint
    return _decode_plain(name, cast(type[object], hint), value)


def _decode_union(name: str, choices: tuple[object, ...], value: Plain) -> object:
    for choice in choices:
        if choice is type(None):
            continue
        try:
            return _decode(name, choice, value)
        except FieldError:
            continue
    raise FieldError(name, "another kind of value")


def _decode_plain(name: str, hint: type[object], value: Plain) -> object:
    number = value.constant if isinstance(value, Dim) else value
    if hint is Dim and isinstance(value, (int, Dim)) and not isinstance(value, bool):
        return dim(value)
    if is_dataclass(hint) and hint not in (Dim, DType, DTypeVariable, TensorType):
        return _decode_record(name, hint, value)
    if hint is TensorType and isinstance(value, DType):
        return TensorType(value)
    if hint is int and isinstance(number, int) and not isinstance(number, bool):
        return number
    if hint is float and isinstance(number, (int, float)) and not isinstance(number, bool):
        return float(number)
    if hint in (bool, str, DType, DTypeVariable, TensorType) and isinstance(value, hint):
        return value
    if issubclass(hint, Enum) and isinstance(value, str) and value in [member.value for member in hint]:
        return hint(value)
    raise FieldError(name, _expected(hint))


def _decode_record(name: str, cls: type[object], value: Plain) -> object:
    hints = _hints(cls)
    items = value if isinstance(value, list) and len(hints) > 1 else [value]
    if len(items) != len(hints):
        raise FieldError(name, f"a list of {', '.join(hints)}")
    return cls(*[_decode(name, hint, item) for hint, item in zip(hints.values(), items, strict=True)])


def _expected(hint: type[object]) -> str:
    words: dict[type[object], str] = {
        Dim: "a dimension",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a string",
        DType: "an element type",
        TensorType: "a type such as f32[B, 3]",
    }
    if issubclass(hint, Enum):
        return " or ".join(f'"{member.value}"' for member in hint)
    return words.get(hint, hint.__name__)


def _decode_constant(values: Mapping[str, Plain]) -> Literal:
    type_ = values.get("type")
    type_ = TensorType(type_) if isinstance(type_, DType) else type_
    if not isinstance(type_, TensorType) or not isinstance(type_.dtype, DType):
        raise FieldError("type", "a type such as f32[2]")
    shape = [d.constant for d in type_.shape]
    if any(n is None for n in shape):
        raise FieldError("type", "a shape of plain numbers")
    sizes = [n for n in shape if n is not None]
    unknown = set(values) - {"type", "value", "hex"}
    if unknown or ("value" in values) == ("hex" in values):
        raise FieldError("value" if not unknown else min(unknown), "either `value` or `hex` beside `type`")
    dtype = type_.machine.numpy
    if "hex" in values:
        return Literal(_from_hex(values["hex"], dtype, sizes))
    return Literal(_from_lists(values["value"], dtype, sizes))


def _from_hex(text: Plain, dtype: np.dtype[np.generic], shape: list[int]) -> np.ndarray[Any, np.dtype[np.generic]]:
    try:
        data = bytes.fromhex(text) if isinstance(text, str) else b"?"
    except ValueError:
        raise FieldError("hex", "pairs of hexadecimal digits") from None
    count = int(np.prod(shape, dtype=object))
    if len(data) != count * dtype.itemsize:
        raise FieldError("hex", f"{count * dtype.itemsize} bytes")
    return np.frombuffer(data, dtype).reshape(shape)


def _from_lists(value: Plain, dtype: np.dtype[np.generic], shape: list[int]) -> np.ndarray[Any, np.dtype[np.generic]]:
    try:
        array = np.array(_numbers(value), dtype=object)
        items: list[object] = array.reshape(-1).tolist()
        if dtype.kind in "biu" and not all(isinstance(item, int) for item in items):
            raise TypeError
        flat = [dtype.type(item) for item in items]
    except (TypeError, ValueError, OverflowError):
        raise FieldError("value", "numbers that fit the element type, in lists of equal length") from None
    if list(array.shape) != shape:
        raise FieldError("value", f"the shape {shape}")
    return np.array(flat, dtype=dtype).reshape(shape)


def _numbers(value: Plain) -> object:
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value.constant if isinstance(value, Dim) else value
