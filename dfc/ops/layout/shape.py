"""Ops that rearrange elements: reshape, transpose, reverse, broadcast, concat. Lowering makes views of most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, dim, factor_text, product
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import (
    AxesAttributes,
    AxisAttributes,
    PermutationAttributes,
    ShapeAttributes,
    SliceAttributes,
)
from dfc.ops.binding import integer, integers, normalised_axes, normalised_axis
from dfc.ops.binding import shape as shape_argument
from dfc.ops.broadcasting import same_dim, stretches_to
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_axis, require_class, require_same_dtype, require_size
from dfc.ops.gradients import reverse, unbroadcast
from dfc.ops.layout.rules import BROADCAST, CONCAT, RESHAPE, REVERSE, TRANSPOSE
from dfc.ops.lowering.forms import Concat, Reshape, View
from dfc.ops.lowering.index_maps import Point, along, broadcast_map, mirrored
from dfc.ops.numeric import concrete
from dfc.ops.record import Arguments, ConstArgument, OpError, OpRecord, Parameter, Sample
from dfc.ops.registry import register
from dfc_runtime.errors import counted

Cotangents = Sequence[Value | None]


def elements_text(shape: Sequence[Dim]) -> str:
    """`B * 3136`: the symbols as they stand, then the number."""
    number, words = 1, [factor_text(d) for d in shape if d.constant is None]
    for d in shape:
        number *= d.constant if d.constant is not None else 1
    return " * ".join([*words, str(number)] if number != 1 or not words else words)


def _infer_reshape(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, ShapeAttributes)
    require_class(types, "any")
    old, new = types[0].shape, attributes.shape
    for size in new:
        require_size(size, "shape", "a size")
    if not same_dim(product(old), product(new)):
        raise OpError(
            "E0306",
            "reshape cannot change the number of elements",
            blame="shape",
            label=f"asks for {counted(elements_text(new), 'element')}",
            helps=_last_axis_help(old, new),
            operand_labels={0: f"{types[0]} has {elements_text(old)}"},
        )
    return (types[0].with_shape(new),)


def _last_axis_help(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[str, ...]:
    """If only the last axis of the new shape is wrong, what it should be."""
    kept = len(new) - 1
    if kept < 0 or kept >= len(old) or not all(map(same_dim, old[:kept], new[:kept])):
        return ()
    rest = old[kept:]
    factors = " * ".join(map(factor_text, rest))
    return (f"the last axis should be {factors} = {product(rest)}" if len(rest) > 1 else f"the last axis is {rest[0]}",)


def _bind_reshape(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    """One size may be -1: what is left over."""
    shape = shape_argument(arguments.get("shape"), "shape")
    holes = [i for i, d in enumerate(shape) if d.constant == -1]
    if len(holes) > 1:
        raise OpError("E0315", "only one size of `shape` can be left open", blame="shape")
    if holes:
        rest = product(d for d in shape if d.constant != -1)
        total = product(types[0].shape)
        filled = dim(0) if rest.constant == 0 else total // rest
        shape = tuple(filled if i in holes else d for i, d in enumerate(shape))
    return ShapeAttributes(shape)


def _reshape_samples() -> Sequence[Sample]:
    def case(old: tuple[int, ...], new: tuple[int, ...], kind: str = "regular") -> Sample:
        return samples.sample(samples.numbers(old), attributes=ShapeAttributes(tuple(map(dim, new))), kind=kind)

    return [
        case((2, 6), (3, 4)),
        case((2, 3, 4), (24,)),
        case((5,), (5, 1)),
        case((), (1, 1), "edge"),
        case((1,), (), "edge"),
        case((0, 3), (3, 0, 7), "edge"),
        case((2, 6), (5, 2), "invalid"),
    ]


register(
    OpRecord(
        name="reshape",
        family="shape",
        summary="The same elements in row-major order, in another shape. One size may be -1: what is left over.",
        signature="fn reshape[T: any, ..S, ..R](x: T[..S], const shape: dims) -> T[..R]",
        parameters=(Parameter("x"), Parameter("shape", "const", "dims")),
        infer=_infer_reshape,
        evaluate=lambda operands, a, sizes: (np.reshape(operands[0], concrete(_shape(a), sizes)),),
        lowering=Reshape(),
        attributes=ShapeAttributes,
        constraints=("the number of elements stays.", "sizes are not negative."),
        gradient=lambda b, node, cotangents: [
            None if dy is None else b.reshape(dy, node.operands[0].tensor.shape) for dy in cotangents
        ],
        identities=("same shape", "reshape of reshape"),
        samples=_reshape_samples,
        bind=_bind_reshape,
        rules=RESHAPE,
    )
)


def _shape(attributes: Attributes) -> tuple[Dim, ...]:
    assert isinstance(attributes, ShapeAttributes)
    return attributes.shape


def _permutation(attributes: Attributes) -> tuple[int, ...]:
    assert isinstance(attributes, PermutationAttributes)
    return attributes.permutation


def _infer_transpose(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    order = _permutation(attributes)
    if sorted(order) != list(range(types[0].rank)):
        raise OpError(
            "E0314",
            f"{list(order)} is no order of the axes",
            blame="axes",
            label=f"each axis of {types[0]} must be named once",
        )
    return (types[0].with_shape(tuple(types[0].shape[axis] for axis in order)),)


def _bind_transpose(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    rank = types[0].rank
    axes = arguments.get("axes")
    if axes is None:
        return PermutationAttributes(tuple(reversed(range(rank))))
    return PermutationAttributes(tuple(normalised_axis(axis, rank, "axes") for axis in integers(axes, "axes")))


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes it."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def transposed(permutation: Sequence[int]) -> Point:
    """The map of a transpose: the axes of the operand are in this order in the result."""
    return tuple(along(axis) for axis in inverse(permutation))


def _transpose_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else b.transpose(dy, inverse(_permutation(node.attributes))),)


def _transpose_samples() -> Sequence[Sample]:
    def case(shape: tuple[int, ...], order: tuple[int, ...], kind: str = "regular") -> Sample:
        return samples.sample(samples.numbers(shape), attributes=PermutationAttributes(order), kind=kind)

    return [
        case((2, 3), (1, 0)),
        case((2, 3, 5), (2, 0, 1)),
        case((2, 3, 5), (0, 2, 1)),
        case((), (), "edge"),
        case((0, 4), (1, 0), "edge"),
        case((2, 3), (0, 0), "invalid"),
        case((2, 3), (1,), "invalid"),
    ]


register(
    OpRecord(
        name="transpose",
        family="shape",
        summary="The axes in another order; reversed if `axes` is not given.",
        signature="fn transpose[T: any, ..S, ..R](x: T[..S], const axes: ints = reversed) -> T[..R]",
        parameters=(Parameter("x"), Parameter("axes", "const", "ints", "reversed", "The new order of the old axes.")),
        infer=_infer_transpose,
        evaluate=lambda operands, a, _s: (np.transpose(operands[0], _permutation(a)),),
        lowering=View(lambda node: transposed(_permutation(node.attributes))),
        attributes=PermutationAttributes,
        constraints=("`axes` names each axis once.",),
        gradient=_transpose_gradient,
        identities=("identity permutation", "transpose of transpose"),
        samples=_transpose_samples,
        bind=_bind_transpose,
        rules=TRANSPOSE,
    )
)


def _axes(attributes: Attributes) -> tuple[int, ...]:
    assert isinstance(attributes, AxesAttributes)
    return attributes.axes


def _infer_reverse(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    require_axes(_axes(attributes), types[0])
    return (types[0],)


def _bind_reverse(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    rank = types[0].rank
    axis = arguments.get("axis")
    return AxesAttributes(tuple(range(rank)) if axis is None else normalised_axes(axis, rank))


def _reverse_map(node: Node) -> Point:
    axes, shape = _axes(node.attributes), node.operands[0].tensor.shape
    return tuple(mirrored(axis, size) if axis in axes else along(axis) for axis, size in enumerate(shape))


register(
    OpRecord(
        name="reverse",
        family="shape",
        summary="The elements in reverse order along the axes; along all if `axis` is not given.",
        signature="fn reverse[T: any, ..S](x: T[..S], const axis: ints = every) -> T[..S]",
        parameters=(Parameter("x"), Parameter("axis", "const", "ints", "every", "One axis or a list; all if absent.")),
        infer=_infer_reverse,
        evaluate=lambda operands, a, _s: (np.array(np.flip(operands[0], _axes(a))),),
        lowering=View(_reverse_map),
        attributes=AxesAttributes,
        constraints=("the axes exist and are named once.",),
        gradient=lambda b, node, cotangents: [
            None if dy is None else reverse(b, dy, _axes(node.attributes)) for dy in cotangents
        ],
        identities=("no axes", "involution"),
        samples=lambda: [
            samples.sample(samples.numbers((2, 3)), attributes=AxesAttributes((0,))),
            samples.sample(samples.numbers((2, 3)), attributes=AxesAttributes((0, 1))),
            samples.sample(samples.numbers((5,), np.int32), attributes=AxesAttributes((0,))),
            samples.sample(samples.numbers((0, 3)), attributes=AxesAttributes((0,)), kind="edge"),
            samples.sample(samples.numbers(()), attributes=AxesAttributes(()), kind="edge"),
            samples.sample(samples.numbers((3,)), attributes=AxesAttributes((1,)), kind="invalid"),
        ],
        bind=_bind_reverse,
        rules=REVERSE,
    )
)


def _infer_broadcast(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    shape = _shape(attributes)
    if not stretches_to(types[0].shape, shape):
        raise OpError(
            "E0305",
            f"{types[0]} cannot be repeated to {types[0].with_shape(shape)}",
            blame="shape",
            notes=("axes are added in front; only an axis of size 1 is stretched",),
        )
    return (types[0].with_shape(shape),)


def _broadcast_samples() -> Sequence[Sample]:
    def case(old: tuple[int, ...], new: tuple[int, ...], kind: str = "regular") -> Sample:
        return samples.sample(samples.numbers(old), attributes=ShapeAttributes(tuple(map(dim, new))), kind=kind)

    return [
        case((3,), (2, 3)),
        case((2, 1), (2, 5)),
        case((1, 3, 1), (2, 4, 3, 5)),
        case((), (2, 2), "edge"),
        case((1,), (0,), "edge"),
        case((3,), (3,), "edge"),
        case((3,), (3, 2), "invalid"),
        case((2, 3), (3,), "invalid"),
    ]


register(
    OpRecord(
        name="broadcast",
        family="shape",
        summary="Repeats along new axes in front and along axes of size 1.",
        signature="fn broadcast[T: any, ..S, ..R](x: T[..S], const shape: dims) -> T[..R]",
        parameters=(Parameter("x"), Parameter("shape", "const", "dims")),
        infer=_infer_broadcast,
        evaluate=lambda operands, a, s: (np.array(np.broadcast_to(operands[0], concrete(_shape(a), s))),),
        lowering=View(lambda node: broadcast_map(node.result.tensor.shape, node.operands[0].tensor.shape)),
        attributes=ShapeAttributes,
        constraints=("aligned at the right, each axis of `x` is the literal 1 or that of `shape`.",),
        gradient=lambda b, node, cotangents: [
            None if dy is None else unbroadcast(b, dy, node.operands[0].tensor.shape) for dy in cotangents
        ],
        identities=("same shape", "broadcast of broadcast"),
        samples=_broadcast_samples,
        bind=lambda arguments, _types: ShapeAttributes(shape_argument(arguments.get("shape"), "shape")),
        rules=BROADCAST,
    )
)


def axis_of(attributes: Attributes) -> int:
    assert isinstance(attributes, AxisAttributes)
    return attributes.axis


def _infer_concat(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    if not types:
        raise OpError("E0315", "`concat` needs at least one tensor")
    require_class(types, "any")
    require_same_dtype(types)
    axis, first = axis_of(attributes), types[0]
    require_axis(axis, first)
    for number, type_ in enumerate(types):
        others = [a for a in range(first.rank) if a != axis]
        if type_.rank != first.rank or not all(same_dim(type_.shape[a], first.shape[a]) for a in others):
            raise OpError(
                "E0305",
                "the parts of `concat` must agree on all other axes",
                blame=number,
                label=f"{type_} against {first} along axis {axis}",
            )
    total = dim(0)
    for type_ in types:
        total = total + type_.shape[axis]
    return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _concat_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Each part gets its own slice."""
    (dy,) = cotangents
    if dy is None:
        return [None for _ in node.operands]
    axis, offset = axis_of(node.attributes), dim(0)
    parts: list[Value | None] = []
    for operand in node.operands:
        shape = operand.tensor.shape
        starts = tuple(offset if a == axis else dim(0) for a in range(len(shape)))
        parts.append(b.apply("slice", dy, attributes=SliceAttributes(starts, shape, (1,) * len(shape))))
        offset = offset + shape[axis]
    return parts


