"""Branches that run at the same time: one job for the pool, whose parts are threads that take branch after branch.

    i64 parallel(context, slots, i1 apart)              0, or 1 if the call is to leave
    void take_branches(context, job, part, parts)       one thread's share
    i64 branch(context, slots, record)                  the steps of one branch, 0 if they ended well

Each branch that runs beside others has a context of its own: a copy of the call's with one thread, no pool, the scratch
memory of the part that runs it, and an error record. So what kernels do in a branch is what they do in a call on one
thread. Through its record a branch finds the context of the call, where it asks whether it is to stop. Long branches
are taken first; which thread takes which is not determined. Where nothing is won (one thread, no pool, kernels large
enough to be shared out at the sizes of the call), the branches run one after the other in the context of the call.

Assumes branches that write nothing another one uses. Guarantees the fault of the first branch, in their order, that
fails: when one does, those behind it leave at their next iteration, since nobody waits for what they make.
"""

import ctypes
from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc_driver_cpu.context import CACHE_LINE, ERROR_PAYLOAD, Context
from dfc_target_cpu.entries.context_code import field_address, load_field, thread_pointer
from dfc_target_cpu.entries.frames import FRAME, PART
from dfc_target_cpu.entries.threads import pool_run
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.machine import Machine

RECORD = Parameter("ptr", "record")
_CALL, _IS_VAIN, _RECORD_BYTES = 0, 1, CACHE_LINE
"""Words of the record of a branch: the context of the call; not 0 once a branch before it has failed."""
_SLOTS, _NEXT, _FAILED, _HEAD_BYTES = 0, 1, 2, CACHE_LINE
"""Words of a job: the slots of the call, how many branches have been taken, the first that failed."""
_CONTEXT_BYTES = -(-ctypes.sizeof(Context) // CACHE_LINE) * CACHE_LINE
_CLEARED = ("attention", "leave", "committed", "stopping", "error_lock", "error_site")


@dataclass(frozen=True, slots=True)
class Strands:
    """Where the scratch memory of the part number p begins: `first` + p * `bytes` behind that of the call."""

    first: int
    bytes: int


def call_of(f: FunctionText, record: Value) -> Value:
    """The context of the call that a branch belongs to."""
    return f.load("ptr", f.gep("i64", record, i64(_CALL)))


def is_vain(f: FunctionText, record: Value) -> Value:
    """Whether a branch before this one has failed."""
    word = f.atomic_load("i64", f.gep("i64", record, i64(_IS_VAIN)), "monotonic")
    return f.icmp("ne", word, i64(0))


class ParallelCode:
    """The functions of one parallel step: `branches` are those of its branches, `costs` what they take."""

    def __init__(
        self, module: ModuleText, machine: Machine, branches: Sequence[str], costs: Sequence[int], strands: Strands
    ) -> None:
        self._module, self._machine, self._strands = module, machine, strands
        self._branches = branches
        self._longest_first = sorted(range(len(branches)), key=lambda number: (-costs[number], number))

    def build(self) -> str:
        """The name of the function that runs all branches."""
        formals = (Parameter("ptr", "context"), Parameter("ptr", "slots"), Parameter("i1", "apart"))
        f = self._module.function("parallel", "i64", formals, attributes="nounwind noinline")
        context, slots, apart = f.arguments
        count = len(self._branches)
        job = f.alloca("i8", count=_HEAD_BYTES + count * (_RECORD_BYTES + _CONTEXT_BYTES), align=CACHE_LINE)
        f.store(thread_pointer(self._module, f), field_address(f, Context, context, "caller"))
        for number in range(count):
            record = self._record(f, job, i64(number))
            f.store(context, f.gep("i64", record, i64(_CALL)))
            f.store(i64(0), f.gep("i64", record, i64(_IS_VAIN)))
        threads = load_field(f, context, "threads")
        has_pool = f.icmp("ne", load_field(f, context, "pool"), NULL)
        may_share = f.bit_and(f.bit_and(has_pool, f.icmp("sgt", threads, i64(1))), apart)
        together, alone = f.label("together"), f.label("alone")
        f.branch_if(may_share, together, alone)
        f.begin(together)
        for word, value in ((_SLOTS, slots), (_NEXT, i64(0)), (_FAILED, i64(count))):
            f.store(value, f.gep("i64", job, i64(word)))
        part = Value("ptr", f"@{self._module.add(self._take_branches())}")
        parts = f.minimum(threads, i64(count))
        f.call(pool_run(self._module, self._machine), "void", [context, part, job, parts])
        self._join(f, context, job)
        f.begin(alone)
        self._one_after_the_other(f, context, slots, job)
        return self._module.add(f)

    def _record(self, f: FunctionText, job: Value, number: Value) -> Value:
        return f.gep("i8", job, f.add(i64(_HEAD_BYTES), f.mul(number, i64(_RECORD_BYTES))))

    def _context(self, f: FunctionText, job: Value, number: Value) -> Value:
        first = _HEAD_BYTES + len(self._branches) * _RECORD_BYTES
        return f.gep("i8", job, f.add(i64(first), f.mul(number, i64(_CONTEXT_BYTES))))

    def _one_after_the_other(self, f: FunctionText, context: Value, slots: Value, job: Value) -> None:
        failed = f.label("failed")
        for number, branch in enumerate(self._branches):
            result = f.call(branch, "i64", [context, slots, self._record(f, job, i64(number))])
            fine = f.label("fine")
            f.branch_if(f.icmp("ne", result, i64(0)), failed, fine)
            f.begin(fine)
        f.ret(i64(0))
        f.begin(failed)
        f.ret(i64(1))

    def _join(self, f: FunctionText, context: Value, job: Value) -> None:
        """Hands on the fault of the first branch that failed."""
        failed = f.load("i64", f.gep("i64", job, i64(_FAILED)))
        some, none = f.label("some"), f.label("none")
        f.branch_if(f.icmp("slt", failed, i64(len(self._branches))), some, none)
        f.begin(some)
        branch = self._context(f, job, failed)
        f.store(load_field(f, branch, "error_site"), field_address(f, Context, context, "error_site"))
        source, target = (field_address(f, Context, each, "error_payload") for each in (branch, context))
        f.copy_memory(target, source, i64(8 * ERROR_PAYLOAD))
        f.ret(i64(1))
        f.begin(none)
        left = f.atomic_load("i64", field_address(f, Context, context, "leave"), "monotonic")
        f.ret(f.cast("zext", f.icmp("ne", left, i64(0)), "i64"))

    def _take_branches(self) -> FunctionText:
        f = self._module.function("take_branches", "void", (*FRAME, *PART), attributes="nounwind noinline")
        context, job, part = f.arguments[:3]
        again, take, over = (f.label(x) for x in ("again", "take", "over"))
        labels = [f.label(f"branch.{number}") for number in range(len(self._branches))]
        order = self._module.table("i64", self._longest_first, hint="order")
        f.branch(again)
        f.begin(again)
        taken = f.atomic_update("add", f.gep("i64", job, i64(_NEXT)), i64(1), "monotonic")
        f.branch_if(f.icmp("slt", taken, i64(len(self._branches))), take, over)
        f.begin(take)
        number = f.load("i64", f.gep("i64", order, taken))
        record, own = self._record(f, job, number), self._context(f, job, number)
        self._prepare(f, context, own, part)
        slots = f.load("ptr", f.gep("i64", job, i64(_SLOTS)))
        f.switch(number, over, list(enumerate(labels)))
        for position, (label, branch) in enumerate(zip(labels, self._branches, strict=True)):
            f.begin(label)
            result = f.call(branch, "i64", [own, slots, record])
            with f.when(f.icmp("ne", result, i64(0)), "failed"):
                f.atomic_update("min", f.gep("i64", job, i64(_FAILED)), i64(position), "monotonic")
                for behind in range(position + 1, len(self._branches)):
                    word = f.gep("i64", self._record(f, job, i64(behind)), i64(_IS_VAIN))
                    f.atomic_store(i64(1), word, "monotonic")
            f.branch(again)
        f.begin(over)
        f.ret()
        return f

    def _prepare(self, f: FunctionText, context: Value, own: Value, part: Value) -> None:
        """The context of a branch that this thread takes."""
        f.copy_memory(own, context, i64(ctypes.sizeof(Context)), align=8)
        f.store(i64(1), field_address(f, Context, own, "threads"))
        f.store(NULL, field_address(f, Context, own, "pool"))
        for field in _CLEARED:
            f.store(i64(0), field_address(f, Context, own, field))
        offset = f.add(i64(self._strands.first), f.mul(part, i64(self._strands.bytes)))
        scratch = f.gep("i8", load_field(f, context, "scratch"), offset)
        f.store(scratch, field_address(f, Context, own, "scratch"))
