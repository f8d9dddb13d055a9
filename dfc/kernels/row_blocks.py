"""Kernels that go along the same rows: which ones can run one after the other for a block of rows, and what it takes.

    scores[b, i, j] = q[b, i, :] . k[b, j, :]      rows (b, i): axes 0 and m of the product
    p[b, i, j] = softmax over j                    rows (b, i): outer axes 0 and 1
    y[b, i, d] = p[b, i, :] . v[b, :, d]           rows (b, i): axes 0 and m
    to_v[b, j, d] = p[b, :, j] . to_y[b, :, d]     rows (b, i): axes 0 and k, so blocks of rows add up in their order

Pure analysis. Assumes well-formed kernels. Guarantees nothing about the order in which kernels may run: whoever makes
a `RowBlockKernel` sees to it that steps read what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from dfc.ir.dims import ONE, ZERO, Dim, ceil_divide, dim, minimum, product
from dfc.kernels.access import NONE
from dfc.kernels.body import Affine, AxisIndex, Index, Instruction, Load
from dfc.kernels.contractions import as_product, kernel_faults
from dfc.kernels.form import ContractKernel, LoopKernel, MatrixOperand, Operand, Store

PANEL_BYTES = 3 << 19
"""Memory of a thread for the panels of one block of rows: most of the second cache of a server's core."""
PANEL_ALIGNMENT = 64
"""Bytes between which panels begin."""

RowKernel = LoopKernel | ContractKernel
Rows = tuple[RowKernel, int]
"""A kernel, perhaps with its product transposed, and its axis of rows."""


def along_rows(kernel: RowKernel, rows: Sequence[Dim], panels: Collection[int]) -> Rows | None:
    """The kernel as a step along `rows` (the extents of batch axes and rows) that touches its operands `panels` in the
    row at hand only; None if it is none, or may report an error."""
    if kernel_faults(kernel):
        return None
    if isinstance(kernel, LoopKernel):
        return (kernel, len(rows) - 1) if _is_loop_along(kernel, rows, panels) else None
    for one in (kernel, transposed(kernel)):
        axis = _product_axis(one, rows, panels)
        if axis is not None:
            return one, axis
    return None


def _is_loop_along(kernel: LoopKernel, rows: Sequence[Dim], panels: Collection[int]) -> bool:
    if kernel.ordered or kernel.outer < len(rows):
        return False
    if tuple(axis.extent for axis in kernel.axes[: len(rows)]) != tuple(rows):
        return False
    axes = range(len(rows))
    return all(_is_at_rows(axes, stage.body, stage.stores, panels) for stage in kernel.stages)


def _product_axis(kernel: ContractKernel, rows: Sequence[Dim], panels: Collection[int]) -> int | None:
    """Its rows: the axis m, or the depth where a product goes straight to memory."""
    extents = [axis.extent for axis in kernel.axes]
    if tuple(extents[: kernel.m]) != tuple(rows[:-1]) or rows[-1] not in (extents[kernel.m], extents[kernel.k]):
        return None
    by_rows = (*range(kernel.m), kernel.m)
    is_at_rows = _is_at_rows(by_rows, kernel.epilogue, kernel.stores, panels)
    reads_rows = kernel.a.operand not in panels or _is_factor_at(kernel.a, by_rows)
    is_along_m = extents[kernel.m] == rows[-1] and kernel.b.operand not in panels
    if is_along_m and is_at_rows and reads_rows:
        return None if as_product(kernel) is None else kernel.m
    depth = (*range(kernel.m), kernel.k)
    factors = [one for one in (kernel.a, kernel.b) if one.operand in panels]
    is_read = all(_is_factor_at(one, depth) for one in factors)
    others = {store.operand for store in kernel.stores} | {load.operand for load in _loads(kernel.epilogue)}
    if extents[kernel.k] != rows[-1] or not is_read or others & set(panels):
        return None
    matched = as_product(kernel)
    return kernel.k if matched is not None and matched.in_place and matched.direct != NONE else None


