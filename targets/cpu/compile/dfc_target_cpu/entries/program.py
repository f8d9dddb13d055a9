"""A scheduled program as LLVM text: its kernels once each, its entries, and the functions the driver asks for.

Assumes a verified program. Guarantees the same text for the same program, machine by machine; `entry_<i>_0` for every
entry, and `runner_<i>_0` for those that are runners; `dfc_worker` and `dfc_stop` for the threads; where there are
queues, what closes them, stops and holds runners, and holds a lock.
"""

import math
from collections.abc import Callable, Container, Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.graph import ResourceKind
from dfc.kernels.access import written_operands
from dfc.kernels.contractions import as_product, kernel_faults
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel, RoutineKernel, RowBlockKernel
from dfc.kernels.program import For, Launch, Parallel, Program, While, lock_order, walk
from dfc.kernels.programs.interruption import Polling, plan_polling
from dfc.kernels.programs.outline import AnyStep, EntryLayout, Outlined, direct_steps, frame_words, lay_out, outlined_in
from dfc_target_cpu.elementwise.columns import done_by_whole_rows, lower_by_whole_rows, shared_bytes
from dfc_target_cpu.elementwise.kernels import lower_loop_plan
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, plan_loops
from dfc_target_cpu.elementwise.whole import is_whole, lower_whole_kernel
from dfc_target_cpu.entries.branches import Strands
from dfc_target_cpu.entries.frames import Lowering
from dfc_target_cpu.entries.locks import lock_entries
from dfc_target_cpu.entries.queues import close
from dfc_target_cpu.entries.runners import hold, runner_loop, stop
from dfc_target_cpu.entries.scope import EntryScope, Launchable
from dfc_target_cpu.entries.steps import StepCode
from dfc_target_cpu.entries.threads import stop_entry, worker_entry
from dfc_target_cpu.llvm.text import ModuleText
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.contraction import lower_contraction, product_workspace_bytes
from dfc_target_cpu.product.gemm.library import gemm_library
from dfc_target_cpu.product.gemm.shape import ANY_WIDTH, FEW_ROWS
from dfc_target_cpu.product.row_blocks import lower_row_blocks, row_block_elements, row_block_workspace_bytes
from dfc_target_cpu.routines.launch import lower_routine, routine_workspace_bytes
from dfc_target_cpu.routines.library import ELEMENT, routine_library
from dfc_target_cpu.windows.library import libraries
from dfc_target_cpu.windows.plans import aligned, packed_bytes, planned_windows, windows_workspace_bytes


@dataclass(slots=True)
class LoweredText:
    """Module texts of one variant, and what the driver must know. The first text has the entries; behind it
    is one for each kernel, the same in all programs that have it; `launches` are the names by which they are called.
    Then come those of routines. `libraries` are texts that need no optimiser; `written_out`, where there are many
    launches, that of functions which are `AS_WRITTEN`."""

    texts: list[str]
    launches: list[str]
    libraries: list[str]
    written_out: list[str]
    symbols: list[str]
    spill_bytes: int
    workspace_bytes: int
    polling: list[Polling]


def lower_program(program: Program, machine: Machine, constant_offsets: Sequence[int]) -> LoweredText:
    """All modules of a program for one machine."""
    module = ModuleText(machine.triple, has_parts=True)
    layouts = [lay_out(entry) for entry in program.entries]
    planned = planned_windows(program.kernels, machine)
    direct = {kernel for kernel, _, _ in planned}
    spill = aligned(max((layout.spill_bytes for layout in layouts), default=0))
    loops = {kernel: plan_loops(kernel, machine) for kernel in program.kernels if isinstance(kernel, LoopKernel)}
    by_rows = {kernel: aligned(shared_bytes(plan)) for kernel, plan in loops.items() if done_by_whole_rows(plan)}
    packed = max([0, *by_rows.values(), *(packed_bytes(plan, element) for _, plan, element in planned)])
    lowering = Lowering.of(module, machine, spill, packed)
    others = [kernel for kernel in program.kernels if kernel not in direct]
    windows = (windows_workspace_bytes(kernel, plan, element, machine) for kernel, plan, element in planned)
    workspace = max((workspace_bytes(others, machine), *windows))
    strands = _strands(program, {*direct, *by_rows}, lowering.spill_bytes, workspace)
    kernels = KernelTexts(lowering, loops)
    launchables = [kernels.lower(kernel) for kernel in program.kernels]
    resources = {name: number for number, name in enumerate(program.resources)}
    containers = containers_of(program)
    symbols: list[str] = []
    polling = [plan_polling(program, number, layout.steps) for number, layout in enumerate(layouts)]
    for number, (entry, layout) in enumerate(zip(program.entries, layouts, strict=True)):
        shared = (lowering, program, entry, number, launchables, resources, containers, constant_offsets)
        scope = EntryScope(*shared, layout.spilled, polling[number], strands)
        symbols.append(lower_entry(scope, layout))
        if is_runner(program, number):
            symbols.append(runner_loop(module, machine, f"runner_{number}_0", symbols[-1]))
    if any(resource.kind is ResourceKind.QUEUE for resource in program.resources.values()):
        symbols += [close(module, machine), stop(module, machine), hold(module, machine)]
        symbols += lock_entries(module, machine)
    symbols += [worker_entry(module, machine), stop_entry(module, machine)]
    elements = product_elements(others)
    routines = sorted({kernel.name for kernel in others if isinstance(kernel, RoutineKernel)})
    products = [gemm_library(machine, elements, widest(others), has_few_rows=has_few_rows(others))] if elements else []
    plain = [*products, *libraries(machine, planned)]
    entries, written_out = module.divided(AS_WRITTEN)
    texts, launches = [entries, *kernels.launches], list(kernels.launches.values())
    texts += [routine_library(machine, name) for name in routines]
    apart = [written_out] if written_out else []
    return LoweredText(texts, launches, plain, apart, symbols, lowering.spill_bytes, strands.bytes, polling)


