"""The nodes of types, as they are written after `:` and `->`."""

from __future__ import annotations

from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.syntax.tree.expressions import (
    Argument,
    Expression,
    Identifier,
    Path,
    ShapePack,
    UnknownDimension,
)
from dfc.syntax.tree.nodes import Node


@dataclass(frozen=True, slots=True, eq=False)
class TensorType(Node):
    """`f32[B, 784]`, `rng`, `quant(i8, scale = 0.02)[N]`; `f32` and `f32[]` are the same"""

    name: Path
    arguments: tuple[Argument, ...] = ()
    dimensions: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NamedField(Node):
    """`loss: f32` in a tuple type"""

    name: Identifier
    type: TypeExpression


@dataclass(frozen=True, slots=True, eq=False)
class TupleType(Node):
    """`(h: f32[N], c: f32[N])`, `(f32, i32)`"""

    fields: tuple[TypeField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionType(Node):
    """`fn(f32[B]) -> f32[B]`"""

    parameters: tuple[TypeExpression, ...]
    result: TypeExpression


TypeExpression: TypeAlias = TensorType | TupleType | FunctionType
TypeField: TypeAlias = TypeExpression | NamedField
Dimension: TypeAlias = Expression | UnknownDimension | ShapePack
