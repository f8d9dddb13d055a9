"""Loop kernels as functions: the frame a launch fills in, the function over a range, the choice of parts.

A launch calls `void run_<n>(ptr context, ptr frame)`. The frame holds 8-byte words: the address of each operand, then
the value of each size symbol `d0`, `d1`, ... Guarantees that whether and how a kernel is cut into parts changes no
result, and that small kernels run on the calling thread without any detour.
"""

from dfc.ir.dims import ONE, Dim, product
from dfc.kernels.form import LoopKernel
from dfc_targets.cpu.context_code import load_field
from dfc_targets.cpu.llvm_text import FunctionText, Parameter, Value
from dfc_targets.cpu.llvm_values import i64, literal_int
from dfc_targets.cpu.lower_access import NONE
from dfc_targets.cpu.lower_frames import PART, FrameFunction, Lowering
from dfc_targets.cpu.lower_plan import LoopPlan, plan_loops, point_cost
from dfc_targets.cpu.lower_stages import LoopCode
from dfc_targets.cpu.threads import pool_run

RANGE = tuple(Parameter("i64", name) for name in ("outer0", "outer1", "first", "last"))
PART_WORK = 12_000
"""Vector instructions that are worth a part of their own: several times the price of waking a thread."""
PARTS_PER_THREAD = 2


def lower_loop_kernel(lowering: Lowering, kernel: LoopKernel, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    return lower_loop_plan(lowering, plan_loops(kernel, lowering.machine), number)


def lower_loop_plan(lowering: Lowering, plan: LoopPlan, number: int) -> str:
    ranged = _range_function(lowering, plan, number)
    return _run_function(lowering, plan, number, ranged)


def _range_function(lowering: Lowering, plan: LoopPlan, number: int) -> str:
    """`void kernel_<n>(context, frame, outer0, outer1, first, last)`."""
    function = FrameFunction(lowering, plan.kernel, f"kernel_{number}", RANGE)
    site = function.site()
    outer0, outer1, first, last = function.f.arguments[2:]
    whole = _whole_span(plan)
    if whole is not None:
        first, last = i64(0), i64(whole)
    LoopCode(site, plan).run((outer0, outer1), (first, last))
    return function.finish()


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
    everything = [function.context, function.frame, i64(0), outer, i64(0), width]
    parts = wanted_parts(f, function, plan)
    if parts is None:
        f.call(ranged, "void", everything)
        return function.finish()
    part_function = _part_function(lowering, plan, number, ranged)
    alone, several, done = f.label("alone"), f.label("several"), f.label("done")
    f.branch_if(f.icmp("sle", parts, i64(1)), alone, several)
    f.begin(alone)
    f.call(ranged, "void", everything)
    f.branch(done)
    f.begin(several)
    run = pool_run(lowering.module, lowering.machine)
    f.call(run, "void", [function.context, Value("ptr", f"@{part_function}"), function.frame, parts])
    f.branch(done)
    f.begin(done)
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
        points = product(plan.extents[axis] for axis in stage.inner) if stage.inner else ONE
        inner = inner + points * max(1, point_cost(stage.stage.body) + 2 * len(stage.stage.stores))
    return inner * product(plan.shape)


def wanted_parts(f: FunctionText, function: FrameFunction, plan: LoopPlan) -> Value | None:
    """How many parts the work is worth on this many threads; None if it is known to be too little."""
    lanes = max([plan.lanes, *(stage.lanes for stage in plan.stages)])
    unit = PART_WORK * lanes
    work = function.dims.value(work_formula(plan))
    known = literal_int(work)
    if (known is not None and known < 2 * unit) or not plan.shape:
        return None
    return parts_for(f, function.context, work, unit)


def parts_for(f: FunctionText, context: Value, work: Value, unit: int) -> Value:
    threads = load_field(f, context, "threads")
    most = f.select(f.icmp("sgt", threads, i64(1)), f.mul(threads, i64(PARTS_PER_THREAD)), i64(1))
    return f.minimum(f.assign("i64", f"udiv {work}, {unit}"), most)


def _part_function(lowering: Lowering, plan: LoopPlan, number: int, ranged: str) -> str:
    """`void part_<n>(context, frame, part, parts)`: an even share of the outer points, or of the vector axis where
    there are few of them."""
    function = FrameFunction(lowering, plan.kernel, f"part_{number}", PART)
    f, dims = function.f, function.dims
    function.begin()
    part, parts = f.arguments[2:]
    outer = dims.value(product(plan.extents[axis] for axis in plan.outer))
    width = dims.value(plan.extents[plan.vector]) if plan.vector != NONE else i64(1)
    if _whole_span(plan) is not None:
        spans = [*share(f, outer, 1, part, parts), i64(0), width]
    elif not plan.outer:
        spans = [i64(0), i64(1), *share(f, width, max(plan.lanes, 64), part, parts)]
    else:
        enough = f.icmp("sge", outer, f.mul(parts, i64(2)))
        rows, columns = share(f, outer, 1, part, parts), share(f, width, max(plan.lanes, 64), part, parts)
        whole = [i64(0), outer, i64(0), width]
        spans = [f.select(enough, rows[i], whole[i]) for i in range(2)]
        spans += [f.select(enough, whole[i + 2], columns[i]) for i in range(2)]
    f.call(ranged, "void", [function.context, function.frame, *spans])
    return function.finish()


def share(f: FunctionText, extent: Value, unit: int, part: Value, parts: Value) -> list[Value]:
    """Part number `part` of an extent cut evenly in whole units."""
    units = f.assign("i64", f"udiv {f.add(extent, i64(unit - 1))}, {unit}")
    borders: list[Value] = []
    for one in (part, f.add(part, i64(1))):
        border = f.assign("i64", f"udiv {f.mul(units, one)}, {parts.text}")
        borders.append(f.minimum(f.mul(border, i64(unit)), extent))
    return borders
