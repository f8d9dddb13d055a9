"""Kernel texts as functions of numba, and as LTO-IR for one architecture.

Assumes numba-cuda, in a process that compiles nothing else (`worker`). Guarantees that type inference meets nothing but
functions of one signature and operators of indices, and that a text which is refused ends in `CodeGenerationError` with
the text.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code import index_arithmetic, numba_passes
from dfc_target_cuda.code.fragments import TextKey
from dfc_target_cuda.code.lookups import looked_up_once
from dfc_target_cuda.kernels.prelude.intrinsics import TYPES, RefusedTypesError, types
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, parse

KERNEL = "kernel"
"""What the function is called that is launched."""


@cache
def names() -> dict[str, Any]:
    """What a text may use."""
    index_arithmetic.install()
    numba_passes.install()
    known: dict[str, Any] = import_module("dfc_target_cuda.kernels.prelude.device").names()
    return known


def kernel_function(key: TextKey) -> tuple[Any, Any]:
    """The Python function of a text, which is called `kernel`, and its signature."""
    (definition,) = parse(key.source)
    check(definition, names())
    file = f"<kernel text {zlib.crc32(key.source.encode()):08x}>"
    shorter, constants = looked_up_once(definition)
    python = functions([shorter], file, names() | constants)[definition.name]
    pointers = [types.CPointer(TYPES[name]) for name in key.pointers]
    workspace = [types.CPointer(types.uint8)] * key.workspace
    return python, types.void(*pointers, *[types.int64] * key.sizes, *workspace, types.CPointer(types.int64))


def kernel_code(key: TextKey, architecture: str) -> bytes:
    """A kernel's LTO-IR."""
    python, signature = kernel_function(key)
    numba: Any = import_module("numba.cuda")
    options = {"device": False, "abi": "numba", "output": "ltoir", "launch_bounds": key.threads}
    try:
        code, _ = numba.compile(python, signature, cc=version(architecture), **options)
    except (*_refusals(), RefusedTypesError) as error:
        raise CodeGenerationError(f"numba refuses the kernel text: {error}\n{key.source}") from error
    return bytes(code)


def _refusals() -> tuple[type[Exception], ...]:
    """What numba raises: parts of it are those of numba for processors, with errors of their own."""
    modules: list[Any] = [import_module(name) for name in ("numba.cuda.core.errors", "numba.core.errors")]
    return tuple(module.NumbaError for module in modules)


def version(architecture: str) -> tuple[int, int]:
    """(8, 0) of compute_80."""
    return divmod(int(architecture.removeprefix("compute_")), 10)
