"""Fork and join inside generated code: `pool_run` for kernels, `dfc_worker` for the threads of the host.

Assumes a `Pool` as in `context.py`; the host's threads enter `dfc_worker` and stay. Guarantees that every part runs
exactly once before `pool_run` returns, unless the call is stopping, whatever the number of workers (none: the caller
runs all parts; pool taken by another caller, or a nested call: likewise). Which thread runs a part is not determined,
so parts must not care.

A caller publishes (function, context, frame) and then one word (generation, parts, next part); whoever raises the
next part by compare-exchange runs it. The job cannot end before a claimed part is done, so what a claimant reads after
its claim belongs to that job. Waiting is spinning for a while, then sleeping on a futex.

Calls that fork are counted until they end or wait. Where there are more of them than workers, each computes alone: the
processors are taken, and a worker would only keep one of the callers from its own.

Who wakes sleeping workers first keeps them off its own processor, where the pool has masks for that: a system that was
busy a moment ago does not look for an idle processor, and would put them behind the caller until it is done.
"""

from collections.abc import Mapping

from dfc_driver_cpu.context import Context, Pool, llvm_type_of, offset_of
from dfc_target_cpu.entries import futexes
from dfc_target_cpu.entries.context_code import asked_to_leave, field_address, load_field, thread_pointer
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i32, i64
from dfc_target_cpu.machine import Machine

WORKER_ENTRY = "dfc_worker"
STOP_ENTRY = "dfc_stop"
MOST_PARTS = 0xFFFF

_WORKER_SPINS = 3000
_CALLER_SPINS = 20000
_NAP = (0, 50_000_000)
"""How long a caller sleeps at most, seconds and nanoseconds: then it looks whether its call is to stop, for parts that
are loops."""
_GET_PROCESSOR_NUMBER = {"x86_64": 309, "aarch64": 168}
_SET_AFFINITY_NUMBER = {"x86_64": 203, "aarch64": 122}


def pool_run(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context, ptr function, ptr frame, i64 parts)`: run `function(context, frame, part, parts)` for all."""
    return module.shared("pool_run", lambda module: _PoolRun(module, machine).build())


def pool_leave(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context)`: the call is not among the users of the pool any more, until it forks again."""
    return module.shared("pool_leave", lambda module: _leave(module, machine))


def _leave(module: ModuleText, machine: Machine) -> FunctionText:
    code = _PoolCode(module, machine)
    f = module.function("pool_leave", "void", [Parameter("ptr", "context")], attributes="nounwind")
    (context,) = f.arguments
    used = field_address(f, Context, context, "uses_pool")
    with f.when(f.icmp("ne", f.load("i32", used), i32(0)), "counted"):
        f.store(i32(0), used)
        f.atomic_update("sub", code.address(f, load_field(f, context, "pool"), "users"), i32(1), "monotonic")
    f.ret()
    return f


def worker_entry(module: ModuleText, machine: Machine) -> str:
    """`void dfc_worker(ptr pool)`, visible outside: serves jobs until the pool's `stop` is set."""
    return module.define(WORKER_ENTRY, lambda: _Worker(module, machine).build())


def stop_entry(module: ModuleText, machine: Machine) -> str:
    """`void dfc_stop(ptr pool)`, visible outside: makes the workers leave once the job at hand is done."""
    return module.define(STOP_ENTRY, lambda: _stop(module, machine))


def _stop(module: ModuleText, machine: Machine) -> FunctionText:
    code = _PoolCode(module, machine)
    f = module.function(STOP_ENTRY, "void", [Parameter("ptr", "pool")], linkage="external")
    (pool,) = f.arguments
    code.store(f, pool, "stop", i64(1), "seq_cst")
    f.atomic_update("add", code.address(f, pool, "claims"), i64(1 << 32), "seq_cst")
    code.wake(f, pool, "claims")
    f.ret()
    return f


