"""All names in which kernel text is written, for a simulation: primitives and kernel functions in Python.

Guarantees that each name means here what `dfc.kernels.primitives` and `dfc.kernels.functions` state.
"""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

from dfc.lower.legalise.library import library
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, parse
from tests.support.cuda_simulator.function_texts import function_definitions
from tests.support.cuda_simulator.primitives import arithmetic, primitives


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
    inner = primitives(warp)
    inner["__name__"] = "dfc_cuda_prelude"
    inner |= functions(function_definitions(library().values()), "<kernel functions>", inner)
    hidden = ("mul_high_u64", "leading_zeros_u64", "two_over_pi_word")
    names = {name: one for name, one in inner.items() if name not in hidden}
    return names | arithmetic(warp, inner)
