"""Waiting for another thread: sleeping on a word until it is woken, waking who sleeps, a pause between two looks.

Assumes the `syscall` function of the C library, which the host hands in. Guarantees no order: whoever wakes up looks
again, since a thread also wakes up when nobody woke it.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.machine import Machine

_WAIT_PRIVATE, _WAKE_PRIVATE, _WAIT_UNTIL_PRIVATE = 128, 129, 137
_ANY = i64(0xFFFFFFFF)
_NUMBER = {"x86_64": 202, "aarch64": 98}
ALL = i64(1 << 30)


def sleep(f: FunctionText, machine: Machine, syscall: Value, word: Value, seen: Value, limit: Value = NULL) -> None:
    """Sleeps while the i32 at `word` is `seen` (i64), until it is woken, at most as long as the timespec (two i64) at
    `limit` says."""
    _futex(f, machine, syscall, f"{word}, i64 {_WAIT_PRIVATE}, {seen}, {limit}")


def sleep_until(f: FunctionText, machine: Machine, syscall: Value, word: Value, seen: Value, end: Value) -> None:
    """Likewise, until the monotonic clock shows the timespec at `end`."""
    _futex(f, machine, syscall, f"{word}, i64 {_WAIT_UNTIL_PRIVATE}, {seen}, {end}, {NULL}, {_ANY}")


def wake(f: FunctionText, machine: Machine, syscall: Value, word: Value, count: Value = ALL) -> None:
    """Wakes so many (i64) of those who sleep on the word."""
    _futex(f, machine, syscall, f"{word}, i64 {_WAKE_PRIVATE}, {count}, {NULL}")


def _futex(f: FunctionText, machine: Machine, syscall: Value, operands: str) -> None:
    number = _NUMBER[architecture_of(machine)]
    f.assign("i64", f"call i64 (i64, ...) {syscall.text}(i64 {number}, {operands})")


def pause(module: ModuleText, f: FunctionText, machine: Machine) -> None:
    """Tells the processor that this thread only waits."""
    if architecture_of(machine) == "aarch64":
        module.declare("llvm.aarch64.hint", "void", ["i32"])
        f.line("call void @llvm.aarch64.hint(i32 1)")
    else:
        module.declare("llvm.x86.sse2.pause", "void", [])
        f.line("call void @llvm.x86.sse2.pause()")


def architecture_of(machine: Machine) -> str:
    """The first word of its triple."""
    return machine.triple.split("-")[0]
