"""stateless: a copy of a loop without effects, in which state is carried from iteration to iteration.

    loop y = x for i in 0..n {                     let dice: u64[4] = graph.read(resource = "dice")
      let d: f64 = graph.draw(..)                  loop y = x, state = dice for i in 0..n {
      y = y * d                             ->       let d: f64 = graph.redraw(state, ..)
    }                                                y = y * d
                                                     state = state + [0, 0, 1, 0]
                                                   }

The backward pass through a loop runs iterations again, which must draw and read what they did the first time. Carried
are the resources that the loop reads or draws from; what it only writes, asserts or saves has no bearing on its values.

Assumes that nobody else changes this state meanwhile. What has no copy is refused with the reason (E1001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.diagnostics.source import Span
from dfc.ir import walk
from dfc.ir.dtypes import U64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import if_view, view
from dfc.ir.rewrite import Cloner, RewriteSite, rebuild
from dfc.ir.types import TensorType, Type
from dfc.ops.attributes import (
    AssignAttributes,
    DrawAttributes,
    ForAttributes,
    RedrawAttributes,
    ResourceAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import effect
from dfc.ops.effects.state import RNG
from dfc.ops.operators import UPDATES
from dfc.ops.record import Effect

_WITHOUT_VALUES = frozenset(("assert", "checkpoint_save"))


@dataclass(frozen=True, slots=True)
class Twin:
    """The copy, in no block yet, and the operands for the original, whose tokens come after the reads of the state."""

    node: Node
    operands: tuple[Value, ...]
    first_state: int
    states: int

    def values(self, results: Sequence[Value]) -> list[Value]:
        """What belongs to the results of the original that are no tokens."""
        return [*results[: self.first_state], *results[self.first_state + self.states :]]


def pure_twin(builder: Builder, node: Node, *, shared: bool) -> Twin:
    """The copy of a loop, and reads of the state that it starts with. `shared`: others may change state meanwhile."""
    types = _needed(node)
    if types and shared:
        raise impossible(node, node.span, "other calls of this entry may change the state between two iterations")
    copier = _Copier(types, node)
    operands: list[Value] = []
    for value in node.operands:
        if value.is_token and (type_ := types.get(value.resource)) is not None:
            attributes = ResourceAttributes(value.resource)
            read = builder.add("read", (value,), (type_, value.type), attributes)
            copier.values[value], value = read.results
        operands.append(value)
    copied = rebuild(Block((), [node]), copier, copier.values).nodes[0]
    return Twin(copied, tuple(operands), len(view(node).initial.values), len(types))


def _needed(loop: Node) -> dict[str, TensorType]:
    """The resources whose values the iterations use, with their types."""
    resources: dict[str, TensorType] = {}
    for region in loop.regions:
        for node in walk.nodes(region):
            if isinstance(node.attributes, ResourceAttributes) and node.op == "read":
                resources[node.attributes.resource] = node.result.tensor
            elif isinstance(node.attributes, DrawAttributes):
                resources[node.attributes.resource] = RNG
    return resources


class _Copier(Cloner):
    """A token becomes the value of its resource; tokens of resources that do not matter stand for nothing."""

    def __init__(self, types: dict[str, TensorType], loop: Node) -> None:
        super().__init__()
        self._types = types
        self._loop = loop
        self._outer_values: dict[Block, Sequence[Value]] = {}

    def descend(self, node: Node, operands: Sequence[Value], region: Block) -> None:
        if node.op == "if":
            self._outer_values[region] = if_view(node, operands).initial.all

    def parameters(self, block: Block) -> Sequence[Value]:
        outer_values = self._outer_values.get(block)
        if outer_values is not None:
            return outer_values
        return [Value(self._type_of(p), p.name, None, p.index) for p in block.parameters]

    def _type_of(self, value: Value) -> Type:
        return self._types.get(value.resource, value.type) if value.is_token else value.type

    def visit(self, site: RewriteSite) -> Sequence[Value]:
        builder = Builder.appending(site.output, name=site.node.name, span=site.node.span)
        if site.regions:
            return self._with_regions(site, builder)
        attributes = site.node.attributes
        match attributes:
            case ResourceAttributes():
                return site.operands[0], site.operands[0]
            case DrawAttributes(_, distribution, type_):
                state = site.operands[0]
                redraw = RedrawAttributes(distribution, type_)
                numbers = builder.add("redraw", (state,), (type_,), redraw).result
                return numbers, builder.apply("add", state, builder.constant(np.array([0, 0, 1, 0]), U64))
            case AssignAttributes():
                return [self._assigned(site, attributes, builder)]
            case _ if effect(site.node) in (Effect.CHECK, Effect.HOST):
                return self._without(site)
            case _:
                return super().visit(site)

    def _assigned(self, site: RewriteSite, attributes: AssignAttributes, builder: Builder) -> Value:
        """The state after an assignment."""
        value, state = site.operands[0], site.operands[-1]
        if attributes.resource not in self._types:
            return state
        if attributes.index:
            reason = f"an iteration reads `{attributes.resource}`, of which the loop writes a part"
            raise impossible(self._loop, site.node.span, reason)
        if attributes.mode == ":=":
            return builder.broadcast(value, state.tensor.shape)
        return builder.apply(UPDATES[attributes.mode], state, value)

    def _without(self, site: RewriteSite) -> Sequence[Value]:
        """Checks and host steps are for the original."""
        tokens = [v for v in site.node.results if v.is_token]
        matters = any(v.resource in self._types for v in tokens) and site.node.op not in _WITHOUT_VALUES
        if matters or len(tokens) < len(site.node.results):
            raise impossible(self._loop, site.node.span, "what comes from the host is not there a second time")
        return [v for v in site.operands if v.is_token or self._is_state(v, site)][-len(tokens) :]

    def _is_state(self, value: Value, site: RewriteSite) -> bool:
        index = site.operands.index(value)
        return site.node.operands[index].is_token

    # ------------------------------------------------------------- regions --

    def _with_regions(self, site: RewriteSite, builder: Builder) -> Sequence[Value]:
        """The node with carried values for tokens that matter, and nothing for the others."""
        node, attributes = site.node, site.node.attributes
        keep = [not v.is_token or v.resource in self._types for v in node.results]
        states = [v.is_token and kept for v, kept in zip(node.results, keep, strict=True)]
        first = len(node.results)
        if isinstance(attributes, ForAttributes):
            first = attributes.carries
            attributes = replace(attributes, carries=first + sum(states))
        order = _carried_first(first, keep, states)
        if node.op == "while":
            self._check_condition(site.regions[0])
        regions = [self._region(node.op, old, new, order) for old, new in zip(node.regions, site.regions, strict=True)]
        operands = [
            new for old, new in zip(node.operands, site.operands, strict=True) if node.op != "if" and self._stays(old)
        ]
        loop = builder.add(
            node.op,
            operands or site.operands[:1],
            [self._type_of(node.results[number]) for number in order],
            attributes,
            regions,
        )
        new = dict(zip(order, loop.results, strict=True))
        tokens = [v for v in site.operands if v.is_token]
        return [new[i] if i in new else _token(tokens, v) for i, v in enumerate(node.results)]

    def _stays(self, value: Value) -> bool:
        return not value.is_token or value.resource in self._types

    def _region(self, op: str, old: Block, new: Block, order: Sequence[int]) -> Block:
        kept = [after for before, after in zip(old.parameters, new.parameters, strict=True) if self._stays(before)]
        if op == "while" and len(old.outputs) != len(old.parameters):
            return Block(kept, new.nodes, new.outputs[:1])
        return Block(() if op == "if" else kept, new.nodes, [new.outputs[number] for number in order])

    def _check_condition(self, condition: Block) -> None:
        """A condition gives one truth value and cannot hand on state that it has changed."""
        count = len(condition.outputs) - 1
        before = condition.parameters[len(condition.parameters) - count :]
        if any(a is not b for a, b in zip(before, condition.outputs[1:], strict=True) if not a.is_token):
            raise impossible(self._loop, self._loop.span, "its condition changes state")


def _carried_first(first: int, keep: Sequence[bool], states: Sequence[bool]) -> list[int]:
    """The results of the copy, by their number in the original: what is carried, state too, before what is emitted."""
    carried = [i for i in range(min(first, len(keep))) if keep[i] and not states[i]]
    emits = [i for i in range(first, len(keep)) if keep[i] and not states[i]]
    return [*carried, *(i for i in range(len(keep)) if states[i]), *emits]


def _token(tokens: Sequence[Value], like: Value) -> Value:
    """What stands for a token that does not matter."""
    return next(v for v in tokens if v.type == like.type)


def impossible(loop: Node, span: Span, reason: str) -> CompileError:
    message = error(
        NOT_SUPPORTED_YET,
        "gradients through this loop are not supported yet",
        loop.span,
        "the backward pass runs it again",
        secondary=((span, reason),) if span != loop.span else (),
        notes=(reason,) if span == loop.span else (),
        helps=(
            "give the loop a number of iterations that is a size, so that all it draws and reads is kept: "
            "`for i in 0..N`",
            "or draw, read and write before or behind the loop",
        ),
    )
    return CompileError([message])
