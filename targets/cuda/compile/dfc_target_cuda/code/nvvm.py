"""LLVM code to PTX by libNVVM, the optimiser of NVIDIA, through the package cuda-bindings.

Assumes modules of `device_module`. Guarantees that arithmetic stays as it is written: no contraction to fused
multiply-add, no fast math, subnormal numbers kept, division and square root rounded to nearest. Needs neither a driver
nor a device. `UnsupportedError` (E1004) where the library is not installed.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Any

from dfc.kernels.errors import CodeGenerationError
from dfc_runtime.errors import UnsupportedError
from dfc_target_cuda.code.disk_cache import file_identity

_OPTIONS = ("-opt=3", "-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1")


_LOADING = threading.Lock()


def _library() -> Any:
    """The binding, which does not describe its types; loaded by one thread, however many ask."""
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Any:
    """Once it has found its library."""
    try:
        found: Any = import_module("cuda.bindings.nvvm")
        found.version()
    except (ImportError, RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        text = f"the target cuda needs NVIDIA's compiler ({reason}): pip install 'dfc[cuda]', or --target cpu"
        raise UnsupportedError(text, code="E1004") from None
    return found


@cache
def identity() -> str:
    """What tells this library from every other; empty if that is not known."""
    _library()  # which has loaded it
    try:
        finder: Any = import_module("cuda.pathfinder")
        return file_identity(finder.load_nvidia_dynamic_lib("nvvm").abs_path or "")
    except (ImportError, AttributeError, RuntimeError):
        return ""


@cache
def code_version() -> tuple[int, int, int, int]:
    """What modules say of the code that they are."""
    first, second, third, fourth = _library().ir_version()
    return first, second, third, fourth


def optimised(module: str, architecture: str) -> str:
    """The PTX of a module for an architecture such as compute_80."""
    library, code = _library(), module.encode()
    options = [f"-arch={architecture}", *_OPTIONS]
    program = library.create_program()
    try:
        library.add_module_to_program(program, code, len(code), "kernel")
        library.verify_program(program, len(options), options)
        library.compile_program(program, len(options), options)
        made = bytearray(library.get_compiled_result_size(program))
        library.get_compiled_result(program, made)
    except library.nvvmError as error:
        raise CodeGenerationError(f"libNVVM refuses the generated code: {error}; {_log(library, program)}") from error
    finally:
        library.destroy_program(program)
    return made.decode().strip("\0").strip() + "\n"


def _log(library: Any, program: int) -> str:
    told = bytearray(library.get_program_log_size(program))
    library.get_program_log(program, told)
    return told.decode(errors="replace").strip("\0").strip()
