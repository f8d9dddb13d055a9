"""Functions over a queue that generated code calls: coming in, going out, closing, counting.

Assumes memory of `dfc.ir.queues` with a `QueueHeader` at its start. Guarantees that whoever comes in holds the lock and
can do what it came for; that whoever waits sleeps without the lock, says in its context what it waits for, and leaves
when its call is to stop; and that each change wakes those who may go on because of it. Who is woken and leaves without
having done anything wakes another one in its place.
"""

from dfc.ir.queues import MUTEX, first_slot
from dfc_driver_cpu.context import Context, QueueHeader, llvm_type_of
from dfc_runtime.runners.native import CLOSED, END_OF_DATA, OPEN, PUT_CLOSED, QUEUE_FAILED, STOPPED, TOO_MANY
from dfc_target_cpu.entries import futexes
from dfc_target_cpu.entries.context_code import field_address, load_field, poll_now, report_error
from dfc_target_cpu.entries.locks import give, take
from dfc_target_cpu.entries.runners import is_held, is_over, retreat
from dfc_target_cpu.entries.threads import pool_leave
from dfc_target_cpu.entries.waits import Stopwatch
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, TRUE, i32, i64
from dfc_target_cpu.machine import Machine

CLOSE_ENTRY = "dfc_queue_close"
ENTRY_NAP = (0, 50_000_000)
"""The longest sleep in the call of an entry, as seconds and nanoseconds: then it looks whether it is to stop."""
RUNNER_NAP = (1, 0)
"""Likewise in a runner, which is woken when it is to stop."""
_SPINS = 100
"""Pauses before a thread sleeps: about what falling asleep and being woken costs."""
_HEAD = (Parameter("ptr", "context"), Parameter("ptr", "queue"))


def enter_to_put(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, ptr queue, i64 capacity, i64 reserve, i64 waiting, i64 fault)`: 0 when there is room, with the
    lock held; else the call is over, and the fault recorded if there is one. A runner that is held has the reserve,
    too."""
    return module.define("queue_to_put", lambda: _Enter(module, machine, to_put=True).build())


def enter_to_take(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, ptr queue, i64 needed, i64 least, i64 first, i64 waiting, i64 fault)`: likewise when there are
    `needed` elements, or `least` if no more can come; of a queue that failed, none is less than it takes. What is
    `first` in an iteration is left when the runner is held."""
    return module.define("queue_to_take", lambda: _Enter(module, machine, to_put=False).build())


def leave_put(module: ModuleText, machine: Machine, *, wakes_all: bool) -> str:
    """`void (ptr context, ptr queue)`: counts an element that was put, and gives the lock back. It wakes one taker, or
    all if they do not wait for the same number."""
    name = "queue_put_all" if wakes_all else "queue_put_one"
    return module.define(name, lambda: _leave_put(_QueueCode(module, machine, name), wakes_all=wakes_all))


def leave_take(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context, ptr queue, i64 count)`: gives the lock back after `count` elements, and wakes as many who put
    elements in."""
    name = "queue_taken"
    extra = (Parameter("i64", "count"),)
    return module.define(name, lambda: _leave_take(_QueueCode(module, machine, name, extra=extra)))


