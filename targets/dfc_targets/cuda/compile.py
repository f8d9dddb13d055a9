"""Kernel texts to PTX, by numba.cuda and NVVM, without a driver or a device.

Assumes texts in the names of `prelude`. Guarantees that equal texts give equal bytes in every process, that each is
compiled once a process, and that arithmetic is as written: no contraction to fused multiply-add, no fast math,
subnormal numbers kept, division and square root rounded to nearest. `UnsupportedError` (E1004) without numba-cuda.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from dfc_targets.cuda import prelude
from dfc_targets.cuda.fragments import Fragments, TextKey
from dfc_targets.cuda.kernel_text import KernelText
from dfc_targets.errors import CodeGenerationError

_PLACE = "kernel"  # what an entry is called until its module is put together
_COUNTER = re.compile(r"B\d+v\d+(?=B)")  # numba counts functions, so its names depend on what was compiled before
_DEFINE = re.compile(r'^define [^\n]*?@"([^"]+)"', re.M)
_DECLARE = re.compile(r'^declare [^\n]*?@"([^"]+)"', re.M)
_ENVIRONMENT = re.compile(r"^\.common \.global [^\n]*NumbaEnv[^\n]*\n|^[ \t]*//[^\n]*\n", re.M)
_HEADER = re.compile(r"^\.(?:version|target|address_size)\b[^\n]*\n", re.M)
_ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
_DEFINITION = re.compile(
    r"^(?!\.visible \.entry)\.(?:visible |weak |extern )?\.?(?:func|global|const)\b[^\n]*?"
    r"([A-Za-z_$][\w$]*)(?:\[\d+\]| ?=|;|\(|$)",
    re.M,
)
_MEMORY = {"bool": "u8", "f16": "u16", "bf16": "u16"}


def ptx_module(texts: Sequence[KernelText], architecture: str) -> str:
    """One module for `architecture`, such as compute_80; its entries have the names of the texts."""
    if not texts:
        raise CodeGenerationError("a module without kernels")
    prelude.device()  # its error, if numba-cuda is not installed
    made = _FRAGMENTS.get([_key(text) for text in texts], architecture)
    named = zip(texts, made, strict=True)
    parts = [re.sub(rf"\b{_PLACE}(?=\b|_)", text.name, part) for text, part in named]
    header = "".join(_HEADER.findall(parts[0]))
    return header + "\n" + "\n".join(_HEADER.sub("", part).strip("\n") + "\n" for part in parts)


def _key(text: KernelText) -> TextKey:
    source = re.sub(rf"\bdef {re.escape(text.name)}\(", f"def {_PLACE}(", text.source, count=1)
    pointers = tuple(_MEMORY.get(dtype.name, dtype.name) for dtype in text.pointers)
    return TextKey(source, pointers, text.sizes, text.workspace.constant != 0, text.geometry.threads)


def fragment(key: TextKey, architecture: str) -> str:
    """The PTX of one kernel, called `kernel`, with header; other names of the module begin with that."""
    modules = [_COUNTER.sub("", module) for module in _lowered(key, architecture)]
    return _renamed(_optimised(_callers_first(modules), architecture))


_FRAGMENTS = Fragments(fragment)


def _callers_first(modules: Sequence[str]) -> list[str]:
    """In the order in which NVVM keeps all: it drops a function that nothing before it calls."""
    defined = {name: module for module in sorted(modules) for name in _DEFINE.findall(module)}
    calls = {module: {defined[name] for name in _DECLARE.findall(module) if name in defined} for module in modules}
    callers = {module: sum(module in called for called in calls.values()) for module in calls}
    ready = sorted((module for module, count in callers.items() if count == 0), reverse=True)
    order: list[str] = []
    while ready:
        order.append(ready.pop())
        for called in sorted(calls[order[-1]], reverse=True):
            callers[called] -= 1
            if callers[called] == 0:
                ready.append(called)
    if len(order) != len(calls):
        raise CodeGenerationError("functions of a kernel text call each other in a circle")
    return order


def _lowered(key: TextKey, architecture: str) -> list[str]:
    """The kernel and the functions it calls as NVVM IR."""
    names = dict(prelude.device())
    prelude.execute(key.source, f"<kernel text {zlib.crc32(key.source.encode()):08x}>", names)
    types, compiler, errors, nvvm = _numba("types", "compiler", "core.errors", "cudadrv.nvvm")
    signature: list[Any] = [types.CPointer(names[name]) for name in key.pointers]
    signature += [types.int64] * key.sizes
    signature += [types.CPointer(types.uint8)] * key.workspace + [types.CPointer(types.int64)]
    try:
        result = compiler.compile_cuda(
            names[_PLACE], types.void, tuple(signature), nvvm_options={}, cc=_version(architecture)
        )
    except errors.NumbaError as error:
        raise CodeGenerationError(f"numba refuses the kernel text: {error}\n{key.source}") from error
    kernel = result.library.get_function(result.fndesc.llvm_func_name)
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, key.threads)
    return list(result.library.llvm_strs)


def _optimised(modules: Sequence[str], architecture: str) -> str:
    (nvvm,) = _numba("cudadrv.nvvm")
    refused: Any = import_module("cuda.bindings.nvvm").nvvmError
    options = {"opt": 3, "fma": False, "ftz": False, "prec_div": True, "prec_sqrt": True}
    try:
        code: bytes = nvvm.compile_ir(modules, arch=architecture, **options)
    except refused as error:
        raise CodeGenerationError(f"NVVM refuses the generated code: {error}") from error
    return code.decode().strip("\x00").strip() + "\n"


def _numba(*modules: str) -> list[Any]:
    """Modules of numba.cuda, which do not describe their types; `prelude.device()` has found them installed."""
    return [import_module(f"numba.cuda.{name}") for name in modules]


def _version(architecture: str) -> tuple[int, int]:
    """(8, 0) of compute_80."""
    number = int(architecture.removeprefix("compute_"))
    return number // 10, number % 10


def _renamed(ptx: str) -> str:
    """Short names that are the same in every process; without comments and what numba keeps for exceptions."""
    ptx = _ENVIRONMENT.sub("", ptx)
    entries = _ENTRY.findall(ptx)
    if len(entries) != 1:
        raise CodeGenerationError(f"a kernel has {len(entries)} entries: {entries}")
    known = {entries[0]: _PLACE}
    for match in _DEFINITION.finditer(ptx):
        known.setdefault(match[1], f"{_PLACE}_{len(known)}")
    longest_first = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    return re.sub(rf"(?<![\w$.%])({longest_first})(?=\b|_param_)", lambda match: known[match[1]], ptx)
