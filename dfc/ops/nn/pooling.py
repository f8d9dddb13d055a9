"""Pools: the largest element or the mean of each window, channels last. Windows may overlap and leave gaps.

The axes between the first (the batch) and the last (the channels) are pooled. What the padding adds is never the
largest and counts in no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, ZERO, Dim, dim
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import PadAttributes, PoolAttributes, ReduceAttributes, WindowAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_size
from dfc.ops.gradients import div, indicator, mul, widened
from dfc.ops.lowering.forms import Decompose
from dfc.ops.nn.convolution import paddings
from dfc.ops.nn.pool_gradients import gathered
from dfc.ops.nn.windows import lay_back, per_axis
from dfc.ops.numeric import Numeric, concrete, lowest, narrow, widen
from dfc.ops.pieces import part
from dfc.ops.record import (
    Arguments,
    Array,
    ConstArgument,
    Evaluate,
    Gradient,
    InferTypes,
    OpError,
    OpRecord,
    Parameter,
    Sample,
    Sizes,
)
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import MOVES_ELEMENTS, OpRules
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def pool(attributes: Attributes) -> PoolAttributes:
    assert isinstance(attributes, PoolAttributes)
    return attributes


def _infer(bound: str) -> InferTypes:
    def infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        require_class(types, bound)
        it, x = pool(attributes), types[0]
        if x.rank < 3 or len(it.sizes) != x.rank - 2:
            words = "`{op}` needs the axes batch, one or more places, channels"
            raise OpError("E0313", words, blame=0, label=f"{x} has {counted(x.rank, 'axis')}")
        for number in (*it.sizes, *it.strides):
            if number < 1:
                raise OpError("E0314", "sizes and strides are at least 1", blame="size", label=str(number))
        for size, low, high in zip(it.sizes, it.low, it.high, strict=True):
            for width in (low, high):
                require_size(width, "pad", "a width")
                if width.constant is not None and width.constant >= size:
                    label = f"a width of {width} for windows of {size}"
                    raise OpError("E0314", "a window would lie in the padding alone", blame="pad", label=label)
        if any(count.constant is not None and count.constant < 0 for count in it.counts):
            raise OpError("E0314", "the windows are larger than the operand", blame="size", label=f"of {x}")
        return (x.with_shape((x.shape[0], *it.counts, x.shape[-1])),)

    return infer


def _evaluate(fold: Callable[[Numeric, Numeric, tuple[int, ...]], object]) -> Evaluate:
    """Goes through the windows one by one; `fold` gets a window, and a mask of what is no padding."""

    def evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
        it = pool(attributes)
        x = widen(operands[0])
        widths = [(0, 0), *zip(concrete(it.low, sizes), concrete(it.high, sizes), strict=True), (0, 0)]
        around: Numeric = np.pad(x, widths)
        inside: Numeric = np.pad(np.ones(x.shape, np.bool_), widths)
        counts, axes = concrete(it.counts, sizes), tuple(range(1, x.ndim - 1))
        result: Numeric = np.zeros((x.shape[0], *counts, x.shape[-1]), x.dtype)
        for position in np.ndindex(*counts):
            window = [slice(p * s, p * s + n) for p, s, n in zip(position, it.strides, it.sizes, strict=True)]
            picks = (slice(None), *window)
            with np.errstate(all="ignore"):
                result[(slice(None), *position)] = fold(around[picks], inside[picks], axes)
        return (narrow(result, operands[0].dtype),)

    return evaluate


def _largest(window: Numeric, inside: Numeric, axes: tuple[int, ...]) -> object:
    return np.max(np.where(inside, window, window.dtype.type(lowest(window.dtype))), axes)


def _mean(window: Numeric, inside: Numeric, axes: tuple[int, ...]) -> object:
    total: Numeric = np.sum(np.where(inside, window, window.dtype.type(0)), axes, dtype=window.dtype)
    return total / np.sum(inside, axes).astype(window.dtype)


def _is_padded(it: PoolAttributes) -> bool:
    return any(width != ZERO for width in (*it.low, *it.high))


def _surrounded(b: Builder, x: Value, it: PoolAttributes, fill: Value) -> Value:
    if not _is_padded(it):
        return x
    around = PadAttributes((ZERO, *it.low, ZERO), (ZERO, *it.high, ZERO), (0,) * x.tensor.rank)
    return b.apply("pad", x, fill, attributes=around)


def _window_attributes(it: PoolAttributes) -> WindowAttributes:
    axes = tuple(range(1, len(it.sizes) + 1))
    return WindowAttributes(axes, it.counts, it.sizes, it.strides, (1,) * len(axes))


def _inner(it: PoolAttributes) -> tuple[int, ...]:
    """The axes of the elements of a window."""
    rank = len(it.sizes) + 2
    return tuple(range(rank, rank + len(it.sizes)))


def _lowest(b: Builder, x: Value) -> Value:
    dtype = x.tensor.machine
    return b.constant(-float("inf") if dtype.is_float else lowest(dtype.numpy), dtype)


def _decompose_max(b: Builder, node: Node) -> Sequence[Value]:
    (x,), it = node.operands, pool(node.attributes)
    seen = b.apply("windows", _surrounded(b, x, it, _lowest(b, x)), attributes=_window_attributes(it))
    return (b.apply("max", seen, attributes=ReduceAttributes(_inner(it))),)


def _share(b: Builder, x: Value, it: PoolAttributes) -> Value:
    """One over the number of elements of each window that are no padding, along the spatial axes."""
    if not _is_padded(it):
        return b.scalar_like(1 / int(np.prod(it.sizes)), x)
    extents = (ONE, *x.tensor.shape[1:-1], ONE)
    ones = _surrounded(b, b.broadcast(b.scalar_like(1, x), extents), it, b.scalar_like(0, x))
    seen = b.apply("windows", ones, attributes=_window_attributes(it))
    return div(b, b.scalar_like(1, x), b.sum(seen, _inner(it)))


def _decompose_mean(b: Builder, node: Node) -> Sequence[Value]:
    it = pool(node.attributes)
    x = widened(b, node.operands[0])
    seen = b.apply("windows", _surrounded(b, x, it, b.scalar_like(0, x)), attributes=_window_attributes(it))
    mean = mul(b, b.sum(seen, _inner(it)), _share(b, x, it))
    return (b.cast(mean, node.result.tensor.dtype),)


def _back(b: Builder, node: Node, cotangent: Value) -> Value:
    """From gradients of the elements of windows to those of the operand."""
    x, it = node.operands[0], pool(node.attributes)
    shape = list(x.tensor.shape)
    for axis, (low, high) in enumerate(zip(it.low, it.high, strict=True), 1):
        shape[axis] = shape[axis] + low + high
    back = lay_back(b, _window_attributes(it), cotangent, tuple(shape))
    for axis, low in enumerate(it.low, 1):
        if shape[axis] != x.tensor.shape[axis]:
            back = part(b, back, axis, low, x.tensor.shape[axis])
    return back


def _for_elements(b: Builder, y: Value, it: PoolAttributes) -> Value:
    """A value for each window with axes of size 1 for its elements."""
    return b.reshape(y, (*y.tensor.shape, *((ONE,) * len(it.sizes))))


def _gradient_max(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Elements of a window that tie share its gradient."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    (x,), it = node.operands, pool(node.attributes)
    seen = b.apply("windows", _surrounded(b, x, it, _lowest(b, x)), attributes=_window_attributes(it))
    chosen = indicator(b, b.apply("equal", seen, _for_elements(b, node.result, it)), dy)
    ties = b.sum(chosen, _inner(it))
    return (gathered(b, x, node.result, div(b, dy, ties), it),)


def _gradient_mean(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    it = pool(node.attributes)
    share = _for_elements(b, mul(b, dy, _share(b, node.operands[0], it)), it)
    return (_back(b, node, b.broadcast(share, (*dy.tensor.shape, *map(dim, it.sizes)))),)


def _bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    x = types[0]
    count = max(x.rank - 2, 0)
    if not count:
        return PoolAttributes((), (), (), (), ())  # `infer` says what is wrong
    sizes = per_axis(arguments.get("size"), count, "size")
    strides = per_axis(arguments.get("stride", sizes), count, "stride")
    return _attributes(x.shape[1:-1], sizes, strides, arguments.get("pad", "valid"))


def _attributes(
    extents: Sequence[Dim], sizes: tuple[int, ...], strides: tuple[int, ...], how: ConstArgument
) -> PoolAttributes:
    each = [(size, max(stride, 1), 1) for size, stride in zip(sizes, strides, strict=True)]
    padding = paddings(extents, each, how)
    low, high, counts = (tuple(one[i] for one in padding) for i in range(3))
    return PoolAttributes(sizes, strides, low, high, counts)


def _samples(bound: str) -> Callable[[], Sequence[Sample]]:
    def case(
        shape: tuple[int, ...],
        size: int | tuple[int, ...],
        stride: int = 0,
        pad: ConstArgument = "valid",
        kind: str = "regular",
        dtype: DTypeLike = "float32",
    ) -> Sample:
        sizes = size if isinstance(size, tuple) else (size,) * (len(shape) - 2)
        strides = (stride,) * len(sizes) if stride else sizes
        attributes = _attributes([dim(n) for n in shape[1:-1]], sizes, strides, pad)
        return samples.sample(samples.numbers(shape, dtype), attributes=attributes, kind=kind)

    def make() -> Sequence[Sample]:
        inside, outside = samples.dtypes(bound)
        cases = [case((1, 4, 4, 2), 2, dtype=d) for d in inside]
        cases += [
            case((2, 5, 7, 3), 2),
            case((1, 6, 5, 2), 3, 1),
            case((1, 5, 6, 1), (3, 2), 2, "same"),
            case((1, 7, 7, 2), 3, 2, 1),
            case((2, 9, 2), 3, 2),
            case((1, 6, 6, 1), 1, 2),
            case((1, 4, 4, 4, 2), 2),
            case((0, 4, 4, 2), 2, kind="edge"),
            case((1, 2, 2, 1), 2, kind="edge"),
            case((1, 2, 3, 1), 3, kind="edge"),
            case((1, 1, 1, 1), 1, kind="edge"),
            case((1, 1, 1, 1), 3, 1, "same", kind="edge"),
        ]
        flat = case((1, 4, 4, 1), 2).attributes
        cases.append(samples.sample(np.ones((4, 4)), attributes=flat, kind="invalid"))
        cases += [case((1, 4, 4, 1), 0, 1, kind="invalid"), case((1, 4, 4, 1), 2, 2, 2, kind="invalid")]
        cases.append(case((1, 2, 2, 1), 5, 1, kind="invalid"))
        return cases + [case((1, 4, 4, 1), 2, kind="invalid", dtype=d) for d in outside]

    return make


def _register(
    name: str,
    bound: str,
    what: str,
    evaluate: Evaluate,
    decompose: Callable[[Builder, Node], Sequence[Value]],
    gradient: Gradient,
    smooth: bool,
    rules: OpRules,
) -> None:
    consts = 'const size: ints, const stride: ints = size, const pad: widths = "valid"'
    register(
        OpRecord(
            name=name,
            family="reduction",
            summary=(
                f"{what} of each window, along all axes but the first (the batch) and the last (the channels). `pad` "
                "as in `conv2d`; padding does not count."
            ),
            signature=f"fn {name}[T: {bound}, ..S, ..R](x: T[..S], {consts}) -> T[..R]",
            parameters=(
                Parameter("x"),
                Parameter("size", "const", "ints", doc="The size of a window: for all axes, or a list."),
                Parameter("stride", "const", "ints", "size", "From one window to the next."),
                Parameter("pad", "const", "widths", '"valid"', '"valid", "same", a width, or one for each axis.'),
            ),
            infer=_infer(bound),
            evaluate=evaluate,
            lowering=Decompose(decompose),
            attributes=PoolAttributes,
            constraints=(
                f"the element type of `x` is of class `{bound}`.",
                "`x` has a batch, one or more places, and channels.",
                "sizes and strides are at least 1.",
                "a width is less than the size of the window.",
            ),
            gradient=gradient,
            samples=_samples(bound),
            smooth=smooth,
            bind=_bind,
            rules=rules,
        )
    )


_register(
    "max_pool",
    "number",
    "The largest element (NaN if there is one; elements that tie share the gradient)",
    _evaluate(_largest),
    _decompose_max,
    _gradient_max,
    smooth=False,
    rules=MOVES_ELEMENTS,
)
_register("mean_pool", "float", "The mean", _evaluate(_mean), _decompose_mean, _gradient_mean, True, OpRules())
