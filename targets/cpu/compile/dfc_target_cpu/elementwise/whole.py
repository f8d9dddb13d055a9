"""Loop kernels without outer axes: each stage is cut into its parts, which threads share, with a join between stages.

Assumes that no stage is ordered. Guarantees the order of `dfc.kernels.orders.reduction`: parts are combined one after
the other, so 1 or many threads give the same bits.

The record a part function gets holds 8-byte words: frame of the launch, address of the partial results, size of a part,
then one word for each result of a reduction.
"""

from collections.abc import Sequence

from dfc.kernels.access import NONE
from dfc.kernels.body import Reduced
from dfc.kernels.orders.reduction import MOST_PARTS
from dfc_target_cpu.elementwise.kernels import PART_WORK
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan, StagePlan, point_cost
from dfc_target_cpu.elementwise.stages import LoopCode, StageCode, typed_reductions
from dfc_target_cpu.elementwise.types import register_type
from dfc_target_cpu.entries.frames import FRAME, PART, FrameFunction, Lowering
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import Value
from dfc_target_cpu.llvm.values import i64

_RECORD = 3


def is_whole(plan: LoopPlan) -> bool:
    """Whether a kernel has no outer axes, and more than one part inside."""
    if plan.shape or plan.kernel.ordered or plan.vector != NONE:
        return False
    return any(stage.order.has_parts for stage in plan.stages)


def lower_whole_kernel(lowering: Lowering, plan: LoopPlan, number: int) -> str:
    """The functions of one kernel; the name to launch it by."""
    blocks = [_Block(lowering, plan, number, stage).build() for stage in range(len(plan.stages))]
    return _Run(lowering, plan, number, blocks).build()


def results(plan: LoopPlan) -> list[tuple[int, int]]:
    """(stage, reduction) of every result, in the order of their words."""
    return [(s, r) for s, stage in enumerate(plan.stages) for r in range(len(stage.order.stage.reductions))]


def components(stage: StagePlan) -> list[str]:
    """The types of one block's partial results."""
    return [kind for fold in typed_reductions(stage) for kind in fold.types(1)]


class _Block(FrameFunction):
    """`void block_<n>_<stage>(context, record, part, parts)`: one block of one stage."""

    def __init__(self, lowering: Lowering, plan: LoopPlan, number: int, stage: int) -> None:
        super().__init__(lowering, plan.kernel, f"block_{number}_{stage}", PART)
        self.plan, self.number = plan, stage

    def find_frame(self) -> tuple[Value, Value]:
        context, record = self.f.arguments[:2]
        return context, self.f.load("ptr", record)

    def build(self) -> str:
        f, plan = self.f, self.plan
        record, part = f.arguments[1], f.arguments[2]
        code = LoopCode(self.site(), plan)
        stage, point = code.stages[self.number], code.first_points()[self.number]
        words = results(plan)
        for one in plan.stages[self.number].order.stage.body:
            if isinstance(one.operation, Reduced):
                key = (one.operation.stage, one.operation.reduction)
                address = f.gep("i64", record, i64(_RECORD + words.index(key)))
                point.reduced[key] = f.load(register_type(one.dtype), address)
        stage.body.emit(0, point)
        total = [value for one in stage.part(point, self._span(stage, record, part)) for value in one]
        partials = f.load("ptr", f.gep("i64", record, i64(1)))
        for position, value in enumerate(total):
            index = f.add(f.mul(part, i64(len(total))), i64(position))
            f.store(value, f.gep("i64", partials, index))
        return self.finish()

    def _span(self, stage: StageCode, record: Value, part: Value) -> tuple[Value, Value] | None:
        f = self.f
        if not stage.plan.order.axes:
            return None
        size = f.load("i64", f.gep("i64", record, i64(2)))
        first = f.mul(part, size)
        return first, f.minimum(f.add(first, size), stage.extents[stage.plan.order.axes[0]])


class _Run(FrameFunction):
    """`void run_<n>(context, frame)`: all stages, one after the other."""

    def __init__(self, lowering: Lowering, plan: LoopPlan, number: int, blocks: Sequence[str]) -> None:
        super().__init__(lowering, plan.kernel, f"run_{number}", (), "hidden", FRAME)
        self.plan, self.blocks = plan, blocks

    def build(self) -> str:
        f = self.f
        self.begin()
        most = max(len(components(stage)) for stage in self.plan.stages)
        self.partials = f.alloca("i64", count=max(1, most * (MOST_PARTS + 1)), align=64)
        self.record = f.alloca("i64", count=_RECORD + len(results(self.plan)), align=8)
        f.store(self.frame, self.record)
        f.store(self.partials, f.gep("i64", self.record, i64(1)))
        word = _RECORD
        for number, stage in enumerate(self.plan.stages):
            blocks = self._run_blocks(number, stage)
            self._combine(stage, blocks, word)
            word += len(stage.order.stage.reductions)
        return self.finish()

    def _run_blocks(self, number: int, stage: StagePlan) -> Value:
        """Every block of a stage, on several threads where that is worth it; their number."""
        f = self.f
        name = self.blocks[number]
        if not stage.order.axes:
            f.call(name, "void", [self.context, self.record, i64(0), i64(1)])
            return i64(1)
        count, size = self.dims.value(stage.order.parts), self.dims.value(stage.order.part)
        f.store(size, f.gep("i64", self.record, i64(2)))
        cost = max(1, point_cost(stage.order.stage.body) + 2 * len(stage.order.stage.stores))
        points = self.dims.value(stage.order.points)
        large = f.icmp("sge", f.mul(points, i64(cost)), i64(2 * PART_WORK * stage.lanes))
        several, alone, done = (f.label(x) for x in ("several", "alone", "done"))
        f.branch_if(large, several, alone)
        f.begin(several)
        run = pool_run(self.lowering.module, self.lowering.machine)
        f.call(run, "void", [self.context, Value("ptr", f"@{name}"), self.record, count])
        f.branch(done)
        f.begin(alone)
        with f.counted_loop(i64(0), count, hint="block") as loop:
            f.call(name, "void", [self.context, self.record, loop.index, count])
        f.branch(done)
        f.begin(done)
        return count

    def _combine(self, stage: StagePlan, blocks: Value, word: int) -> None:
        """Partial results in the order of the blocks, as results in the record."""
        f, kinds, position = self.f, components(stage), 0
        for fold in typed_reductions(stage):
            types = fold.types(1)
            with f.counted_loop(i64(0), blocks, hint="partial") as loop:
                carried = [loop.carry(start) for start in fold.identity(1)]
                base = f.add(f.mul(loop.index, i64(len(kinds))), i64(position))
                slots = [f.gep("i64", self.partials, f.add(base, i64(i))) for i in range(len(types))]
                new = [f.load(kind, slot) for kind, slot in zip(types, slots, strict=True)]
                for old, following in zip(carried, fold.combine(f, carried, new), strict=True):
                    loop.next(old, following)
            total = fold.result(f, [loop.result(one) for one in carried])
            f.store(total, f.gep("i64", self.record, i64(word)))
            position, word = position + len(types), word + 1
