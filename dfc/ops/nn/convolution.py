"""Convolutions (correlations, as in learning) with channels last: conv1d and conv2d.

A convolution is a matrix product of the windows of the padded image with the weights of the kernel. Its gradients are
a convolution of the gradients with the reversed kernel, and a product of the windows with the gradients. With `groups`
it is that for each group of channels (`dfc.ops.nn.grouped`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim, ceil_divide, dim, maximum, product
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ConvolutionAttributes, PadAttributes, WindowAttributes
from dfc.ops.binding import integer, wrong
from dfc.ops.binding import size as size_argument
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_rank, require_same_dtype, require_size
from dfc.ops.linalg.rules import PRODUCT
from dfc.ops.lowering.forms import Decompose
from dfc.ops.nn.grouped import Grouped, channels_in_groups, turned_in_groups
from dfc.ops.nn.windows import per_axis, positions, reach
from dfc.ops.numeric import Numeric, accumulator, concrete, narrow, widen
from dfc.ops.pieces import part, zeros
from dfc.ops.record import Arguments, Array, ConstArgument, InferTypes, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]
Padding = tuple[Dim, Dim, Dim]  # before, behind, number of windows


def convolution(attributes: Attributes) -> ConvolutionAttributes:
    assert isinstance(attributes, ConvolutionAttributes)
    return attributes


def padding(extent: Dim, size: int, step: int, dilation: int, how: ConstArgument) -> Padding:
    """What goes before and behind an axis, and how many windows there are then.

    `same` gives one window for each `step` elements, and puts the odd element behind.
    """
    if how == "same":
        count = ceil_divide(extent, dim(step))
        missing = maximum((count - 1) * step + reach(size, dilation) - extent, dim(0))
        return missing // 2, missing - missing // 2, count
    if how == "valid":
        return dim(0), dim(0), positions(extent, size, step, dilation)
    sides = how if isinstance(how, tuple) else (how, how)
    if isinstance(how, str) or len(sides) != 2:
        raise wrong("pad", '"same", "valid", a width, or for each axis a width or a pair [before, behind]')
    low, high = (size_argument(side, "pad") for side in sides)
    return low, high, positions(extent + low + high, size, step, dilation)


def paddings(extents: Sequence[Dim], it: Sequence[tuple[int, int, int]], how: ConstArgument) -> list[Padding]:
    """`padding` for each axis; `it` has size, step and dilation of each, `how` is for all or a list for each."""
    if isinstance(how, tuple) and len(how) != len(extents):
        raise wrong("pad", f"one width for all axes or a list of {len(extents)}")
    each = how if isinstance(how, tuple) else (how,) * len(extents)
    return [padding(extent, *one, way) for extent, one, way in zip(extents, it, each, strict=True)]


def window_sizes(kernel: TensorType) -> tuple[int, ...]:
    """The spatial sizes of a kernel, which must be plain numbers."""
    extents = [size.constant for size in kernel.shape[:-2]]
    known = tuple(size for size in extents if size is not None)
    if len(known) != len(extents):
        raise OpError("E0309", "the size of a kernel must be a plain number", blame=1, label=str(kernel))
    return known


def _infer(rank: int) -> InferTypes:
    words = "height, width" if rank == 2 else "place"
    image = f"an operand with {rank + 2} axes: batch, {words}, channels"
    window = f"a kernel with {rank + 2} axes: {words}, channels in, channels out"

    def infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        x, kernel = types
        it = convolution(attributes)
        require_class(types, "number")
        require_same_dtype(types)
        require_rank(types, 0, (rank + 2,), image)
        require_rank(types, 1, (rank + 2,), window)
        _require_groups(kernel, it.groups)
        taken = kernel.shape[-2] * it.groups
        if not same_dim(x.shape[-1], taken):
            each = f" in each of {it.groups} groups" if it.groups > 1 else ""
            raise OpError(
                "E0301",
                "the kernel is for another number of channels",
                blame=1,
                label=f"{kernel} takes {kernel.shape[-2]} channels{each}",
                operand_labels={0: f"{x} has {x.shape[-1]} channels"},
            )
        _require_windows(types, it)
        return (x.with_shape((x.shape[0], *it.counts, kernel.shape[-1])),)

    return infer


def _require_groups(kernel: TensorType, groups: int) -> None:
    if groups < 1:
        raise OpError("E0314", "there is at least one group of channels", blame="groups", label=str(groups))
    if kernel.shape[-1] % dim(groups) != dim(0):
        label = f"{kernel} gives {kernel.shape[-1]} channels"
        raise OpError("E0301", f"{groups} groups do not divide the channels of the kernel", blame=1, label=label)


def _require_windows(types: Sequence[TensorType], it: ConvolutionAttributes) -> None:
    x, kernel = types
    if any(size < 1 for size in window_sizes(kernel)):
        raise OpError("E0314", "a kernel has at least one element along each axis", blame=1, label=str(kernel))
    for step in it.strides:
        if step < 1:
            raise OpError("E0314", "a stride must be at least 1", blame="stride", label=str(step))
    for dilation in it.dilations:
        if dilation < 1:
            raise OpError("E0314", "a dilation must be at least 1", blame="dilation", label=str(dilation))
    for width in (*it.low, *it.high):
        require_size(width, "pad", "a width")
    if any(count.constant is not None and count.constant < 0 for count in it.counts):
        raise OpError("E0314", "the kernel is larger than the operand", blame=1, label=f"{kernel} on {x}")


def _evaluate(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    """The sum over the elements of the kernel: each multiplies a shifted, strided image."""
    x, kernel = (widen(v) for v in operands)
    it = convolution(attributes)
    counts = concrete(it.counts, sizes)
    widths = [(0, 0), *zip(concrete(it.low, sizes), concrete(it.high, sizes), strict=True), (0, 0)]
    padded: Numeric = np.pad(x, widths)
    total: Numeric = np.zeros((x.shape[0], *counts, kernel.shape[-1]), accumulator(operands[0].dtype))
    channels_in, channels_out = kernel.shape[-2], kernel.shape[-1] // it.groups
    for offset in np.ndindex(kernel.shape[:-2]):
        picks = [
            slice(at * dilation, at * dilation + (count - 1) * step + 1 if count else at * dilation, step)
            for at, count, step, dilation in zip(offset, counts, it.strides, it.dilations, strict=True)
        ]
        with np.errstate(all="ignore"):
            image = padded[(slice(None), *picks)]
            for group in range(it.groups):
                own, into = (
                    slice(group * channels_in, (group + 1) * channels_in),
                    slice(group * channels_out, (group + 1) * channels_out),
                )
                total[..., into] += image[..., own] @ kernel[offset][:, into]
    return (narrow(total, operands[0].dtype),)


def padded(b: Builder, x: Value, it: ConvolutionAttributes) -> Value:
    """Zeros around the spatial axes, which are those behind the first one."""
    if not _has_zeros(it):
        return x
    none = dim(0)
    behind = (none,) * (x.tensor.rank - 1 - len(it.low))
    around = PadAttributes((none, *it.low, *behind), (none, *it.high, *behind), (0,) * x.tensor.rank)
    return b.apply("pad", x, b.scalar_like(0, x), attributes=around)


def _has_zeros(it: ConvolutionAttributes) -> bool:
    return any(width.constant != 0 for width in (*it.low, *it.high))


def _seen(b: Builder, x: Value, it: ConvolutionAttributes, sizes: tuple[int, ...]) -> Value:
    """[batch, windows.., channels, elements of a window..]; of channels in groups two axes."""
    axes = tuple(range(1, len(sizes) + 1))
    attributes = WindowAttributes(axes, it.counts, sizes, it.strides, it.dilations)
    return b.apply("windows", padded(b, x, it), attributes=attributes)


def _patches(b: Builder, x: Value, it: ConvolutionAttributes, sizes: tuple[int, ...]) -> Value:
    """[batch * windows, elements of a window]: one row for each position of the kernel."""
    axes = tuple(range(1, len(sizes) + 1))
    channels = x.tensor.shape[-1]
    rows, columns = product((x.tensor.shape[0], *it.counts)), product((*map(dim, sizes), channels))
    is_padded = x.node is not None and x.node.op == "pad"
    if all(size == 1 for size in (*sizes, *it.strides)) and not is_padded and not _has_zeros(it):
        return b.reshape(x, (rows, columns))
    last = len(axes) + 1
    seen = b.transpose(_seen(b, x, it, sizes), (*range(last), *range(last + 1, last + 1 + len(axes)), last))
    return b.reshape(seen, (rows, columns))


def _weights(b: Builder, kernel: Value) -> Value:
    """[elements of a window, channels out]."""
    *inner, out = kernel.tensor.shape
    return b.reshape(kernel, (product(inner), out))


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    x, kernel = node.operands
    it = convolution(node.attributes)
    if it.groups > 1:
        return (_in_groups(b, x, kernel, it).forward(kernel),)
    rows = _patches(b, x, it, window_sizes(kernel.tensor))
    return (b.reshape(b.apply("matmul", rows, _weights(b, kernel)), node.result.tensor.shape),)


def _in_groups(b: Builder, x: Value, kernel: Value, it: ConvolutionAttributes) -> Grouped:
    apart = channels_in_groups(b, x, it.groups)
    return Grouped(b, _seen(b, apart, it, window_sizes(kernel.tensor)), kernel.tensor.shape, it.groups)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    x, kernel = node.operands
    it = convolution(node.attributes)
    if x.tensor.elements.constant == 0 or dy.tensor.elements.constant == 0:
        return zeros(b, dy, x.tensor.shape), zeros(b, dy, kernel.tensor.shape)
    if it.groups > 1:
        return _by_data(b, node, dy), _in_groups(b, x, kernel, it).by_kernel(dy)
    rows = _patches(b, x, it, window_sizes(kernel.tensor))
    cotangent_rows = b.reshape(dy, (rows.tensor.shape[0], dy.tensor.shape[-1]))
    by_kernel = b.apply("matmul", b.transpose(rows, (1, 0)), cotangent_rows)
    return _by_data(b, node, dy), b.reshape(by_kernel, kernel.tensor.shape)


def _by_data(b: Builder, node: Node, dy: Value) -> Value:
    """The gradients, dilated by the strides, convolved with the kernel turned round."""
    x, kernel = node.operands
    it = convolution(node.attributes)
    axes = tuple(range(len(it.strides)))
    turned = turned_in_groups(b, kernel, it.groups)
    extents, sizes = x.tensor.shape[1:-1], window_sizes(kernel.tensor)
    low = [dim(reach(size, dilation) - 1) for size, dilation in zip(sizes, it.dilations, strict=True)]
    high = [
        extent + before + behind - (count - 1) * step - 1
        for extent, before, behind, count, step in zip(extents, it.low, it.high, it.counts, it.strides, strict=True)
    ]
    counts = tuple(e + before + behind for e, before, behind in zip(extents, it.low, it.high, strict=True))
    own = [a - c for a, c in zip((*low, *high), (*it.low, *it.high), strict=True)]
    direct = all(width.constant is not None and width.constant >= 0 for width in own)
    if direct:  # what the padding made is not computed at all
        low, high, counts = own[: len(axes)], own[len(axes) :], extents
    whole = ConvolutionAttributes((1,) * len(axes), it.dilations, tuple(low), tuple(high), counts, it.groups)
    image = b.apply(node.op, _dilate(b, dy, it), turned, attributes=whole)
    for axis in axes if not direct else ():
        image = part(b, image, axis + 1, it.low[axis], extents[axis])
    return image


def _dilate(b: Builder, dy: Value, it: ConvolutionAttributes) -> Value:
    """Zeros between neighbours, where the kernel had jumped over elements."""
    if all(step == 1 for step in it.strides):
        return dy
    none = (dim(0),) * dy.tensor.rank
    between = PadAttributes(none, none, (0, *(step - 1 for step in it.strides), 0))
    return b.apply("pad", dy, b.scalar_like(0, dy), attributes=between)


def _bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    x, kernel = types
    sizes = window_sizes(kernel)
    strides = per_axis(arguments.get("stride", 1), len(sizes), "stride")
    dilations = per_axis(arguments.get("dilation", 1), len(sizes), "dilation")
    groups = integer(arguments.get("groups", 1), "groups")
    if x.rank != len(sizes) + 2:
        counts = none = (dim(0),) * len(sizes)
        return ConvolutionAttributes(strides, dilations, none, none, counts, groups)  # `infer` says what is wrong
    each = list(zip(sizes, (max(step, 1) for step in strides), dilations, strict=True))
    padding = paddings(x.shape[1:-1], each, arguments.get("pad", "valid"))
    low, high, counts = (tuple(one[i] for one in padding) for i in range(3))
    return ConvolutionAttributes(strides, dilations, low, high, counts, groups)


def _case(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: int = 1,
    pad: ConstArgument = "valid",
    dilation: int = 1,
    kind: str = "regular",
    dtype: DTypeLike = "float32",
    groups: int = 1,
) -> Sample:
    each = [(size, stride, dilation) for size in kernel[:-2]]
    padding = paddings([dim(n) for n in shape[1:-1]], each, pad)
    low, high, counts = (tuple(one[i] for one in padding) for i in range(3))
    attributes = ConvolutionAttributes((stride,) * len(each), (dilation,) * len(each), low, high, counts, groups)
    operands = samples.numbers(shape, dtype), samples.numbers(kernel, dtype, start=0.9)
    return samples.sample(*operands, attributes=attributes, kind=kind)


def _samples_2d() -> Sequence[Sample]:
    mixed = _case((1, 3, 3, 1), (2, 2, 1, 1))
    cases = [
        _case((2, 5, 4, 3), (3, 2, 3, 4)),
        _case((1, 6, 5, 2), (3, 3, 2, 3), pad="same"),
        _case((1, 7, 6, 1), (3, 3, 1, 2), 2, "same"),
        _case((2, 8, 7, 2), (2, 3, 2, 2), 3),
        _case((1, 7, 7, 2), (3, 2, 2, 1), dilation=2, pad=1),
        _case((1, 4, 4, 1), (2, 2, 1, 1), pad=((2, 0), (1, 3))),
        _case((1, 5, 5, 3), (1, 1, 3, 4)),
        _case((1, 5, 5, 2), (1, 1, 2, 2), 2),
        *(_case((1, 4, 4, 2), (2, 2, 2, 3), dtype=d) for d in (np.float64, np.float16, np.int32)),
        _case((1, 4, 4, 4), (2, 2, 2, 6), groups=2),
        _case((2, 5, 4, 3), (3, 2, 1, 3), pad="same", groups=3),
        _case((1, 5, 5, 2), (2, 2, 1, 4), 2, pad=1, groups=2, dtype=np.float64),
        _case((1, 5, 5, 2), (2, 2, 1, 2), dilation=2, groups=2, dtype=np.float16),
        _case((0, 4, 4, 2), (3, 3, 1, 2), kind="edge", groups=2),
        _case((0, 4, 4, 2), (3, 3, 2, 1), kind="edge"),
        _case((1, 2, 3, 1), (3, 3, 1, 1), kind="edge"),
        _case((1, 1, 1, 1), (1, 1, 1, 1), kind="edge"),
        _case((1, 3, 3, 1), (3, 3, 1, 1), kind="edge"),
    ]
    wrong = [
        _case((1, 4, 4, 2), (3, 3, 3, 1), kind="invalid"),
        _case((1, 4, 4, 4), (3, 3, 4, 2), kind="invalid", groups=2),
        _case((1, 4, 4, 4), (3, 3, 2, 3), kind="invalid", groups=2),
        _case((1, 2, 2, 1), (5, 5, 1, 1), kind="invalid"),
        _case((1, 4, 4, 2), (3, 3, 2, 1), kind="invalid", dtype=np.bool_),
    ]
    single = samples.sample(np.ones((4, 4, 1)), np.ones((2, 2, 1, 1)), attributes=mixed.attributes, kind="invalid")
    types = samples.sample(
        np.ones((1, 3, 3, 1), np.float32), np.ones((2, 2, 1, 1)), attributes=mixed.attributes, kind="invalid"
    )
    return [*cases, *wrong, single, types]


def _samples_1d() -> Sequence[Sample]:
    return [
        _case((2, 7, 3), (3, 3, 4)),
        _case((1, 8, 2), (3, 2, 2), 2, "same"),
        _case((1, 9, 1), (2, 1, 3), dilation=3, pad=2),
        _case((1, 6, 2), (1, 2, 2), dtype=np.float64),
        _case((2, 6, 4), (3, 2, 4), pad=1, groups=2),
        _case((1, 2, 1), (3, 1, 1), kind="edge"),
        _case((0, 5, 1), (3, 1, 1), kind="edge"),
        _case((1, 4, 2), (3, 3, 1), kind="invalid"),
        _case((1, 4, 4, 2), (3, 3, 2, 1), kind="invalid"),
    ]


def _register(name: str, rank: int, image: str, kernel: str, cases: Callable[[], Sequence[Sample]]) -> None:
    consts = 'const stride: ints = 1, const pad: widths = "valid", const dilation: ints = 1, const groups: int = 1'
    register(
        OpRecord(
            name=name,
            family="product",
            summary=(
                f"Each window of `x` [{image}] times the kernel [{kernel}]: a correlation, channels last. `pad` is "
                '"valid" (none), "same" (one window for each `stride` elements; the odd zero goes behind), a width, or '
                "for each axis a width or a pair [before, behind]. With `groups`, each group of channels has kernels "
                "of its own; depthwise is one channel in, and as many groups as channels."
            ),
            signature=f"fn {name}[T: number, ..S, ..K, ..R](x: T[..S], kernel: T[..K], {consts}) -> T[..R]",
            parameters=(
                Parameter("x"),
                Parameter("kernel"),
                Parameter("stride", "const", "ints", "1", "From one window to the next."),
                Parameter("pad", "const", "widths", '"valid"', "Zeros around the image."),
                Parameter("dilation", "const", "ints", "1", "From one element of a window to the next."),
                Parameter("groups", "const", "int", "1", "Groups of channels, each with kernels of its own."),
            ),
            infer=_infer(rank),
            evaluate=_evaluate,
            lowering=Decompose(_decompose),
            attributes=ConvolutionAttributes,
            rules=PRODUCT,
            constraints=(
                "the element types are equal and a number type.",
                f"`x` has the axes {image}; `kernel` has {kernel}, its spatial sizes are plain numbers from 1 up.",
                "the channels of `x` are those that the kernel takes, times `groups`; these divide the channels out.",
                "strides and dilations are at least 1, widths are not negative.",
                "the kernel fits into the padded operand.",
            ),
            gradient=_gradient,
            samples=cases,
            bind=_bind,
        )
    )


_register("conv2d", 2, "batch, height, width, channels in", "height, width, channels in, channels out", _samples_2d)
_register("conv1d", 1, "batch, place, channels in", "place, channels in, channels out", _samples_1d)
