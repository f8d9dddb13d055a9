"""What must hold behind legalise: all that held before, and functions that are well formed, behind those they call."""

from __future__ import annotations

from dfc.kernels.functions import Function
from dfc.kernels.functions.verify_function import verify_function
from dfc.kernels.program import Program
from dfc.lower.buffers.verify import verify_program
from dfc.lower.verify import require


def verify_legalised(program: Program) -> None:
    """Raises `LoweringError`, or `CodeGenerationError` for a function, for the first thing that does not hold."""
    verify_program(program)
    before: set[Function] = set()
    for function in program.functions:
        verify_function(function)
        for callee in function.called():
            require(callee in before, f"{function.name} stands before {callee.name}, which it calls")
        before.add(function)
