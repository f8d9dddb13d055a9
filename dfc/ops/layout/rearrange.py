"""Ops that rearrange elements and are short words for others: roll tile repeat swap_axes move_axis squeeze."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import (
    AxesAttributes,
    AxisAttributes,
    AxisPairAttributes,
    RepeatAttributes,
    RollAttributes,
    TileAttributes,
)
from dfc.ops.binding import integer, normalised_axes, normalised_axis, shape, size
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_axis, require_class, require_size
from dfc.ops.gradients import count_up, sub
from dfc.ops.layout.shape import inverse
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import concrete
from dfc.ops.pieces import part
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

Cotangents = Sequence[Value | None]


def _roll(attributes: Attributes) -> RollAttributes:
    assert isinstance(attributes, RollAttributes)
    return attributes


def _infer_roll(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    require_axis(_roll(attributes).axis, types[0])
    return (types[0],)


def _evaluate_roll(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    it = _roll(attributes)
    return (np.asarray(np.roll(operands[0], it.shift, it.axis)),)


def _decompose_roll(b: Builder, node: Node) -> Sequence[Value]:
    """Two pieces the other way round; an axis whose size is a symbol is picked by index."""
    (x,), it = node.operands, _roll(node.attributes)
    count = (extent := x.tensor.shape[it.axis]).constant
    if count == 0 or it.shift == 0:
        return (x,)
    if count is not None:
        shift = it.shift % count
        pieces = [part(b, x, it.axis, count - shift, shift), part(b, x, it.axis, 0, count - shift)]
        return (b.concat(pieces, it.axis),) if shift else (x,)
    moved = sub(b, count_up(b, extent), b.constant(it.shift, I64))
    ids = b.apply("mod", moved, b.apply("maximum", b.size(extent), b.size(1)))
    return (b.apply("gather", x, ids, attributes=AxisAttributes(it.axis)),)


def _bind_roll(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    axis = normalised_axis(integer(arguments.get("axis", 0), "axis"), types[0].rank)
    return RollAttributes(axis, integer(arguments.get("shift"), "shift"))


def _roll_samples() -> Sequence[Sample]:
    def case(
        extents: tuple[int, ...], axis: int, shift: int, kind: str = "regular", dtype: type[np.generic] = np.float32
    ) -> Sample:
        return samples.sample(samples.numbers(extents, dtype), attributes=RollAttributes(axis, shift), kind=kind)

    return [
        case((5,), 0, 2),
        case((5,), 0, -7),
        case((2, 3, 4), 1, 1),
        case((4, 3), 0, 4, dtype=np.int32),
        case((3,), 0, 1, dtype=np.bool_),
        case((0, 2), 0, 3, "edge"),
        case((1,), 0, 5, "edge"),
        case((3,), 0, 0, "edge"),
        case((3,), 1, 1, "invalid"),
        case((), 0, 1, "invalid"),
    ]


register(
    OpRecord(
        name="roll",
        family="shape",
        summary="The elements moved `shift` places up the axis; what leaves it at the end comes in at the beginning.",
        signature="fn roll[T: any, ..S](x: T[..S], const shift: int, const axis: int = 0) -> T[..S]",
        parameters=(Parameter("x"), Parameter("shift", "const", "int"), Parameter("axis", "const", "int", "0")),
        infer=_infer_roll,
        evaluate=_evaluate_roll,
        lowering=Decompose(_decompose_roll),
        attributes=RollAttributes,
        constraints=("the axis exists.",),
        gradient=lambda b, node, cotangents: [
            None if dy is None else b.apply("roll", dy, attributes=_back(node.attributes)) for dy in cotangents
        ],
        samples=_roll_samples,
        bind=_bind_roll,
    )
)


def _back(attributes: Attributes) -> RollAttributes:
    it = _roll(attributes)
    return RollAttributes(it.axis, -it.shift)


def _tile(attributes: Attributes) -> tuple[Dim, ...]:
    assert isinstance(attributes, TileAttributes)
    return attributes.times


def _infer_tile(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    times, x = _tile(attributes), types[0]
    if len(times) != x.rank:
        raise OpError("E0313", f"{len(times)} counts for {x.rank} axes", blame="times", label=str(x))
    for count in times:
        require_size(count, "times", "a count")
    return (x.with_shape(tuple(n * d for n, d in zip(times, x.shape, strict=True))),)


def _evaluate_tile(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    return (np.asarray(np.tile(operands[0], concrete(_tile(attributes), sizes))),)


def _interleaved(times: tuple[Dim, ...], extents: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(d for pair in zip(times, extents, strict=True) for d in pair)


def _decompose_tile(b: Builder, node: Node) -> Sequence[Value]:
    (x,), times = node.operands, _tile(node.attributes)
    apart = b.reshape(x, _interleaved((ONE,) * len(times), x.tensor.shape))
    repeated = b.broadcast(apart, _interleaved(times, x.tensor.shape))
    return (b.reshape(repeated, node.result.tensor.shape),)


def _gradient_tile(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    times, extents = _tile(node.attributes), node.operands[0].tensor.shape
    apart = b.reshape(dy, _interleaved(times, extents))
    return (b.sum(apart, tuple(range(0, 2 * len(times), 2))),)


def _tile_samples() -> Sequence[Sample]:
    def case(
        extents: tuple[int, ...], times: tuple[int, ...], kind: str = "regular", dtype: type[np.generic] = np.float32
    ) -> Sample:
        attributes = TileAttributes(tuple(map(dim, times)))
        return samples.sample(samples.numbers(extents, dtype), attributes=attributes, kind=kind)

    return [
        case((3,), (2,)),
        case((2, 3), (2, 1)),
        case((2, 1, 3), (1, 4, 2)),
        case((2, 2), (2, 3), dtype=np.int32),
        case((), (), "edge"),
        case((3,), (0,), "edge"),
        case((0, 2), (2, 2), "edge"),
        case((3,), (2, 2), "invalid"),
        case((3,), (-1,), "invalid"),
    ]


register(
    OpRecord(
        name="tile",
        family="shape",
        summary="The whole tensor `times` times in a row, along each axis.",
        signature="fn tile[T: any, ..S, ..R](x: T[..S], const times: dims) -> T[..R]",
        parameters=(Parameter("x"), Parameter("times", "const", "dims", doc="How often, for each axis.")),
        infer=_infer_tile,
        evaluate=_evaluate_tile,
        lowering=Decompose(_decompose_tile),
        attributes=TileAttributes,
        constraints=("one count an axis.", "none is negative."),
        gradient=_gradient_tile,
        samples=_tile_samples,
        bind=lambda arguments, _types: TileAttributes(shape(arguments.get("times"), "times")),
    )
)


def _repeat(attributes: Attributes) -> RepeatAttributes:
    assert isinstance(attributes, RepeatAttributes)
    return attributes


def _infer_repeat(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    it, x = _repeat(attributes), types[0]
    require_axis(it.axis, x)
    require_size(it.times, "times", "a count")
    return (x.with_shape((*x.shape[: it.axis], x.shape[it.axis] * it.times, *x.shape[it.axis + 1 :])),)


def _evaluate_repeat(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it = _repeat(attributes)
    return (np.asarray(np.repeat(operands[0], concrete((it.times,), sizes)[0], it.axis)),)


def _between(extents: tuple[Dim, ...], axis: int, count: Dim) -> tuple[Dim, ...]:
    """The shape with an axis behind the one that is repeated."""
    return (*extents[: axis + 1], count, *extents[axis + 1 :])


def _decompose_repeat(b: Builder, node: Node) -> Sequence[Value]:
    (x,), it = node.operands, _repeat(node.attributes)
    apart = b.reshape(x, _between(x.tensor.shape, it.axis, ONE))
    repeated = b.broadcast(apart, _between(x.tensor.shape, it.axis, it.times))
    return (b.reshape(repeated, node.result.tensor.shape),)


def _gradient_repeat(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    it = _repeat(node.attributes)
    return (b.sum(b.reshape(dy, _between(node.operands[0].tensor.shape, it.axis, it.times)), (it.axis + 1,)),)


def _bind_repeat(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    axis = normalised_axis(integer(arguments.get("axis", 0), "axis"), types[0].rank)
    return RepeatAttributes(axis, size(arguments.get("times"), "times"))


def _repeat_samples() -> Sequence[Sample]:
    def case(
        extents: tuple[int, ...], axis: int, times: int, kind: str = "regular", dtype: type[np.generic] = np.float32
    ) -> Sample:
        attributes = RepeatAttributes(axis, dim(times))
        return samples.sample(samples.numbers(extents, dtype), attributes=attributes, kind=kind)

    return [
        case((3,), 0, 2),
        case((2, 3), 1, 3),
        case((2, 3, 2), 1, 2),
        case((2, 2), 0, 2, dtype=np.bool_),
        case((3,), 0, 0, "edge"),
        case((0, 2), 0, 2, "edge"),
        case((1,), 0, 1, "edge"),
        case((3,), 1, 2, "invalid"),
        case((3,), 0, -1, "invalid"),
    ]


register(
    OpRecord(
        name="repeat",
        family="shape",
        summary="Each element `times` times in a row along the axis.",
        signature="fn repeat[T: any, ..S, ..R](x: T[..S], const times: size, const axis: int = 0) -> T[..R]",
        parameters=(Parameter("x"), Parameter("times", "const", "dims"), Parameter("axis", "const", "int", "0")),
        infer=_infer_repeat,
        evaluate=_evaluate_repeat,
        lowering=Decompose(_decompose_repeat),
        attributes=RepeatAttributes,
        constraints=("the axis exists.", "`times` is not negative."),
        gradient=_gradient_repeat,
        samples=_repeat_samples,
        bind=_bind_repeat,
    )
)


def _swapped(rank: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _moved(rank: int, source: int, target: int) -> tuple[int, ...]:
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return tuple(order)


def _register_order(
    name: str, summary: str, names: tuple[str, str], order: Callable[[int, int, int], tuple[int, ...]]
) -> None:
    """An op that is a transpose."""

    def permutation(node_rank: int, attributes: Attributes) -> tuple[int, ...]:
        assert isinstance(attributes, AxisPairAttributes)
        return order(node_rank, attributes.first, attributes.second)

    def infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        require_class(types, "any")
        assert isinstance(attributes, AxisPairAttributes)
        require_axis(attributes.first, types[0])
        require_axis(attributes.second, types[0])
        return (types[0].with_shape(tuple(types[0].shape[a] for a in permutation(types[0].rank, attributes))),)

    def gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
        back = inverse(permutation(node.operands[0].tensor.rank, node.attributes))
        return [None if dy is None else b.transpose(dy, back) for dy in cotangents]

    def bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
        pair = [normalised_axis(integer(arguments.get(n), n), types[0].rank, n) for n in names]
        return AxisPairAttributes(pair[0], pair[1])

    def case(extents: tuple[int, ...], first: int, second: int, kind: str = "regular") -> Sample:
        return samples.sample(samples.numbers(extents), attributes=AxisPairAttributes(first, second), kind=kind)

    register(
        OpRecord(
            name=name,
            family="shape",
            summary=summary,
            signature=f"fn {name}[T: any, ..S, ..R](x: T[..S], const {names[0]}: int, const {names[1]}: int) -> T[..R]",
            parameters=(Parameter("x"), Parameter(names[0], "const", "int"), Parameter(names[1], "const", "int")),
            infer=infer,
            evaluate=lambda operands, a, _s: (np.transpose(operands[0], permutation(operands[0].ndim, a)),),
            lowering=Decompose(
                lambda b, node: [b.transpose(v, permutation(v.tensor.rank, node.attributes)) for v in node.operands]
            ),
            attributes=AxisPairAttributes,
            constraints=("both axes exist.",),
            gradient=gradient,
            samples=lambda: [
                case((2, 3), 0, 1),
                case((2, 3, 4), 0, 2),
                case((2, 3, 4, 5), 3, 1),
                case((3,), 0, 0, "edge"),
                case((0, 2, 1), 2, 0, "edge"),
                case((2, 3), 0, 2, "invalid"),
                case((), 0, 0, "invalid"),
            ],
            bind=bind,
        )
    )


_register_order("swap_axes", "Two axes exchanged.", ("first", "second"), _swapped)
_register_order("move_axis", "One axis moved to another place; the others keep their order.", ("source", "to"), _moved)


def _squeezed(attributes: Attributes) -> tuple[int, ...]:
    assert isinstance(attributes, AxesAttributes)
    return attributes.axes


def _infer_squeeze(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    axes, x = _squeezed(attributes), types[0]
    require_axes(axes, x)
    wide = next((axis for axis in axes if x.shape[axis] != ONE), None)
    if wide is not None:
        title = "only an axis of size 1 can be dropped"
        raise OpError("E0305", title, blame="axis", label=f"axis {wide} of {x} has size {x.shape[wide]}")
    return (x.with_shape(tuple(d for axis, d in enumerate(x.shape) if axis not in axes)),)


def _bind_squeeze(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    """All axes of size 1 if none is named."""
    axis_argument, x = arguments.get("axis"), types[0]
    ones = tuple(axis for axis, d in enumerate(x.shape) if d == ONE)
    return AxesAttributes(ones if axis_argument is None else normalised_axes(axis_argument, x.rank))


register(
    OpRecord(
        name="squeeze",
        family="shape",
        summary="Without the axes of size 1 that are named; without all of them if `axis` is not given.",
        signature="fn squeeze[T: any, ..S, ..R](x: T[..S], const axis: ints = every) -> T[..R]",
        parameters=(Parameter("x"), Parameter("axis", "const", "ints", "every", "One axis or a list; all if absent.")),
        infer=_infer_squeeze,
        evaluate=lambda operands, a, _s: (np.array(np.squeeze(operands[0], _squeezed(a))),),
        lowering=Decompose(lambda b, node: [b.reshape(node.operands[0], node.result.tensor.shape)]),
        attributes=AxesAttributes,
        constraints=("the axes exist, are named once and have size 1.",),
        gradient=lambda b, node, cotangents: [
            None if dy is None else b.reshape(dy, node.operands[0].tensor.shape) for dy in cotangents
        ],
        samples=lambda: [
            samples.sample(samples.numbers((2, 1, 3)), attributes=AxesAttributes((1,))),
            samples.sample(samples.numbers((1, 2, 1)), attributes=AxesAttributes((0, 2))),
            samples.sample(samples.numbers((2, 1), np.int32), attributes=AxesAttributes(())),
            samples.sample(samples.numbers((1, 1)), attributes=AxesAttributes((0, 1)), kind="edge"),
            samples.sample(samples.numbers((0, 1)), attributes=AxesAttributes((1,)), kind="edge"),
            samples.sample(samples.numbers((2, 3)), attributes=AxesAttributes((0,)), kind="invalid"),
            samples.sample(samples.numbers((1,)), attributes=AxesAttributes((1,)), kind="invalid"),
        ],
        bind=_bind_squeeze,
    )
)
