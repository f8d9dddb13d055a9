"""LTO-IR of a kernel to PTX, by nvJitLink.

Guarantees that arithmetic stays as it is written: no contraction to fused multiply-add, no fast math, subnormal numbers
kept, division and square root rounded to nearest; that is decided here, where code is made, and not before. Names are
short and the same in every process, whatever numba calls things. Needs neither a driver nor a device.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from dfc.kernels.errors import CodeGenerationError

KERNEL = "kernel"
"""What the kernel is called, and what other names of its module begin with."""

OPTIONS = ("-lto", "-ptx", "-O3", "-fma=0", "-ftz=0", "-prec-div=1", "-prec-sqrt=1")

_NOISE = re.compile(r"^[ \t]*//[^\n]*\n|^\.common \.global [^\n]*NumbaEnv[^\n]*\n", re.M)
_ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
_DEFINITION = re.compile(
    r"^(?!\.visible \.entry)\.(?:visible |weak |extern )?\.?(?:func|global|const|shared)\b[^\n]*?"
    r"([A-Za-z_$][\w$]*)(?:\[\d+\]| ?=|;|\(|$)",
    re.M,
)


def link(kernel: bytes, architecture: str) -> str:
    """The PTX of a kernel for an architecture such as compute_80."""
    library: Any = import_module("cuda.bindings.nvjitlink")  # which does not describe its types
    options = [*OPTIONS, f"-arch={architecture.replace('compute_', 'sm_')}"]
    linker = library.create(len(options), options)
    try:
        library.add_data(linker, library.InputType.LTOIR, kernel, len(kernel), KERNEL)
        library.complete(linker)
        ptx_text = bytearray(library.get_linked_ptx_size(linker))
        library.get_linked_ptx(linker, ptx_text)
    except library.nvJitLinkError as error:
        raise CodeGenerationError(f"nvJitLink refuses the generated code: {error}; {_log(library, linker)}") from error
    finally:
        library.destroy(linker)
    return renamed(ptx_text.decode().strip("\0").strip() + "\n")


def _log(library: Any, linker: int) -> str:
    log = bytearray(library.get_error_log_size(linker))
    library.get_error_log(linker, log)
    return log.decode(errors="replace").strip("\0").strip()


def renamed(ptx: str) -> str:
    """The entry as `kernel`, all else by its place; without comments and what numba keeps for exceptions."""
    ptx = _NOISE.sub("", ptx)
    entries = [match[1] for match in _ENTRY.finditer(ptx)]
    if len(entries) != 1:
        raise CodeGenerationError(f"a kernel has {len(entries)} entries: {entries}")
    known: dict[str, str] = {entries[0]: KERNEL}
    for match in _DEFINITION.finditer(ptx):
        known.setdefault(match[1], f"{KERNEL}_{len(known)}")
    longest_first = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    return re.sub(rf"(?<![\w$.%])({longest_first})(?=\b|_param_)", lambda match: known[match[1]], ptx)
