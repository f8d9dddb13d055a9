"""Kernel functions as functions of the prelude: one statement an instruction, in the prelude's primitives.

Assumes the primitives of `prelude` (a fused multiply-add, square root and division that round once). Guarantees the
bits of the function as `interpret_function` states them, but for those of a NaN, and equal texts for equal functions.
"""

from __future__ import annotations

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
    with_callees,
)
from dfc_target_cuda.kernels.write_types import number, shuffle_type

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
_NARROW = 4
"""Bytes below which a float becomes an integer by way of i32."""


OWN = frozenset(("f16_load", "f16_store"))
"""Functions for which the device has an instruction: primitives of the prelude by these names."""


def device_text(functions: Iterable[Function]) -> str:
    """The functions and those they call, each once, behind what it calls itself."""
    ordered = dict.fromkeys(one for function in functions for one in with_callees(function))
    return "".join(_text(function) for function in ordered if function.name not in OWN)


def expression(function: Function, arguments: Sequence[str]) -> str:
    """The result of a function of one result: of what is one primitive, or nothing, in place; else a call."""
    (position,) = function.results
    last = function.body[position]
    if _is_call_needed(function):
        return f"{function.name}({', '.join(arguments)})"
    if not isinstance(last.operation, Primitive):
        return _atom(last, arguments)
    operands = [_atom(function.body[argument], arguments) for argument in last.arguments]
    return primitive_text(last.operation.name, operands, function.body[last.arguments[0]].dtype, last.dtype)


def _is_call_needed(function: Function) -> bool:
    work = [one for one in function.body if not isinstance(one.operation, Argument | Number)]
    return len(work) > 1 or not all(isinstance(one.operation, Primitive) for one in work)


def _atom(one: Instruction, arguments: Sequence[str]) -> str:
    if isinstance(one.operation, Argument):
        return arguments[one.operation.number]
    assert isinstance(one.operation, Number)
    return number(one.dtype, one.operation.bits)


def primitive_text(name: str, operands: Sequence[str], source: DType, target: DType) -> str:
    """The expression of a primitive; `source` is the type of its first operand."""
    a, kind = operands[0], shuffle_type(target)
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
            return f"{kind}(i32({a}))" if source.is_float and target.size < _NARROW else f"{kind}({a})"
        case "bits":
            return f"{kind}_from_bits({a})" if target.is_float else f"{shuffle_type(source)}_bits({a})"
        case "mul_high":
            return f"mul_high_u64({a}, {operands[1]})"
        case "leading_zeros":
            return f"u64(leading_zeros_u64({a}))"
        case _:
            return f"{kind}_{'fma' if name == 'multiply_add' else name}({', '.join(operands)})"


def _text(function: Function) -> str:
    parameters = ", ".join(f"{one.name}: {shuffle_type(one.dtype)}" for one in function.parameters)
    kinds = [shuffle_type(dtype) for dtype in function.result_types]
    types = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
    names = _names(function)
    lines = [f"def {function.name}({parameters}) -> {types}:"]
    for position, one in enumerate(function.body):
        if not isinstance(one.operation, Argument | Number | Part):
            lines += [f"    {line}" for line in _statements(function, one, names[position], names)]
    results = ", ".join(names[result][0] for result in function.results)
    return "\n".join(["", *lines, f"    return {results}", ""])


def _names(function: Function) -> list[list[str]]:
    """What each instruction's results are called; of a constant, itself."""
    names: list[list[str]] = []
    for position, one in enumerate(function.body):
        match one.operation:
            case Argument(number_of):
                names.append([function.parameters[number_of].name])
            case Number(bits):
                names.append([number(one.dtype, bits)])
            case Part(number_of):
                names.append([names[one.arguments[0]][number_of]])
            case Call(callee) | Where(callee) | Repeat(callee, _, _) if len(callee.results) > 1:
                names.append([f"v{position}_{number_of}" for number_of in range(len(callee.results))])
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
            source = function.body[one.arguments[0]].dtype
            return [f"{left} = {primitive_text(name, operands, source, one.dtype)}"]
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
