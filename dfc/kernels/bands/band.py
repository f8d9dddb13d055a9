"""The band of a row-block kernel: columns that a mask leaves to each row, and what has to be true for the rest to be
left out.

    scores[i, j] = select(i >= j, total, -1e9)     row i: columns below i + 1; what is beyond holds -1e9, unwritten
    softmax                                        beyond is 0 where exp(-1e9 - most) is: checked for each row
    y[i] = p[i, :] . v                             what is beyond adds 0 * v

A block of rows computes the columns that its last row needs, and where a check fails, all of them. Nothing is known of
ops, only what values are beyond a border (`beyond`): each comparison of a row's index with a column's is tried as one.

Assumes a verified kernel. Guarantees the bits of the kernel without a band, but for what
`orders.product` says of zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import BOOL
from dfc.kernels.bands.beyond import Border
from dfc.kernels.bands.columns import StepPanels, column_axes, step_panels
from dfc.kernels.bands.comparisons import Comparison, comparison, forms
from dfc.kernels.bands.steps import BandedStep, Claims, Panels, banded_loop, banded_product
from dfc.kernels.body import Affine, Instruction
from dfc.kernels.canonical import symbol_count
from dfc.kernels.contractions import as_product
from dfc.kernels.form import ContractKernel, LoopKernel, Operand, RowBlockKernel, RowStep
from dfc.kernels.orders.reduction import KernelOrder, kernel_order

LEAST_COLUMNS = 64
"""Columns below which nothing is left out."""


@dataclass(frozen=True, slots=True)
class RowBand:
    """`kernel` is the kernel over `stop` columns instead of `columns`; row i needs those below i + `first`. `axes` are
    the axes of columns by step. `checks`: by step the panel that says of each row whether what is beyond counts for
    nothing. Without a limit on `offsets` and sizes (`comparisons.MOST`) `stop` has to be `columns`."""

    kernel: RowBlockKernel
    columns: Dim
    first: Dim
    stop: Symbol
    axes: Mapping[int, int]
    checks: Mapping[int, int]
    offsets: tuple[Dim, ...]


def row_band(kernel: RowBlockKernel) -> RowBand | None:
    """The band of a kernel, the narrowest that the first comparison which makes one leaves; None if none does."""
    panels = step_panels(kernel)
    for number, compared in _comparisons(kernel):
        axes = column_axes(panels, number, compared.column)
        if axes is None or not _have_columns(kernel, axes):
            continue
        for first in compared.borders:
            band = _band(kernel, panels, axes, first, compared)
            if band is not None:
                return band
    return None


def _comparisons(kernel: RowBlockKernel) -> Iterator[tuple[int, Comparison]]:
    row = len(kernel.axes) - 1
    for number, step in enumerate(kernel.steps):
        if not step.sums_over_rows:
            for body in _bodies(step):
                known = forms(body)
                compared = (comparison(one, known, row) for one in body)
                yield from ((number, one) for one in compared if one is not None)


def _bodies(step: RowStep) -> list[tuple[Instruction, ...]]:
    kernel = step.kernel
    return [kernel.epilogue] if isinstance(kernel, ContractKernel) else [stage.body for stage in kernel.stages]


def _have_columns(kernel: RowBlockKernel, axes: Mapping[int, int]) -> bool:
    """Whether the axes are as long as each other, long enough, and no rows."""
    extents = {kernel.steps[number].kernel.axes[axis].extent for number, axis in axes.items()}
    number = next(iter(extents)).constant
    is_row = any(axis == kernel.steps[step].rows for step, axis in axes.items())
    return len(extents) == 1 and not is_row and (number is None or number >= LEAST_COLUMNS)


def _band(
    kernel: RowBlockKernel, panels: Sequence[StepPanels], axes: Mapping[int, int], first: Dim, compared: Comparison
) -> RowBand | None:
    """The band of a border, with what it takes; `claims` grow until all that has to be 0 beyond it is known. Where a
    step needs what is beyond, all that may be claimed before it is: its own values may be 0 then."""
    border = Border(len(kernel.axes), first)
    claims: Claims = set()
    while True:
        known = len(claims)
        beyond: Panels = {}
        steps = _steps(kernel, panels, axes, border, beyond, claims)
        if steps is None:
            claims.update(version for version, panel in beyond.items() if panel.claimable)
        if len(claims) == known:
            break
    if steps is None:
        return None
    (number, axis), *_ = axes.items()
    columns = kernel.steps[number].kernel.axes[axis].extent
    return _with_checks(kernel, steps, RowBand(kernel, columns, first, Symbol(""), axes, {}, compared.offsets))


def _steps(
    kernel: RowBlockKernel, panels: Sequence[StepPanels], axes: Mapping[int, int], border: Border, beyond: Panels,
    claims: Claims,
) -> list[BandedStep | None] | None:  # fmt: skip
    """The steps that have columns; None if one of them needs what is beyond."""
    result: list[BandedStep | None] = []
    for number, (step, own) in enumerate(zip(kernel.steps, panels, strict=True)):
        axis = axes.get(number)
        banded: BandedStep | None = None
        if axis is not None:
            make = banded_product if isinstance(step.kernel, ContractKernel) else banded_loop
            banded = make(step, own, axis, border, beyond, claims)
            if banded is None:
                return None
        result.append(banded)
    return result


def _with_checks(kernel: RowBlockKernel, steps: Sequence[BandedStep | None], band: RowBand) -> RowBand | None:
    """The band with its kernel, if nothing is in memory before the last check, so that a block may be begun again."""
    stop = Symbol(f"d{symbol_count(kernel)}")
    rows = tuple(axis.extent for axis in kernel.axes)
    panels = list(kernel.panels)
    shortened: list[RowStep] = []
    checks: dict[int, int] = {}
    for number, (step, banded) in enumerate(zip(kernel.steps, steps, strict=True)):
        own, operands = step.kernel, step.operands
        if banded is not None:
            own = _over(own, band.axes[number], dim(stop))
            if not _means_the_same(step.kernel, own, stop, band.columns):
                return None
            if banded.check is not None:
                assert isinstance(own, LoopKernel)
                checks[number] = len(kernel.operands) + len(panels)
                panels.append(Operand(BOOL, rows, "update"))
                slot = Operand(BOOL, rows, "write")
                index = tuple(Affine(((axis, 1),)) for axis in range(len(rows)))
                stage = banded.check_stage(len(operands), index)
                own = replace(own, operands=(*own.operands, slot), stages=(*own.stages, stage))
                operands = (*operands, checks[number])
        shortened.append(RowStep(own, operands, step.rows))
    if any(_stores_to_memory(kernel, step) for step in kernel.steps[: max(checks, default=-1) + 1]):
        return None
    whole = replace(kernel, steps=tuple(shortened), panels=tuple(panels))
    return replace(band, kernel=whole, stop=stop, checks=checks)


def _over(kernel: LoopKernel | ContractKernel, axis: int, extent: Dim) -> LoopKernel | ContractKernel:
    axes = (replace(one, extent=extent) if number == axis else one for number, one in enumerate(kernel.axes))
    return replace(kernel, axes=tuple(axes))


def _means_the_same(
    kernel: LoopKernel | ContractKernel, banded: LoopKernel | ContractKernel, stop: Symbol, columns: Dim
) -> bool:
    """Whether sums have the same order however many columns there are."""
    if isinstance(kernel, LoopKernel):
        assert isinstance(banded, LoopKernel)
        if not any(stage.reductions for stage in kernel.stages):
            return True
        return _order(kernel_order(kernel), None, columns) == _order(kernel_order(banded), stop, columns)
    assert isinstance(banded, ContractKernel)
    first, second = as_product(kernel), as_product(banded)
    return (
        first is not None and second is not None and (first.direct, first.in_place) == (second.direct, second.in_place)
    )


def _order(order: KernelOrder, stop: Symbol | None, columns: Dim) -> object:
    def size(one: Dim) -> Dim:
        return one if stop is None else one.substitute({stop: columns})

    stages = [(one.axes, one.accumulators, size(one.block), size(one.part)) for one in order.stages]
    return order.by_rows, order.outer, stages


def _stores_to_memory(kernel: RowBlockKernel, step: RowStep) -> bool:
    pairs = zip(step.operands, step.kernel.operands, strict=True)
    return any(number < len(kernel.operands) and operand.access != "read" for number, operand in pairs)
