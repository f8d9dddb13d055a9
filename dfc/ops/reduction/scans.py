"""Scans along an axis other than `cumsum`: cumprod cummax cummin. Each element reduces all up to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.attributes import AxisAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.control.regions import count_loop
from dfc.ops.gradients import add, count_up, mul, reverse, select
from dfc.ops.indexing.gather_along import axis_from_end, axis_to_end, put_last
from dfc.ops.layout.shape import axis_of
from dfc.ops.lowering.forms import Scan
from dfc.ops.numeric import Numeric, accumulator, highest, lowest, narrow, widen
from dfc.ops.pieces import in_front, part, surrounded
from dfc.ops.record import Array, Gradient, OpRecord, Parameter, Sizes
from dfc.ops.reduction.ordering import axis_samples, bind_last_axis
from dfc.ops.reduction.rules import CUMPROD, CUMULATIVE_EXTREME
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import OpRules

Cotangents = Sequence[Value | None]


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_axis(axis_of(attributes), types[0])
    return (types[0],)


def _product_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """From behind: s = dy + s * (the factor after this one); the gradient is s times the product of all before.

    Nothing is divided, so that factors of 0 do no harm.
    """
    (dy,) = cotangents
    if dy is None:
        return (None,)
    axis, x = axis_of(node.attributes), node.operands[0]
    rank, size = x.tensor.rank, x.tensor.shape[axis]
    if size.constant == 0:
        return (dy,)
    before = surrounded(b, part(b, node.result, axis, 0, size - 1), axis, 1, 0, fill=b.scalar_like(1, x))
    after = surrounded(b, part(b, x, axis, 1, size - 1), axis, 0, 1)
    first = (axis, *(a for a in range(rank) if a != axis))
    row_cotangents, factors = (b.transpose(reverse(b, v, (axis,)), first) for v in (dy, after))
    row = AxisAttributes(0)

    def body(inner: Builder, k: Value, carries: Sequence[Value]) -> Sequence[Value]:
        cotangent, factor = (inner.apply("gather", v, k, attributes=row) for v in (row_cotangents, factors))
        total = add(inner, cotangent, mul(inner, carries[0], factor))
        return total, total

    nothing = b.broadcast(b.scalar_like(0, dy), row_cotangents.tensor.shape[1:])
    _, sums = count_loop(b, size, (nothing,), body)
    back = b.transpose(sums, tuple(sorted(range(rank), key=first.__getitem__)))
    return (mul(b, reverse(b, back, (axis,)), before),)


def _extreme_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Each gradient goes to the latest element that is the extreme so far."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    axis, x = axis_of(node.attributes), node.operands[0]
    x, y, dy = (axis_to_end(b, v, axis) for v in (x, node.result, dy))
    positions = in_front(b, count_up(b, x.tensor.shape[-1]), x.tensor.rank)
    reached = select(b, b.apply("equal", x, y), positions, b.constant(0, I64))
    latest = b.apply("cummax", reached, attributes=AxisAttributes(x.tensor.rank - 1))
    return (axis_from_end(b, put_last(b, latest, dy, x.tensor.shape[-1], checked=True), axis),)


def _register(
    name: str,
    words: str,
    fold: Callable[[Numeric, int], Numeric],
    gradient: Gradient,
    lowering: Scan,
    rules: OpRules,
) -> None:
    def evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        x = operands[0]
        with np.errstate(all="ignore"):
            return (narrow(fold(widen(x), axis_of(attributes)), x.dtype),)

    register(
        OpRecord(
            name=name,
            family="reduction",
            summary=f"The {words} of all elements up to each one along the axis.",
            signature=f"fn {name}[T: number, ..S](x: T[..S], const axis: int = -1) -> T[..S]",
            parameters=(Parameter("x"), Parameter("axis", "const", "int", "-1")),
            infer=_infer,
            evaluate=evaluate,
            lowering=lowering,
            attributes=AxisAttributes,
            constraints=("the element type of `x` is a number type.", "the axis exists."),
            gradient=gradient,
            samples=axis_samples("number"),
            smooth=False,
            bind=bind_last_axis,
            rules=rules,
        )
    )


_register(
    "cumprod",
    "product",
    lambda x, axis: np.cumprod(x, axis, accumulator(x.dtype)),
    _product_gradient,
    Scan("mul", lambda _dtype: 1),
    CUMPROD,
)
_register(
    "cummax",
    "largest (NaN from the first on)",
    numpy_function("maximum.accumulate"),
    _extreme_gradient,
    Scan("maximum", lambda dtype: lowest(dtype.numpy)),
    CUMULATIVE_EXTREME,
)
_register(
    "cummin",
    "smallest (NaN from the first on)",
    numpy_function("minimum.accumulate"),
    _extreme_gradient,
    Scan("minimum", lambda dtype: highest(dtype.numpy)),
    CUMULATIVE_EXTREME,
)
