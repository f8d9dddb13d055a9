"""Checks of sizes that are found out while an entry runs: which nodes they are, and what they say.

Assumes a graph in which such a check is an `assert` on comparisons of `dim` nodes, as the front end makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir import walk
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import Block, Node, Value
from dfc.ir.measured import measured_in
from dfc.ops.attributes import AssertAttributes, ConstantAttributes, DimAttributes


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """A condition on sizes that is checked where it stands."""

    condition: str
    reason: str
    span: Span


def sizes_compared_by(condition: Value) -> frozenset[Symbol]:
    """The symbols of a condition that depends on sizes alone; none if it depends on anything else."""
    symbols: set[Symbol] = set()
    pending = [condition]
    while pending:
        node = pending.pop().node
        if node is None or node.regions or any(v.is_token for v in node.operands):
            return frozenset()
        if isinstance(node.attributes, DimAttributes):
            symbols |= node.attributes.size.symbols()
        elif not node.operands and not isinstance(node.attributes, ConstantAttributes):
            return frozenset()
        pending += node.operands
    return frozenset(symbols)


def size_asserts(block: Block, others: Iterable[Symbol] = ()) -> Iterator[tuple[Node, frozenset[Symbol]]]:
    """The assertions about measured sizes (and `others`), nested ones included, with the sizes that each is about."""
    among = {*measured_in(block), *others}
    for node in walk.nodes(block) if among else ():
        if node.op == "assert":
            symbols = sizes_compared_by(node.operands[0]) & among
            if symbols:
                yield node, symbols


def checks_inside(block: Block) -> Iterator[SizeCheck]:
    """What an entry checks about sizes while it runs, in the order of its lines."""
    about_sizes = {node for node, _ in size_asserts(block)}
    for node in walk.nodes(block):
        match node.attributes:
            case MeasuredAttributes(size, most) if not _is_count(node.operands[0], most):
                yield SizeCheck(f"0 <= {size} <= {most}", "found out here", node.span)
            case AssertAttributes(message, text) if node in about_sizes:
                yield SizeCheck(text, message.removeprefix(failing(text)), node.span)
            case _:
                pass


def _is_count(count: Value, most: Dim) -> bool:
    """Whether a number counts elements of a tensor that has no more than that."""
    node = count.node
    if node is None or node.op not in ("sum", "count_distinct") or node.operands[0].tensor.elements != most:
        return False
    ones = node.operands[0].node
    return node.op == "count_distinct" or (
        ones is not None and ones.op == "cast" and ones.operands[0].tensor.dtype.is_bool
    )


def failing(condition: str) -> str:
    """How the message begins when a condition does not hold."""
    return f"{condition} does not hold: "
