"""The stage `legalise`: a program learns which kernel functions its kernels are made of.

Assumes a scheduled program. Guarantees that whatever a kernel computes at a point, reads in another form than it
computes with, or reduces, is a primitive or a function of `Program.functions`; a program with anything else is refused,
but for complex numbers, which targets refuse by themselves.
Bodies keep their names (`cast`, `maximum`), by which libraries know them: name and element types say which function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.body import Apply, Instruction, Philox
from dfc.kernels.form import ContractKernel, Kernel, Operand, Reduction, RoutineKernel, RowBlockKernel, Store
from dfc.kernels.functions import Function, Primitive, with_callees
from dfc.kernels.primitives import register_type
from dfc.kernels.program import Program
from dfc.lower.legalise.halves import HALVES, load_function, store_function
from dfc.lower.legalise.meaning import meaning, search
from dfc.lower.legalise.random import random_function

_COMBINE = {"min": "minimum", "max": "maximum"}


def legalise(program: Program) -> Program:
    """The program with the functions of its kernels, each behind those it calls. Raises `CodeGenerationError`."""
    functions: dict[Function, None] = {}
    for kernel in program.kernels:
        for function in kernel_functions(kernel):
            if not is_primitive(function):
                functions |= dict.fromkeys(with_callees(function))
    program.functions = list(functions)
    return program


def is_primitive(function: Function) -> bool:
    """Whether it is one primitive or none, which targets write in place."""
    return len(function.body) <= len(function.parameters) + 1 and all(
        isinstance(one.operation, Primitive) for one in function.body[len(function.parameters) :]
    )


def kernel_functions(kernel: Kernel) -> Iterator[Function]:
    """What a kernel computes with, in order, some of it several times."""
    yield from _accesses(kernel.operands)
    if isinstance(kernel, RowBlockKernel):
        for step in kernel.steps:
            yield from kernel_functions(step.kernel)
        return
    if isinstance(kernel, RoutineKernel):
        return
    if isinstance(kernel, ContractKernel):
        yield from _body(kernel.epilogue)
        yield from _stores(kernel.epilogue, kernel.stores)
        return
    for stage in kernel.stages:
        yield from _body(stage.body)
        yield from _stores(stage.body, stage.stores)
        for reduction in stage.reductions:
            yield from _reduction(reduction, stage.body[reduction.value].dtype)


def _accesses(operands: Sequence[Operand]) -> Iterator[Function]:
    for operand in operands:
        if operand.dtype in HALVES:
            if operand.access != "write":
                yield load_function(operand.dtype)
            if operand.access != "read":
                yield store_function(operand.dtype)


def _body(body: Sequence[Instruction]) -> Iterator[Function]:
    for one in body:
        match one.operation:
            case Apply(name):
                types = [body[argument].dtype for argument in one.arguments]
                if not any(dtype.is_complex for dtype in (*types, one.dtype)):
                    yield meaning(name, types, one.dtype)
            case Philox(distribution):
                yield random_function(distribution, one.dtype)
            case _:
                pass


def _stores(body: Sequence[Instruction], stores: Sequence[Store]) -> Iterator[Function]:
    for store in stores:
        dtype = body[store.value].dtype
        if store.combine and not dtype.is_complex:
            yield meaning(store.combine, [dtype, dtype], dtype)


def _reduction(reduction: Reduction, dtype: DType) -> Iterator[Function]:
    if dtype.is_complex:
        return
    if reduction.combine.startswith("arg"):
        yield search(register_type(dtype), largest=reduction.combine == "argmax")
    else:
        yield meaning(_COMBINE.get(reduction.combine, reduction.combine), [dtype, dtype], dtype)
