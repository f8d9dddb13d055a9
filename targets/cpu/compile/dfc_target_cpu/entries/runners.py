"""Runners in generated code: the loop of a copy, and the turns that copies take at what they share.

Assumes a `RunnerGroup` with its turns as in `context.py`, and copies whose contexts know it. Guarantees that iterations
begin in their order; that iteration i uses an object when all iterations before have passed it; and that when an
iteration does not end well, those before it go on, and those behind it leave at their next turn.
"""

import ctypes

from dfc.lower.schedule.turns import DRAWN
from dfc_driver_cpu.context import TURN_WORDS, Context, RunnerGroup, Turn, llvm_type_of
from dfc_target_cpu.entries import futexes
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.entries.waits import Stopwatch
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, i32, i64
from dfc_target_cpu.machine import Machine

STOP_ENTRY, HOLD_ENTRY = "dfc_runner_stop", "dfc_runner_hold"
RETREAT = 2
"""What `leave` says of an iteration that is left before it has done anything."""
NAP = (1, 0)
"""The longest sleep, as seconds and nanoseconds."""
_SPINS = 100
_TURN = (Parameter("ptr", "context"), Parameter("i64", "turn"))
_TURN_TO_TAKE = (*_TURN, Parameter("i64", "first"))


def runner_loop(module: ModuleText, machine: Machine, name: str, entry: str) -> str:
    """`i64 name(ptr context, ptr slots)`, visible outside: runs the entry again and again. Returns 0 when no further
    iteration is to begin, else what the entry returned."""
    return module.define(name, lambda: _runner_loop(module, machine, name, entry))


def stop(module: ModuleText, machine: Machine) -> str:
    """`void dfc_runner_stop(ptr context, ptr group)`, visible outside: no iteration begins any more, and nobody waits
    for a turn."""
    return module.define(STOP_ENTRY, lambda: _set(module, machine, STOP_ENTRY, "stop"))


def hold(module: ModuleText, machine: Machine) -> str:
    """`void dfc_runner_hold(ptr context, ptr group)`, visible outside: no iteration begins, those that wait for what
    they begin with are left, and all others end, for which queues have their reserves."""
    return module.define(HOLD_ENTRY, lambda: _set(module, machine, HOLD_ENTRY, "hold"))


