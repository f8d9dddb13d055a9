"""What of a program is on one task: queues, the runners that connect them, and all state that these use.

A runner works on memory that its queues are in, so it is where they are, with all state that it uses: queues that a
runner connects, the order of a shuffled one, and what the runner reads and writes are a *pipeline*, which one task has.
Entries that use a queue do so there: what they take is sent to where it is needed, what they put in to where it is.
Assumes a graph that the front end has checked. Guarantees that each name is in one pipeline at most.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.graph import Entry, Graph, Node, ResourceKind
from dfc.ops.attributes import AssignAttributes, DrawAttributes, ResourceAttributes
from dfc.ops.effects.mutexes import MutexAttributes
from dfc.ops.effects.queues import QueueAttributes, TakeAttributes
from dfc.ops.effects.records import DecodeAttributes, ExampleAttributes, ImageAttributes, RecordAttributes


@dataclass(frozen=True, slots=True)
class Pipeline:
    """State that one task has, in the order of the program, and the runners that use it."""

    state: tuple[str, ...]
    runners: tuple[str, ...]


def state_of(node: Node) -> str | None:
    """The state that a node, without those in its regions, is done with: it is done where that is."""
    match node.attributes:
        case ResourceAttributes(name) | AssignAttributes(name) | DrawAttributes(name):
            return name
        case QueueAttributes(name) | TakeAttributes(name) | MutexAttributes(name):
            return name
        case RecordAttributes(name) | ExampleAttributes(name) | DecodeAttributes(name) | ImageAttributes(name):
            return name
        case _:
            return None


def pipelines(graph: Graph) -> tuple[Pipeline, ...]:
    """All of a program, in the order of its state."""
    groups: dict[str, set[str]] = {}
    runners: dict[str, list[str]] = {}
    for resource in graph.resources.values():
        if resource.kind is ResourceKind.QUEUE:
            order = f"{resource.name}.order"
            _join(groups, {resource.name} | ({order} & graph.resources.keys()))
    for entry in graph.entries.values():
        if entry.is_runner:
            used = {name for node in walk.nodes(entry.block) if (name := state_of(node)) is not None}
            _join(groups, used)
            runners[entry.name] = sorted(used)
    numbers = {name: number for number, name in enumerate(graph.resources)}
    connected: list[Pipeline] = []
    for group in {id(each): each for each in groups.values()}.values():
        own = tuple(name for name, used in runners.items() if used[0] in group)
        connected.append(Pipeline(tuple(sorted(group, key=lambda name: numbers[name])), own))
    return tuple(sorted(connected, key=lambda each: numbers[each.state[0]]))


def _join(groups: dict[str, set[str]], names: set[str]) -> None:
    """Has these names be in one group, with all that are in one with any of them."""
    joined = names.union(*(groups[name] for name in names if name in groups))
    groups.update(dict.fromkeys(joined, joined))


def written_state(entry: Entry) -> frozenset[str]:
    """The variables that an entry assigns."""
    nodes = walk.nodes(entry.block)
    return frozenset(node.attributes.resource for node in nodes if isinstance(node.attributes, AssignAttributes))


def queues_of(entry: Entry) -> frozenset[str]:
    """The queues that an entry takes from."""
    nodes = walk.nodes(entry.block)
    return frozenset(node.attributes.resource for node in nodes if isinstance(node.attributes, TakeAttributes))


def queue_names(split: str) -> tuple[str, ...]:
    """The queues whose batches are cut, where a deployment file names some and no dimension: "left, right"."""
    return tuple(dict.fromkeys(name.strip() for name in split.split(",")))
