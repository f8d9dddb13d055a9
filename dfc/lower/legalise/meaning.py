"""What each scalar function of kernel bodies means, as a kernel function for given element types.

Assumes the names and types of a verified body. Guarantees one function for each meaning, on register types, whatever
asks for it; what a body calls like a primitive is a function of that one primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dfc.ir.dtypes import I64, DType
from dfc.kernels.functions import Function
from dfc.kernels.primitives import register_type
from dfc.kernels.terms import Term, function
from dfc.lower.legalise.casts import cast
from dfc.lower.legalise.elementary import ELEMENTARY, elementary
from dfc.lower.legalise.exponential import exp_of_nonpositive
from dfc.lower.legalise.remainder import floor_divide, modulo
from dfc.lower.legalise.scalars import BOOL, FLOAT, INTEGER, Formula, above

_FLOAT: dict[str, Formula] = {
    **FLOAT,
    "mod": modulo,
    "floordiv": floor_divide,
    "exp_of_nonpositive": exp_of_nonpositive,
}


def meaning(name: str, types: Sequence[DType], result: DType) -> Function:
    """The function `name` of arguments of these element types. Raises `CodeGenerationError` if there is none."""
    kinds = tuple(map(register_type, types))
    if name == "cast":
        return _identity(kinds[0]) if types[0] == result else _cast(kinds[0], result)
    return _named(name, kinds, register_type(result))


@cache
def _cast(source: DType, target: DType) -> Function:
    return function(f"to_{target}_from_{source}", lambda x: cast(x, source, target), source)


@cache
def _identity(kind: DType) -> Function:
    return function(f"{kind}_same", lambda x: x, kind)


@cache
def _named(name: str, kinds: tuple[DType, ...], result: DType) -> Function:
    kind = kinds[-1]
    if kind.is_float and name in ELEMENTARY:
        return elementary(name, kind)
    formula = defined(kind).get(name)
    if formula is not None:
        return function(f"{kind}_{name}", formula, *kinds)
    return _primitive(f"{kind}_{name}", name, kinds, result)


def _primitive(full: str, name: str, kinds: Sequence[DType], result: DType) -> Function:
    def unary(x: Term) -> Term:
        return x.primitive(name, dtype=result)

    def binary(x: Term, y: Term) -> Term:
        return x.primitive(name, y, dtype=result)

    def ternary(x: Term, y: Term, z: Term) -> Term:
        return x.primitive(name, y, z, dtype=result)

    return function(full, (unary, binary, ternary)[len(kinds) - 1], *kinds)


def defined(kind: DType) -> dict[str, Formula]:
    """The functions of a register type that are formulas, beside the elementary ones."""
    return _FLOAT if kind.is_float else BOOL if kind.is_bool else INTEGER


@cache
def search(kind: DType, *, largest: bool) -> Function:
    """`T_above` or `T_below` (x, i, y, j): whether argmax or argmin keeps x at index i rather than y at index j."""

    def keeps(x: Term, i: Term, y: Term, j: Term) -> Term:
        return above(x, i, y, j, largest=largest)

    return function(f"{kind}_{'above' if largest else 'below'}", keeps, kind, I64, kind, I64)
