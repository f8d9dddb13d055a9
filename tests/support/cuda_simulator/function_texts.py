"""Kernel functions as Python: one statement an instruction, in the primitives of the simulation.

Guarantees the bits of the function as `interpret_function` states them, but for those of a NaN, and nothing of how the
device's own code of the function is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from dfc.ir.dtypes import DType
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
)
from dfc.kernels.primitives import number_value

OWN = frozenset(("f16_load", "f16_store"))
"""Functions that the simulation has primitives for."""
_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
    "quotient": "//",
    "remainder": "%",
}
_TRUTH = {"and": "and", "or": "or", "xor": "!="}
_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def function_definitions(functions: Iterable[Function]) -> list[ast.FunctionDef]:
    text = "".join(_text(function) for function in functions if function.name not in OWN)
    return [definition for definition in ast.parse(text).body if isinstance(definition, ast.FunctionDef)]


def _kind(dtype: DType) -> str:
    return "boolean" if dtype.is_bool else dtype.name


def _text(function: Function) -> str:
    names = _names(function)
    lines = [f"def {function.name}({', '.join(one.name for one in function.parameters)}):"]
    for position, one in enumerate(function.body):
        if not isinstance(one.operation, Argument | Number | Part):
            lines += [f"    {line}" for line in _statements(function, one, names[position], names)]
    return "\n".join([*lines, f"    return {', '.join(names[result][0] for result in function.results)}", ""])


def _names(function: Function) -> list[list[str]]:
    """What each instruction's results are called; of a constant, itself."""
    names: list[list[str]] = []
    for position, one in enumerate(function.body):
        match one.operation:
            case Argument(number):
                names.append([function.parameters[number].name])
            case Number(bits):
                value = repr(number_value(one.dtype, bits))
                names.append([value if one.dtype.is_bool else f"{_kind(one.dtype)}({value})"])
            case Part(number):
                names.append([names[one.arguments[0]][number]])
            case Call(callee) | Where(callee) | Repeat(callee, _, _) if len(callee.results) > 1:
                names.append([f"v{position}_{number}" for number in range(len(callee.results))])
            case _:
                names.append([f"v{position}"])
    return names


def _statements(
    function: Function, one: Instruction, targets: Sequence[str], names: Sequence[Sequence[str]]
) -> list[str]:
    """What gives the targets their values."""
    operands = [names[argument][0] for argument in one.arguments]
    left = ", ".join(targets)
    match one.operation:
        case Primitive(name):
            return [f"{left} = {_primitive(name, operands, function.body[one.arguments[0]].dtype, one.dtype)}"]
        case Lookup(table):
            return [f"{left} = {table.name}_word({operands[0]})"]
        case Call(callee):
            return [f"{left} = {callee.name}({', '.join(operands)})"]
        case Where(callee):
            otherwise, passed = operands[1 : 1 + len(targets)], operands[1 + len(targets) :]
            call = f"    {left} = {callee.name}({', '.join(passed)})"
            return [*_assigned(targets, otherwise), f"if {operands[0]}:", call]
        case Repeat(callee, count, carried):
            times, state = (str(count), operands) if count is not None else (operands[0], operands[1:])
            call = f"    {left} = {callee.name}({', '.join([*targets, *state[carried:]])})"
            return [*_assigned(targets, state[:carried]), f"for _ in range({times}):", call]
        case _:
            raise AssertionError(one.operation)


def _assigned(targets: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{target} = {value}" for target, value in zip(targets, values, strict=True)]


def _primitive(name: str, operands: Sequence[str], source: DType, target: DType) -> str:
    """`source` is the type of the first operand."""
    a, kind = operands[0], _kind(target)
    if name == "select":
        return f"{operands[1]} if {a} else {operands[2]}"
    if name in _COMPARISONS:
        return f"{a} {_COMPARISONS[name]} {operands[1]}"
    if target.is_bool:
        return f"not {a}" if name == "not" else f"{a} {_TRUTH[name]} {operands[1]}"
    if name in _OPERATORS:
        return f"{kind}({a} {_OPERATORS[name]} {operands[1]})"
    match name:
        case "neg":
            return f"{kind}(-{a})"
        case "not":
            return f"{kind}(~{a})"
        case "convert":
            return f"{kind}({a})"
        case "bits":
            return f"{kind}_from_bits({a})" if target.is_float else f"{_kind(source)}_bits({a})"
        case "mul_high":
            return f"mul_high_u64({a}, {operands[1]})"
        case "leading_zeros":
            return f"u64(leading_zeros_u64({a}))"
        case _:
            return f"{kind}_{'fma' if name == 'multiply_add' else name}({', '.join(operands)})"
