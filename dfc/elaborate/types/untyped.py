"""Pure functions of numbers without an element type: `sqrt(2.0)` is computed in the type it is used at.

Assumes that the operands are numbers, not tensors. Guarantees that an op is deferred only if it gives the element
type it gets, whichever floating-point type that is; all others are made where they stand, in the type of numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.types.convert import default_type
from dfc.elaborate.types.entities import Constant, Entity, ListValue, Opaque, Size, Untyped
from dfc.ir.dims import ONE
from dfc.ir.dtypes import F32, F64, I64, DType
from dfc.ir.graph import Block, Value
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.record import Effect, OpError

Build = Callable[[Builder, Sequence[Value]], Value]


def is_untyped(entity: Entity) -> bool:
    """Whether an entity is a number, or a list of numbers, that takes the element type it meets."""
    match entity:
        case Constant(value):
            return not isinstance(value, bool | str)
        case Opaque(kind):
            return kind == "float"
        case Size(_, adapts):
            return adapts
        case ListValue(items):
            return bool(items) and all(isinstance(i, Constant | ListValue | Untyped) and is_untyped(i) for i in items)
        case _:
            return isinstance(entity, Untyped)


def deferred(op: str, build: Build, operands: Sequence[Entity], spans: OperationSpans) -> Untyped | None:
    """The op on numbers alone, to be computed where it meets a type; None if it has a type of its own."""
    if registry.record(op).effect is not Effect.PURE or not operands or not all(map(is_untyped, operands)):
        return None
    shapes = [_shape_after(build, operands, dtype) for dtype in (F64, F32)]
    if shapes[0] is None or shapes[0] != shapes[1]:
        return None
    whole = all(default_type(entity) == I64 for entity in operands)
    known = all(_is_known(entity) for entity in operands)
    return Untyped(build, tuple(operands), spans, shapes[0].shape, whole, known)


def _is_known(entity: Entity) -> bool:
    match entity:
        case Untyped(known=known):
            return known
        case ListValue(items):
            return all(map(_is_known, items))
        case _:
            return isinstance(entity, Constant)


def _shape_after(build: Build, operands: Sequence[Entity], dtype: DType) -> TensorType | None:
    """The result as if it were f32, if operands of an element type give a result of it."""
    values = [Value(_type_of(entity, dtype), "number") for entity in operands]
    try:
        result = build(Builder(Block()), values)
    except OpError:
        return None
    return TensorType(F32, result.tensor.shape) if result.tensor.dtype == dtype else None


def _type_of(entity: Entity, dtype: DType) -> TensorType:
    match entity:
        case Untyped(shape=shape):
            return TensorType(dtype, shape)
        case ListValue(items):
            inner = _type_of(items[0], dtype)
            return inner.with_shape((ONE * len(items), *inner.shape))
        case _:
            return TensorType(dtype)
