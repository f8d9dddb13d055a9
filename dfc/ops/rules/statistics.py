"""Rules of statistics: what is made of numbers that are means, sums or extremes over a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from dfc.ir.graph import Node


class Kind(Enum):
    """What a value has to do with the batch."""

    FREE = "nothing"
    EXAMPLES = "a part for each example, or for each block what its examples make"
    SIZE = "its size"
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    UNCLEAR = "more than this knows of"


StatisticRule = Callable[[Node, Sequence[Kind]], Kind]
"""What a node makes of operands of which one at least is a mean, sum or extreme, or the size of the batch."""
TOTALS = (Kind.MEAN, Kind.SUM)
EXTREMES = (Kind.MAX, Kind.MIN)


def unclear(node: Node, kinds: Sequence[Kind]) -> Kind:
    """The safe default."""
    del node, kinds
    return Kind.UNCLEAR


def kept(node: Node, kinds: Sequence[Kind]) -> Kind:
    """Of what only moves numbers."""
    del node
    return kinds[0]


def kept_total(node: Node, kinds: Sequence[Kind]) -> Kind:
    """Of what is linear in its one operand, and may turn extremes around."""
    del node
    return Kind.UNCLEAR if kinds[0] in EXTREMES else kinds[0]


def summed(node: Node, kinds: Sequence[Kind]) -> Kind:
    del node
    return kinds[0] if kinds[0] in TOTALS else Kind.UNCLEAR


def added(node: Node, kinds: Sequence[Kind]) -> Kind:
    """Two of a kind, or a mean and what has nothing to do with the batch, such as a penalty on weights."""
    del node
    a, b = kinds
    if a is b and a in TOTALS:
        return a
    return Kind.MEAN if {a, b} == {Kind.MEAN, Kind.FREE} else Kind.UNCLEAR


def scaled(node: Node, kinds: Sequence[Kind]) -> Kind:
    """The product with what has nothing to do with the batch."""
    del node
    totals = [kind for kind in kinds if kind in TOTALS]
    return totals[0] if len(totals) == 1 and Kind.FREE in kinds else Kind.UNCLEAR


def divided(node: Node, kinds: Sequence[Kind]) -> Kind:
    """A sum by the size of the batch is a mean."""
    del node
    a, b = kinds
    if a in TOTALS and b is Kind.FREE:
        return a
    return Kind.MEAN if (a, b) == (Kind.SUM, Kind.SIZE) else Kind.UNCLEAR
