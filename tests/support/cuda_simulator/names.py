"""All names in which kernel text is written, for a simulation: primitives and kernel functions in Python.

A function of a text in which lanes meet becomes a generator, as the primitives are at which they do:
    part = i64(part + shuffle_xor_i64(part, mask))    ->    part = i64(part + (yield from shuffle_xor_i64(part, mask)))

Guarantees that each name means here what `dfc.kernels.primitives` and `dfc.kernels.functions` state.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any

from dfc.deferred.collection import uncollected
from dfc.lower.legalise.library import library
from dfc_target_cuda.kernels.prelude.text_functions import check, functions, nodes_of, parse
from tests.support.cuda_simulator.function_texts import function_definitions
from tests.support.cuda_simulator.primitives import arithmetic, primitives
from tests.support.cuda_simulator.simulation import meets


def define(source: str, file: str, names: dict[str, Any]) -> None:
    """Adds the functions of a text to the names that they use. `file` is what tracebacks and messages call the text."""
    codes = _checked(source, file, frozenset(names))
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names |= {code.co_name: FunctionType(code, names, code.co_name) for code in codes}


@lru_cache(128)
def _checked(source: str, file: str, outside: frozenset[str]) -> tuple[CodeType, ...]:
    """The code of each function; more than half of all texts are run several times, on other arrays or schedules."""
    with uncollected():  # a syntax tree has tens of thousands of objects, and all of them last to its end
        definitions = parse(source)
        known = {*outside, *(definition.name for definition in definitions)}
        for definition in definitions:
            check(definition, known)
        if _meetings()[1].search(source):
            source = _with_turns(source, definitions)
        whole = compile(source, file, "exec", dont_inherit=True)  # what was checked, and turns
    return tuple(code for code in whole.co_consts if isinstance(code, CodeType))


def _with_turns(source: str, definitions: Sequence[ast.FunctionDef]) -> str:
    """The text with `yield from` where lanes meet, also in functions that call each other."""
    meetings = set(_meetings()[0])
    calls = {definition.name: _calls(definition) for definition in definitions}
    count = 0
    while len(meetings) > count:
        count = len(meetings)
        meetings |= {name for name, called in calls.items() if not meetings.isdisjoint(one for one, _ in called)}
    lines = source.encode().split(b"\n")  # places are counted in bytes
    marks = [mark for called in calls.values() for name, node in called if name in meetings for mark in _marks(node)]
    for line, column, mark in sorted(marks, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + mark + text[column:]
    return b"\n".join(lines).decode()


def _calls(definition: ast.FunctionDef) -> list[tuple[str, ast.Call]]:
    calls = [node for node in nodes_of(definition) if isinstance(node, ast.Call)]
    return [(call.func.id, call) for call in calls if isinstance(call.func, ast.Name)]


def _marks(call: ast.Call) -> list[tuple[int, int, bytes]]:
    """Where to write what, by line and column."""
    assert call.end_lineno is not None and call.end_col_offset is not None
    return [(call.lineno, call.col_offset, b"(yield from "), (call.end_lineno, call.end_col_offset, b")")]


@cache
def _meetings() -> tuple[frozenset[str], re.Pattern[str]]:
    """The names of the prelude at which lanes meet, and what finds one."""
    names = frozenset(name for name, function in simulated_names().items() if meets(function))
    return names, re.compile(rf"\b(?:{'|'.join(sorted(names))})\(")


@cache
def simulated_names(warp: int = 32) -> dict[str, Any]:
    """The names, with warps of so many lanes."""
    inner = primitives(warp)
    inner["__name__"] = "dfc_cuda_prelude"
    inner |= functions(function_definitions(library().values()), "<kernel functions>", inner)
    hidden = ("mul_high_u64", "leading_zeros_u64", "two_over_pi_word")
    names = {name: one for name, one in inner.items() if name not in hidden}
    return names | arithmetic(warp, inner)