class _PoolCode:
    """What caller and worker share: fields of the pool, pause, sleep, running one claimed part."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module, self.machine = module, machine

    def address(self, f: FunctionText, pool: Value, field: str) -> Value:
        return field_address(f, Pool, pool, field)

    def load(self, f: FunctionText, pool: Value, field: str, order: str = "acquire") -> Value:
        return f.atomic_load(llvm_type_of(Pool, field), self.address(f, pool, field), order)

    def store(self, f: FunctionText, pool: Value, field: str, value: Value, order: str = "release") -> None:
        f.atomic_store(value, self.address(f, pool, field), order)

    def pause(self, f: FunctionText) -> None:
        futexes.pause(self.module, f, self.machine)

    def sleep(self, f: FunctionText, pool: Value, field: str, seen: Value, limit: Value = NULL) -> None:
        """Sleeps while the field has the value seen (i64); of a 64-bit field, its upper half."""
        futexes.sleep(f, self.machine, *self._word(f, pool, field), seen, limit)

    def call_system(self, f: FunctionText, pool: Value, numbers: Mapping[str, int], operands: str) -> None:
        """A call whose failure changes nothing."""
        syscall = f.load("ptr", self.address(f, pool, "syscall"))
        number = numbers[futexes.architecture_of(self.machine)]
        f.assign("i64", f"call i64 (i64, ...) {syscall.text}(i64 {number}, {operands})")

    def wake(self, f: FunctionText, pool: Value, field: str) -> None:
        futexes.wake(f, self.machine, *self._word(f, pool, field))

    def _word(self, f: FunctionText, pool: Value, field: str) -> tuple[Value, Value]:
        """The system call, and the word of a field to sleep on."""
        upper_half = 4 if llvm_type_of(Pool, field) == "i64" else 0
        word = f.gep("i8", pool, i64(offset_of(Pool, field) + upper_half))
        return f.load("ptr", self.address(f, pool, "syscall")), word

    def run_claimed(self, f: FunctionText, pool: Value, part: Value, parts: Value) -> None:
        """Run one part, if the call is not stopping, then count it as done."""
        function = f.load("ptr", self.address(f, pool, "function"))
        context = f.load("ptr", self.address(f, pool, "context"))
        frame = f.load("ptr", self.address(f, pool, "frame"))
        leave = f.atomic_load("i64", field_address(f, Context, context, "leave"), "monotonic")
        with f.when(f.icmp("eq", leave, i64(0)), "wanted"):
            f.call_pointer(function, "void", [context, frame, part, parts])
        f.atomic_update("add", self.address(f, pool, "done"), i32(1), "seq_cst")

    def try_claim(self) -> str:
        """`i64 (ptr pool)`: the claimed part + (parts << 16), or -1 when nothing is left."""
        return self.module.define("pool_claim", self._try_claim)

    def _try_claim(self) -> FunctionText:
        f = self.module.function("pool_claim", "i64", [Parameter("ptr", "pool")])
        (pool,) = f.arguments
        again, attempt, nothing, claimed = (f.label(x) for x in ("again", "attempt", "nothing", "claimed"))
        f.branch(again)
        f.begin(again)
        word = self.load(f, pool, "claims")
        part, parts = unpack_claims(f, word)
        f.branch_if(f.icmp("ult", part, parts), attempt, nothing)
        f.begin(attempt)
        _, success = f.compare_exchange(self.address(f, pool, "claims"), word, f.add(word, i64(1)))
        f.branch_if(success, claimed, again)
        f.begin(claimed)
        f.ret(f.bit_and(word, i64(0xFFFFFFFF)))
        f.begin(nothing)
        f.ret(i64(-1))
        return f


def unpack_claims(f: FunctionText, word: Value) -> tuple[Value, Value]:
    """Next part and number of parts."""
    part = f.bit_and(word, i64(0xFFFF))
    return part, f.bit_and(f.lshr(word, i64(16)), i64(0xFFFF))


class _PoolRun(_PoolCode):
    """The calling side."""

    def build(self) -> FunctionText:
        formals = (Parameter("ptr", "context"), Parameter("ptr", "function"), Parameter("ptr", "frame"))
        f = self.module.function("pool_run", "void", (*formals, Parameter("i64", "parts")))
        context, parts = f.arguments[0], f.arguments[3]
        f.store(thread_pointer(self.module, f), field_address(f, Context, context, "caller"))
        alone, try_pool, check, count, take, own = (
            f.label(x) for x in ("alone", "pool", "check", "count", "take", "own")
        )
        f.branch_if(f.icmp("sle", parts, i64(1)), alone, try_pool)
        f.begin(try_pool)
        pool = load_field(f, context, "pool")
        too_many = f.icmp("sgt", parts, i64(MOST_PARTS))
        f.branch_if(f.bit_or(too_many, f.icmp("eq", pool, NULL)), alone, check)
        f.begin(check)
        workers = self.load(f, pool, "workers")
        f.branch_if(f.icmp("sgt", workers, i64(0)), count, alone)
        f.begin(count)
        self._count(f, context, pool)
        users = f.cast("sext", self.load(f, pool, "users", "monotonic"), "i64")
        f.branch_if(f.icmp("sle", users, workers), take, alone)
        f.begin(take)
        _, free = f.compare_exchange(self.address(f, pool, "busy"), i32(0), i32(1))
        f.branch_if(free, own, alone)
        f.begin(own)
        self._publish(f, pool)
        self._work(f, pool)
        self._wait(f, pool)
        self.store(f, pool, "busy", i32(0))
        f.ret()
        f.begin(alone)
        self._run_all(f)
        f.ret()
        return f

    def _count(self, f: FunctionText, context: Value, pool: Value) -> None:
        """The call is among the users of the pool. Nested forks of other threads see that it is already."""
        used = field_address(f, Context, context, "uses_pool")
        with f.when(f.icmp("eq", f.load("i32", used), i32(0)), "new"):
            f.store(i32(1), used)
            f.atomic_update("add", self.address(f, pool, "users"), i32(1), "monotonic")

    def _publish(self, f: FunctionText, pool: Value) -> None:
        context, function, frame, parts = f.arguments
        for field, value in (("function", function), ("context", context), ("frame", frame)):
            f.store(value, self.address(f, pool, field))
        self.store(f, pool, "done", i32(0), "monotonic")
        old = self.load(f, pool, "claims", "monotonic")
        generation = f.bit_and(f.add(old, i64(1 << 32)), i64(~0xFFFFFFFF))
        word = f.bit_or(generation, f.shl(parts, i64(16)))
        f.atomic_update("xchg", self.address(f, pool, "claims"), word, "seq_cst")
        with f.when(f.icmp("sgt", self.load(f, pool, "sleepers", "seq_cst"), i32(0)), "wake"):
            f.call(self.module.define("pool_keep_apart", self._keep_apart), "void", [pool])
            self.wake(f, pool, "claims")

    def _keep_apart(self) -> FunctionText:
        """`void (ptr pool)`: from now on workers run on any processor of the process but the caller's."""
        f = self.module.function(
            "pool_keep_apart", "void", [Parameter("ptr", "pool")], attributes="nounwind noinline cold"
        )
        (pool,) = f.arguments
        here = f.alloca("i32")
        f.store(i32(0), here)
        workers = self.load(f, pool, "workers")  # before the masks: there are none once workers are too many
        masks = self.load(f, pool, "masks")
        with f.when(f.icmp("ne", masks, NULL), "masks"):
            self.call_system(f, pool, _GET_PROCESSOR_NUMBER, f"{here}, {NULL}, {NULL}")
            processor = f.cast("zext", f.load("i32", here), "i64")
            has_mask = f.icmp("ult", processor, f.load("i64", self.address(f, pool, "masked")))
            is_other = f.icmp("ne", processor, f.load("i64", self.address(f, pool, "avoided")))
            with f.when(f.bit_and(has_mask, is_other), "moved"):
                f.store(processor, self.address(f, pool, "avoided"))
                size = f.load("i64", self.address(f, pool, "mask_bytes"))
                mask = f.gep("i8", masks, f.mul(processor, size))
                with f.counted_loop(i64(0), workers, hint="worker") as loop:
                    numbers = f.load("ptr", self.address(f, pool, "thread_ids"))
                    thread = f.cast("zext", f.load("i32", f.gep("i32", numbers, loop.index)), "i64")
                    self.call_system(f, pool, _SET_AFFINITY_NUMBER, f"{thread}, {size}, {mask}")
        f.ret()
        return f

    def _work(self, f: FunctionText, pool: Value) -> None:
        """Take parts like any worker."""
        again, run, empty = f.label("claim"), f.label("run"), f.label("empty")
        f.branch(again)
        f.begin(again)
        claim = f.call(self.try_claim(), "i64", [pool])
        f.branch_if(f.icmp("slt", claim, i64(0)), empty, run)
        f.begin(run)
        part, parts = unpack_claims(f, claim)
        go_on = f.label("go.on")
        asked_to_leave(self.module, f, f.arguments[0], go_on)
        f.branch(go_on)
        f.begin(go_on)
        self.run_claimed(f, pool, part, parts)
        f.branch(again)
        f.begin(empty)

    def _wait(self, f: FunctionText, pool: Value) -> None:
        """Until all parts are done: first watching, then sleeping."""
        parts = f.cast("trunc", f.argument("parts"), "i32")
        watch, check, sleep, finished = (f.label(x) for x in ("watch", "check", "sleep", "finished"))
        entry = f.current
        f.branch(watch)
        f.begin(watch)
        spins = f.phi("i32")
        spins.add(i32(0), entry)
        done = self.load(f, pool, "done")
        f.branch_if(f.icmp("sge", done, parts), finished, check)
        f.begin(check)
        self.pause(f)
        more = f.add(spins.value, i32(1))
        spins.add(more, check)
        f.branch_if(f.icmp("slt", more, i32(_CALLER_SPINS)), watch, sleep)
        f.begin(sleep)
        self._sleep_until_done(f, pool, parts)
        spins.add(i32(0), f.current)
        f.branch(watch)
        f.begin(finished)

    def _sleep_until_done(self, f: FunctionText, pool: Value, parts: Value) -> None:
        self.store(f, pool, "caller_sleeps", i32(1), "seq_cst")
        done = self.load(f, pool, "done", "seq_cst")
        with f.when(f.icmp("slt", done, parts), "doze"):
            nap = self.module.table("i64", _NAP, hint="nap")
            self.sleep(f, pool, "done", f.cast("zext", done, "i64"), nap)
        self.store(f, pool, "caller_sleeps", i32(0), "seq_cst")
        go_on = f.label("look.again")
        asked_to_leave(self.module, f, f.arguments[0], go_on)
        f.branch(go_on)
        f.begin(go_on)

    def _run_all(self, f: FunctionText) -> None:
        context, function, frame, parts = f.arguments
        stopped = f.label("stopped")
        with f.counted_loop(i64(0), parts) as loop:
            asked_to_leave(self.module, f, context, stopped)
            f.call_pointer(function, "void", [context, frame, loop.index, parts])
        f.branch(stopped)
        f.begin(stopped)


