"""Making a value have a declared type: numbers adapt, literals may fill a shape, everything else must match."""

from __future__ import annotations

from collections.abc import Callable

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import Abandoned, mistake
from dfc.elaborate.types.convert import element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.declared import DeclaredType, ResourceType, TupleType, is_unknown
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    Constant,
    Entity,
    ListValue,
    Opaque,
    Size,
    Tensor,
    Text,
    TupleValue,
    Unknown,
    Untyped,
    VariableValue,
)
from dfc.ir.dims import Dim
from dfc.ir.graph import ResourceKind, Value
from dfc.ir.types import TensorType

Complain = Callable[[str, str], Exception]
"""Makes the message from the type that is wanted and what there is instead."""


def same_shape(context: Context, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
    if left == right:
        return True
    return len(left) == len(right) and all(context.facts.equal(a, b) is True for a, b in zip(left, right, strict=True))


def same_type(context: Context, left: TensorType, right: TensorType) -> bool:
    return left.dtype == right.dtype and same_shape(context, left.shape, right.shape)


def fit(
    context: Context, entity: Entity, declared: DeclaredType, span: Span, complain: Complain, *, fill: bool = False
) -> Entity:
    """The entity with exactly the declared type; with `fill`, a number fills any shape."""
    match declared:
        case TensorType():
            return Tensor(fit_tensor(context, entity, declared, span, complain, fill=fill))
        case TupleType(fields, names):
            items = tuple_items(entity, len(fields), fill)
            if items is None:
                raise complain(str(declared), describe(entity))
            fitted = [fit(context, e, t, span, complain, fill=fill) for e, t in zip(items, fields, strict=True)]
            return TupleValue(tuple(fitted), names)
        case ResourceType(name):
            if fits_resource(entity, name):
                return entity
            raise complain(name, describe(entity))
        case _:
            return entity


def fit_tensor(
    context: Context, entity: Entity, declared: TensorType, span: Span, complain: Complain, *, fill: bool = False
) -> Value:
    if isinstance(entity, Unknown):
        raise Abandoned
    if not is_operand(entity):
        if isinstance(entity, TupleValue):
            raise complain(str(declared), describe(entity))
        raise not_an_operand(entity, span)
    adapts = element_type(entity) is None
    open_sizes = any(map(is_unknown, declared.shape))
    value = tensor(context, entity, span, declared.dtype if adapts else None)
    declared = _fitted(declared, value.tensor) if open_sizes else declared
    if same_type(context, value.tensor, declared):
        return value
    number = isinstance(entity, Constant | Opaque | Size | Untyped) and not value.tensor.shape
    if fill and number and value.tensor.dtype == declared.dtype and not open_sizes:
        return context.at(span).broadcast(value, declared.shape)
    raise complain(str(declared), str(value.tensor))


def _fitted(declared: TensorType, got: TensorType) -> TensorType:
    """A declared type with the sizes that are there in place of its `?`."""
    if declared.rank != got.rank:
        return declared
    pairs = zip(declared.shape, got.shape, strict=True)
    return declared.with_shape(tuple(there if is_unknown(size) else size for size, there in pairs))


def tuple_items(entity: Entity, count: int, fill: bool) -> tuple[Entity, ...] | None:
    """The fields of a tuple of the right length; a number stands for all of them when it may fill."""
    match entity:
        case TupleValue(items) if len(items) == count:
            return items
        case Constant() | Opaque() | Untyped() if fill:
            return (entity,) * count
        case Unknown():
            raise Abandoned
        case _ if count == 1 and not isinstance(entity, TupleValue):
            return (entity,)
        case _:
            return None


def fits_resource(entity: Entity, name: str) -> bool:
    match name, entity:
        case _, Unknown():
            raise Abandoned
        case "rng", VariableValue(variable):
            return variable.kind is ResourceKind.RNG
        case "string", Text() | Constant(str()):
            return True
        case "vars", ListValue(items):
            return all(isinstance(i, VariableValue) for i in items)
        case "tensors", ListValue(items):
            return all(is_operand(i) or isinstance(i, Unknown) for i in items)
        case _:
            return False


def wrong_argument(name: str, function: str, span: Span) -> Complain:
    def complain(expected: str, got: str) -> Exception:
        return mistake("E0316", f"the argument `{name}` of `{function}` must be {expected}", span, f"this is {got}")

    return complain
