"""What holds of every kernel function; broken only by a bug of the compiler.

1. An instruction names earlier ones, and as many as its operation takes.
2. Parameters come first, in order, each once; all types are register types.
3. A primitive gets and gives types that it is for (`primitives.fits`); a constant has the bytes of its type.
4. Calls pass what the function takes: `Where` a condition and a value for each result before that, `Repeat` a count of
   i64 unless it is given, and as first arguments the types of the results.
5. Several results are named by `Part` only, and it names nothing else.
6. There is a result, and it is one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.ir.dtypes import BOOL, I64, U64, DType
from dfc.kernels.errors import CodeGenerationError
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
from dfc.kernels.primitives import fits, is_register_type


def verify_function(function: Function) -> None:
    """Raises `CodeGenerationError` with every violation."""
    wrong = list(_violations(function))
    if wrong:
        raise CodeGenerationError(f"the kernel function {function.name} is not well formed:\n" + "\n".join(wrong))


def _violations(function: Function) -> Iterator[str]:
    heads = [(Argument(n), (), parameter.dtype) for n, parameter in enumerate(function.parameters)]
    if [(one.operation, one.arguments, one.dtype) for one in function.body[: len(heads)]] != heads:
        yield "parameters come first, in order, each once"
    for position, one in enumerate(function.body):
        if any(not 0 <= argument < position for argument in one.arguments):
            yield f"%{position} names what is not before it"
        elif reason := _mistake(function, position, one):
            yield f"%{position} {reason}"
    if not function.results:
        yield "it has no result"
    if any(not 0 <= result < len(function.body) or _has_parts(function.body[result]) for result in function.results):
        yield "a result is no value"


def _has_parts(one: Instruction) -> bool:
    return isinstance(one.operation, Call | Where | Repeat) and len(one.operation.function.results) > 1


def _mistake(function: Function, position: int, one: Instruction) -> str:
    """What is wrong with an instruction whose arguments exist; empty if nothing is."""
    sources = [function.body[argument] for argument in one.arguments]
    types = [source.dtype for source in sources]
    operation = one.operation
    if not is_register_type(one.dtype):
        return f"is of {one.dtype}, which no register holds"
    if isinstance(operation, Part):
        return _part_mistake(operation, sources, one.dtype)
    if any(map(_has_parts, sources)):
        return "takes several results as one"
    match operation:
        case Argument():
            return "is a parameter behind the code" if position >= len(function.parameters) else ""
        case Number():
            return "" if not types and len(operation.bits) == one.dtype.size else "is no constant of its type"
        case Lookup():
            return "" if types == [I64] and one.dtype == U64 else "looks up what is no place"
        case Primitive():
            if fits(operation.name, types, one.dtype):
                return ""
            return f"is no {operation.name}({', '.join(map(str, types))}) -> {one.dtype}"
        case Call() | Where() | Repeat():
            return _call_mistake(operation, types, one.dtype)


def _part_mistake(part: Part, sources: Sequence[Instruction], dtype: DType) -> str:
    operation = sources[0].operation if len(sources) == 1 else None
    if not isinstance(operation, Call | Where | Repeat):
        return "is a part of what has none"
    types = operation.function.result_types
    return "" if len(types) > 1 and types[part.number : part.number + 1] == (dtype,) else "is no part of it"


def _call_mistake(operation: Call | Where | Repeat, types: Sequence[DType], dtype: DType) -> str:
    callee = operation.function
    parameters, results = [one.dtype for one in callee.parameters], list(callee.result_types)
    expected = parameters
    if isinstance(operation, Where):
        expected = [BOOL, *results, *parameters]
    elif isinstance(operation, Repeat):
        expected = parameters if operation.count is not None else [I64, *parameters]
        if operation.carried != len(results) or parameters[: len(results)] != results:
            return f"repeats {callee.name}, whose results are not its first parameters"
    if list(types) != expected or dtype != results[0]:
        listing = ", ".join(map(str, types))
        return f"passes ({listing}) to {callee.name}"
    return ""
