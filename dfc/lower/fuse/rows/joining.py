"""Joining: the kernels of one phase of a chain as a `RowBlockKernel`, and what that saves and costs.

    apart:   each line is written to memory once and read by each kernel that needs it; a launch for each kernel
    joined:  what is computed again, and the second factors of products, which every block of rows reads anew

Assumes phases of `phases`. Guarantees that steps stand in the order of the run, those that are computed again first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.dims import product
from dfc.ir.dtypes import U8
from dfc.kernels.body import Apply, Instruction, Philox
from dfc.kernels.form import ContractKernel, Kernel, Operand, RoutineKernel, RowBlockKernel, RowStep
from dfc.kernels.routines import routine_work
from dfc.kernels.row_blocks import PANEL_BYTES, overflow_bytes, padded, row_bytes, with_panels
from dfc.lower.fuse.fused import FusedKernel
from dfc.lower.fuse.items.cost import Decision, Work, assumed, moved
from dfc.lower.fuse.rows.chains import Chain
from dfc.lower.fuse.rows.factors import with_factors_behind
from dfc.lower.fuse.rows.phases import Phases
from dfc.lower.fuse.rows.runs import Run
from dfc.lower.storage import BufferView, Storage, fresh, whole_view

PRODUCTS = 8
"""Multiply-adds of a product that take as long as one operation of weight one."""
COSTLY = {
    "exp": 12,
    "exp_of_nonpositive": 12,
    "log": 12,
    "tanh": 14,
    "erf": 14,
    "pow": 30,
    "sin": 20,
    "cos": 20,
    "div": 3,
    "sqrt": 3,
    "rsqrt": 3,
}
FEWEST_BLOCKS = 8
"""Into how many blocks a target division the rows at least, for its threads."""
RANDOM = 12
"""Weights of functions of an element, as op records have them."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A phase as one kernel, the members that it takes the place of, and the decision that it rests on."""

    part: FusedKernel
    members: tuple[int, ...]
    decision: Decision


@dataclass(slots=True)
class _Operands:
    """Operands of the whole: memory that a launch binds, and panels behind it, which are numbered at the end."""

    bound: dict[BufferView, str] = field(default_factory=dict[BufferView, str])
    panels: dict[Storage, int] = field(default_factory=dict[Storage, int])

    def add(self, view: BufferView, access: str) -> None:
        known = self.bound.setdefault(view, access)
        self.bound[view] = known if known == access else "update"

    def number(self, view: BufferView) -> int:
        if view.storage in self.panels:
            return len(self.bound) + self.panels[view.storage]
        return list(self.bound).index(view)


def joined(run: Run, chain: Chain, division: Phases, phase: int) -> Joined | None:
    """The members of a phase as one kernel, or None where there is nothing to join."""
    own = [number for number in chain.members if division.numbers[number] == phase]
    again = sorted(division.again.get(phase, ()))
    members = [*again, *own]
    lines = [s for s, writer in chain.lines.items() if writer in members]
    panels = {storage: number for number, storage in enumerate(lines)}
    if len(members) < 2 or not panels or not own:
        return None
    operands = _Operands(panels=panels)
    for number in members:
        part = run[number]
        for operand, view in zip(part.kernel.operands, part.views, strict=True):
            if view.storage not in panels:
                operands.add(view, operand.access)
    kinds = tuple(padded(Operand(s.dtype, s.shape, "update"), len(chain.rows)) for s in panels)
    overflow = overflow_bytes(kinds, len(chain.rows))
    if overflow.constant:
        return None
    if overflow.constant is None:
        operands.add(whole_view(fresh(U8, (overflow,), f"{run[own[-1]].names[0]}/row")), "write")
    part = _part(run, chain, operands, kinds, members, own)
    decision = _decision(run, chain, part, members, again, lines)
    part = replace(part, reasons=(*part.reasons, str(decision)))
    return Joined(part, tuple(own), decision)


