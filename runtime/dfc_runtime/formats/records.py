"""Records of a format, defined once: JSON is read into data classes, and written from them, by their annotations.

    int, str, bool, float, Formula      itself; `Annotated[.., Range(1, 9)]` or `OneOf(names)` says what it may be
    tuple[X, ...]                       a list
    X | None                            X, or not there
    a data class                        an object: a key for each field, or the `Key` that its annotation says

A field with a default is left out where it has that value. In a row the fields of a record stand in a list, in order.
A field whose annotation has a `Form` is read and written by that.

Assumes annotations that can be read in the module of the class. Guarantees that reading what was written gives an equal
record, and that what does not fit is a `ValueError` of one line that names the place in the data.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from dfc_runtime.calls.formulas import Formula, from_json
from dfc_runtime.formats.fields import LARGEST, Record, flag, integer, items, shown, text

R = TypeVar("R")
Reader = Callable[[object, str], Any]


class Range(NamedTuple):
    """What a whole number may be; 0 and more if nothing is said."""

    low: int = 0
    high: int = LARGEST


class OneOf(NamedTuple):
    """What a text may be."""

    names: tuple[str, ...]


class Key(NamedTuple):
    """The key of a field that is called otherwise."""

    name: str


class Form(NamedTuple):
    """How a field with a form of its own is read and written."""

    read: Reader
    write: Callable[[Any], object]


class Field(NamedTuple):
    """A field of a record, its key, and how its value is read and written."""

    name: str
    key: str
    form: Form
    default: object


def read_record(cls: type[R], value: object, where: str) -> R:
    """The record that an object of JSON holds."""
    record = Record(value, where)
    values = {
        each.name: record.optional(each.key, each.form.read, each.default)
        if each.default is not MISSING
        else each.form.read(record.get(each.key), record.field_path(each.key))
        for each in _fields_of(cls)
    }
    record.done()
    return cls(**values)


def write_record(record: object) -> dict[str, object]:
    """The object of JSON that holds a record."""
    return {each.key: each.form.write(value) for each, value in _stated(record)}


def read_row(cls: type[R], values: Sequence[object], where: str) -> R:
    """The record whose fields are in a list."""
    known = _fields_of(cls)
    needed = sum(each.default is MISSING for each in known)
    if not needed <= len(values) <= len(known):
        raise ValueError(f"{where} has {len(values)} operands, not {needed}")
    return cls(*(each.form.read(value, where) for each, value in zip(known, values, strict=False)))


def write_row(record: object) -> list[object]:
    """The list that holds the fields of a record; those with a default come last."""
    return [each.form.write(value) for each, value in _stated(record)]


def formulas_in(value: object) -> Iterator[Formula]:
    """All formulas of a record, those of records in it as well."""
    if isinstance(value, Formula):
        yield value
    elif isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from formulas_in(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from formulas_in(getattr(value, each.name))


def _stated(record: object) -> list[tuple[Field, object]]:
    """The fields that have another value than without being stated."""
    values = [(each, getattr(record, each.name)) for each in _fields_of(type(record))]
    return [(each, value) for each, value in values if each.default is MISSING or value != each.default]


def _written(value: object) -> object:
    if isinstance(value, Formula):
        return value.to_json()
    if isinstance(value, tuple):
        return [_written(each) for each in cast("tuple[object, ...]", value)]
    return write_record(value) if is_dataclass(value) else value


@cache
def _fields_of(cls: type[Any]) -> tuple[Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field(each.name, hints[each.name], each.default) for each in fields(cls))


def _field(name: str, annotation: Any, default: object) -> Field:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    key = next((mark.name for mark in marks if isinstance(mark, Key)), name)
    form = next((mark for mark in marks if isinstance(mark, Form)), None)
    return Field(name, key, form or Form(_reader(annotation), _written), default)


def _reader(annotation: Any) -> Reader:
    """How a value of a type is read."""
    limit: Range | OneOf = Range()
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        limit = next((mark for mark in marks if isinstance(mark, Range | OneOf)), limit)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _reader(next(each for each in inner if each is not type(None)))
    if origin is tuple:
        return _list_reader([_reader(each) for each in inner if each is not ...], is_fixed=... not in inner)
    if isinstance(limit, OneOf):
        return lambda value, where: _one_of(value, where, limit.names)
    if annotation is int:
        return lambda value, where: integer(value, where, *limit)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    return lambda value, where: read_record(cast("type[Any]", annotation), value, where)


def _list_reader(readers: Sequence[Reader], *, is_fixed: bool) -> Reader:
    def read(value: object, where: str) -> tuple[Any, ...]:
        values = items(value, where)
        if is_fixed and len(values) != len(readers):
            raise ValueError(f"{where} has {len(values)} members, not {len(readers)}")
        own = readers if is_fixed else [readers[0]] * len(values)
        return tuple(read(each, f"{where}[{n}]") for n, (read, each) in enumerate(zip(own, values, strict=True)))

    return read


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise ValueError(f"{where} is no finite number")
    return float(value)


def _one_of(value: object, where: str, names: Sequence[str]) -> str:
    name = text(value, where)
    if name not in names:
        raise ValueError(f"{where} is {shown(name)}, not one of {', '.join(names)}")
    return name


_PLAIN: Mapping[Any, Reader] = {str: text, bool: flag, float: _number, Formula: from_json}
