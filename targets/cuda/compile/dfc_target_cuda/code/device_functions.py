"""Functions of kernel text as functions of numba, and as LTO-IR for one architecture: kernels, and what they call.

Assumes numba-cuda, in a process that compiles nothing else (`worker`). The functions of the prelude are no part of a
kernel here: each has the signature that its annotations state, is compiled by itself, and is put into kernels when
`link` optimises all of them together. So type inference never looks into one through a call. Guarantees what
`device_arithmetic` does, and that a text which is refused ends in `CodeGenerationError` with the text.
"""

from __future__ import annotations

import ast
import copy
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code import device_arithmetic
from dfc_target_cuda.code.condense import condensed
from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.kernels.prelude import prelude
from dfc_target_cuda.kernels.prelude.intrinsics import TYPES, RefusedTypesError, call, fixed, types
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, parse

KERNEL = "kernel"
"""What the function is called that is launched."""

SYMBOL = "dfc_"
"""What names of prelude functions begin with where they are linked."""


@cache
def names() -> dict[str, Any]:
    """What a text may use: primitives, and the functions of the prelude's text by their signatures."""
    device_arithmetic.install()
    primitives: dict[str, Any] = import_module("dfc_target_cuda.kernels.prelude.device").primitives()
    declared = {name: _declared(name) for name in prelude.definitions()}
    return primitives | declared


def _function(definition: ast.FunctionDef, file: str) -> Any:
    """`definition` is changed."""
    shorter, more = condensed(definition)
    return functions([shorter], file, names() | more)[definition.name]


def _declared(name: str) -> Any:
    """A function that is somewhere else when it is called."""
    signature = _signature(prelude.definitions()[name])

    def emit(context: Any, builder: Any, arguments: Sequence[Any]) -> Any:
        pairs = zip(signature.args, arguments, strict=True)
        passed = [context.get_value_as_argument(builder, kind, value) for kind, value in pairs]
        result = context.data_model_manager[signature.return_type].get_return_type()
        returned = call(builder, SYMBOL + name, result, passed)
        return context.get_returned_value(builder, signature.return_type, returned)

    return fixed(name, signature, emit)


def _signature(definition: ast.FunctionDef) -> Any:
    """As the annotations say."""
    result = definition.returns
    kinds = [_type(one) for one in (result.elts if isinstance(result, ast.Tuple) else [result])]
    returned = types.Tuple(kinds) if isinstance(result, ast.Tuple) else kinds[0]
    return returned(*(_type(argument.annotation) for argument in definition.args.args))


def _type(annotation: ast.expr | None) -> Any:
    assert isinstance(annotation, ast.Name)
    return TYPES[annotation.id]


def kernel_function(key: TextKey) -> tuple[Any, Any]:
    """The Python function of a text, which is called `kernel`, and its signature."""
    (definition,) = parse(key.source)
    check(definition, names())
    file = f"<kernel text {zlib.crc32(key.source.encode()):08x}>"
    python = _function(definition, file)
    pointers = [types.CPointer(TYPES[name]) for name in key.pointers]
    workspace = [types.CPointer(types.uint8)] * key.workspace
    return python, types.void(*pointers, *[types.int64] * key.sizes, *workspace, types.CPointer(types.int64))


def prelude_function(name: str) -> tuple[Any, Any]:
    """The Python function of a name of the prelude, and its signature."""
    definition = prelude.definitions()[name]
    return _function(copy.deepcopy(definition), prelude.FILE), _signature(definition)


def kernel_code(key: TextKey, architecture: str) -> bytes:
    """A kernel's LTO-IR, without the functions that it calls."""
    python, signature = kernel_function(key)
    return _compiled(python, signature, architecture, key.source, device=False, abi="numba", launch_bounds=key.threads)


def prelude_code(name: str, architecture: str) -> bytes:
    """The LTO-IR of a function of the prelude, without those that it calls."""
    python, signature = prelude_function(name)
    symbol = {"abi_name": SYMBOL + name}
    return _compiled(python, signature, architecture, name, device=True, abi="c", abi_info=symbol)


def _compiled(python: Any, signature: Any, architecture: str, text: str, **options: Any) -> bytes:
    numba: Any = import_module("numba.cuda")
    try:
        code, _ = numba.compile(python, signature, cc=version(architecture), output="ltoir", **options)
    except (*_refusals(), RefusedTypesError) as error:
        raise CodeGenerationError(f"numba refuses the kernel text: {error}\n{text}") from error
    return bytes(code)


def _refusals() -> tuple[type[Exception], ...]:
    """What numba raises: parts of it are those of numba for processors, with errors of their own."""
    modules: list[Any] = [import_module(name) for name in ("numba.cuda.core.errors", "numba.core.errors")]
    return tuple(module.NumbaError for module in modules)


def version(architecture: str) -> tuple[int, int]:
    """(8, 0) of compute_80."""
    return divmod(int(architecture.removeprefix("compute_")), 10)
