"""Sliding windows: along some axes, the positions a window can take, and behind all axes the elements inside it.

A view: lowering reads the operand at `position * step + offset * dilation`. Convolutions and pools are made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim, maximum
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import WindowAttributes
from dfc.ops.binding import integers, normalised_axis, wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_class, require_size
from dfc.ops.gradients import add
from dfc.ops.lowering.forms import View
from dfc.ops.lowering.index_maps import Point, added, along, identity, scaled
from dfc.ops.nn.rules import WINDOWS
from dfc.ops.numeric import Numeric, concrete
from dfc.ops.pieces import element, surrounded, zeros
from dfc.ops.record import Arguments, Array, ConstArgument, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Cotangents = Sequence[Value | None]


def window_of(attributes: Attributes) -> WindowAttributes:
    assert isinstance(attributes, WindowAttributes)
    return attributes


def reach(size: int, dilation: int) -> int:
    """How many elements a window spans."""
    return (size - 1) * dilation + 1


def positions(extent: Dim, size: int, step: int, dilation: int) -> Dim:
    """How many windows fit into an axis."""
    free = extent - reach(size, dilation)
    return (free + 1) if step == 1 else free // step + 1


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    it, x = window_of(attributes), types[0]
    require_axes(it.axes, x)
    if not len(it.axes) == len(it.counts) == len(it.sizes) == len(it.steps) == len(it.dilations):
        raise OpError("E0313", "a window needs one size, step and dilation for each of its axes", label=str(x))
    shape = list(x.shape)
    for axis, count, size, step, dilation in zip(it.axes, it.counts, it.sizes, it.steps, it.dilations, strict=True):
        _require_inside(x, axis, count, size, step, dilation)
        shape[axis] = count
    return (x.with_shape((*shape, *map(dim, it.sizes))),)


def _require_inside(x: TensorType, axis: int, count: Dim, size: int, step: int, dilation: int) -> None:
    """Refuses what is certainly wrong; the rest is the front end's to prove or to check."""
    for name, number in (("size", size), ("step", step), ("dilation", dilation)):
        if number < 1:
            raise OpError("E0314", f"the {name} of a window must be at least 1", blame=name, label=str(number))
    require_size(count, "size", "the number of windows")
    last = x.shape[axis] - (count - 1) * step - reach(size, dilation)
    if count.constant != 0 and last.constant is not None and last.constant < 0:
        title = f"{counted(count, 'window')} of {counted(reach(size, dilation), 'element')} cannot fit into axis {axis}"
        raise OpError("E0314", title, blame="size", label=f"of {x}")


def window_indices(count: int, size: int, step: int, dilation: int) -> NDArray[np.int64]:
    """[position, offset]: the index of each element of each window."""
    return np.arange(count)[:, None] * step + np.arange(size)[None, :] * dilation


def _evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it = window_of(attributes)
    x: Numeric = operands[0]
    for axis, count, size, step, dilation in zip(
        it.axes, concrete(it.counts, sizes), it.sizes, it.steps, it.dilations, strict=True
    ):
        shape = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
        indices = window_indices(count, size, step, dilation).ravel()
        picked: Numeric = np.take(x, indices, axis).reshape(shape) if count else np.zeros(shape, x.dtype)
        x = np.moveaxis(picked, axis + 1, -1)
    return (np.ascontiguousarray(x),)


def _window_map(node: Node) -> Point:
    """Each windowed axis is read at `position * step + offset * dilation`; the offsets are the last indices."""
    it, rank = window_of(node.attributes), node.operands[0].tensor.rank
    index_map = list(identity(rank))
    for number, (axis, step, dilation) in enumerate(zip(it.axes, it.steps, it.dilations, strict=True)):
        index_map[axis] = added(scaled(index_map[axis], step), scaled(along(rank + number), dilation))
    return tuple(index_map)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Every element of a window goes back to its place."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    return (lay_back(b, window_of(node.attributes), dy, node.operands[0].tensor.shape),)


def lay_back(b: Builder, it: WindowAttributes, dy: Value, shape: tuple[Dim, ...]) -> Value:
    """The sum of windows laid over zeros of a shape, one axis after the other, the last one first."""
    if any(count.constant == 0 for count in it.counts):
        return zeros(b, dy, shape)
    for number in reversed(range(len(it.axes))):
        apart = it.steps[number] == it.sizes[number] and it.dilations[number] == 1
        lay = _lay_side_by_side if apart else _lay_over
        dy = lay(b, dy, it, number, shape[it.axes[number]])
    return dy


def _lay_side_by_side(b: Builder, dy: Value, it: WindowAttributes, number: int, extent: Dim) -> Value:
    """Windows that neither overlap nor leave gaps: the last axis goes behind that of the positions."""
    axis, covered = it.axes[number], it.counts[number] * it.sizes[number]
    last = dy.tensor.rank - 1
    together = b.transpose(dy, (*range(axis + 1), last, *range(axis + 1, last)))
    shape = together.tensor.shape
    whole = b.reshape(together, (*shape[:axis], covered, *shape[axis + 2 :]))
    return surrounded(b, whole, axis, 0, extent - covered)


