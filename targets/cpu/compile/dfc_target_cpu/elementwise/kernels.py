"""Loop kernels as functions: the function over a range, and the choice of parts.

A launch calls `void run_<n>(ptr context, ptr frame)`. Guarantees that whether and how a kernel is cut into parts
changes no result, and that small kernels run on the calling thread without any detour.
"""

import functools

from dfc.ir.dims import Dim, product
from dfc.kernels.access import NONE
from dfc.kernels.form import LoopKernel
from dfc_target_cpu.elementwise.accesses import EmissionSite
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, plan_loops, point_cost
from dfc_target_cpu.elementwise.stages import LoopCode
from dfc_target_cpu.entries.context_code import load_field
from dfc_target_cpu.entries.frames import FRAME, PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import MOST_PARTS, pool_run
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, literal_int
from dfc_target_cpu.machine import Machine

RANGE = tuple(Parameter("i64", name) for name in ("outer0", "outer1", "first", "last"))
PART_WORK = 12_000
"""Vector instructions that are worth a part of their own: several times the price of waking a thread."""
PARTS_PER_THREAD = 8
"""So many that a core which other processes share does not hold the others back for long."""
_LONGEST_PART = 13
"""Binary digits of the units of `PART_WORK` in a part: some 50 ms, between which a call can be stopped."""
_GATHER_LANES = 256
"""Length of the pieces of the vector axis where lanes read from rows of their own."""
_JOB = ("frame", "kernel", "outer", "width", "unit")