class _Worker(_PoolCode):
    """The serving side: watch the claims word, run what can be claimed, sleep when nothing comes."""

    def build(self) -> FunctionText:
        f = self.module.function(WORKER_ENTRY, "void", [Parameter("ptr", "pool")], linkage="external")
        (pool,) = f.arguments
        watch, idle, run, leave, rest, doze = (f.label(x) for x in ("watch", "idle", "run", "leave", "rest", "doze"))
        f.branch(watch)
        f.begin(watch)
        spins = f.phi("i32")
        spins.add(i32(0), "entry")
        seen = self.load(f, pool, "claims", "monotonic")
        claim = f.call(self.try_claim(), "i64", [pool])
        f.branch_if(f.icmp("slt", claim, i64(0)), idle, run)
        f.begin(run)
        self._serve(f, pool, claim)
        spins.add(i32(0), f.current)
        f.branch(watch)
        f.begin(idle)
        f.branch_if(f.icmp("ne", self.load(f, pool, "stop"), i64(0)), leave, rest)
        f.begin(rest)
        self.pause(f)
        more = f.add(spins.value, i32(1))
        spins.add(more, f.current)
        f.branch_if(f.icmp("slt", more, i32(_WORKER_SPINS)), watch, doze)
        f.begin(doze)
        self._sleep(f, pool, seen)
        spins.add(i32(0), f.current)
        f.branch(watch)
        f.begin(leave)
        f.ret()
        return f

    def _serve(self, f: FunctionText, pool: Value, claim: Value) -> None:
        part, parts = unpack_claims(f, claim)
        self.run_claimed(f, pool, part, parts)
        caller_sleeps = self.load(f, pool, "caller_sleeps", "seq_cst")
        with f.when(f.icmp("ne", caller_sleeps, i32(0)), "rouse"):
            self.wake(f, pool, "done")

    def _sleep(self, f: FunctionText, pool: Value, seen: Value) -> None:
        """Sleep unless the generation has moved on since `seen`, which held nothing to claim."""
        sleepers = self.address(f, pool, "sleepers")
        f.atomic_update("add", sleepers, i32(1), "seq_cst")
        going = f.icmp("eq", self.load(f, pool, "stop", "seq_cst"), i64(0))
        with f.when(going, "sleep"):
            self.sleep(f, pool, "claims", f.lshr(seen, i64(32)))
        f.atomic_update("sub", sleepers, i32(1), "seq_cst")
