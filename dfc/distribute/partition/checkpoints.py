"""Entries that save and restore: the client does what they say, with all ranks, so that no role has code for them.

    entry save(path: string) { checkpoint.save(path, program) }   ->   a step `save` of all names, from the feed `path`

Assumes an optimised graph. Guarantees that no other entry saves or restores: one that does more, or does it in
a branch or a loop, is a `CompileError`, because a checkpoint of many ranks is taken between calls, never within one.
"""

from __future__ import annotations

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, Diagnostic, error
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node
from dfc.ops.attributes import HostAttributes

KINDS = {"checkpoint_save": "save", "checkpoint_restore": "restore"}


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    """`kind` is save or restore, `feed` the parameter that says where, `state` the full names."""

    kind: str
    feed: str
    state: tuple[str, ...]


Steps = dict[str, tuple[CheckpointStep, ...]]


def set_apart(graph: Graph) -> tuple[Graph, Steps]:
    """The graph without the entries that only save and restore, and what these do."""
    steps: Steps = {}
    mistakes: list[Diagnostic] = []
    for entry in graph.entries.values():
        checkpoint_nodes = [node for node in walk.nodes(entry.block) if node.op in KINDS]
        others = [node for node in entry.block.nodes if node.op not in KINDS]
        if checkpoint_nodes and not others and not _has_results(entry):
            steps[entry.name] = tuple(_step(entry, node) for node in checkpoint_nodes)
        elif checkpoint_nodes:
            mistakes.append(_mixed(entry, checkpoint_nodes[0], others))
    if mistakes:
        raise CompileError(mistakes)
    return replace(graph, entries={name: e for name, e in graph.entries.items() if name not in steps}), steps


def _has_results(entry: Entry) -> bool:
    return any(not value.is_token for value in entry.block.outputs)


def _step(entry: Entry, node: Node) -> CheckpointStep:
    assert isinstance(node.attributes, HostAttributes)
    number = entry.block.parameters.index(node.operands[0])
    return CheckpointStep(KINDS[node.op], entry.parameter_names[number], node.attributes.resources)


def _mixed(entry: Entry, node: Node, others: list[Node]) -> Diagnostic:
    verb = "saves" if KINDS[node.op] == "save" else "restores"
    second = [(others[0].span, f"`{entry.name}` also does this")] if others else []
    return error(
        NOT_SUPPORTED_YET,
        f"on many ranks an entry that {verb} a checkpoint and does something else is not supported yet",
        node.span,
        secondary=second,
        helps=[
            "let an entry do nothing but this",
            'or leave it to the deployment file: `checkpoint every "10 min" to "checkpoints"`',
        ],
    )