def lower_loop_kernel(lowering: Lowering, kernel: LoopKernel, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    return lower_loop_plan(lowering, plan_loops(kernel, lowering.machine), number)


def lower_loop_plan(lowering: Lowering, plan: LoopPlan, number: int) -> str:
    return _run_function(lowering, plan, number, range_function(lowering, plan, number))


def range_function(lowering: Lowering, plan: LoopPlan, number: int, *, any_span: bool = False) -> str:
    """`void kernel_<n>(context, frame, outer0, outer1, first, last)`. With `any_span` callers may ask for any
    range of the vector axis, else for all of it if it is short."""
    function = FrameFunction(lowering, plan.kernel, f"kernel_{number}", RANGE)
    site, f = function.site(), function.f
    outer0, outer1, first, last = f.arguments[2:]
    whole = None if any_span else _whole_span(plan)
    if whole is not None:
        first, last = i64(0), i64(whole)
    if plan.wide > 1:
        border = _whole_steps(f, first, last, plan.lanes * plan.wide)
        LoopCode(site, plan.widened()).run((outer0, outer1), (first, border), exact=True)
        first = border
    for most, short in plan.short_rows():
        _leave_with_short_rows(site, plan, most, short, (outer0, outer1))
    code = LoopCode(site, plan)
    if plan.is_gathered and plan.outer:
        with f.counted_loop(first, last, _GATHER_LANES, "piece") as loop:
            code.run((outer0, outer1), (loop.index, f.minimum(f.add(loop.index, i64(_GATHER_LANES)), last)))
    else:
        code.run((outer0, outer1), (first, last))
    return function.finish()


def _leave_with_short_rows(
    site: EmissionSite, plan: LoopPlan, most: int, short: LoopPlan, outer: tuple[Value, Value]
) -> None:
    """Does everything by `short` and returns, if no row is empty, nor longer than `most`."""
    f, here, further = site.f, site.f.label("short"), site.f.label("longer")
    rows = [f.sub(site.dims.value(row), i64(1)) for row in plan.unknown_rows()]
    is_short = [f.icmp("ult", row, i64(most)) for row in rows]
    f.branch_if(functools.reduce(f.bit_and, is_short), here, further)
    f.begin(here)
    LoopCode(site, short).run(outer, (i64(0), i64(1)))
    f.ret()
    f.begin(further)


def _whole_steps(f: FunctionText, first: Value, last: Value, step: int) -> Value:
    """Where the whole steps of a range end."""
    known_first, known_last = literal_int(first), literal_int(last)
    if known_first is not None and known_last is not None:
        return i64(known_first + max(0, known_last - known_first) // step * step)
    return f.add(first, f.bit_and(f.maximum(f.sub(last, first), i64(0)), i64(-step)))


def _whole_span(plan: LoopPlan) -> int | None:
    """The extent of the vector axis if it is a small number, never cut, and known while compiling."""
    if plan.vector == NONE:
        return 1
    extent = plan.extents[plan.vector].constant
    return extent if extent is not None and plan.outer and extent <= 1 << 14 else None


def _run_function(lowering: Lowering, plan: LoopPlan, number: int, ranged: str) -> str:
    function = FrameFunction(lowering, plan.kernel, f"run_{number}", (), "hidden")
    f, dims = function.f, function.dims
    function.begin()
    outer = dims.value(product(plan.extents[axis] for axis in plan.outer))
    width = dims.value(plan.extents[plan.vector]) if plan.vector != NONE else i64(1)
    _skip_if_empty(f, f.mul(outer, width))
    split_width = i64(1) if _whole_span(plan) is not None else width
    work, unit = dims.value(work_formula(plan)), _part_unit(plan)
    known = literal_int(work)
    if (known is not None and known < 2 * unit) or not plan.shape:
        f.call(ranged, "void", [function.context, function.frame, i64(0), outer, i64(0), split_width])
        return function.finish()
    useful_parts = f.udiv(work, i64(unit))
    arguments = [Value("ptr", f"@{ranged}"), outer, split_width, i64(_width_unit(plan)), useful_parts]
    f.call(launch_loops(lowering.module, lowering.machine), "void", [function.context, function.frame, *arguments])
    return function.finish()


def _skip_if_empty(f: FunctionText, points: Value) -> None:
    """No outer point: not even what is hoisted out of the loops may be read."""
    if literal_int(points):
        return
    empty, some = f.label("empty"), f.label("some")
    f.branch_if(f.icmp("sle", points, i64(0)), empty, some)
    f.begin(empty)
    f.ret()
    f.begin(some)


def work_formula(plan: LoopPlan) -> Dim:
    """Lane instructions of the whole kernel, as a formula in its sizes."""
    inner = Dim(())
    for stage in plan.stages:
        one = stage.order
        inner = inner + one.points * max(1, point_cost(one.stage.body) + 2 * len(one.stage.stores))
    return inner * product(plan.shape)


def _part_unit(plan: LoopPlan) -> int:
    return PART_WORK * max([plan.lanes, *(stage.lanes for stage in plan.stages)])


def _width_unit(plan: LoopPlan) -> int:
    """What the vector axis is cut in: more than a vector where its memory is passed over once only."""
    return plan.lanes if any(stage.order.axes for stage in plan.stages) else max(plan.lanes, 64)


def launch_loops(module: ModuleText, machine: Machine) -> str:
    """`void (context, frame, kernel, outer, width, unit, worth)`: run a range function over everything, in parts where
    the work is worth several; `unit`: what the width is cut in."""
    return module.shared("launch_loops", lambda module: _launch_loops(module, machine))


def _launch_loops(module: ModuleText, machine: Machine) -> FunctionText:
    extra = [Parameter("ptr", "kernel"), *(Parameter("i64", name) for name in ("outer", "width", "unit", "worth"))]
    f = module.function("launch_loops", "void", (*FRAME, *extra), attributes="nounwind noinline")
    context, frame, kernel, outer, width, unit, useful_parts = f.arguments
    threads = load_field(f, context, "threads")
    most = f.select(f.icmp("sgt", threads, i64(1)), f.mul(threads, i64(PARTS_PER_THREAD)), i64(1))
    most = f.maximum(most, f.minimum(f.lshr(useful_parts, i64(_LONGEST_PART)), i64(MOST_PARTS)))
    most = f.minimum(most, f.maximum(outer, f.udiv(f.add(width, f.sub(unit, i64(1))), unit)))
    parts = f.minimum(useful_parts, most)
    alone, several = f.label("alone"), f.label("several")
    f.branch_if(f.icmp("sle", parts, i64(1)), alone, several)
    f.begin(alone)
    f.call_pointer(kernel, "void", [context, frame, i64(0), outer, i64(0), width])
    f.ret()
    f.begin(several)
    job = f.alloca("i64", count=len(_JOB), align=8)
    for index, word in enumerate((frame, kernel, outer, width, unit)):
        f.store(word, f.gep("i64", job, i64(index)))
    part = Value("ptr", f"@{module.define('part_loops', lambda: _part_loops(module))}")
    f.call(pool_run(module, machine), "void", [context, part, job, parts])
    f.ret()
    return f


def _part_loops(module: ModuleText) -> FunctionText:
    """`void (context, job, part, parts)`: an even share of the outer points, or of the width where they are few."""
    f = module.function("part_loops", "void", (*FRAME, *PART))
    context, job, part, parts = f.arguments
    kinds = ("ptr", "ptr", "i64", "i64", "i64")
    words = [f.load(kind, f.gep("i64", job, i64(index))) for index, kind in enumerate(kinds)]
    frame, kernel, outer, width, unit = words
    narrow = f.bit_and(f.icmp("sle", width, unit), f.icmp("sgt", outer, i64(1)))
    by_rows = f.bit_or(f.icmp("sge", outer, f.mul(parts, i64(2))), narrow)
    rows, columns = share(f, outer, i64(1), part, parts), share(f, width, unit, part, parts)
    whole = [i64(0), outer, i64(0), width]
    spans = [f.select(by_rows, rows[i], whole[i]) for i in range(2)]
    spans += [f.select(by_rows, whole[i + 2], columns[i]) for i in range(2)]
    f.call_pointer(kernel, "void", [context, frame, *spans])
    f.ret()
    return f


def share(f: FunctionText, extent: Value, unit: Value, part: Value, parts: Value) -> list[Value]:
    """Part number `part` of an extent cut evenly in whole units."""
    units = f.udiv(f.add(extent, f.sub(unit, i64(1))), unit)
    borders: list[Value] = []
    for one in (part, f.add(part, i64(1))):
        borders.append(f.minimum(f.mul(f.udiv(f.mul(units, one), parts), unit), extent))
    return borders