def size(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, ptr queue)`: how many elements are inside."""
    return module.define("queue_size", lambda: _size(_QueueCode(module, machine, "queue_size", "i64")))


def close(module: ModuleText, machine: Machine) -> str:
    """`void dfc_queue_close(ptr context, ptr queue, i64 state)`, visible outside: nothing more can be put in. A state
    that goes further than this one stays; all who wait look again, also where the state is `OPEN`."""
    extra = (Parameter("i64", "state"),)
    return module.define(CLOSE_ENTRY, lambda: _close(_QueueCode(module, machine, CLOSE_ENTRY, extra=extra)))


def release(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context, ptr mutex)`: gives a mutex back if the context holds it, and wakes one who waits for it."""
    return module.define("mutex_release", lambda: _release(_QueueCode(module, machine, "mutex_release")))


def refuse_count(module: ModuleText) -> str:
    """`void (ptr context, i64 fault, i64 count, i64 most)`: records that a take asks for more than it can get."""
    return module.define("queue_too_many", lambda: _refuse_count(module))


class _QueueCode:
    """A function over one queue."""

    def __init__(
        self, module: ModuleText, machine: Machine, name: str, result: str = "void", extra: tuple[Parameter, ...] = ()
    ) -> None:
        self.module, self.machine = module, machine
        linkage = "external" if name == CLOSE_ENTRY else "internal"
        self.f: FunctionText = module.function(
            name, result, (*_HEAD, *extra), linkage=linkage, attributes="nounwind noinline"
        )
        self.context, self.queue = self.f.arguments[:2]

    def address(self, field: str) -> Value:
        return field_address(self.f, QueueHeader, self.queue, field)

    def load(self, field: str) -> Value:
        return self.f.load(llvm_type_of(QueueHeader, field), self.address(field))

    def look(self, field: str) -> Value:
        """The value of a field that others may change meanwhile."""
        return self.f.atomic_load(llvm_type_of(QueueHeader, field), self.address(field), "monotonic")

    def set(self, field: str, value: Value) -> None:
        """Others may look at it without the lock."""
        self.f.atomic_store(value, self.address(field), "monotonic")

    def fill(self) -> Value:
        """How many elements are inside."""
        return self.f.sub(self.load("put"), self.load("taken"))

    def available(self) -> Value:
        """How many of them one take can get: where there are buckets, those of the fullest."""
        fullest = self.load("fullest")
        return self.f.select(self.f.icmp("ne", fullest, i64(0)), fullest, self.fill())

    def lock(self) -> None:
        self.f.call(take(self.module, self.machine, exclusive=True), "void", [self.context, self.queue])

    def unlock(self) -> None:
        self.f.call(give(self.module, self.machine, exclusive=True), "void", [self.context, self.queue])

    def change(self, word: str) -> None:
        """Lets nobody fall asleep on a word any more who has looked before."""
        self.set(word, self.f.add(self.load(word), i32(1)))

    def wake(self, word: str, count: Value = futexes.ALL) -> None:
        syscall = load_field(self.f, self.context, "syscall")
        futexes.wake(self.f, self.machine, syscall, self.address(word), count)

    def unlock_and_wake(self, word: str, condition: Value, count: Value = futexes.ALL) -> None:
        """Those who are woken find the lock free."""
        wakes, quiet, after = (self.f.label(x) for x in ("wakes", "quiet", "after"))
        self.f.branch_if(condition, wakes, quiet)
        self.f.begin(wakes)
        self.change(word)
        self.unlock()
        self.wake(word, count)
        self.f.branch(after)
        self.f.begin(quiet)
        self.unlock()
        self.f.branch(after)
        self.f.begin(after)


class _Enter(_QueueCode):
    """Looks, watches for a while, sleeps, and looks again."""

    def __init__(self, module: ModuleText, machine: Machine, *, to_put: bool) -> None:
        self.to_put = to_put
        numbers = ("capacity", "reserve") if to_put else ("needed", "least", "first")
        extra = tuple(Parameter("i64", name) for name in (*numbers, "waiting", "fault"))
        super().__init__(module, machine, "queue_to_put" if to_put else "queue_to_take", "i64", extra)
        self.word, self.sleepers = ("departures", "putters") if to_put else ("arrivals", "takers")
        self.stopwatch = Stopwatch(module, machine, self.f, self.context)

    def build(self) -> FunctionText:
        f = self.f
        look, not_yet, refused, wait, watch, doze, ready = (
            f.label(x) for x in ("look", "not.yet", "refused", "wait", "watch", "doze", "ready")
        )
        self.lock()
        entry = f.current
        f.branch(look)
        f.begin(look)
        watched = f.phi("i1")
        watched.add(FALSE, entry)
        closed, possible = self._is_possible()
        f.branch_if(possible, ready, not_yet)
        f.begin(not_yet)
        f.branch_if(f.icmp("ne", closed, i64(OPEN)), refused, wait)
        f.begin(wait)
        self._leave_if_over()
        f.branch_if(watched.value, doze, watch)
        f.begin(watch)
        self._watch()
        watched.add(TRUE, f.current)
        f.branch(look)
        f.begin(doze)
        self._doze()
        watched.add(TRUE, f.current)
        f.branch(look)
        f.begin(refused)
        self.unlock()
        self._refuse(closed)
        f.begin(ready)
        self._waits_for(i64(0))
        f.ret(i64(0))
        return f

    def _is_possible(self) -> tuple[Value, Value]:
        """The state of the queue, and whether what is needed can be done now."""
        f = self.f
        closed = self.load("closed")
        if self.to_put:
            has_room = f.icmp("slt", self.fill(), self._room())
            return closed, f.bit_and(f.icmp("eq", closed, i64(OPEN)), has_room)
        least = f.argument("least")
        at_end = f.select(f.icmp("eq", closed, i64(CLOSED)), least, f.maximum(least, i64(1)))
        number = f.select(f.icmp("eq", closed, i64(OPEN)), f.argument("needed"), at_end)
        return closed, f.bit_and(f.icmp("ne", closed, i64(STOPPED)), f.icmp("sge", self.available(), number))

    def _room(self) -> Value:
        """How many elements there may be, with the one that is put in."""
        f = self.f
        group, capacity = load_field(f, self.context, "runner"), f.argument("capacity")
        more = f.add(capacity, f.argument("reserve"))
        is_runner = f.icmp("ne", group, NULL)
        return f.choose(is_runner, lambda: f.select(is_held(f, group), more, capacity), lambda: capacity)

    def _leave_if_over(self) -> None:
        """An iteration of a runner does not wait when one before it has ended, nor to begin while it is held."""
        f = self.f
        group = load_field(f, self.context, "runner")
        with f.when(f.icmp("ne", group, NULL), "runner"):
            if not self.to_put:
                is_first = f.icmp("ne", f.argument("first"), i64(0))
                with f.when(f.bit_and(is_first, is_held(f, group)), "held"):
                    retreat(f, self.context, group, f.argument("first"))
                    self._give_up()
            over = is_over(f, group, load_field(f, self.context, "iteration"))
            with f.when(over, "over"):
                f.store(i64(1), field_address(f, Context, self.context, "leave"))
                self._give_up()

    def _watch(self) -> None:
        """Without the lock, until something changes or some time has passed."""
        f = self.f
        other = "taken" if self.to_put else "put"
        before = self.load(other)
        self.unlock()
        self.stopwatch.start()
        again, more, over = (f.label(x) for x in ("again", "more", "over"))
        entry = f.current
        f.branch(again)
        f.begin(again)
        spins = f.phi("i32")
        spins.add(i32(0), entry)
        changed = f.icmp("ne", self.look(other), before)
        enough = f.icmp("sge", spins.value, i32(_SPINS))
        f.branch_if(f.bit_or(changed, enough), over, more)
        f.begin(more)
        futexes.pause(self.module, f, self.machine)
        spins.add(f.add(spins.value, i32(1)), more)
        f.branch(again)
        f.begin(over)
        self.lock()

    def _doze(self) -> None:
        """Sleeps, and leaves the call if that is asked for meanwhile. The lock is held before and after."""
        f = self.f
        self._waits_for(f.argument("waiting"))
        before = self.load(self.sleepers)
        self.set(self.sleepers, f.add(before, i32(1)))
        if not self.to_put:
            own = f.argument("needed")
            others = f.minimum(self.load("needed"), own)
            self.set("needed", f.select(f.icmp("eq", before, i32(0)), own, others))
        seen = f.cast("zext", self.load(self.word), "i64")
        self.unlock()
        f.call(pool_leave(self.module, self.machine), "void", [self.context])
        is_limited = f.icmp("ne", load_field(f, self.context, "wake_seconds"), i64(0))
        self._sleep(seen, is_limited)
        self.lock()
        self.set(self.sleepers, f.sub(self.load(self.sleepers), i32(1)))
        attention = f.atomic_load("i64", field_address(f, Context, self.context, "attention"), "monotonic")
        with f.when(f.bit_or(f.icmp("ne", attention, i64(0)), is_limited), "asked"):
            self.unlock()
            stops = f.call(poll_now(self.module), "i64", [self.context])
            self.lock()
            with f.when(f.icmp("ne", stops, i64(0)), "stops"):
                self._give_up()

    def _sleep(self, seen: Value, is_limited: Value) -> None:
        """Until it is woken, or is to look whether the call is to stop: a call with a limit of its time at the latest
        when that is over."""
        f = self.f
        word, syscall = self.address(self.word), load_field(f, self.context, "syscall")
        until, nap, after = (f.label(x) for x in ("until", "nap", "slept"))
        f.branch_if(is_limited, until, nap)
        f.begin(until)
        end = field_address(f, Context, self.context, "wake_seconds")
        futexes.sleep_until(f, self.machine, syscall, word, seen, end)
        f.branch(after)
        f.begin(nap)
        is_entry = f.icmp("eq", load_field(f, self.context, "runner"), NULL)
        naps = [self.module.table("i64", each, hint="nap") for each in (ENTRY_NAP, RUNNER_NAP)]
        futexes.sleep(f, self.machine, syscall, word, seen, f.select(is_entry, *naps))
        f.branch(after)
        f.begin(after)

    def _give_up(self) -> None:
        """Leaves the call; what this thread was woken for is for another one."""
        f = self.f
        self.unlock_and_wake(self.word, f.icmp("ne", self.load(self.sleepers), i32(0)), i64(1))
        self._waits_for(i64(0))
        f.ret(i64(1))
        f.begin(f.label("never"))

    def _refuse(self, closed: Value) -> None:
        """The reasons are numbered as the states are, but for the end of data."""
        f = self.f
        assert PUT_CLOSED == CLOSED + 1
        assert QUEUE_FAILED == PUT_CLOSED + 1
        reason = f.add(closed, i64(1))
        if not self.to_put:
            reason = f.select(f.icmp("eq", closed, i64(CLOSED)), i64(END_OF_DATA), reason)
        self._waits_for(i64(0))
        site = f.add(f.argument("fault"), i64(1))
        f.call(report_error(self.module), "void", [self.context, site, reason, i64(0), i64(0), i64(0)])
        f.ret(i64(1))

    def _waits_for(self, what: Value) -> None:
        """Says so in the context, where other threads look. The number comes last, and goes first."""
        f = self.f
        if what != i64(0):
            needed = f.argument("capacity" if self.to_put else "needed")
            for field, value in (("needed", needed), ("waiting_fault", f.argument("fault"))):
                f.atomic_store(value, field_address(f, Context, self.context, field), "monotonic")
        else:
            self.stopwatch.stop_at(f.argument("fault"))
        f.atomic_store(what, field_address(f, Context, self.context, "waiting"))


def _leave_put(code: _QueueCode, *, wakes_all: bool) -> FunctionText:
    f = code.f
    code.set("put", f.add(code.load("put"), i64(1)))
    enough = f.icmp("sge", code.available(), code.load("needed"))
    somebody_sleeps = f.icmp("ne", code.load("takers"), i32(0))
    code.unlock_and_wake("arrivals", f.bit_and(enough, somebody_sleeps), futexes.ALL if wakes_all else i64(1))
    f.ret()
    return f


def _leave_take(code: _QueueCode) -> FunctionText:
    f = code.f
    code.unlock_and_wake("departures", f.icmp("ne", code.load("putters"), i32(0)), f.argument("count"))
    f.ret()
    return f


def _release(code: _QueueCode) -> FunctionText:
    f = code.f
    code.lock()
    slot = f.gep("i8", code.queue, i64(first_slot(MUTEX)))
    is_mine = f.icmp("eq", f.load("i64", slot), f.cast("ptrtoint", code.context, "i64"))
    is_held = f.icmp("ne", code.fill(), i64(0))
    mine, other = f.label("mine"), f.label("other")
    f.branch_if(f.bit_and(is_held, is_mine), mine, other)
    f.begin(mine)
    code.set("taken", code.load("put"))
    code.unlock_and_wake("departures", f.icmp("ne", code.load("putters"), i32(0)), i64(1))
    f.ret()
    f.begin(other)
    code.unlock()
    f.ret()
    return f


def _size(code: _QueueCode) -> FunctionText:
    code.lock()
    fill = code.fill()
    code.unlock()
    code.f.ret(fill)
    return code.f


def _close(code: _QueueCode) -> FunctionText:
    f = code.f
    code.lock()
    code.set("closed", f.maximum(code.load("closed"), f.argument("state")))
    for word in ("arrivals", "departures"):
        code.change(word)
    code.unlock()
    for word in ("arrivals", "departures"):
        code.wake(word)
    f.ret()
    return f


def _refuse_count(module: ModuleText) -> FunctionText:
    formals = (Parameter("ptr", "context"), *(Parameter("i64", name) for name in ("fault", "count", "most")))
    f = module.function("queue_too_many", "void", formals, attributes="nounwind noinline cold")
    context, fault, count, most = f.arguments
    f.call(report_error(module), "void", [context, f.add(fault, i64(1)), i64(TOO_MANY), count, most, i64(0)])
    f.ret()
    return f
