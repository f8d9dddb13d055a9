"""Kernel texts to PTX by numba.cuda, without a driver or a device.

Assumes texts in the names of `prelude`. Guarantees that equal texts give equal bytes in every process, whatever was
compiled before, that each is compiled once a process, and that arithmetic is as written. `UnsupportedError` (E1004)
without numba-cuda or one of NVIDIA's libraries.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache as once
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dfc
from dfc.bundle.disk_cache import digest, file_identity, user_cache
from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.compiler_process import begun, compile_texts, missing_compiler
from dfc_target_cuda.code.fragments import Fragments, TextKey

if TYPE_CHECKING:
    from dfc.lower.threads.text.kernel_text import KernelText

KERNEL = "kernel"
"""What the function of a key is called, and its entry."""

_HEADER = re.compile(r"^\.(?:version|target|address_size)\b[^\n]*\n", re.M)
_MEMORY = {"bool": "u8", "f16": "u16", "bf16": "u16"}


def ptx_module(texts: Sequence[KernelText], architecture: str) -> str:
    """One module for `architecture`, such as compute_80; its entries have the names of the texts."""
    if not texts:
        raise CodeGenerationError("a module without kernels")
    check_installed()
    fragments = _FRAGMENTS.get([key_of(text) for text in texts], architecture, user_cache(), _compiler())
    named = zip(texts, fragments, strict=True)
    parts = [re.sub(rf"\b{KERNEL}(?=\b|_)", text.name, part) for text, part in named]
    header = "".join(match[0] for match in _HEADER.finditer(parts[0]))
    return header + "\n" + "\n".join(_HEADER.sub("", part).strip("\n") + "\n" for part in parts)


@contextmanager
def prepared(program: str, architecture: str) -> Generator[None]:
    """While a program is read: has the process begin that will compile its kernels, unless the cache says that this
    program was compiled before. `program` is its text and all else that tells it from others."""
    cache, compiler = user_cache(), _compiler()
    name = digest("program", compiler, architecture, program)
    if (compiler and cache.get(name) is not None) or find_spec("numba_cuda") is None:
        yield
        return
    with begun(architecture):
        yield
    if compiler:
        cache.put({name: b"compiled"})


def key_of(text: KernelText) -> TextKey:
    """What of a text its code depends on."""
    source = re.sub(rf"\bdef {re.escape(text.name)}\(", f"def {KERNEL}(", text.source, count=1)
    pointers = tuple(_MEMORY.get(dtype.name, dtype.name) for dtype in text.pointers)
    return TextKey(source, pointers, text.sizes, text.workspace.constant != 0, text.geometry.threads)


_FRAGMENTS = Fragments(compile_texts)

PACKAGES = ("numba-cuda", "numba", "llvmlite", "cuda-bindings")
"""What makes code of a text, beside the libraries of NVIDIA."""

LIBRARIES = ("nvvm", "nvJitLink")

SOURCES = (
    "code/compile.py",
    "code/device_functions.py",
    "code/index_arithmetic.py",
    "code/link.py",
    "code/lookups.py",
    "code/numba_passes.py",
    "code/worker.py",
    "kernels/prelude/[a-z]*.py",
)
"""Of this package, what decides on the PTX of a text."""

COMPILER_SOURCES = (
    "deferred/dataclasses.py",
    "ir/dims.py",
    "ir/dtypes.py",
    "kernels/*.py",
    "kernels/functions/*.py",
    "lower/legalise/*.py",
)
"""Of the package `dfc`, what the functions that texts call are made of."""


def check_installed() -> None:
    """`UnsupportedError` (E1004) where numba-cuda is not there at all: before a process begins that would find out."""
    for module in ("numba", "numba_cuda"):
        if find_spec(module) is None:
            raise missing_compiler(f"there is no module {module}")


@once
def compiler_versions() -> dict[str, str]:
    """What is installed of what makes code, by the names of its packages."""
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            return {}
    return versions


@once
def _compiler() -> str:
    """What PTX depends on beside a text: all that takes part. Empty if one of that is not known.

    Neither numba nor a library is loaded for that, nor is the prelude written: most often what is asked for was
    compiled before.
    """
    package, compiler = Path(__file__).resolve().parents[1], Path(dfc.__file__).resolve().parent
    patterns = [(package, SOURCES), (compiler, COMPILER_SOURCES)]
    own = [path for root, names in patterns for name in names for path in sorted(root.glob(name))]
    versions, libraries = compiler_versions(), [_library_identity(name) for name in LIBRARIES]
    if not versions or not all(libraries):
        return ""
    stated = [f"{name} {version}" for name, version in versions.items()]
    return digest(*stated, *libraries, *(path.read_bytes() for path in own))


def _library_identity(name: str) -> str:
    """What tells this library from every other; empty if that is not known."""
    spec = find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    installed = [path for folder in folders for path in sorted(Path(folder).glob(f"cu*/lib/lib{name}.so*"))]
    if installed:  # which is where numba's own search begins
        return " ".join(file_identity(str(path)) for path in installed)
    try:
        finder: Any = import_module("cuda.pathfinder")
        return file_identity(finder.load_nvidia_dynamic_lib(name).abs_path or "")
    except (ImportError, AttributeError, RuntimeError):
        return ""
