"""Kernel functions as LLVM code: each once in the module of the kernel that calls it, behind those that it calls.

Assumes numba-cuda; only what makes code for devices imports this. Guarantees the bits of the function as
`interpret_function` states them, but for those of a NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    Table,
    Where,
)
from dfc_target_cuda.kernels.prelude.intrinsics import LONG, TYPES, WORD, fixed, ir, types
from dfc_target_cuda.kernels.prelude.primitive_code import machine_type, number, primitive

SYMBOL = "dfc_"
"""What names of kernel functions begin with in a module."""
_CONSTANT = 4
_HALF = ir.HalfType()

Values = list[Any]


def device_function(function: Function) -> Any:
    """The name of a function in kernel text: a device function of its signature."""
    results = [_text_type(dtype) for dtype in function.result_types]
    returned = results[0] if len(results) == 1 else types.Tuple(results)
    signature = returned(*(_text_type(parameter.dtype) for parameter in function.parameters))

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        values = called(builder, function, arguments)
        return values[0] if len(values) == 1 else context.make_tuple(builder, returned, values)

    return fixed(function.name, signature, emit)


def _f16_load(builder: Any, bits: Any) -> Any:
    return builder.fpext(builder.bitcast(bits, _HALF), ir.FloatType())


def _f16_store(builder: Any, value: Any) -> Any:
    return builder.bitcast(builder.fptrunc(value, _HALF), ir.IntType(16))


_MACHINE = {"f16_load": _f16_load, "f16_store": _f16_store}
"""Functions for which the device has an instruction."""


def _text_type(dtype: DType) -> Any:
    return TYPES["boolean" if dtype.is_bool else dtype.name]


def called(builder: Any, function: Function, arguments: Sequence[Any]) -> Values:
    """The results of a call."""
    if function.name in _MACHINE:
        return [_MACHINE[function.name](builder, *arguments)]
    callee = builder.module.globals.get(SYMBOL + function.name) or _defined(builder.module, function)
    result = builder.call(callee, arguments)
    if len(function.results) == 1:
        return [result]
    return [builder.extract_value(result, number) for number in range(len(function.results))]


def _defined(module: Any, function: Function) -> Any:
    """The function as one of the module."""
    kinds = [machine_type(dtype) for dtype in function.result_types]
    returned = kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)
    kind = ir.FunctionType(returned, [machine_type(parameter.dtype) for parameter in function.parameters])
    defined = ir.Function(module, kind, SYMBOL + function.name)
    defined.linkage = "internal"
    builder = ir.IRBuilder(defined.append_basic_block())
    values: list[Values] = []
    for one in function.body:
        values.append(_results(builder, function, one, values, defined.args))
    results = [values[position][0] for position in function.results]
    if len(results) == 1:
        builder.ret(results[0])
        return defined
    whole: Any = ir.Constant(returned, ir.Undefined)
    for number_of, value in enumerate(results):
        whole = builder.insert_value(whole, value, number_of)
    builder.ret(whole)
    return defined


def _results(
    builder: Any, function: Function, one: Instruction, values: Sequence[Values], arguments: Sequence[Any]
) -> Values:
    """What an instruction gives."""
    operands = [values[argument][0] for argument in one.arguments]
    match one.operation:
        case Argument(number_of):
            return [arguments[number_of]]
        case Number(bits):
            return [number(one.dtype, bits)]
        case Part(number_of):
            return [values[one.arguments[0]][number_of]]
        case Primitive(name):
            return [primitive(builder, name, operands, function.body[one.arguments[0]].dtype, one.dtype)]
        case Lookup(table):
            return [_word(builder, table, operands[0])]
        case Call(callee):
            return called(builder, callee, operands)
        case Where(callee):
            count = len(callee.results)
            return _where(builder, callee, operands[0], operands[1 : 1 + count], operands[1 + count :])
        case Repeat(callee, count, carried):
            times, state = (operands[0], operands[1:]) if count is None else (ir.Constant(LONG, count), operands)
            return _repeated(builder, callee, times, state[:carried], state[carried:])


def _word(builder: Any, table: Table, index: Any) -> Any:
    """A word of a table in constant memory."""
    kind = ir.ArrayType(LONG, len(table.words))
    words = builder.module.globals.get(table.name)
    if words is None:
        words = ir.GlobalVariable(builder.module, kind, table.name, addrspace=_CONSTANT)
        words.linkage, words.global_constant, words.align = "internal", True, 8
        words.initializer = ir.Constant(kind, list(table.words))
    return builder.load(builder.gep(words, [ir.Constant(WORD, 0), index]))


def _where(builder: Any, callee: Function, condition: Any, otherwise: Values, passed: Values) -> Values:
    """Those of the function where the condition holds, else the others."""
    before = builder.block
    with builder.if_then(condition):
        results = called(builder, callee, passed)
        inside = builder.block
    merged: Values = []
    for result, other in zip(results, otherwise, strict=True):
        one = builder.phi(result.type)
        one.add_incoming(other, before)
        one.add_incoming(result, inside)
        merged.append(one)
    return merged


def _repeated(builder: Any, callee: Function, times: Any, first: Values, fixed_operands: Values) -> Values:
    """The results of the last iteration, or what the first begins with where there is none."""
    before, head = builder.block, builder.append_basic_block("head")
    builder.branch(head)
    builder.position_at_end(head)
    turn, *carried = (builder.phi(kind) for kind in (LONG, *(value.type for value in first)))
    for one, value in zip((turn, *carried), (ir.Constant(LONG, 0), *first), strict=True):
        one.add_incoming(value, before)
    body, after = builder.append_basic_block("body"), builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", turn, times), body, after)
    builder.position_at_end(body)
    results = called(builder, callee, [*carried, *fixed_operands])
    for one, value in zip((turn, *carried), (builder.add(turn, ir.Constant(LONG, 1)), *results), strict=True):
        one.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return carried
