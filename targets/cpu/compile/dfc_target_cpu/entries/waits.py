"""How long native code waits for queues and turns, where that is asked for.

Assumes that the `waits` of a context is null, or a table of two i64 for each fault site: nanoseconds and times.
Guarantees that what does not wait reads no clock, and that waiting without a table costs the look at one word.
"""

from dfc_driver_cpu.context import RunnerGroup
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.entries.futexes import architecture_of
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.machine import Machine

_CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}
_MONOTONIC = 1


class Stopwatch:
    """The wait of one call of a function."""

    def __init__(self, module: ModuleText, machine: Machine, f: FunctionText, context: Value) -> None:
        self.module, self.machine = module, machine
        self.f, self.context = f, context
        self._begin = f.alloca("i64", align=8)
        f.store(i64(0), self._begin)

    def start(self) -> None:
        """The wait begins here, or has begun."""
        f = self.f
        is_measured = f.icmp("ne", load_field(f, self.context, "waits"), NULL)
        is_new = f.icmp("eq", f.load("i64", self._begin), i64(0))
        with f.when(f.bit_and(is_measured, is_new), "measured"):
            f.store(f.call(_now(self.module, self.machine), "i64", [self.context]), self._begin)

    def stop_at(self, site: Value) -> None:
        """It was a wait at this fault site, if there was one."""
        f = self.f
        with f.when(f.icmp("ne", f.load("i64", self._begin), i64(0)), "waited"):
            table = load_field(f, self.context, "waits")
            row = f.gep("i64", table, f.mul(site, i64(2)))
            f.atomic_update("add", row, self._elapsed(), "monotonic")
            f.atomic_update("add", f.gep("i64", row, i64(1)), i64(1), "monotonic")

    def stop_for_turn(self) -> None:
        """Likewise, for the turn of an iteration."""
        f = self.f
        with f.when(f.icmp("ne", f.load("i64", self._begin), i64(0)), "waited"):
            group = load_field(f, self.context, "runner")
            f.atomic_update("add", field_address(f, RunnerGroup, group, "turn_wait"), self._elapsed(), "monotonic")

    def _elapsed(self) -> Value:
        f = self.f
        begin = f.load("i64", self._begin)
        f.store(i64(0), self._begin)
        return f.sub(f.call(_now(self.module, self.machine), "i64", [self.context]), begin)


def _now(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context)`: nanoseconds of the clock that Python's `perf_counter_ns` reads."""
    return module.define("wait_clock", lambda: _read_clock(module, machine))


def _read_clock(module: ModuleText, machine: Machine) -> FunctionText:
    f = module.function("wait_clock", "i64", [Parameter("ptr", "context")], attributes="nounwind noinline cold")
    time = f.alloca("i64", 2, align=8)
    number = _CLOCK_GETTIME[architecture_of(machine)]
    syscall = load_field(f, f.arguments[0], "syscall")
    f.assign("i64", f"call i64 (i64, ...) {syscall.text}(i64 {number}, i64 {_MONOTONIC}, {time})")
    seconds, rest = f.load("i64", time), f.load("i64", f.gep("i64", time, i64(1)))
    f.ret(f.add(f.mul(seconds, i64(1_000_000_000)), rest))
    return f