def _is_factor_at(factor: MatrixOperand, axes: Sequence[int]) -> bool:
    return factor.is_strided and _leads(factor.index, axes)


def _is_at_rows(
    axes: Sequence[int], body: Sequence[Instruction], stores: Sequence[Store], panels: Collection[int]
) -> bool:
    """Whether a body loads and stores panels in the row at hand."""
    for load in _loads(body):
        masked = () if load.mask is None else load.mask.indices
        if load.operand in panels and (not _leads(load.index, axes) or any(axis < len(axes) for axis, _ in masked)):
            return False
    return all(_leads(store.index, axes) for store in stores if store.operand in panels)


def _leads(index: Sequence[Index], axes: Sequence[int]) -> bool:
    """Whether an index begins with these axes as they are."""
    return tuple(index[: len(axes)]) == tuple(Affine(((axis, 1),)) for axis in axes)


def _loads(body: Sequence[Instruction]) -> Iterator[Load]:
    return (one.operation for one in body if isinstance(one.operation, Load))


# ---------------------------------------------------------------- transposing --


def transposed(kernel: ContractKernel) -> ContractKernel:
    """The same product with rows for columns: its factors change places."""
    numbers = list(range(len(kernel.axes)))
    numbers[kernel.m], numbers[kernel.n] = kernel.n, kernel.m

    def renamed(index: Affine) -> Affine:
        terms = ((numbers[axis] if axis < len(numbers) else axis, factor) for axis, factor in index.terms)
        return Affine(tuple(sorted(terms)), index.offset)

    def indexed(index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(renamed(one) if isinstance(one, Affine) else one for one in index)

    def factor(one: MatrixOperand) -> MatrixOperand:
        splits = tuple(replace(split, axis=numbers[split.axis]) for split in one.splits)
        return replace(one, index=tuple(map(renamed, one.index)), splits=splits)

    def instruction(one: Instruction) -> Instruction:
        if isinstance(one.operation, Load):
            return replace(one, operation=replace(one.operation, index=indexed(one.operation.index)))
        if isinstance(one.operation, AxisIndex):
            return replace(one, operation=AxisIndex(numbers[one.operation.axis]))
        return one

    return replace(
        kernel,
        axes=tuple(kernel.axes[number] for number in numbers),
        a=factor(kernel.b),
        b=factor(kernel.a),
        epilogue=tuple(map(instruction, kernel.epilogue)),
        stores=tuple(replace(store, index=indexed(store.index)) for store in kernel.stores),
    )


# --------------------------------------------------------------------- panels --


def padded(operand: Operand, leading: int) -> Operand:
    """A panel whose rows begin at cache lines, an odd number of them apart: so that one column of many rows falls into
    different sets of a cache."""
    if len(operand.shape) != leading + 1:
        return operand
    size = operand.dtype.size
    pairs = ceil_divide(operand.shape[-1] * size, dim(2 * PANEL_ALIGNMENT))
    elements = pairs * (2 * PANEL_ALIGNMENT // size) + PANEL_ALIGNMENT // size
    return replace(operand, shape=(*operand.shape[:-1], elements))


def with_panels(kernel: RowKernel, panels: Mapping[int, Operand]) -> RowKernel:
    """The kernel with the shapes of panels for some of its operands."""
    shapes = {number: panel.shape for number, panel in panels.items()}
    operands = (replace(one, shape=shapes.get(number, one.shape)) for number, one in enumerate(kernel.operands))
    return replace(kernel, operands=tuple(operands))


def row_bytes(panels: Sequence[Operand], leading: int) -> Dim:
    """What one row of all panels takes, each being aligned; `leading` axes are batch axes and rows."""
    widths = (product(panel.shape[leading:]) * panel.dtype.size for panel in panels)
    return sum((width + PANEL_ALIGNMENT for width in widths), ZERO)


def overflow_bytes(panels: Sequence[Operand], leading: int) -> Dim:
    """Memory for a row that is too long for `PANEL_BYTES`; 0 where it is not, which only the call may know."""
    row = row_bytes(panels, leading)
    return row * minimum(ONE, row // dim(PANEL_BYTES + 1))
