"""Rules of sharding: from how a node's operands lie to how its results do.

A rule says as what it wants each operand (an operand that is common can be cut, one of zeros is a part) and what it
gives; or raises `NeededWhole` for an operand it cannot use as it is. An op without a rule needs everything whole,
unless it works element by element. Assumes nodes without regions and tokens, of a graph after `expand`. Types and
attributes are those of the undivided program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE
from dfc.ir.graph import Node
from dfc.ops.rules.sharding import COMMON, SUM, ZEROS, Common, Partial, Partitioning, Split, State


@dataclass(frozen=True, slots=True)
class Use:
    """What a node wants of its operands and gives. A `shared` node with regions runs once for all blocks, with loops
    over the blocks inside.

    `total` is for a mean along the axis that is cut, whose result is a part of a sum: the op that gives that sum. Of
    equal blocks it is the part once it is divided by their number; of others it comes from the sum of all."""

    required: tuple[State, ...]
    results: tuple[State, ...]
    shared: bool = False
    total: str = ""

    @property
    def is_common(self) -> bool:
        return all(isinstance(state, Common) for state in (*self.required, *self.results))


class NeededWhole(Exception):
    """An operand that the node can use only as a whole, and why."""

    def __init__(self, operand: int, reason: str) -> None:
        super().__init__(reason)
        self.operand = operand
        self.reason = reason


ShardingRule = Callable[[Node, Sequence[State], Partitioning], Use]
OfParts = Callable[[Node, Sequence[State]], "Sequence[State] | None"]
"""For an element-wise op some of whose operands are parts of sums, and the others common: as what it wants each of them
so that the result is a part of a sum, too; None if it is none."""

ALONG = "it works along the axis that is cut"


def needs_whole(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    """The safe default: everything whole."""
    del cutting
    return whole(node, states, f"`{node.op}` looks at all of it")


def whole(node: Node, states: Sequence[State], reason: str) -> Use:
    """Everything common."""
    for number, state in enumerate(states):
        if not isinstance(state, Common):
            raise NeededWhole(number, reason)
    return Use((COMMON,) * len(states), (COMMON,) * len(node.results))


def one(required: Sequence[State], result: State) -> Use:
    return Use(tuple(required), (result,))


def refuse_parts(node: Node, states: Sequence[State]) -> None:
    """For ops that are not linear."""
    for number, state in enumerate(states):
        if isinstance(state, Partial):
            raise NeededWhole(number, f"`{node.op}` of parts is no part of the result")


def linear_in_first(node: Node, states: Sequence[State]) -> Use | None:
    """A sum of parts through an op that is linear in its first operand, if the other ones are common."""
    first, *others = states
    if not isinstance(first, Partial):
        return None
    if first != SUM:
        raise NeededWhole(0, f"`{node.op}` comes after the {first.how} of the blocks")
    if not all(isinstance(state, Common) for state in others):
        raise NeededWhole(0, f"`{node.op}` brings it together with something that is cut")
    return one((SUM, *(COMMON for _ in others)), SUM)


# ---------------------------------------------------------------- element by element --


def pointwise(of_parts: OfParts | None = None, *, keeps_zeros: bool = False) -> ShardingRule:
    """Element by element: pieces along one axis give a piece along it. `keeps_zeros`: of zeros it makes zeros."""

    def rule(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
        if any(isinstance(state, Partial) for state in states):
            return _of_parts(node, states, of_parts)
        shifts = [node.result.tensor.rank - value.tensor.rank for value in node.operands]
        piece = merged(states, shifts)
        if piece is None:
            zeros = keeps_zeros and states[0] == ZEROS
            return one([COMMON for _ in states], ZEROS if zeros else COMMON)
        return _of_pieces(node, states, shifts, piece, cutting)

    return rule


def _of_pieces(node: Node, states: Sequence[State], shifts: Sequence[int], piece: Split, cutting: Partitioning) -> Use:
    """What is common and has the axis of the pieces is cut along it, too."""
    required: list[State] = []
    for state, value, shift in zip(states, node.operands, shifts, strict=True):
        own = piece.axis - shift
        if isinstance(state, Split):
            required.append(state)
        elif own >= 0 and value.tensor.shape[own] != ONE and cutting.can_split(value.tensor.shape[own]):
            piece = Split(piece.axis, piece.outer or ONE)
            required.append(piece.at(own))
        else:
            required.append(COMMON)
    return one(required, piece)


def _of_parts(node: Node, states: Sequence[State], of_parts: OfParts | None) -> Use:
    """Parts of a sum, through what is linear in them."""
    first = next(number for number, state in enumerate(states) if isinstance(state, Partial))
    for number, state in enumerate(states):
        if isinstance(state, Partial) and state != SUM:
            raise NeededWhole(number, f"`{node.op}` comes after the {state.how} of the blocks")
        if isinstance(state, Split):
            raise NeededWhole(first, "it meets a value that is cut")
    required = of_parts(node, states) if of_parts is not None else None
    if required is None:
        raise NeededWhole(first, f"`{node.op}` of parts is no part of the result")
    return one(required, SUM)


POINTWISE = pointwise()
"""For what is linear in none of its operands."""


def merged(states: Sequence[State], shifts: Sequence[int]) -> Split | None:
    """The piece of a result that several pieces make; `shifts` are how far their axes move."""
    split: Split | None = None
    for number, (state, shift) in enumerate(zip(states, shifts, strict=True)):
        if not isinstance(state, Split):
            continue
        moved = state.at(state.axis + shift)
        if split is None or (split.axis == moved.axis and split.outer is None):
            split = moved
        elif split.axis != moved.axis:
            raise NeededWhole(number, "it meets a value that is cut along another axis")
        elif moved.outer not in (None, split.outer):
            raise NeededWhole(number, "it meets a value whose blocks stand in another order")
    return split
