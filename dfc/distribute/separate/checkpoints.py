"""Checkpoints of programs whose variables have copies: what is saved and restored of a variable is so of its copy.

    checkpoint.save(path, w)    ->    checkpoint.save(path, staged[w], w)

Assumes that an entry saves and restores outside of branches and loops, as all do on many ranks. Guarantees that a run
which goes on from such a checkpoint has the numbers of one that was not interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc.ir.graph import Block, Entry, Node, Value
from dfc.ir.rewrite import Pass, rebuild
from dfc.ir.types import TokenType
from dfc.ops.effects.checkpoints import checkpoint_over, saved_state


def checkpoint_copies(entry: Entry, copies: Mapping[str, str]) -> Entry:
    """The entry, whose checkpoints have the copies (by variable) with the variables."""
    if not any(_copied(node, copies) for node in entry.block.nodes):
        return entry
    block, output, values = entry.block, Block(), dict[Value, Value]()
    begins = {value.resource: value for value in block.parameters if value.is_token}
    ends = {value.resource: value for value in block.outputs if value.is_token}
    for node in block.nodes:
        (kept,) = rebuild(Block((), [node]), Pass(), values).nodes
        if copied := _copied(node, copies):
            for name in copied:
                ends.setdefault(name, begins.setdefault(name, Value(TokenType(name))))
            path, *tokens = kept.operands
            kept = checkpoint_over(kept, path, [*tokens, *(values.get(ends[name], ends[name]) for name in copied)])
            behind = {value.resource: value for value in kept.results}
            values.update({value: behind[value.resource] for value in node.results})
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
    return [copies[name] for name in saved_state(node) if name in copies]
