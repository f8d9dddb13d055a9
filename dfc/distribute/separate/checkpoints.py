"""Checkpoints of programs whose variables have copies: what is saved and restored of a variable is so of its copy.

    checkpoint.save(path, w)    ->    checkpoint.save(path, staged[w], w)

Assumes that an entry saves and restores outside of branches and loops, as all do on many ranks. Guarantees that a run
which goes on from such a checkpoint has the numbers of one that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc.distribute.separate.reads import resource_of
from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.rewrite import Pass, rebuild
from dfc.ir.types import TokenType
from dfc.ops.attributes import HostAttributes

OPS = frozenset({"checkpoint_save", "checkpoint_restore"})


def checkpoint_copies(entry: Entry, copies: Mapping[str, str]) -> Entry:
    """The entry, whose checkpoints have the copies (by variable) beside the variables."""
    if not any(_copied(node, copies) for node in entry.block.nodes):
        return entry
    block, output, values = entry.block, Block(), dict[Value, Value]()
    begins = {resource_of(value): value for value in block.parameters if value.is_token}
    ends = {resource_of(value): value for value in block.outputs if value.is_token}
    for node in block.nodes:
        (kept,) = rebuild(Block((), [node]), Pass(), values).nodes
        if copied := _copied(node, copies):
            for name in copied:
                ends.setdefault(name, begins.setdefault(name, Value(TokenType(name))))
            kept = _extended(kept, {name: values.get(ends[name], ends[name]) for name in copied})
            behind = {resource_of(value): value for value in kept.results}
            values.update({value: behind[resource_of(value)] for value in node.results})
            ends.update({name: behind[name] for name in copied})
        output.nodes.append(kept)
    feeds = (value for value in block.parameters if not value.is_token)
    results = (values.get(value, value) for value in block.outputs if not value.is_token)
    last = (values.get(ends[name], ends[name]) for name in sorted(ends))
    return replace(
        entry, block=Block((*feeds, *(begins[name] for name in sorted(begins))), output.nodes, (*results, *last))
    )


def _copied(node: Node, copies: Mapping[str, str]) -> list[str]:
    """The copies of what a node saves or restores."""
    if node.op not in OPS:
        return []
    assert isinstance(node.attributes, HostAttributes)
    return [copies[name] for name in node.attributes.resources if name in copies]


def _extended(node: Node, tokens: Mapping[str, Value]) -> Node:
    """The node with more state beside its own, all in the order of the names."""
    path, *own = node.operands
    state = {**{resource_of(value): value for value in own}, **tokens}
    names = sorted(state)
    return Node(
        node.op,
        (path, *(state[name] for name in names)),
        tuple(state[name].type for name in names),
        attributes=HostAttributes(tuple(names)),
        name=node.name,
        span=node.span,
    )