def _bind_concat(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    axis: ConstArgument = arguments.get("axis", 0)
    return AxisAttributes(normalised_axis(integer(axis, "axis"), types[0].rank if types else 1))


def _concat_samples() -> Sequence[Sample]:
    def case(*shapes: tuple[int, ...], axis: int = 0, kind: str = "regular") -> Sample:
        parts = [samples.numbers(shape, start=i) for i, shape in enumerate(shapes)]
        return samples.sample(*parts, attributes=AxisAttributes(axis), kind=kind)

    mixed = (samples.numbers((2,)), samples.numbers((2,), np.int32))
    return [
        case((2, 3), (1, 3)),
        case((2, 3), (2, 5), (2, 1), axis=1),
        case((4,), (3,)),
        case((4,), kind="edge"),
        case((0, 2), (3, 2), kind="edge"),
        case((2, 3), (2, 4), kind="invalid"),
        case((2,), (2,), axis=1, kind="invalid"),
        samples.sample(*mixed, attributes=AxisAttributes(0), kind="invalid"),
    ]


register(
    OpRecord(
        name="concat",
        family="shape",
        summary="The parts one after the other along an axis.",
        signature="fn concat[T: any, ..R](parts: tensors, const axis: int = 0) -> T[..R]",
        parameters=(Parameter("parts", "tensors"), Parameter("axis", "const", "int", "0")),
        infer=_infer_concat,
        evaluate=lambda operands, a, _s: (np.concatenate(operands, axis_of(a)),),
        lowering=Concat(lambda node: axis_of(node.attributes)),
        attributes=AxisAttributes,
        constraints=(
            "at least one part.",
            "one element type.",
            "the axis exists.",
            "the other axes are equal.",
        ),
        gradient=_concat_gradient,
        identities=("single part",),
        samples=_concat_samples,
        bind=_bind_concat,
        rules=CONCAT,
    )
)