def _part(
    run: Run, chain: Chain, operands: _Operands, panels: tuple[Operand, ...], members: Sequence[int], own: Sequence[int]
) -> FusedKernel:
    steps: list[RowStep] = []
    for number in members:
        kernel, axis = chain.members[number]
        slots = tuple(operands.number(view) for view in run[number].views)
        inside = {slot: panels[n - len(operands.bound)] for slot, n in enumerate(slots) if n >= len(operands.bound)}
        steps.append(RowStep(with_panels(kernel, inside), slots, axis))
    first = steps[0].kernel.axes[: len(chain.rows)]
    bound = tuple(Operand(view.dtype, view.shape, access) for view, access in operands.bound.items())
    kernel = RowBlockKernel(bound, first, with_factors_behind(steps, len(bound)), panels)
    names = dict.fromkeys(name for number in members for name in run[number].names)
    reasons = dict.fromkeys(reason for number in members for reason in run[number].reasons)
    span = next((run[number].span for number in own if not run[number].span.is_nowhere), Span.nowhere())
    return FusedKernel(kernel, tuple(operands.bound), tuple(names), span, tuple(reasons))


# ----------------------------------------------------------------------- cost --


def _decision(
    run: Run, chain: Chain, part: FusedKernel, members: Sequence[int], again: Sequence[int], lines: Sequence[Storage]
) -> Decision:
    """What either way takes; `kept` is apart."""
    kernel = part.kernel
    assert isinstance(kernel, RowBlockKernel)
    touched = Work(launches=len(members) - len(again))
    for storage in lines:
        size = assumed(product(storage.shape)) * storage.dtype.size
        uses = sum(view.storage is storage for number in members for view in run[number].views)
        # What is computed again lies in memory otherwise, and is read there by those who need it.
        if chain.lines[storage] not in again:
            touched += moved(size * uses, size)
        else:
            readers = sum(view.storage is storage for n in members if n not in again for view in run[n].views)
            touched += moved(size * readers, size)
    repeated = sum((_work(run[number].kernel) for number in again), 0)
    joined_ = Work(repeated, launches=1) + _second_factors(kernel)
    symbols = sorted({str(symbol) for storage in lines for size in storage.shape for symbol in size.symbols()})
    return Decision(" and ".join(_named(lines, run, members)), touched, joined_, tuple(symbols), in_rows=True)


def _named(lines: Sequence[Storage], run: Run, members: Sequence[int]) -> list[str]:
    return [storage.name for storage in lines if storage.name] or [run[members[-1]].names[0]]


def _work(kernel: Kernel) -> int:
    """Operations of a kernel, by their weights."""
    if isinstance(kernel, ContractKernel):
        return assumed(product(axis.extent for axis in kernel.axes)) // PRODUCTS
    if isinstance(kernel, RoutineKernel):
        return assumed(routine_work(kernel))
    if isinstance(kernel, RowBlockKernel):
        return sum(_work(step.kernel) for step in kernel.steps)
    total = 0
    for stage in kernel.stages:
        points = assumed(product(kernel.axes[axis].extent for axis in (*range(kernel.outer), *stage.axes)))
        total += points * sum(map(_weight, stage.body))
    return total


def _weight(one: Instruction) -> int:
    match one.operation:
        case Philox():
            return RANDOM
        case Apply(function):
            return COSTLY.get(function, 1)
        case _:
            return 0


def _second_factors(kernel: RowBlockKernel) -> Work:
    """What blocks of rows read again at each batch point: threads that share them out read it each, too."""
    leading = len(kernel.axes)
    rows, batch = assumed(kernel.axes[-1].extent), assumed(product(axis.extent for axis in kernel.axes[:-1]))
    height = max(PANEL_BYTES // max(assumed(row_bytes(kernel.panels, leading)), 1), 1)
    blocks = max(batch * -(-rows // height), FEWEST_BLOCKS)
    total = Work()
    for step in kernel.steps:
        if isinstance(step.kernel, ContractKernel) and not step.sums_over_rows:
            one = step.kernel
            size = assumed(one.axes[one.n].extent * one.axes[one.k].extent) * one.operands[one.b.operand].dtype.size
            total += moved(blocks * size, size)
    return total