def _lay_over(b: Builder, dy: Value, it: WindowAttributes, number: int, extent: Dim) -> Value:
    """Windows that overlap: the sum over the offsets inside them."""
    axis, count, step = it.axes[number], it.counts[number], it.steps[number]
    covered = count + (step - 1) * maximum(count - 1, dim(0)) if step > 1 else count
    parts: list[Value] = []
    for offset in range(it.sizes[number]):
        low = offset * it.dilations[number]
        one = element(b, dy, dy.tensor.rank - 1, offset)
        parts.append(surrounded(b, one, axis, low, extent - covered - low, step - 1))
    return reduce(partial(add, b), parts)


def per_axis(value: ConstArgument, count: int, name: str) -> tuple[int, ...]:
    """One number for all axes of a window, or one for each."""
    values = integers(value, name)
    if len(values) not in (1, count):
        raise wrong(name, f"a whole number or {count} of them")
    return values * count if len(values) == 1 else values


def _bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    x = types[0]
    axes = tuple(normalised_axis(axis, x.rank) for axis in integers(arguments.get("axis"), "axis"))
    sizes = per_axis(arguments.get("size"), len(axes), "size")
    steps = per_axis(arguments.get("step", 1), len(axes), "step")
    dilations = per_axis(arguments.get("dilation", 1), len(axes), "dilation")
    counts = tuple(
        positions(x.shape[axis], size, max(step, 1), dilation)
        for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True)
    )
    return WindowAttributes(axes, counts, sizes, steps, dilations)


def _samples() -> Sequence[Sample]:
    def case(
        shape: tuple[int, ...],
        *axes: tuple[int, int, int, int, int],
        kind: str = "regular",
        dtype: DTypeLike = np.float32,
    ) -> Sample:
        """Each axis: its number, the count of windows, size, step, dilation."""
        columns = list(zip(*axes, strict=True))
        counts = tuple(map(dim, columns[1]))
        attributes = WindowAttributes(columns[0], counts, columns[2], columns[3], columns[4])
        return samples.sample(samples.numbers(shape, dtype), attributes=attributes, kind=kind)

    return [
        case((7,), (0, 5, 3, 1, 1)),
        case((8,), (0, 4, 2, 2, 1)),
        case((9, 2), (0, 2, 3, 3, 2)),
        case((2, 6, 5, 3), (1, 2, 3, 2, 1), (2, 4, 2, 1, 1)),
        case((2, 5, 4), (2, 2, 2, 2, 1), (1, 2, 2, 2, 1)),
        case((7,), (0, 3, 2, 2, 2), dtype=np.int32),
        case((3,), (0, 1, 3, 1, 1), kind="edge"),
        case((3, 2), (0, 0, 4, 1, 1), kind="edge"),
        case((1,), (0, 1, 1, 1, 1), kind="edge"),
        case((0, 4), (1, 2, 2, 2, 1), kind="edge"),
        case((5,), (0, 4, 3, 1, 1), kind="invalid"),
        case((5,), (1, 1, 1, 1, 1), kind="invalid"),
        case((5,), (0, 2, 0, 1, 1), kind="invalid"),
        case((5,), (0, 2, 2, 0, 1), kind="invalid"),
        case((5,), (0, -1, 9, 1, 1), kind="invalid"),
        case((5,), (0, 3, 3, 1, 1), kind="invalid", dtype=np.complex64),
    ]


register(
    OpRecord(
        name="windows",
        family="indexing",
        summary=(
            "Sliding windows along axes: each of these axes counts the windows, and one axis for the elements of a "
            "window is added behind all others. Nothing is copied where the windows are used at once."
        ),
        signature=(
            "fn windows[T: any, ..S, ..R]"
            "(x: T[..S], const axis: ints, const size: ints, const step: ints = 1, const dilation: ints = 1) -> T[..R]"
        ),
        parameters=(
            Parameter("x"),
            Parameter("axis", "const", "ints"),
            Parameter("size", "const", "ints", doc="Elements in a window: for all axes, or a list."),
            Parameter("step", "const", "ints", "1", "From one window to the next."),
            Parameter("dilation", "const", "ints", "1", "From one element of a window to the next."),
        ),
        infer=_infer,
        evaluate=_evaluate,
        lowering=View(_window_map),
        attributes=WindowAttributes,
        constraints=(
            "the axes exist and are named once.",
            "sizes, steps and dilations are at least 1.",
            "every window lies inside.",
        ),
        gradient=_gradient,
        samples=_samples,
        bind=_bind,
        rules=WINDOWS,
    )
)
