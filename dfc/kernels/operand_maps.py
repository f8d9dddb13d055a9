"""Index maps of the factors of a contraction, as element offsets that are linear in axes and sub-axes.

    x[b, y + r - 1, c] with m = (b, y), k = (r, c)    ->    offset = b * Y * C + (y + r - 1) * C + c,
                                                            inside where 0 <= y + r - 1 < Y

Pure analysis. Guarantees that sub-axes are listed in the order of their numbers, from the number of axes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, Dim, minimum, product
from dfc.ir.dtypes import BOOL, I64
from dfc.kernels.access import NONE, Access, linear_access
from dfc.kernels.body import Affine, BodyBuilder, Computed, Load, Mask
from dfc.kernels.form import Axis, ContractKernel, MatrixOperand


@dataclass(frozen=True, slots=True)
class SubAxis:
    """A part of a kernel axis: its index is `axis // stride % extent` (the outermost one's is `axis // stride`)."""

    axis: int
    extent: Dim
    stride: Dim


@dataclass(frozen=True, slots=True)
class OperandMap:
    """A factor: the access over the kernel's axes and, behind them, its sub-axes."""

    factor: MatrixOperand
    access: Access
    sub_axes: tuple[SubAxis, ...]

    @property
    def is_strided(self) -> bool:
        return self.factor.is_strided

    def parts(self, axis: int) -> tuple[int, ...]:
        """The sub-axes of an axis by number, outermost first; itself if it has none."""
        first = len(self.access.coefficients) - len(self.sub_axes)
        return tuple(first + n for n, one in enumerate(self.sub_axes) if one.axis == axis) or (axis,)

    def split_axes(self) -> set[int]:
        """The kernel axes that have sub-axes."""
        return {split.axis for split in self.factor.splits}

    def depends_on(self, axis: int) -> bool:
        """Whether the factor is another one at other points of a kernel axis."""
        return axis in self.access.axes() | self.split_axes()


def operand_map(kernel: ContractKernel, factor: MatrixOperand) -> OperandMap:
    """The map of one factor of a kernel."""
    axes = sub_axes(factor)
    load = Load(factor.operand, factor.index, Mask(factor.inside, NONE)) if factor.inside else None
    access = linear_access(kernel.operands, len(kernel.axes) + len(axes), factor.operand, factor.index, load)
    return OperandMap(factor, access, axes)


def sub_axes(factor: MatrixOperand) -> tuple[SubAxis, ...]:
    """All sub-axes of a factor, split by split."""
    return tuple(
        SubAxis(split.axis, extent, product(split.extents[number + 1 :]))
        for split in factor.splits
        for number, extent in enumerate(split.extents)
    )


def emit_load(body: BodyBuilder, kernel: ContractKernel, factor: MatrixOperand) -> int:
    """A factor as instructions of a loop kernel over the axes of the contraction."""
    operand = kernel.operands[factor.operand]
    if factor.is_strided:
        return body.append(Load(factor.operand, factor.index), (), operand.dtype)
    indices = [body.axis(axis) for axis in range(len(kernel.axes))]
    indices += [_sub_index(body, indices[one.axis], one) for one in sub_axes(factor)]
    steps = dict(factor.inside)
    computed: list[Computed] = []
    valid: list[int] = []
    for number, (one, extent) in enumerate(zip(factor.index, operand.shape, strict=True)):
        index = _index(body, indices, one)
        if number in steps:
            index, is_inside = _checked(body, index, steps[number], extent)
            valid.append(is_inside)
        computed.append(Computed(index, NONE))
    loaded = body.append(Load(factor.operand, tuple(computed)), (), operand.dtype)
    for is_inside in valid:
        loaded = body.apply("select", is_inside, loaded, body.number(0, operand.dtype))
    return loaded


def readable_depth(kernel: ContractKernel) -> Axis:
    """The axis of sums for `emit_load`, which reads an element where the factor is 0 as well: of no points where a
    factor with such places has no elements, all of it being 0 then."""
    axis = kernel.axes[kernel.k]
    extent = axis.extent
    for factor in (kernel.a, kernel.b):
        elements = product(kernel.operands[factor.operand].shape)
        if factor.inside and not elements.constant:
            extent = extent * minimum(elements, ONE)
    return Axis(axis.name, extent)


def _sub_index(body: BodyBuilder, index: int, one: SubAxis) -> int:
    if one.stride != ONE:
        index = body.apply("floordiv", index, body.size(one.stride))
    return body.apply("mod", index, body.size(one.extent))


def _index(body: BodyBuilder, indices: Sequence[int], index: Affine) -> int:
    total = body.size(index.offset)
    for axis, factor in index.terms:
        total = body.apply("add", total, body.apply("mul", indices[axis], body.number(factor, I64)))
    return total


def _checked(body: BodyBuilder, index: int, step: int, extent: Dim) -> tuple[int, int]:
    """An index that can be read in any case, and whether it is the one that is meant."""
    zero = body.number(0, I64)
    valid = body.apply("greater_equal", index, zero)
    if step > 1:
        whole = body.apply("equal", body.apply("mod", index, body.number(step, I64)), zero)
        valid = body.apply("and", valid, whole, dtype=BOOL)
        index = body.apply("floordiv", index, body.number(step, I64))
    valid = body.apply("and", valid, body.apply("less", index, body.size(extent)), dtype=BOOL)
    return body.apply("select", valid, index, zero), valid
