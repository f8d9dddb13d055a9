"""Kernel functions that are not well formed are refused, with what is wrong."""

import pytest

from dfc.ir.dtypes import BOOL, F16, F32, F64, I32, I64, U64, DType
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.functions import (
    Argument,
    Call,
    Function,
    Instruction,
    Number,
    Operation,
    Parameter,
    Part,
    Primitive,
    Repeat,
    Where,
)
from dfc.kernels.functions.verify_function import verify_function
from dfc.kernels.primitives import PRIMITIVES, fits
from dfc.kernels.terms import function

TWO = function("two", lambda x: (x, x * x), F32)


def of_f32(*more: tuple[Operation, tuple[int, ...], DType], results: tuple[int, ...] = (-1,)) -> Function:
    """A function of one number, with these instructions; results count from the end."""
    body = (Instruction(Argument(0), (), F32), *(Instruction(*one) for one in more))
    return Function("f", (Parameter("x", F32),), body, tuple(result % len(body) for result in results))


WRONG = {
    "names what is not before": of_f32((Primitive("neg"), (1,), F32)),
    "is no neg": of_f32((Primitive("neg"), (0,), F64)),
    "is no less": of_f32((Primitive("less"), (0, 0), F32)),
    "no constant of its type": of_f32((Number(b"\0\0"), (), F32)),
    "which no register holds": of_f32((Primitive("convert"), (0,), F16)),
    r"passes \(f32, f32\) to two": of_f32((Call(TWO), (0, 0), F32), (Part(0), (1,), F32)),
    r"passes \(f32, f32\)": of_f32((Where(TWO), (0, 0), F32), (Part(0), (1,), F32)),
    "not its first parameters": of_f32((Repeat(TWO, 3, 1), (0,), F32), (Part(0), (1,), F32)),
    "several results as one": of_f32((Call(TWO), (0,), F32), (Primitive("neg"), (1,), F32)),
    "is no part": of_f32((Call(TWO), (0,), F32), (Part(2), (1,), F32)),
    "a part of what has none": of_f32((Part(0), (0,), F32)),
    "a result is no value": of_f32((Call(TWO), (0,), F32)),
    "no result": of_f32(results=()),
    "parameters come first": Function("f", (Parameter("x", F32),), (Instruction(Argument(0), (), F64),), (0,)),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_not_well_formed_is_refused(message: str) -> None:
    with pytest.raises(CodeGenerationError, match=message):
        verify_function(WRONG[message])


def test_every_primitive_is_for_some_types() -> None:
    kinds = [BOOL, I32, I64, U64, F32, F64]
    for name in PRIMITIVES:
        known = any(
            fits(name, arguments, result)
            for result in kinds
            for first in kinds
            for arguments in ([first], [first, first], [first, first, first], [BOOL, first, first])
        )
        assert known, name
