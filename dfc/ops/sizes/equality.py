"""When two sizes count as equal while graphs are checked and rewritten.

The front end proves equalities with facts (`where D % H == 0`) and hands on the sizes as they stand, so later stages
ask under the same facts; inside a branch, whose condition may be a fact of its own, only what is refuted is unequal.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from dfc.ir.dims import Dim
from dfc.ir.facts import Facts
from dfc.ir.graph import DimCheck
from dfc.ops.broadcasting import DimsEqual, dims_equal


def may_be_equal(a: Dim, b: Dim) -> bool:
    """Not certainly unequal."""
    return (a - b).constant in (None, 0)


def facts_of(checks: Sequence[DimCheck]) -> Facts:
    """What an entry has checked before it runs."""
    facts = Facts()
    for check in checks:
        facts = facts.assume(check.left, check.relation, check.right)
    return facts


def equal_under(facts: Facts) -> DimsEqual:
    return lambda a, b: facts.equal(a, b) is True


@contextmanager
def sizes_compared(by: DimsEqual = may_be_equal) -> Generator[None]:
    """Lets shape rules compare sizes with `by`. Rewrites of a checked graph use the default: it was proved already."""
    token = dims_equal.set(by)
    try:
        yield
    finally:
        dims_equal.reset(token)
