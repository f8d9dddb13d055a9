"""What a processor can do at most: loops of native code that multiply and add in registers, or copy, on all threads.

Assumes a machine that this processor satisfies. Guarantees 24 (12 with 16 registers) independent chains of
multiply-adds, so that two ports with a latency of four cycles or one with ten are kept busy; without FMA a
multiplication and an addition instead. A copy reads and writes whole vectors, past the caches or through them: the
faster one counts. Rates are the best of several short runs.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numpy.typing import NDArray

from dfc.ir.options import unknown_variant
from dfc_target_cpu.machine import MACHINES, Machine, machine_named

UNROLLED = 4
TRIPS = 200_000
LEAST_COPIED = 1 << 26
"""Bytes of a run: small copies are repeated, so that starting threads is a small part of it."""
ALIGNMENT = 64
RUNS = 7
F32_BITS = 32
Memory = NDArray[np.uint8]


def chains(machine: Machine) -> int:
    """Sums that are built side by side: as many as fit the registers with a factor beside them."""
    return machine.vector_registers * 3 // 4


def fma_text(machine: Machine) -> str:
    """`void fma(float* result, int64 trips)`: each trip does `fma_flops` operations."""
    lanes, count = machine.lanes(F32_BITS), chains(machine)
    vector, half = f"<{lanes} x float>", _splat(lanes, 0.5)
    phis = [f"  %x{i} = phi {vector} [ {_splat(lanes, i)}, %entry ], [ %y{i}, %loop ]" for i in range(count)]
    name = f"@llvm.fma.v{lanes}f32"
    fused = [f"  %y{i} = call {vector} {name}({vector} %x{i}, {vector} {half}, {vector} {half})" for i in range(count)]
    apart = [
        f"  %m{i} = fmul {vector} %x{i}, {half}\n  %y{i} = fadd {vector} %m{i}, {half}" for i in range(count)
    ]  # fmt: skip
    lines = [
        "define void @fma(ptr %result, i64 %trips) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %trip = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis,
        *(fused if machine.fused_multiply_add else apart),
        "  %next = add i64 %trip, 1",
        "  %more = icmp ult i64 %next, %trips",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *(f"  %s{i} = fadd {vector} {f'%s{i - 1}' if i > 1 else '%y0'}, %y{i}" for i in range(1, count)),
        f"  store {vector} %s{count - 1}, ptr %result, align 4",
        "  ret void",
        "}",
        f"declare {vector} {name}({vector}, {vector}, {vector})" if machine.fused_multiply_add else "",
    ]
    return "\n".join(lines) + "\n"


def _splat(lanes: int, value: float) -> str:
    return f"<{', '.join([f'float {value:.6e}'] * lanes)}>"


def fma_flops(machine: Machine) -> int:
    """Operations of a trip."""
    return 2 * machine.lanes(F32_BITS) * chains(machine)


def copy_text(machine: Machine, name: str, is_streaming: bool) -> str:
    """`void NAME(float* target, float* source, int64 count)`: `count` is a multiple of `copy_step`, pointers of 64."""
    lanes = machine.lanes(F32_BITS)
    vector = f"<{lanes} x float>"
    hint = ", !nontemporal !0" if is_streaming else ""
    body: list[str] = []
    for i in range(UNROLLED):
        body += [
            f"  %i{i} = add i64 %i, {i * lanes}",
            f"  %s{i} = getelementptr float, ptr %source, i64 %i{i}",
            f"  %t{i} = getelementptr float, ptr %target, i64 %i{i}",
            f"  %v{i} = load {vector}, ptr %s{i}, align {4 * lanes}",
            f"  store {vector} %v{i}, ptr %t{i}, align {4 * lanes}{hint}",
        ]
    lines = [
        f"define void @{name}(ptr noalias %target, ptr noalias %source, i64 %count) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *body,
        f"  %next = add i64 %i, {copy_step(machine)}",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def copy_step(machine: Machine) -> int:
    """Elements that one trip of the copy takes."""
    return UNROLLED * machine.lanes(F32_BITS)


class Loops:
    """The loops, compiled for a machine: their code lives as long as this."""

    def __init__(self, machine: Machine) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        copies = copy_text(machine, "copy", False) + copy_text(machine, "stream", True)
        module = llvm.parse_assembly(fma_text(machine) + copies + "!0 = !{i32 1}\n")
        module.verify()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        target_machine = target.create_target_machine(
            cpu=machine.llvm_cpu, features=machine.llvm_features, opt=2, jit=True
        )
        self._engine = llvm.create_mcjit_compiler(module, target_machine)
        self._engine.finalize_object()
        self.assembly = target_machine.emit_assembly(module)
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        self.fma = self._function("fma", pointer, whole)
        self.copies = [self._function(name, pointer, pointer, whole) for name in ("copy", "stream")]

    def _function(self, name: str, *arguments: Any) -> Callable[..., None]:
        return ctypes.CFUNCTYPE(None, *arguments)(self._engine.get_function_address(name))


class Limits:
    """The limits of this processor with one instruction set (by the name of its machine) on so many threads."""

    def __init__(self, isa: str, threads: int) -> None:
        machine = machine_named(isa)
        if machine is None:
            raise unknown_variant(isa, MACHINES)
        self._machine = machine
        self._threads = threads
        self._loops = Loops(self._machine)
        self._pool = ThreadPoolExecutor(threads)

    def fma_call(self) -> tuple[Callable[[], None], float]:
        """A call that multiplies and adds on all threads, and how many operations it does."""
        results = aligned(ALIGNMENT * self._threads).ctypes
        call = self._on_threads(lambda number: self._loops.fma(results.data + ALIGNMENT * number, TRIPS))
        return call, float(fma_flops(self._machine) * TRIPS * self._threads)

    def copy_call(self, size: float) -> tuple[Callable[[], None], float]:
        """A call that reads and writes `size` bytes in all, on all threads and perhaps several times: the faster of the
        two copies; and how many bytes it moves. What fits into a cache is copied there."""
        step = copy_step(self._machine)
        step *= max(1, ALIGNMENT // (4 * step))
        elements = max(step, int(size / 8) // self._threads // step * step)
        source, target = (aligned(4 * elements * self._threads) for _ in range(2))
        repeats = max(1, LEAST_COPIED // (8 * elements * self._threads))

        def copies(copy: Callable[..., None]) -> Callable[[], None]:
            def part(number: int) -> None:
                offset = 4 * elements * number
                for _ in range(repeats):
                    copy(target.ctypes.data + offset, source.ctypes.data + offset, elements)

            return self._on_threads(part)

        fastest = min((copies(copy) for copy in self._loops.copies), key=best_seconds)
        return fastest, 8.0 * elements * self._threads * repeats

    @cached_property
    def operations(self) -> float:
        """Floating-point operations a second: multiply-adds of f32, two each."""
        call, amount = self.fma_call()
        return amount / best_seconds(call)

    def bandwidth(self, size: float) -> float:
        """Bytes a second, read and written ones together, of copies of this size."""
        call, amount = self.copy_call(size)
        return amount / best_seconds(call)

    def _on_threads(self, work: Callable[[int], None]) -> Callable[[], None]:
        """Calls a function of the number of a thread on all threads at once."""

        def call() -> None:
            for result in [self._pool.submit(work, number) for number in range(self._threads)]:
                result.result()

        return call


def aligned(size: int) -> Memory:
    """Memory that has been written to, at the start of a cache line."""
    raw = np.ones(size + ALIGNMENT, np.uint8)
    return raw[-raw.ctypes.data % ALIGNMENT :][:size]


def best_seconds(call: Callable[[], None]) -> float:
    """The shortest of several runs."""
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
