"""dce: drops what nobody uses, inside region nodes too: results of `if`, carried values, emits, idle tokens.

    let a: f32, b: f32 = if c {        let a: f32 = if c {
      yield exp(x), sin(x)               yield exp(x)
    } else {                    ->     } else {
      yield x, cos(x)                    yield x
    }                                  }

A node that measures a size is used if something used mentions the size. A carried value is used if a result, the
condition, an effect, or another used carried value needs it. A token that all regions hand on as it came is idle and
goes around the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dfc.ir import walk
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.measured import Dependence
from dfc.ir.rewrite import Pass, RewriteSite, map_blocks, rebuild
from dfc.ops.attributes import ForAttributes
from dfc.ops.effects.effects import effect
from dfc.ops.record import Effect
from dfc.transforms.scalar.dead_results import around, is_idle, thin, without_idle_tokens

NAME = "dce"


def dce(graph: Graph) -> Graph:
    return map_blocks(graph, dce_block)


def dce_block(block: Block) -> Block:
    used = Marker(block).run()
    return without_idle_tokens(rebuild(block, _Thin(used)))


@dataclass(frozen=True, slots=True)
class _Place:
    """A parameter of a region: the node it belongs to, which region, which position."""

    owner: Node
    region: int
    position: int


class Marker:
    """Finds the values that are used, one by one: results of region nodes apart from each other."""

    def __init__(self, block: Block) -> None:
        self._places: dict[Value, _Place] = {}
        for node in walk.nodes(block):
            for number, region in enumerate(node.regions):
                for position, value in enumerate(region.parameters):
                    self._places[value] = _Place(node, number, position)
        self._used: set[Value] = set()
        self._entered: set[Node] = set()
        self._pending = list(block.outputs)
        self._dependence = Dependence.within(block)

    def run(self) -> set[Value]:
        while self._pending:
            value = self._pending.pop()
            if value in self._used:
                continue
            self._used.add(value)
            self._pending += self._dependence.of(value)
            place = self._places.get(value)
            if place is not None:
                self._parameter(place)
            elif value.node is not None:
                self._result(value, value.node)
        return self._used

    def _result(self, value: Value, node: Node) -> None:
        if not node.regions:
            before = self.passes_by(value)
            self._pending += node.operands if before is None else [before]
            return
        if node not in self._entered:
            self._entered.add(node)
            self._pending += _always_needed(node)
        self._pending += _needed_for(node, value.index)

    def passes_by(self, value: Value) -> Value | None:
        """The token that a token result only hands on, if its node does nothing that a later effect could see."""
        node = value.node
        if node is None or not value.is_token or effect(node) is not Effect.READ:
            return None
        return next(v for v in node.operands if v.is_token)

    def _parameter(self, place: _Place) -> None:
        """A used parameter needs what flows into it: the operand, and for loops the next value."""
        index = _result_of_parameter(place)
        if index is None:
            return
        self._pending.append(_operand_of_parameter(place))
        if place.owner.op != "if":
            self._pending.append(place.owner.results[index])


def _always_needed(node: Node) -> Sequence[Value]:
    """What a region node needs if any of its results is used."""
    match node.op:
        case "if":
            return node.operands[:1]
        case "while":
            return node.regions[0].outputs[:1]
        case "for":
            return node.operands[:2]
        case _:
            return [*node.operands, *(v for region in node.regions for v in region.outputs)]


def _needed_for(node: Node, index: int) -> Sequence[Value]:
    """What one result of a region node needs."""
    match node.op:
        case "if":
            inside = [region.outputs[index] for region in node.regions]
            is_token = node.results[index].is_token
            return [*inside, node.operands[_token_operand(node, index)]] if is_token else inside
        case "while":
            condition, body = node.regions
            tokens = [condition.outputs[_condition_output(node, index)]] if node.results[index].is_token else []
            return [node.operands[index], body.outputs[index], *tokens]
        case "for":
            operand = _for_operand(node, index)
            return [node.regions[0].outputs[index], *([node.operands[operand]] if operand is not None else [])]
        case _:
            return ()


def _token_operand(node: Node, index: int) -> int:
    """The operand of an `if` that belongs to a token result."""
    return len(node.operands) - len(node.results) + index


def _condition_output(node: Node, index: int) -> int:
    return len(node.regions[0].outputs) - len(node.results) + index


def _carries(node: Node) -> int:
    assert isinstance(node.attributes, ForAttributes)
    return node.attributes.carries


def _for_operand(node: Node, index: int) -> int | None:
    """The operand that starts result `index` of a `for`; None for emits."""
    if index < _carries(node):
        return index + 2
    return len(node.operands) - len(node.results) + index if node.results[index].is_token else None


def _result_of_parameter(place: _Place) -> int | None:
    """The result of the node that belongs to a region's parameter; None for a loop's index."""
    node, position = place.owner, place.position
    region = node.regions[place.region]
    if region.parameters[position].is_token:
        return len(node.results) - len(region.parameters) + position
    if node.op == "for":
        return position - 1 if position else None
    return position


def _operand_of_parameter(place: _Place) -> Value:
    node = place.owner
    parameters = node.regions[place.region].parameters
    from_end = len(parameters) - place.position
    if parameters[place.position].is_token or node.op != "for":
        return node.operands[len(node.operands) - from_end]
    return node.operands[place.position + 1]


class _Thin(Pass):
    """Drops unused nodes, and unused parts of region nodes."""

    def __init__(self, used: set[Value]) -> None:
        self._used = used

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if not any(v in self._used for v in node.results):
            return around(site)
        if effect(node) is Effect.READ and not any(v in self._used for v in node.results if not v.is_token):
            return around(site)
        if not node.regions:
            return None
        keep = [v in self._used and not is_idle(site, i) for i, v in enumerate(node.results)]
        return None if all(keep) else thin(site, keep)
