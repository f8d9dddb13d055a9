"""Loops of native code that do one thing as fast as a processor can, for one instruction set.

Assumes llvmlite and x86-64. Guarantees 24 (12 with 16 registers) independent chains of multiply-adds, so that two ports
with a latency of four cycles or one with ten are kept busy; without FMA a multiplication and an addition instead. A
copy reads and writes whole vectors, past the caches or through them: the faster one counts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import binding as llvm

from bench.limits.processor import LANES, X86_64_V2, X86_64_V4

CHAINS = {X86_64_V2: 12, "x86-64-v3": 12, X86_64_V4: 24}
UNROLLED = 4


def fma_text(isa: str) -> str:
    """`void fma(float* result, int64 trips)`: each trip does `fma_flops` operations."""
    lanes, chains, vector = LANES[isa], range(CHAINS[isa]), f"<{LANES[isa]} x float>"
    half = f"<{', '.join(['float 0.5'] * lanes)}>"
    phis = [f"  %x{i} = phi {vector} [ {_splat(lanes, i)}, %entry ], [ %y{i}, %loop ]" for i in chains]
    if isa == X86_64_V2:
        steps = [
            f"  %m{i} = fmul {vector} %x{i}, {half}\n  %y{i} = fadd {vector} %m{i}, {half}" for i in chains
        ]  # fmt: skip
        declaration = ""
    else:
        name = f"@llvm.fma.v{lanes}f32"
        steps = [
            f"  %y{i} = call {vector} {name}({vector} %x{i}, {vector} {half}, {vector} {half})" for i in chains
        ]  # fmt: skip
        declaration = f"declare {vector} {name}({vector}, {vector}, {vector})"
    sums = [f"  %s{i} = fadd {vector} {'%s' + str(i - 1) if i > 1 else '%y0'}, %y{i}" for i in chains if i]
    lines = [
        "define void @fma(ptr %result, i64 %trips) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %trip = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis,
        *steps,
        "  %next = add i64 %trip, 1",
        "  %more = icmp ult i64 %next, %trips",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *sums,
        f"  store {vector} %s{CHAINS[isa] - 1}, ptr %result, align 4",
        "  ret void",
        "}",
        declaration,
    ]
    return "\n".join(lines) + "\n"


def _splat(lanes: int, value: int) -> str:
    return f"<{', '.join([f'float {float(value):.6e}'] * lanes)}>"


def fma_flops(isa: str) -> int:
    """Operations of a trip."""
    return 2 * LANES[isa] * CHAINS[isa]


def copy_text(isa: str, name: str, is_streaming: bool) -> str:
    """`void NAME(float* target, float* source, int64 count)`: `count` is a multiple of `copy_step`, pointers of 64."""
    lanes, vector = LANES[isa], f"<{LANES[isa]} x float>"
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
        f"  %next = add i64 %i, {copy_step(isa)}",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def copy_step(isa: str) -> int:
    """Elements that one trip of the copy takes."""
    return UNROLLED * LANES[isa]


class Loops:
    """The loops, compiled for an instruction set."""

    def __init__(self, isa: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = fma_text(isa) + copy_text(isa, "copy", False) + copy_text(isa, "stream", True) + "!0 = !{i32 1}\n"
        target = llvm.Target.from_triple(llvm.get_process_triple())
        features = "-prefer-256-bit" if isa == X86_64_V4 else ""
        machine = target.create_target_machine(cpu=isa, features=features, opt=2, jit=True)
        module = llvm.parse_assembly(text)
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.assembly = machine.emit_assembly(module)
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        self.fma = self._function("fma", pointer, whole)
        self.copies = [self._function(name, pointer, pointer, whole) for name in ("copy", "stream")]

    def _function(self, name: str, *arguments: Any) -> Callable[..., None]:
        function = ctypes.CFUNCTYPE(None, *arguments)(self._engine.get_function_address(name))
        function.engine = self._engine  # pyright: ignore[reportAttributeAccessIssue]  # owns the code
        return function
