"""Declared types as data: `DeclaredType`, and the `Signature` of what is declared.

Tensor types are those of the graph. A shape pack `..S` is one dimension whose symbol has the name `..S`; a size of the
name `?` is one that any other fits.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import DTypeVariable
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree


@dataclass(frozen=True, slots=True)
class TupleType:
    fields: tuple[DeclaredType, ...]
    names: tuple[str, ...] = ()

    @property
    def leaves(self) -> int:
        """How many types it holds when its tuples are taken apart."""
        return sum(each.leaves if isinstance(each, TupleType) else 1 for each in self.fields)

    def __str__(self) -> str:
        names = self.names or ("",) * len(self.fields)
        return f"({', '.join(f'{n}: {t}' if n else str(t) for n, t in zip(names, self.fields, strict=True))})"


@dataclass(frozen=True, slots=True)
class FunctionType:
    parameters: tuple[DeclaredType, ...]
    result: DeclaredType

    def __str__(self) -> str:
        return f"fn({', '.join(map(str, self.parameters))}) -> {self.result}"


@dataclass(frozen=True, slots=True)
class ConstType:
    """`int`, `float`, `bool` or `str`, or a list of them."""

    kind: str
    is_list: bool = False

    def __str__(self) -> str:
        return f"{self.kind}[]" if self.is_list else self.kind


@dataclass(frozen=True, slots=True)
class ResourceType:
    """`rng`, `string`, `vars` or `tensors`."""

    name: str

    def __str__(self) -> str:
        return self.name


DeclaredType: TypeAlias = TensorType | TupleType | FunctionType | ConstType | ResourceType


def is_pack(size: Dim) -> bool:
    symbol = size.symbol
    return symbol is not None and symbol.name.startswith("..")


def is_unknown(size: Dim) -> bool:
    """Whether this is a `?`, which any size fits."""
    symbol = size.symbol
    return symbol is not None and symbol.name == "?"


def pack_symbol(name: str, unique: int = 0) -> Dim:
    return dim(Symbol(f"..{name}", unique))


@dataclass(slots=True)
class Signature:
    """The declared types of a function, block or entry over symbols of its own."""

    generics: tuple[tree.Generic, ...]
    parameters: tuple[tree.Parameter, ...]
    types: tuple[DeclaredType, ...]
    result: DeclaredType | None
    symbols: dict[str, Dim] = field(default_factory=dict[str, Dim])  # dimension and const int parameters by name
    packs: dict[str, Dim] = field(default_factory=dict[str, Dim])
    dtypes: dict[str, DTypeVariable] = field(default_factory=dict[str, DTypeVariable])
    rigid: bool = False

    def shown(self, type_: DeclaredType) -> str:
        """A type with the names the author gave."""
        plain = {symbol: Symbol(name) for name, size in self.symbols.items() if (symbol := size.symbol)}
        packs = {size: pack_symbol(name) for name, size in self.packs.items()}
        return str(_rename(type_, plain, packs))


def _rename(type_: DeclaredType, plain: dict[Symbol, Symbol], packs: dict[Dim, Dim]) -> DeclaredType:
    match type_:
        case TensorType():
            return type_.with_shape(tuple(packs.get(d, d).substitute(plain) for d in type_.shape))
        case TupleType(fields, names):
            return TupleType(tuple(_rename(f, plain, packs) for f in fields), names)
        case _:
            return type_
