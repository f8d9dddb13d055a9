"""All names in which kernel text is written, for a simulation: primitives and kernel functions in Python.

Guarantees that each name means here what `dfc.kernels.primitives` and `dfc.kernels.functions` state.
"""

from __future__ import annotations

import linecache
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any

from dfc.lower.legalise.library import library
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, parse
from tests.support.cuda_simulator.function_texts import function_definitions
from tests.support.cuda_simulator.primitives import arithmetic, primitives


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Adds the functions of a text to the names that they use. `file` is what tracebacks and messages call the text."""
    codes = _checked(source, file, frozenset(names))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names |= {code.co_name: FunctionType(code, names, code.co_name) for code in codes}


@lru_cache(128)
def _checked(source: str, file: str, outside: frozenset[str]) -> tuple[CodeType, ...]:
    """The code of each function; more than half of all texts are run several times, on other arrays or schedules."""
    definitions = parse(source)
    known = {*outside, *(definition.name for definition in definitions)}
    for definition in definitions:
        check(definition, known)
    return tuple(function.__code__ for function in functions(definitions, file, {}).values())


@cache
def simulated_names(warp: int = 32) -> dict[str, Any]:
    """The names, with warps of so many lanes."""
    inner = primitives(warp)
    inner["__name__"] = "dfc_cuda_prelude"
    inner |= functions(function_definitions(library().values()), "<kernel functions>", inner)
    hidden = ("mul_high_u64", "leading_zeros_u64", "two_over_pi_word")
    names = {name: one for name, one in inner.items() if name not in hidden}
    return names | arithmetic(warp, inner)
