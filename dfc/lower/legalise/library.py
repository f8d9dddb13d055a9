"""All kernel functions that kernels of any type may call, by name: what a target that keeps names for them has to know.

Guarantees one function for each name, behind those that it calls itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from dfc.ir.dtypes import ALL, BOOL, F32, F64
from dfc.kernels.body import FUNCTIONS, UNARY
from dfc.kernels.functions import Function, with_callees
from dfc.kernels.primitives import is_register_type
from dfc.lower.legalise.elementary import ELEMENTARY
from dfc.lower.legalise.halves import HALVES, load_function, round_function, store_function
from dfc.lower.legalise.meaning import defined, meaning, search
from dfc.lower.legalise.random import random_function

REGISTERS = [dtype for dtype in ALL.values() if is_register_type(dtype)]
"""The types that values are computed as."""


@cache
def library() -> dict[str, Function]:
    """The functions and those they call."""
    return {one.name: one for function in _functions() for one in with_callees(function)}


def _functions() -> Iterator[Function]:
    for kind, name in product(REGISTERS, sorted(FUNCTIONS)):
        if name in defined(kind) or (kind.is_float and name in ELEMENTARY):
            yield meaning(name, [kind] * (1 if name in UNARY else 2), BOOL if name == "is_finite" else kind)
    for source, target in product(REGISTERS, ALL.values()):
        if not target.is_complex:
            yield meaning("cast", [source], target)
    for kind, largest in product(REGISTERS, (True, False)):
        yield search(kind, largest=largest)
    for half in HALVES:
        yield from (load_function(half), store_function(half), round_function(half))
    for distribution, dtype in product(("uniform", "normal"), (*HALVES, F32, F64)):
        yield random_function(distribution, dtype)
