"""Kernel functions run by NumPy: what their instructions mean.

Takes and gives arrays of one shape (or scalars) in the NumPy types of the register types. Guarantees the bits that a
target gives on a machine with fused multiply-add, but for those of a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from dfc.kernels.functions.fused_multiply_add import fused_multiply_add

Values = tuple[Any, ...]


def run(function: Function, *arguments: Any) -> Values:
    """The results, each an array of the shape of the arguments together."""
    parameters = zip(function.parameters, arguments, strict=True)
    broadcast = np.broadcast_arrays(*(np.asarray(value, parameter.dtype.numpy) for parameter, value in parameters))
    with np.errstate(all="ignore"):
        return _run(function, broadcast)


def _run(function: Function, arguments: Sequence[Any]) -> Values:
    values: list[Any] = []
    for one in function.body:
        values.append(_value(function, one, values, arguments))
    return tuple(values[result] for result in function.results)


def _value(function: Function, one: Instruction, values: Sequence[Any], arguments: Sequence[Any]) -> Any:
    operation, operands = one.operation, [values[argument] for argument in one.arguments]
    match operation:
        case Argument(number):
            return arguments[number]
        case Number(bits):
            shape = np.shape(arguments[0]) if arguments else ()
            return np.broadcast_to(np.frombuffer(bits, one.dtype.numpy)[0], shape)
        case Lookup(table):
            return np.array(table.words, np.uint64)[operands[0]]
        case Part(number):
            return operands[0][number]
        case Primitive(name):
            sources = [function.body[argument].dtype for argument in one.arguments]
            return primitive(name, operands, sources[0], one.dtype)
        case Call(callee):
            return _single(_run(callee, operands))
        case Where(callee):
            return _single(_where(callee, operands))
        case Repeat(callee, count, carried):
            return _single(
                _repeat(callee, operands, carried) if count is None else _iterations(callee, operands, count)
            )


def _single(results: Values) -> Any:
    return results[0] if len(results) == 1 else results


def _where(callee: Function, operands: Sequence[Any]) -> Values:
    condition, rest = operands[0], operands[1:]
    count = len(callee.results)
    otherwise = [np.array(value) for value in rest[:count]]
    if np.any(condition):
        for value, lane_results in zip(
            otherwise, _run(callee, [each[condition] for each in rest[count:]]), strict=True
        ):
            value[condition] = lane_results
    return tuple(otherwise)


def _iterations(callee: Function, operands: Sequence[Any], count: int) -> Values:
    carried, fixed = tuple(operands[: len(callee.results)]), operands[len(callee.results) :]
    for _ in range(count):
        carried = _run(callee, [*carried, *fixed])
    return carried


def _repeat(callee: Function, operands: Sequence[Any], carried: int) -> Values:
    """Each element its own number of iterations."""
    count, state, fixed = operands[0], operands[1 : carried + 1], operands[carried + 1 :]
    values = tuple(np.array(value) for value in state)
    for number in range(int(np.max(count, initial=0))):
        values = _where(callee, [count > number, *values, *values, *fixed])
    return values


# --- primitives

_PLAIN: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "copysign": np.copysign,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "quotient": np.floor_divide,
    "remainder": np.remainder,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "select": np.where,
}


def primitive(name: str, operands: Sequence[Any], source: DType, dtype: DType) -> Any:
    """One primitive of arguments whose first is of type `source`."""
    if name in ("fma", "multiply_add"):
        a, b, c = operands
        return fused_multiply_add(a, b, c, dtype)
    if name == "convert":
        return np.asarray(operands[0]).astype(dtype.numpy)
    if name == "bits":
        return np.ascontiguousarray(operands[0]).view(dtype.numpy).reshape(np.shape(operands[0]))
    if name == "leading_zeros":
        return _leading_zeros(operands[0])
    if name == "mul_high":
        return _mul_high(*operands)
    return _PLAIN[name](*operands)


def _leading_zeros(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Halves of the word that are zero are shifted out."""
    value, zeros = np.array(word, np.uint64), np.zeros(np.shape(word), np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        empty = (value >> np.uint64(64 - step)) == np.uint64(0)
        zeros += np.where(empty, np.uint64(step), np.uint64(0))
        value = np.where(empty, value << np.uint64(step), value)
    return np.where(value == np.uint64(0), np.uint64(64), zeros)


def _mul_high(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """By products of 32-bit halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)
