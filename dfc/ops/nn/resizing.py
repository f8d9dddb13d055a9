"""resize: images of another size, by the nearest element or by linear interpolation between two, axis by axis.

Pixels are areas: the centre of result i lies at (i + 0.5) * size / new - 0.5 of the operand. Beyond the outer centres
the border counts. Gradients go back with the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.dtypes import F64, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ResizeAttributes, ScatterAttributes
from dfc.ops.binding import shape as sizes_argument
from dfc.ops.binding import wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_size
from dfc.ops.gradients import add, count_up, div, mul, sub, widened
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, concrete, narrow, widen
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]
METHODS = ("linear", "nearest")


def _it(attributes: Attributes) -> ResizeAttributes:
    assert isinstance(attributes, ResizeAttributes)
    return attributes


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    it, x = _it(attributes), types[0]
    if x.rank < 3 or len(it.sizes) != x.rank - 2:
        words = "`{op}` needs the axes batch, one or more places, channels, and a size for each place"
        raise OpError("E0313", words, blame=0, label=f"{x} has {counted(x.rank, 'axis')}")
    if it.method not in METHODS:
        raise OpError(
            "E0315",
            f'there is no method "{it.method}"',
            blame="method",
            helps=('write `"linear"`',),
            replaces={0: "method"},
        )
    for old, new in zip(x.shape[1:-1], it.sizes, strict=True):
        require_size(new, "size", "a size")
        if old.constant == 0 and new.constant != 0:
            raise OpError("E0314", "`{op}` needs at least one element", blame=0, label=str(x))
    return (x.with_shape((x.shape[0], *it.sizes, x.shape[-1])),)


def _evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    """As a matrix of weights for each axis."""
    it = _it(attributes)
    x: Numeric = widen(operands[0])
    for axis, new in enumerate(concrete(it.sizes, sizes), 1):
        old = x.shape[axis]
        weights = np.zeros((new, old))
        for i in range(new):
            position = (i + 0.5) * (old / new) - 0.5
            if it.method == "nearest":
                weights[i, min(old - 1, int(np.floor(position + 0.5)))] = 1
                continue
            low = int(np.floor(position))
            share = position - low
            weights[i, min(max(low, 0), old - 1)] += 1 - share
            weights[i, min(max(low + 1, 0), old - 1)] += share
        moved: Numeric = np.moveaxis(x, axis, -1).astype(np.float64)
        x = np.moveaxis(moved @ weights.T, -1, axis)
    return (narrow(x, operands[0].dtype),)


def _sources(b: Builder, old: Dim, new: Dim, method: str) -> list[tuple[Value, Value | None]]:
    """For one axis: where elements come from and with which weight (None is 1)."""
    half, one = b.constant(0.5, F64), b.constant(1, F64)
    scale = div(b, b.cast(b.size(old), F64), b.cast(b.size(new), F64))
    position = sub(b, mul(b, add(b, b.cast(count_up(b, new), F64), half), scale), half)
    if method == "nearest":
        return [(_inside(b, b.apply("floor", add(b, position, half)), old), None)]
    low = b.apply("floor", position)
    share = sub(b, position, low)
    return [(_inside(b, low, old), sub(b, one, share)), (_inside(b, add(b, low, one), old), share)]


def _inside(b: Builder, position: Value, size: Dim) -> Value:
    whole = b.apply("maximum", b.cast(position, I64), b.constant(0, I64))
    return b.apply("minimum", whole, b.size(size - 1))


def _weighted(b: Builder, x: Value, axis: int, weight: Value | None) -> Value:
    if weight is None:
        return x
    shape = tuple(weight.tensor.shape[0] if a == axis else ONE for a in range(x.tensor.rank))
    return mul(b, x, b.reshape(b.cast(weight, x.tensor.dtype), shape))


def _summed(b: Builder, parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else add(b, parts[0], parts[1])


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    it, x = _it(node.attributes), widened(b, node.operands[0])
    if node.result.tensor.elements.constant == 0:
        return (b.broadcast(b.scalar_like(0, node.result), node.result.tensor.shape),)
    for axis, new in enumerate(it.sizes, 1):
        along = AxisAttributes(axis)
        sources = _sources(b, x.tensor.shape[axis], new, it.method)
        x = _summed(b, [_weighted(b, b.apply("gather", x, ids, attributes=along), axis, w) for ids, w in sources])
    return (b.cast(x, node.result.tensor.dtype),)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    it, old = _it(node.attributes), node.operands[0].tensor.shape
    if dy.tensor.elements.constant == 0:
        return (b.broadcast(b.scalar_like(0, dy), old),)
    total = widened(b, dy)
    for axis in reversed(range(1, len(it.sizes) + 1)):
        shape = (*total.tensor.shape[:axis], old[axis], *total.tensor.shape[axis + 1 :])
        back = ScatterAttributes(axis, shape)
        sources = _sources(b, old[axis], it.sizes[axis - 1], it.method)
        total = _summed(
            b, [b.apply("scatter_add", ids, _weighted(b, total, axis, w), attributes=back) for ids, w in sources]
        )
    return (b.cast(total, dy.tensor.dtype),)


def _bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    sizes = sizes_argument(arguments.get("size"), "size")
    count = max(types[0].rank - 2, 0)
    method = arguments.get("method", "linear")
    if not isinstance(method, str):
        raise wrong("method", 'a text such as `"linear"`')
    return ResizeAttributes(sizes * count if len(sizes) == 1 else sizes, method)


def _samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...],
        sizes: tuple[int, ...],
        method: str = "linear",
        kind: str = "regular",
        dtype: DTypeLike = np.float32,
    ) -> Sample:
        attributes = ResizeAttributes(tuple(map(dim, sizes)), method)
        return samples.sample(samples.numbers(shape, dtype), attributes=attributes, kind=kind)

    return [
        case((1, 3, 4, 2), (6, 8)),
        case((2, 6, 5, 1), (3, 2)),
        case((1, 4, 4, 1), (7, 3), "nearest"),
        case((1, 5, 2), (8,), dtype=np.float64),
        case((1, 3, 3, 1), (5, 4), dtype=np.float16),
        case((1, 2, 2, 2), (4, 4), "nearest", dtype=np.float64),
        case((1, 1, 1, 1), (3, 2), kind="edge"),
        case((1, 2, 2, 1), (2, 2), kind="edge"),
        case((0, 2, 2, 1), (3, 3), kind="edge"),
        case((1, 2, 2, 1), (0, 3), kind="edge"),
        case((2, 3), (4,), kind="invalid"),
        case((1, 2, 2, 1), (4,), kind="invalid"),
        case((1, 2, 2, 1), (4, 4), "cubic", kind="invalid"),
        case((1, 2, 2, 1), (4, -1), kind="invalid"),
        case((1, 0, 2, 1), (4, 4), kind="invalid"),
        case((1, 2, 2, 1), (4, 4), kind="invalid", dtype=np.int32),
    ]


register(
    OpRecord(
        name="resize",
        family="shape",
        summary=(
            "Images of another size, along all axes but the first (the batch) and the last (the channels): linear "
            'between the centres of elements, or with `method = "nearest"` the element whose area holds the centre.'
        ),
        signature='fn resize[T: float, ..S, ..R](x: T[..S], const size: dims, const method: str = "linear") -> T[..R]',
        parameters=(
            Parameter("x"),
            Parameter("size", "const", "dims", doc="The new size: for all axes, or a list."),
            Parameter("method", "const", "str", '"linear"', '"linear" or "nearest".'),
        ),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose),
        attributes=ResizeAttributes,
        constraints=(
            "the element type of `x` is floating-point.",
            "`x` has a batch, one or more places, and channels.",
            "one new size for each place, none negative.",
            "`method` is linear or nearest.",
            "no axis that grows is known to be empty.",
        ),
        gradient=_gradient,
        samples=_samples,
        demands=lambda types, _a: [(ONE, d) for d in types[0].shape[1:-1]],
        bind=_bind,
    )
)
