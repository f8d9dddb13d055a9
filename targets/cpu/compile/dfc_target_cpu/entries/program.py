"""A scheduled program as LLVM text: its kernels once each, its entries, and the functions the driver asks for.

Assumes a verified program. Guarantees the same text for the same program, machine by machine; `entry_<i>_0` for every
entry, `dfc_worker` and `dfc_stop` for the threads.
"""

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.access import written_operands
from dfc.kernels.contractions import as_product, kernel_faults
from dfc.kernels.form import ContractKernel, Kernel
from dfc.kernels.program import Program, lock_order
from dfc.kernels.programs.interruption import Polling, plan_polling
from dfc.kernels.programs.outline import AnyStep, EntryLayout, Outlined, frame_words, lay_out, outlined_in
from dfc_target_cpu.elementwise.kernels import lower_loop_plan
from dfc_target_cpu.elementwise.loop_schedule import plan_loops
from dfc_target_cpu.elementwise.whole import is_whole, lower_whole_kernel
from dfc_target_cpu.entries.frames import Lowering
from dfc_target_cpu.entries.steps import EntryScope, Launchable, StepCode
from dfc_target_cpu.entries.threads import stop_entry, worker_entry
from dfc_target_cpu.llvm.text import ModuleText
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.contraction import lower_contraction, product_workspace_bytes
from dfc_target_cpu.product.gemm_library import gemm_library


@dataclass(slots=True)
class LoweredText:
    """Module texts of one variant, and what the driver must know."""

    texts: list[str]
    libraries: list[str]
    symbols: list[str]
    spill_bytes: int
    workspace_bytes: int
    polling: list[Polling]


def lower_program(program: Program, machine: Machine, constant_offsets: Sequence[int]) -> LoweredText:
    """All modules of a program for one machine."""
    module = ModuleText(machine.triple)
    layouts = [lay_out(entry) for entry in program.entries]
    spill = max((layout.spill_bytes for layout in layouts), default=0)
    lowering = Lowering.of(module, machine, spill)
    launchables = [lower_kernel(lowering, kernel, number) for number, kernel in enumerate(program.kernels)]
    resources = {name: number for number, name in enumerate(program.resources)}
    containers = containers_of(program)
    symbols: list[str] = []
    polling = [plan_polling(program, number, layout.steps) for number, layout in enumerate(layouts)]
    for number, (entry, layout) in enumerate(zip(program.entries, layouts, strict=True)):
        shared = (lowering, program, entry, number, launchables, resources, containers, constant_offsets)
        scope = EntryScope(*shared, layout.spilled, polling[number])
        symbols.append(lower_entry(scope, layout))
    symbols += [worker_entry(module, machine), stop_entry(module, machine)]
    elements = product_elements(program.kernels)
    libraries = [gemm_library(machine, elements)] if elements else []
    workspace = max((product_workspace_bytes(machine, element) for element in elements), default=0)
    return LoweredText([module.text()], libraries, symbols, spill, workspace, polling)


def containers_of(program: Program) -> tuple[str, ...]:
    """The containers of state, in the order of the driver's table of locks."""
    return lock_order(resource.container for resource in program.resources.values())


def product_elements(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """Element types of the matrix products."""
    products = [as_product(kernel) for kernel in kernels if isinstance(kernel, ContractKernel)]
    return tuple(sorted({one.element for one in products if one is not None}))


def lower_kernel(lowering: Lowering, kernel: Kernel, number: int) -> Launchable:
    """The functions of one kernel, or the plan by which it is written out at each launch."""
    if isinstance(kernel, ContractKernel):
        name = lower_contraction(lowering, kernel, number)
        written = frozenset(store.operand for store in kernel.stores)
        return Launchable(name, None, kernel_faults(kernel), written)
    faults = kernel_faults(kernel)
    written = written_operands(kernel.stages)
    if not kernel.axes:
        return Launchable("", plan_loops(kernel, lowering.machine), faults, written)
    plan = plan_loops(kernel, lowering.machine)
    lower = lower_whole_kernel if is_whole(plan) else lower_loop_plan
    return Launchable(lower(lowering, plan, number), None, faults, written)


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
        pending.extend(outlined_in(one.steps))
    for one in reversed(order):
        words = frame_words(one.steps, scope.program.sites)
        code = StepCode(scope, f"steps_{scope.number}", "internal", words)
        code.steps(one.steps)
        one.function = code.finish()
