"""Gradients of gradients: how many operations they will come to, before they are made.

Each takes the nodes of the one below and adds some for each of them, so that their number grows by the same factor from
one to the next: 25 of them may be more than any machine can hold. Two that were made say what the others will take.

Assumes the gradients of one block, in program order. Guarantees nothing about those in its regions, which have blocks
of their own, and refuses only what has more gradients to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value
from dfc.ops.control.derivatives import is_grad

MOST_OPERATIONS = 100_000
"""Of one gradient: some ten seconds of compiling, and more with each."""
FIRST = 6
"""The gradients below it say how fast they grow."""


@dataclass(slots=True)
class Nesting:
    """`below`: how many gradients each one of a block is taken of; `above`: how many are taken of it, one of the other.
    `nodes_of`: the nodes that the largest one of each depth added."""

    below: Mapping[Node, int]
    above: Mapping[Node, int]
    nodes_of: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, node: Node, nodes: int) -> None:
        """Notes what a gradient has added. Raises `CompileError` where those above it will come to too many."""
        depth, remaining = self.below[node] + 1, self.above[node]
        self.nodes_of[depth] = max(self.nodes_of.get(depth, 0), nodes)
        before = self.nodes_of.get(depth - 1, 0)
        if depth < FIRST or not remaining or nodes <= before:
            return
        ratio = nodes / before if before else 1.0
        expected = nodes
        for _ in range(remaining):
            expected = int(expected * ratio)
            if expected > MOST_OPERATIONS:
                raise _too_many(node, depth, remaining, nodes, ratio)


def nesting(block: Block) -> Nesting:
    """How the gradients of a block are nested."""
    depth: dict[Value, int] = {}
    below: dict[Node, int] = {}
    for node in block.nodes:
        most = max((depth.get(value, 0) for value in walk.inputs(node)), default=0)
        if is_grad(node):
            below[node] = most
            most += 1
        if most:
            depth.update((value, most) for value in node.results)
    height: dict[Value, int] = {}
    above: dict[Node, int] = {}
    for node in reversed(block.nodes if below else []):
        most = max((height.get(value, 0) for value in node.results), default=0)
        if is_grad(node):
            above[node] = most
            most += 1
        for value in walk.inputs(node):
            height[value] = max(height.get(value, 0), most)
    return Nesting(below, above)


def _too_many(node: Node, depth: int, remaining: int, nodes: int, ratio: float) -> CompileError:
    message = error(
        NOT_SUPPORTED_YET,
        f"gradients of gradients, {depth + remaining} of them, would take more than {MOST_OPERATIONS:,} operations",
        node.span,
        f"this is number {depth}, and has {nodes:,} operations, {ratio:.1f} times as many as the one below",
        notes=(f"as many times more for each of the {remaining} that are taken of it",),
        helps=("take fewer of them, or write out the derivative that the others are taken of",),
    )
    return CompileError([message])
