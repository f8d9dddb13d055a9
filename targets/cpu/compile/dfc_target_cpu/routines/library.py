"""Routines as objects of their own beside a program's code.

Assumes a program that calls what `declare` names, and is linked with the texts of `routine_library` and with the matrix
product of f64. Guarantees the same text for the same machine: a routine is compiled once, whatever the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from dfc.kernels.routines import ROUTINES
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.routines.cholesky import cholesky
from dfc_target_cpu.routines.elimination import pivots, solve, solve_lower, solve_upper
from dfc_target_cpu.routines.notation import Array, Code, Number
from dfc_target_cpu.routines.orthogonal import qr
from dfc_target_cpu.routines.singular import svd
from dfc_target_cpu.routines.symmetric import eigh

ELEMENT = "double"
_PROCEDURES: dict[str, Callable[..., Number]] = {
    "cholesky": cholesky,
    "solve": solve,
    "solve_lower": solve_lower,
    "solve_upper": solve_upper,
    "pivots": pivots,
    "qr": qr,
    "eigh": eigh,
    "svd": svd,
}


def declare(module: ModuleText, name: str) -> str:
    """The function of the library: `void (operands.., workspace of products, sizes..)`."""
    function = f"routine_{name}"
    module.declare_hidden(function, "void", [one.type for one in _parameters(name)])
    return function


def _parameters(name: str) -> list[Parameter]:
    routine = ROUTINES[name]
    operands = [Parameter("ptr", f"operand{n}") for n in range(routine.reads + routine.writes + 2)]
    return [*operands, *(Parameter("i64", size) for size in routine.sizes)]


@functools.cache
def routine_library(machine: Machine, name: str) -> str:
    """The text that a program with this routine is linked with."""
    module = ModuleText(machine.triple)
    f = module.function(f"routine_{name}", "void", _parameters(name), linkage="hidden")
    _PROCEDURES[name](Code(module, f), *(Array(f, one) if one.type == "ptr" else Number(f, one) for one in f.arguments))
    f.ret()
    module.add(f)
    return module.text()
