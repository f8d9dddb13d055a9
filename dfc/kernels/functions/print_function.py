"""Kernel functions as readable text: for messages and for those who read what a target is given.

    function f32_rsqrt(x: f32) -> f32
      %1 = sqrt(x)
      %2 = 1.0 as f32
      %3 = div(%2, %1)
      give %3

Guarantees that functions which do the same with equal names print equally; nothing reads this form back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.kernels.functions import (
    Argument,
    Call,
    Function,
    Instruction,
    Lookup,
    Number,
    Part,
    Primitive,
    Repeat,
    Where,
    with_callees,
)


def print_function(function: Function) -> str:
    """The function behind those it calls."""
    return print_functions(with_callees(function))


def print_functions(functions: Sequence[Function]) -> str:
    """Each of them, such as those of a program after `legalise`."""
    return "\n".join("\n".join(function_lines(one)) + "\n" for one in functions)


def function_lines(function: Function) -> list[str]:
    parameters = ", ".join(f"{one.name}: {one.dtype}" for one in function.parameters)
    lines = [f"function {function.name}({parameters}) -> {', '.join(map(str, function.result_types))}"]
    for position, one in enumerate(function.body):
        if not isinstance(one.operation, Argument):
            lines.append(f"  %{position} = {_instruction(function, one)}")
    return [*lines, f"  give {', '.join(_name(function, result) for result in function.results)}"]


def _name(function: Function, position: int) -> str:
    operation = function.body[position].operation
    return function.parameters[operation.number].name if isinstance(operation, Argument) else f"%{position}"


def _instruction(function: Function, one: Instruction) -> str:
    names = [_name(function, argument) for argument in one.arguments]
    listing = ", ".join(names)
    match one.operation:
        case Argument(number):
            return function.parameters[number].name
        case Number(bits):
            return f"{np.frombuffer(bits, one.dtype.numpy)[0]} as {one.dtype}"
        case Primitive(name):
            return f"{name}({listing})" + (f" as {one.dtype}" if name in ("convert", "bits") else "")
        case Lookup(table):
            return f"{table.name}[{listing}]"
        case Part(number):
            return f"part {number} of {listing}"
        case Call(callee):
            return f"{callee.name}({listing})"
        case Where(callee):
            count = len(callee.results)
            passed, otherwise = ", ".join(names[1 + count :]), ", ".join(names[1 : 1 + count])
            return f"{callee.name}({passed}) where {names[0]}, else {otherwise}"
        case Repeat(callee, count, carried):
            times = str(count) if count is not None else names[0]
            state = names if count is not None else names[1:]
            return f"{times} times {callee.name}({', '.join(state[:carried])}; {', '.join(state[carried:])})"