def take_turn(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, i64 turn, i64 first)`: returns 0 when it is the turn of the context's iteration, 1 if it is to
    leave; what is `first` in an iteration is left when the runner is held."""
    return module.define("turn_take", lambda: _TakeTurn(module, machine).build())


def pass_turn(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context, i64 turn)`: lets the next iteration have it."""
    return module.define("turn_pass", lambda: _pass_turn(module, machine))


def _runner_loop(module: ModuleText, machine: Machine, name: str, entry: str) -> FunctionText:
    formals = (Parameter("ptr", "context"), Parameter("ptr", "slots"))
    f = module.function(name, "i64", formals, linkage="external")
    context, slots = f.arguments
    group = load_field(f, context, "runner")
    begin, next_one, run, left, failed, over = (f.label(x) for x in ("begin", "next", "run", "left", "failed", "over"))
    f.branch(begin)
    f.begin(begin)
    f.branch_if(is_held(f, group), over, next_one)
    f.begin(next_one)
    iteration = f.atomic_update("add", _field(f, group, "next"), i64(1), "seq_cst")
    f.branch_if(is_over(f, group, iteration), over, run)
    f.begin(run)
    f.atomic_store(iteration, field_address(f, Context, context, "iteration"), "monotonic")
    result = f.call(entry, "i64", [context, slots])
    f.branch_if(f.icmp("eq", result, i64(0)), begin, left)
    f.begin(left)
    f.branch_if(f.icmp("eq", load_field(f, context, "leave"), i64(RETREAT)), over, failed)
    f.begin(failed)
    f.atomic_update("min", _field(f, group, "ended"), iteration, "seq_cst")
    f.call(_wake_turns(module, machine), "void", [context, group])
    f.ret(result)
    f.begin(over)
    f.ret(i64(0))
    return f


def _set(module: ModuleText, machine: Machine, name: str, field: str) -> FunctionText:
    """Sets a field of a group, and has those look who wait for their turns."""
    formals = (Parameter("ptr", "context"), Parameter("ptr", "group"))
    f = module.function(name, "void", formals, linkage="external")
    context, group = f.arguments
    f.atomic_store(i64(1), _field(f, group, field), "seq_cst")
    f.call(_wake_turns(module, machine), "void", [context, group])
    f.ret()
    return f


def _field(f: FunctionText, group: Value, field: str) -> Value:
    return field_address(f, RunnerGroup, group, field)


def is_over(f: FunctionText, group: Value, iteration: Value) -> Value:
    """Whether an iteration is not to go on: all are to stop, or one before it has ended."""
    stopping = f.icmp("ne", f.atomic_load("i64", _field(f, group, "stop"), "seq_cst"), i64(0))
    ended = f.atomic_load("i64", _field(f, group, "ended"), "seq_cst")
    return f.bit_or(stopping, f.icmp("slt", ended, iteration))


def is_held(f: FunctionText, group: Value) -> Value:
    """Whether no iteration is to begin."""
    return f.icmp("ne", f.atomic_load("i64", _field(f, group, "hold"), "seq_cst"), i64(0))


def retreat(f: FunctionText, context: Value, group: Value, first: Value) -> None:
    """Counts an iteration as one that has done nothing, or nothing but draw, and is to begin again."""
    f.store(i64(RETREAT), field_address(f, Context, context, "leave"))
    f.atomic_update("add", _field(f, group, "retreated"), i64(1), "seq_cst")
    drawn = f.cast("zext", f.icmp("eq", first, i64(DRAWN)), "i64")
    f.atomic_update("add", _field(f, group, "drawn"), drawn, "seq_cst")


def _wake_turns(module: ModuleText, machine: Machine) -> str:
    """`void (ptr context, ptr group)`: has all who wait for a turn look again."""
    return module.define("wake_turns", lambda: _wake_all(module, machine))


def _wake_all(module: ModuleText, machine: Machine) -> FunctionText:
    formals = (Parameter("ptr", "context"), Parameter("ptr", "group"))
    f = module.function("wake_turns", "void", formals, attributes="nounwind noinline")
    context, group = f.arguments
    with f.counted_loop(i64(0), f.load("i64", _field(f, group, "turns"))) as turns:
        line = _Line(f, _turn_address(f, group, turns.index))
        with f.counted_loop(i64(0), i64(TURN_WORDS)) as words:
            line.wake(machine, context, words.index)
    f.ret()
    return f


def _turn_address(f: FunctionText, group: Value, number: Value) -> Value:
    first = f.gep("i8", group, i64(ctypes.sizeof(RunnerGroup)))
    return f.gep("i8", first, f.mul(number, i64(ctypes.sizeof(Turn))))


class _Line:
    """A turn in the code of a function."""

    def __init__(self, f: FunctionText, turn: Value) -> None:
        self.f, self.turn = f, turn

    def address(self, field: str) -> Value:
        return field_address(self.f, Turn, self.turn, field)

    def load(self, field: str) -> Value:
        return self.f.atomic_load(llvm_type_of(Turn, field), self.address(field), "seq_cst")

    def word(self, iteration: Value) -> Value:
        """What an iteration sleeps on."""
        return self.f.gep("i32", self.address("words"), self.f.bit_and(iteration, i64(TURN_WORDS - 1)))

    def wake(self, machine: Machine, context: Value, iteration: Value) -> None:
        """Has those look again who sleep on the word of an iteration."""
        word = self.word(iteration)
        self.f.atomic_update("add", word, i32(1), "seq_cst")
        futexes.wake(self.f, machine, load_field(self.f, context, "syscall"), word)


class _TakeTurn:
    """Looks, watches for a while, sleeps, and looks again."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module, self.machine = module, machine
        self.f = module.function("turn_take", "i64", _TURN_TO_TAKE, attributes="nounwind noinline")
        self.context, self.number, self.first = self.f.arguments
        self.group = load_field(self.f, self.context, "runner")
        self.iteration = load_field(self.f, self.context, "iteration")
        self.line = _Line(self.f, _turn_address(self.f, self.group, self.number))
        self.stopwatch = Stopwatch(module, machine, self.f, self.context)

    def build(self) -> FunctionText:
        f = self.f
        look, waits, watch, doze, mine, leaves, gone = (
            f.label(x) for x in ("look", "waits", "watch", "doze", "mine", "leaves", "gone")
        )
        entry = f.current
        f.branch(look)
        f.begin(look)
        spins = f.phi("i32")
        spins.add(i32(0), entry)
        with f.when(is_over(f, self.group, self.iteration), "over"):
            f.branch(leaves)
            f.begin(f.label("never"))
        f.branch_if(self._is_mine(), mine, waits)
        f.begin(waits)
        with f.when(self._retreats(), "held"):
            retreat(f, self.context, self.group, self.first)
            f.branch(gone)
            f.begin(f.label("held.never"))
        self.stopwatch.start()
        f.branch_if(f.icmp("slt", spins.value, i32(_SPINS)), watch, doze)
        f.begin(watch)
        futexes.pause(self.module, f, self.machine)
        spins.add(f.add(spins.value, i32(1)), f.current)
        f.branch(look)
        f.begin(doze)
        self._doze()
        spins.add(i32(_SPINS), f.current)
        f.branch(look)
        f.begin(leaves)
        f.store(i64(1), field_address(f, Context, self.context, "leave"))
        f.branch(gone)
        f.begin(gone)
        self._waits_for(i64(0))
        self.stopwatch.stop_for_turn()
        f.ret(i64(1))
        f.begin(mine)
        self._waits_for(i64(0))
        self.stopwatch.stop_for_turn()
        f.ret(i64(0))
        return f

    def _retreats(self) -> Value:
        """Whether the iteration has done nothing, and is not to begin."""
        return self.f.bit_and(self.f.icmp("ne", self.first, i64(0)), is_held(self.f, self.group))

    def _is_mine(self) -> Value:
        return self.f.icmp("eq", self.line.load("next"), self.iteration)

    def _doze(self) -> None:
        """Says that it sleeps, looks once more, and sleeps unless something has changed since it looked."""
        f = self.f
        self._waits_for(f.sub(i64(-1), self.number))
        sleepers = self.line.address("sleepers")
        f.atomic_update("add", sleepers, i32(1), "seq_cst")
        word = self.line.word(self.iteration)
        seen = f.cast("zext", f.atomic_load("i32", word, "seq_cst"), "i64")
        goes_on = f.bit_or(f.bit_or(self._is_mine(), self._retreats()), is_over(f, self.group, self.iteration))
        with f.when(f.icmp("eq", goes_on, FALSE), "sleep"):
            syscall = load_field(f, self.context, "syscall")
            futexes.sleep(f, self.machine, syscall, word, seen, self.module.table("i64", NAP, hint="nap"))
        f.atomic_update("sub", sleepers, i32(1), "seq_cst")

    def _waits_for(self, what: Value) -> None:
        self.f.atomic_store(what, field_address(self.f, Context, self.context, "waiting"))


def _pass_turn(module: ModuleText, machine: Machine) -> FunctionText:
    f = module.function("turn_pass", "void", _TURN, attributes="nounwind noinline")
    context, number = f.arguments
    line = _Line(f, _turn_address(f, load_field(f, context, "runner"), number))
    following = f.add(load_field(f, context, "iteration"), i64(1))
    f.atomic_store(following, line.address("next"), "seq_cst")
    with f.when(f.icmp("ne", line.load("sleepers"), i32(0)), "wake"):
        line.wake(machine, context, following)
    f.ret()
    return f
