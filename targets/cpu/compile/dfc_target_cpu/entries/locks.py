"""Locks around state, taken and given back by generated code.

Assumes `Lock` memory as in `context.py`. Guarantees: any number share a lock, or one holds it alone; who wants it alone
is not overtaken by those who come to share it; who waits spins for a while and then sleeps on a futex. Memory that was
written under a lock is seen by whoever takes it next.
"""

from collections.abc import Callable

from dfc_driver_cpu.context import Lock
from dfc_target_cpu.entries import futexes
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, i32
from dfc_target_cpu.machine import Machine

_SPINS = 1000
_FORMALS = (Parameter("ptr", "context"), Parameter("ptr", "lock"))


def take(module: ModuleText, machine: Machine, *, exclusive: bool) -> str:
    """`void (ptr context, ptr lock)`: returns when the lock is held."""
    name = "lock_alone" if exclusive else "lock_shared"
    return module.define(name, lambda: _Take(module, machine, name, exclusive).build())


def give(module: ModuleText, machine: Machine, *, exclusive: bool) -> str:
    """`void (ptr context, ptr lock)`: gives a held lock back."""
    name = "unlock_alone" if exclusive else "unlock_shared"
    return module.define(name, lambda: _Give(module, machine, name, exclusive).build())


LOCK_ENTRY, UNLOCK_ENTRY = "dfc_lock", "dfc_unlock"


def lock_entries(module: ModuleText, machine: Machine) -> list[str]:
    """`void dfc_lock(ptr context, ptr lock)` and `dfc_unlock`, visible outside: the run side holds a lock alone."""
    pairs = ((LOCK_ENTRY, take), (UNLOCK_ENTRY, give))
    return [module.define(name, lambda n=name, c=change: _exported(module, machine, n, c)) for name, change in pairs]


def _exported(module: ModuleText, machine: Machine, name: str, change: Callable[..., str]) -> FunctionText:
    f = module.function(name, "void", _FORMALS, linkage="external")
    f.call(change(module, machine, exclusive=True), "void", list(f.arguments))
    f.ret()
    return f


class _LockCode:
    """A function over one lock."""

    def __init__(self, module: ModuleText, machine: Machine, name: str, exclusive: bool) -> None:
        self.module, self.machine = module, machine
        self.exclusive = exclusive
        self.f: FunctionText = module.function(name, "void", _FORMALS, attributes="nounwind noinline")

    def address(self, field: str) -> Value:
        return field_address(self.f, Lock, self.f.arguments[1], field)

    def load(self, field: str) -> Value:
        return self.f.atomic_load("i32", self.address(field), "seq_cst")

    def change(self, field: str, by: int) -> Value:
        """The value before."""
        return self.f.atomic_update("add", self.address(field), i32(by), "seq_cst")

    def word(self) -> tuple[Value, Value]:
        """The system call, and the word to sleep on."""
        return load_field(self.f, self.f.arguments[0], "syscall"), self.address("changes")


class _Take(_LockCode):
    """Tries, spins, sleeps, and tries again."""

    def build(self) -> FunctionText:
        f = self.f
        attempt, failed, spin, sleep, done = (f.label(x) for x in ("attempt", "failed", "spin", "sleep", "done"))
        if self.exclusive:
            self.change("waiting", 1)
        entry = f.current
        f.branch(attempt)
        f.begin(attempt)
        spins = f.phi("i32")
        spins.add(i32(0), entry)
        free, old = self._is_free()
        new = i32(-1) if self.exclusive else f.add(old, i32(1))
        success = f.choose(free, lambda: f.compare_exchange(self.address("holders"), old, new)[1], lambda: FALSE)
        f.branch_if(success, done, failed)
        f.begin(failed)
        more = f.add(spins.value, i32(1))
        f.branch_if(f.icmp("slt", more, i32(_SPINS)), spin, sleep)
        f.begin(spin)
        futexes.pause(self.module, f, self.machine)
        spins.add(more, f.current)
        f.branch(attempt)
        f.begin(sleep)
        self._sleep()
        spins.add(i32(0), f.current)
        f.branch(attempt)
        f.begin(done)
        if self.exclusive:
            self.change("waiting", -1)
        f.ret()
        return f

    def _is_free(self) -> tuple[Value, Value]:
        """Whether it may be taken, and how many hold it."""
        f = self.f
        holders = self.load("holders")
        if self.exclusive:
            return f.icmp("eq", holders, i32(0)), holders
        nobody_waits = f.icmp("eq", self.load("waiting"), i32(0))
        return f.bit_and(f.icmp("sge", holders, i32(0)), nobody_waits), holders

    def _sleep(self) -> None:
        """Says that it sleeps, looks once more, and sleeps unless something has changed since it looked."""
        f = self.f
        self.change("sleepers", 1)
        seen = self.load("changes")
        free, _ = self._is_free()
        with f.when(f.icmp("eq", free, FALSE), "doze"):
            futexes.sleep(f, self.machine, *self.word(), f.cast("zext", seen, "i64"))
        self.change("sleepers", -1)


class _Give(_LockCode):
    """The last to go wakes all who sleep."""

    def build(self) -> FunctionText:
        f = self.f
        old = self.change("holders", 1 if self.exclusive else -1)
        was_last = f.icmp("eq", old, i32(-1 if self.exclusive else 1))
        somebody_sleeps = f.icmp("sgt", self.load("sleepers"), i32(0))
        with f.when(f.bit_and(was_last, somebody_sleeps), "wake"):
            self.change("changes", 1)
            futexes.wake(f, self.machine, *self.word())
        f.ret()
        return f
