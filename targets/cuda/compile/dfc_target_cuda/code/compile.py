"""Kernel texts to PTX, without a driver or a device.

Assumes texts in the names of `prelude`. Guarantees that equal texts give equal bytes in every process, that each is
compiled once a process, and that arithmetic is as written. `UnsupportedError` (E1004) without the compiler of NVIDIA.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache as once
from pathlib import Path

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code import nvvm
from dfc_target_cuda.code.code_writer import KERNEL
from dfc_target_cuda.code.device_module import module
from dfc_target_cuda.code.disk_cache import digest, user_cache
from dfc_target_cuda.code.fragments import Fragments, TextKey
from dfc_target_cuda.kernels import prelude
from dfc_target_cuda.kernels.kernel_text import KernelText

_COMMENT = re.compile(r"^[ \t]*//[^\n]*\n", re.M)
_HEADER = re.compile(r"^\.(?:version|target|address_size)\b[^\n]*\n", re.M)
_MEMORY = {"bool": "u8", "f16": "u16", "bf16": "u16"}


def ptx_module(texts: Sequence[KernelText], architecture: str) -> str:
    """One module for `architecture`, such as compute_80; its entries have the names of the texts."""
    if not texts:
        raise CodeGenerationError("a module without kernels")
    made = _FRAGMENTS.get([key_of(text) for text in texts], architecture, user_cache(), _compiler())
    named = zip(texts, made, strict=True)
    parts = [re.sub(rf"\b{KERNEL}(?=\b|_)", text.name, part) for text, part in named]
    header = "".join(_HEADER.findall(parts[0]))
    return header + "\n" + "\n".join(_HEADER.sub("", part).strip("\n") + "\n" for part in parts)


def key_of(text: KernelText) -> TextKey:
    """What of a text its code depends on."""
    source = re.sub(rf"\bdef {re.escape(text.name)}\(", f"def {KERNEL}(", text.source, count=1)
    pointers = tuple(_MEMORY.get(dtype.name, dtype.name) for dtype in text.pointers)
    return TextKey(source, pointers, text.sizes, text.workspace.constant != 0, text.geometry.threads)


def fragment(key: TextKey, architecture: str) -> str:
    """The PTX of one kernel, called `kernel`, with header; other names of the module begin with that."""
    return _COMMENT.sub("", nvvm.optimised(module(key, nvvm.code_version()), architecture))


_FRAGMENTS = Fragments(fragment)


SOURCES = ("code/code*.py", "code/compile.py", "code/device_module.py", "code/nvvm.py", "kernels/prelude*.py")
"""Of this package, what decides on the PTX of a text; beside it, the text of the prelude does."""


@once
def _compiler() -> str:
    """What PTX depends on beside a text: the translation to LLVM, and libNVVM. Empty if one of them is not known."""
    library, package = nvvm.identity(), Path(__file__).resolve().parents[1]
    own = [path for pattern in SOURCES for path in sorted(package.glob(pattern))]
    return digest(library, prelude.text().encode(), *(path.read_bytes() for path in own)) if library and own else ""