def _strands(program: Program, sharing: Container[Kernel], spill: int, workspace: int) -> Strands:
    """The scratch memory of each part, which is that of a whole branch where some run at the same time. What all parts
    of a kernel share (packed filters, sums of parts) lies before their workspaces, for each branch anew if one launches
    such a kernel."""
    branches = [step for entry in program.entries for step in walk(entry.steps) if isinstance(step, Parallel)]
    launched = {each.kernel for each in walk(branches) if isinstance(each, Launch)}
    if not any(program.kernels[number] in sharing for number in launched):
        return Strands(0, workspace)
    return Strands(spill, aligned(spill + workspace))


def is_runner(program: Program, number: int) -> bool:
    """Whether an entry is one; programs without signatures have none."""
    return number < len(program.signatures) and program.signatures[number].copies > 0


def containers_of(program: Program) -> tuple[str, ...]:
    """The locks of state, in the order of the driver's table."""
    return lock_order(map(program.lock_of, program.resources))


def product_elements(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """Element types of the matrix products."""
    products = [as_product(kernel) for kernel in kernels if isinstance(kernel, ContractKernel)]
    elements = {one.element for one in products if one is not None}
    for kernel in kernels:
        elements.update(row_block_elements(kernel) if isinstance(kernel, RowBlockKernel) else ())
        elements.update((ELEMENT,) if isinstance(kernel, RoutineKernel) else ())
    return tuple(sorted(elements))


def widest(kernels: Sequence[Kernel]) -> int:
    """The most columns that a matrix product has, as far as sizes are known. One of a single column is made as one of a
    single row, whose columns are the rows."""
    columns = [0]
    for kernel in kernels:
        if isinstance(kernel, RowBlockKernel | RoutineKernel):
            return ANY_WIDTH
        matched = as_product(kernel) if isinstance(kernel, ContractKernel) else None
        if matched is not None:
            rows, width = (matched.kernel.axes[axis].extent.constant for axis in (matched.kernel.m, matched.kernel.n))
            known = rows if width == 1 else width
            columns.append(ANY_WIDTH if known is None else known)
    return max(columns)


def has_few_rows(kernels: Sequence[Kernel]) -> bool:
    """Whether a matrix product may have few rows; of one of a single column, that column is its only row. A number of
    rows that is none at all, or a multiple of many, is not few."""
    for kernel in kernels:
        if isinstance(kernel, RoutineKernel):
            return True
        parts = [step.kernel for step in kernel.steps] if isinstance(kernel, RowBlockKernel) else [kernel]
        for part in parts:
            matched = as_product(part) if isinstance(part, ContractKernel) else None
            if matched is not None:
                rows, width = (matched.kernel.axes[axis].extent for axis in (matched.kernel.m, matched.kernel.n))
                if _common_factor(rows) <= FEW_ROWS or _common_factor(width) == 1:
                    return True
    return False


def _common_factor(size: Dim) -> int:
    """The largest number of which it surely is a multiple, whatever its symbols are; 0 of 0."""
    return math.gcd(*(coefficient for _, coefficient in size.terms))


def workspace_bytes(kernels: Sequence[Kernel], machine: Machine) -> int:
    """Scratch memory of each part of a kernel."""
    products = [product_workspace_bytes(machine, element) for element in product_elements(kernels)]
    blocks = [row_block_workspace_bytes(machine, one) for one in kernels if isinstance(one, RowBlockKernel)]
    routines = [routine_workspace_bytes(machine) for one in kernels if isinstance(one, RoutineKernel)]
    return max([0, *products, *blocks, *routines])


class KernelTexts:
    """The kernels of a program, each as a module of its own: a part of that of the entries. `launches` are the texts,
    with the name by which each is launched; `loops` the plans of those that are loops."""

    def __init__(self, lowering: Lowering, loops: Mapping[LoopKernel, LoopPlan]) -> None:
        self._lowering = lowering
        self._loops = loops
        self.launches: dict[str, str] = {}

    def lower(self, kernel: Kernel) -> Launchable:
        """The functions of one kernel, or the plan by which it is written out at each launch."""
        faults = kernel_faults(kernel)
        if isinstance(kernel, RowBlockKernel):
            written = frozenset(n for n, operand in enumerate(kernel.operands) if operand.access != "read")
            return Launchable(self._launch(lambda part: lower_row_blocks(part, kernel, 0)), None, faults, written)
        if isinstance(kernel, RoutineKernel):
            written = frozenset(n for n, operand in enumerate(kernel.operands) if operand.access != "read")
            return Launchable(self._launch(lambda part: lower_routine(part, kernel, 0)), None, faults, written)
        if isinstance(kernel, ContractKernel):
            written = frozenset(store.operand for store in kernel.stores)
            return Launchable(self._launch(lambda part: lower_contraction(part, kernel, 0)), None, faults, written)
        written = written_operands(kernel.stages)
        plan = self._loops[kernel]
        if not kernel.axes:
            return Launchable("", plan, faults, written)
        lower = _lowering_of(plan)
        return Launchable(self._launch(lambda part: lower(part, plan, 0)), None, faults, written)

    def _launch(self, lower: Callable[[Lowering], str]) -> str:
        whole = self._lowering
        part = whole.part()
        own = lower(part)
        if own != LAUNCH:
            raise CodeGenerationError(f"a kernel is launched by {own}, not {LAUNCH}")
        name = self.launches.setdefault(part.module.text(), f"run_{len(self.launches)}")
        whole.module.declare_hidden(name, "void", ["ptr", "ptr"])
        return name


def _lowering_of(plan: LoopPlan) -> Callable[[Lowering, LoopPlan, int], str]:
    """How a kernel of loops is shared out over threads."""
    if is_whole(plan):
        return lower_whole_kernel
    return lower_by_whole_rows if done_by_whole_rows(plan) else lower_loop_plan


LAUNCH = "run_0"
"""How each module of a kernel calls the function that launches it."""


AS_WRITTEN = "noinline nounwind optnone"
"""What tells LLVM to write a function out as it stands."""
MANY_LAUNCHES = 48
"""Launches in a function from which on LLVM does nothing for it but write it out. Where there are so many, a call
takes long beside the two nanoseconds that each launch takes longer, and LLVM takes most of a second for thousands."""


LAUNCHES_A_SCALAR = 16
"""Launches for each piece of scalar code among them, a learning rate, say, that is then written out like them. Where
there are fewer, such code is what has to be fast."""


def _only_launches(scope: EntryScope, steps: Sequence[AnyStep]) -> bool:
    """Whether steps are many launches, none in a loop of their own, with hardly any scalar code."""
    direct = list(direct_steps(steps))
    inline = [scope.launchables[step.kernel].inline is not None for step in direct if isinstance(step, Launch)]
    if len(inline) < MANY_LAUNCHES or any(isinstance(step, For | While) for step in direct):
        return False
    return sum(inline) * LAUNCHES_A_SCALAR <= len(inline)


def lower_entry(scope: EntryScope, layout: EntryLayout) -> str:
    """The native function of one entry; its name."""
    steps = layout.steps
    _lower_outlined(scope, steps)
    code = StepCode(scope, f"entry_{scope.number}_0", "external", frame_words(steps, scope.program.sites))
    code.clear_error()
    code.steps(steps)
    return code.finish()


def _lower_outlined(scope: EntryScope, steps: Sequence[AnyStep]) -> None:
    """Functions called from these steps, innermost first."""
    pending = outlined_in(steps)
    order: list[Outlined] = []
    while pending:
        one = pending.pop()
        order.append(one)
        inner = outlined_in(one.steps)
        for each in inner:
            each.in_branch = each.in_branch or one.in_branch
        pending.extend(inner)
    for one in reversed(order):
        words = frame_words(one.steps, scope.program.sites)
        attributes = AS_WRITTEN if _only_launches(scope, one.steps) else "nounwind"
        code = StepCode(scope, f"steps_{scope.number}", "internal", words, attributes, in_branch=one.in_branch)
        code.steps(one.steps)
        one.function = code.finish()
