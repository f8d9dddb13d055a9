"""What types and attribute records hold: their parts, and the size symbols they mention.

Assumes attribute fields of the kinds listed in `dfc.ir.attributes`. Iterative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import cast

from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import DTypeVariable
from dfc.ir.types import TensorType


def parts(thing: object) -> Iterator[object]:
    """A type or attribute record and everything inside it."""
    pending = [thing]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, tuple):
            pending.extend(cast(tuple[object, ...], current))
        else:
            pending.extend([getattr(current, name) for name in _field_names(type(current))])


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a record, but for sizes, which are parts; found out once for a class, as it takes long."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) and not issubclass(kind, Dim) else ()


def symbols_of(thing: object) -> frozenset[Symbol]:
    """The size symbols a type or attribute record mentions."""
    if isinstance(thing, TensorType):
        return frozenset(symbol for size in thing.shape for symbol in size.symbols()) if thing.shape else _NONE
    return frozenset(symbol for part in parts(thing) if isinstance(part, Dim) for symbol in part.symbols())


_NONE: frozenset[Symbol] = frozenset()


def generic_in(thing: object) -> bool:
    """Whether a type or attribute record mentions a generic element type."""
    return any(isinstance(part, DTypeVariable) for part in parts(thing))


def held_by(thing: object) -> tuple[bool, frozenset[Symbol]]:
    """Both at once: whether it mentions a generic element type, and the size symbols."""
    generic, symbols = False, _NONE
    for part in parts(thing):
        if isinstance(part, Dim):
            symbols |= part.symbols()
        elif isinstance(part, DTypeVariable):
            generic = True
    return generic, symbols
