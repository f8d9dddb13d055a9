"""The scalar functions of kernel bodies as calls of device code, in the names of the prelude.

Assumes operands of the types a verified body has, given as text. Guarantees the meaning of `dfc.lower.legalise`: what
is one primitive is a call of that, everything else a call of a kernel function; each name stands for one type.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.functions import Argument, Function, Instruction, Number, Primitive
from dfc.lower.legalise.meaning import meaning
from dfc.lower.threads.text.types import DeviceCodeError, number, shuffle_type

_NARROW = 4
"""Bytes below which a float becomes an integer by way of i32."""


def applied(name: str, arguments: Sequence[str], types: Sequence[DType], result: DType) -> str:
    """The value of a scalar function; `types` are the element types of the arguments."""
    try:
        return _expression(meaning(name, types, result), arguments)
    except CodeGenerationError as error:
        raise DeviceCodeError(f"no scalar function {name} on {types[0]}") from error


def cast(value: str, source: DType, target: DType) -> str:
    """A computed value of one element type as one of another."""
    return applied("cast", [value], [source], target)


def _expression(function: Function, arguments: Sequence[str]) -> str:
    """The result of a function of one result: of what is one primitive, or nothing, in place; else a call."""
    (position,) = function.results
    last = function.body[position]
    work = [one for one in function.body if not isinstance(one.operation, Argument | Number)]
    if len(work) > 1 or not all(isinstance(one.operation, Primitive) for one in work):
        return f"{function.name}({', '.join(arguments)})"
    if not isinstance(last.operation, Primitive):
        return _atom(last, arguments)
    operands = [_atom(function.body[argument], arguments) for argument in last.arguments]
    return _primitive(last.operation.name, operands, function.body[last.arguments[0]].dtype, last.dtype)


def _atom(one: Instruction, arguments: Sequence[str]) -> str:
    if isinstance(one.operation, Argument):
        return arguments[one.operation.number]
    assert isinstance(one.operation, Number)
    return number(one.dtype, one.operation.bits)


def _primitive(name: str, operands: Sequence[str], source: DType, target: DType) -> str:
    """`source` is the type of the first operand."""
    if name == "convert":
        value = f"i32({operands[0]})" if source.is_float and target.size < _NARROW else operands[0]
        return f"{shuffle_type(target)}({value})"
    if name == "bits":
        return f"{target}_from_bits({operands[0]})" if target.is_float else f"{source}_bits({operands[0]})"
    return f"{shuffle_type(target if name == 'select' else source)}_{name}({', '.join(operands)})"
