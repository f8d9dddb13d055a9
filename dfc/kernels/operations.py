"""The floating-point operations of a launch: what its sums and bodies do at all their points.

Assumes a legalised kernel. Guarantees a sum in the sizes of the launch, counted by the primitives that the kernel's
functions are made of: an addition, multiplication, division or root is one operation, a multiplication with an
addition two; comparisons, choices, signs and whole numbers count nothing. What only some elements need (`Where`) is
counted for all of them, as a machine of vectors computes it. Instructions are counted at each point of their stage,
also those that a target computes once for many points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from dfc.ir.dims import ZERO, Dim, Symbol, product
from dfc.ir.dtypes import DType
from dfc.kernels.body import Apply, Instruction
from dfc.kernels.form import ContractKernel, Kernel, RoutineKernel, RowBlockKernel, Stage
from dfc.kernels.functions import Call, Function, Primitive, Repeat, Where
from dfc.kernels.program import Launch
from dfc.kernels.routines import routine_work

Meaning = Callable[[str, Sequence[DType], DType], Function]
"""The function that a name means for arguments of these element types and a result of that one."""
_ONE = frozenset(("add", "sub", "mul", "div", "sqrt"))
_TWO = frozenset(("fma", "multiply_add"))
_REDUCED = frozenset(("add", "mul"))


def launch_operations(kernel: Kernel, launch: Launch, meaning: Meaning) -> Dim:
    """How many operations one launch does, as a formula over the sizes of the entry."""
    symbols = {Symbol(f"d{number}"): size for number, size in enumerate(launch.sizes)}
    return _kernel(kernel, symbols, meaning)


def _kernel(kernel: Kernel, symbols: Mapping[Symbol, Dim], meaning: Meaning) -> Dim:
    if isinstance(kernel, RowBlockKernel):
        return sum((_kernel(step.kernel, symbols, meaning) for step in kernel.steps), ZERO)
    if isinstance(kernel, RoutineKernel):
        return routine_work(kernel).substitute(symbols) * 2
    extents = [axis.extent.substitute(symbols) for axis in kernel.axes]
    if isinstance(kernel, ContractKernel):
        *outer, depth = extents
        return product(outer) * (depth * 2 + body_operations(kernel.epilogue, meaning))
    return sum((_stage(stage, kernel.outer, extents, meaning) for stage in kernel.stages), ZERO)


def _stage(stage: Stage, outer: int, extents: Sequence[Dim], meaning: Meaning) -> Dim:
    points = product([*extents[:outer], *(extents[axis] for axis in stage.axes)])
    reduced = (each for each in stage.reductions if each.combine in _REDUCED and each.dtype.is_float)
    stored = (each for each in stage.stores if each.combine == "add" and stage.body[each.value].dtype.is_float)
    return points * (body_operations(stage.body, meaning) + len([*reduced]) + len([*stored]))


def body_operations(body: Sequence[Instruction], meaning: Meaning) -> int:
    """Operations of a body at one point."""
    return sum(_instruction(each, body, meaning) for each in body)


def _instruction(instruction: Instruction, body: Sequence[Instruction], meaning: Meaning) -> int:
    if not isinstance(instruction.operation, Apply):
        return 0
    types = [body[position].dtype for position in instruction.arguments]
    if any(each.is_complex for each in (*types, instruction.dtype)):
        return 0
    return function_operations(meaning(instruction.operation.function, types, instruction.dtype))


@cache
def function_operations(function: Function) -> int:
    """Operations of one application of a kernel function; a loop without a known count is counted once."""
    total = 0
    for each in function.body:
        match each.operation:
            case Primitive(name) if each.dtype.is_float:
                total += (name in _ONE) + 2 * (name in _TWO)
            case Call(called) | Where(called):
                total += function_operations(called)
            case Repeat(repeated, count, _):
                total += function_operations(repeated) * (1 if count is None else count)
            case _:
                pass
    return total
