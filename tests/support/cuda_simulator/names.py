"""All names in which kernel text is written, for a simulation: primitives in Python, and the prelude's own text.

Guarantees that functions of the prelude are the same text here as on the device; only the primitives differ.
"""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

from dfc_target_cuda.kernels.prelude import prelude
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, parse
from tests.support.cuda_simulator.primitives import primitives


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Adds the functions of a text to the names that they use. `file` is what tracebacks and messages call the text."""
    definitions = parse(source)
    known = {*names, *(definition.name for definition in definitions)}
    for definition in definitions:
        check(definition, known)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names |= functions(definitions, file, names)


@cache
def simulated_names(warp: int = 32) -> dict[str, Any]:
    """The names, with warps of so many lanes."""
    names = primitives(warp)
    names["__name__"] = "dfc_cuda_prelude"
    define(prelude.text(), prelude.FILE, names)
    return names
