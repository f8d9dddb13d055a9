"""What each op makes of pieces and parts: from the states of a node's operands to those of its results.

A rule says as what it wants each operand (an operand that is common can be cut, one of zeros is a part) and what it
gives; or raises `NeededWhole` for an operand it cannot use as it is. Ops without a rule need everything whole. Assumes
nodes without regions and tokens, of a graph after `expand`. Types and attributes here are those of the undivided
program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dfc.distribute.replicate.states import COMMON, SUM, ZEROS, Common, Cutting, Partial, Split, State
from dfc.ir.attributes import Literal
from dfc.ir.dims import ONE
from dfc.ir.graph import Node
from dfc.ops import registry
from dfc.ops.attributes import CastAttributes, ConstantAttributes
from dfc.ops.record import Elementwise

LINEAR = frozenset({"add", "sub", "neg", "cast", "mul", "div", "select"})
"""Element-wise ops that are linear in some operands."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a node wants of its operands and gives. A `shared` node with regions runs once for all blocks, with loops
    over the blocks inside."""

    wanted: tuple[State, ...]
    results: tuple[State, ...]
    shared: bool = False

    @property
    def is_common(self) -> bool:
        return all(isinstance(state, Common) for state in (*self.wanted, *self.results))


class NeededWhole(Exception):
    """An operand that the node can use only as a whole, and why."""

    def __init__(self, operand: int, reason: str) -> None:
        super().__init__(reason)
        self.operand = operand
        self.reason = reason


Rule = Callable[[Node, Sequence[State], Cutting], Use]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Registers the rule of some ops."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


def use_of(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """What a node wants and gives; raises `NeededWhole`."""
    found = RULES.get(node.op)
    if found is not None:
        return found(node, states, cutting)
    if isinstance(registry.record(node.op).lowering, Elementwise):
        return elementwise(node, states, cutting)
    return whole(node, states, f"`{node.op}` looks at all of it")


def whole(node: Node, states: Sequence[State], reason: str) -> Use:
    """Everything common."""
    for number, state in enumerate(states):
        if not isinstance(state, Common):
            raise NeededWhole(number, reason)
    return Use((COMMON,) * len(states), (COMMON,) * len(node.results))


def one(wanted: Sequence[State], result: State) -> Use:
    return Use(tuple(wanted), (result,))


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


def elementwise(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    """Pieces along one axis give a piece along it."""
    if any(isinstance(state, Partial) for state in states):
        return _of_parts(node, states)
    rank = node.result.tensor.rank
    shifts = [rank - value.tensor.rank for value in node.operands]
    piece = merged(states, shifts)
    if piece is None:
        return one(_as_common(states), _zeros_through(node, states))
    wanted: list[State] = []
    for state, value, shift in zip(states, node.operands, shifts, strict=True):
        own = piece.axis - shift
        if isinstance(state, Split):
            wanted.append(state)
        elif own >= 0 and value.tensor.shape[own] != ONE and cutting.can_cut(value.tensor.shape[own]):
            piece = Split(piece.axis, piece.outer or ONE)
            wanted.append(piece.at(own))
        else:
            wanted.append(COMMON)
    return one(wanted, piece)


def merged(states: Sequence[State], shifts: Sequence[int]) -> Split | None:
    """The piece of a result that several pieces make; `shifts` are how far their axes move."""
    found: Split | None = None
    for number, (state, shift) in enumerate(zip(states, shifts, strict=True)):
        if not isinstance(state, Split):
            continue
        moved = state.at(state.axis + shift)
        if found is None or (found.axis == moved.axis and found.outer is None):
            found = moved
        elif found.axis != moved.axis:
            raise NeededWhole(number, "it meets a value that is cut along another axis")
        elif moved.outer not in (None, found.outer):
            raise NeededWhole(number, "it meets a value whose blocks stand in another order")
    return found


def _as_common(states: Sequence[State]) -> list[State]:
    return [COMMON for _ in states]


def _zeros_through(node: Node, states: Sequence[State]) -> State:
    keeps = node.op in ("cast", "neg") and states[0] == ZEROS
    return ZEROS if keeps else COMMON


def _of_parts(node: Node, states: Sequence[State]) -> Use:
    """Parts of a sum, through what is linear in them."""
    parts = [isinstance(state, Partial) for state in states]
    first = parts.index(True)
    for number, state in enumerate(states):
        if isinstance(state, Partial) and state != SUM:
            raise NeededWhole(number, f"`{node.op}` comes after the {state.how} of the blocks")
        if isinstance(state, Split):
            raise NeededWhole(first, "it meets a value that is cut")
    could_be = [part or state == ZEROS for part, state in zip(parts, states, strict=True)]
    wanted = [SUM if part else COMMON for part in could_be]
    if node.op in ("add", "sub") and all(could_be):
        return one([SUM, SUM], SUM)
    if node.op == "select" and not parts[0] and all(could_be[1:]):
        return one([COMMON, SUM, SUM], SUM)
    is_scaled = (node.op == "mul" and sum(parts) == 1) or (node.op == "div" and parts == [True, False])
    if is_scaled and not (node.op == "div" and not node.result.tensor.machine.is_float):
        return one([SUM if part else COMMON for part in parts], SUM)
    if node.op == "neg" or (node.op == "cast" and _keeps_sums(node)):
        return one(wanted, SUM)
    raise NeededWhole(first, f"`{node.op}` of parts is no part of the result")


def _keeps_sums(node: Node) -> bool:
    """Whether a cast of a sum is the sum of the casts, but for rounding."""
    assert isinstance(node.attributes, CastAttributes)
    before, after = node.operands[0].tensor.machine, node.result.tensor.machine
    return before.is_float and after.is_float and after.size >= before.size


@rule("constant")
def _constant(node: Node, states: Sequence[State], cutting: Cutting) -> Use:
    del states, cutting
    assert isinstance(node.attributes, ConstantAttributes)
    return one((), ZEROS if is_zero(node.attributes.value) else COMMON)


def is_zero(literal: Literal) -> bool:
    """Whether all elements are the number 0, of whatever sign."""
    array = literal.array
    return array.dtype.kind in "fiu" and array.size > 0 and not array.any()
