"""check_parts: proof that the parts of a program fit together, for every entry and all its tasks.

    1. Every key is sent by exactly one task and received once by each task it is sent to; nobody receives more.
    2. Both sides of an edge agree on type and on the region they stand in, and an edge is used in one place only.
    3. No task waits for ever: when each of them runs as far as it can, all of them come to the end.

Assumes that a send never waits (they are buffered or overlap). Branches count as run one after the other and a loop as
run once: two tasks that agree on one iteration agree on all. Guarantees that parts which pass come to an end. Anything
else is a bug of the compiler: `PartsError` names entry, task and value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.partition.model import RankGraphs
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node
from dfc.ir.types import TensorType
from dfc.ops.effects.communication import RecvAttributes, SendAttributes, SendRowsAttributes
from dfc.ops.effects.routing import RouteAttributes, RoutedAttributes

Task = tuple[str, int]


_ROWS = TensorType(I64)
"""Stands for rows and their numbers, of which nobody knows how many there are."""


class PartsError(Exception):
    """Parts that do not fit together."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A message of one task. `region` names the regions around it, outermost first."""

    key: str
    to: tuple[Task, ...]
    source: Task | None
    type: TensorType
    region: tuple[str, ...]


def check_parts(parts: RankGraphs) -> None:
    """Raises `PartsError` unless every entry can run to its end."""
    names = dict.fromkeys(name for graph in parts.graphs.values() for name in graph.entries)
    for name in names:
        events = {task: _events_of(parts, name, task) for task in _tasks(parts)}
        _check_pairs(name, events)
        _check_end(name, events)


def _tasks(parts: RankGraphs) -> list[Task]:
    return [(job, number) for job, count in parts.tasks.items() for number in range(count)]


def _events_of(parts: RankGraphs, entry: str, task: Task) -> list[_Event]:
    graph = parts.graphs[parts.role_of(*task)]
    if entry not in graph.entries:
        return []
    return [event for event in _events(parts, graph.entries[entry].block, task) if event.to or event.source]


def _events(parts: RankGraphs, block: Block, task: Task) -> Iterator[_Event]:
    """The messages of a task in program order."""
    pending: list[tuple[Iterator[Node], tuple[str, ...]]] = [(iter(block.nodes), ())]
    while pending:
        nodes, region = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        if _leaves(parts, node):
            continue
        match node.attributes:
            case SendAttributes(key, source, destinations):
                to = _expanded(parts, destinations, _task(source)) if _task(source) == task else ()
                yield _Event(key, to, None, node.operands[0].tensor, region)
            case SendRowsAttributes(key, source, destinations, _, type_):
                to = _expanded(parts, destinations, _task(source)) if _task(source) == task else ()
                yield _Event(key, to, None, type_, region)
            case RecvAttributes(key, source, type_):
                yield _Event(key, (), _task(source), type_, region)
            case RouteAttributes() as how:
                yield from _sent_rows(parts, node, how, task, region)
            case RoutedAttributes() as how:
                yield from _received_rows(parts, node, how, region)
            case _:
                inner = [(iter(r.nodes), (*region, f"{node.name}:{n}")) for n, r in enumerate(node.regions)]
                pending.extend(reversed(inner))


def _leaves(parts: RankGraphs, node: Node) -> bool:
    """Whether a message is for others than these roles, or from them."""
    match node.attributes:
        case (
            SendAttributes(key)
            | SendRowsAttributes(key)
            | RecvAttributes(key)
            | RouteAttributes(key)
            | RoutedAttributes(key)
        ):
            return key in parts.outer
        case _:
            return False


def _sent_rows(
    parts: RankGraphs, node: Node, how: RouteAttributes, task: Task, region: tuple[str, ...]
) -> Iterator[_Event]:
    """Every task that has some sends its own, to all it may concern."""
    if node.op == "answer_rows":
        senders, receivers = _named(parts, how.owners), _named(parts, how.callers)
    else:
        senders, receivers = _named(parts, how.source), _named(parts, how.owners)
    if task in senders:
        yield _Event(f"{how.key} from {_words(task)}", receivers, None, _ROWS, region)


def _received_rows(parts: RankGraphs, node: Node, how: RoutedAttributes, region: tuple[str, ...]) -> Iterator[_Event]:
    for sender in _named(parts, how.owners if node.op == "answered_rows" else how.source):
        yield _Event(f"{how.key} from {_words(sender)}", (), sender, _ROWS, region)


def _named(parts: RankGraphs, name: str) -> tuple[Task, ...]:
    job, _, number = name.partition(":")
    return ((job, int(number)),) if number else tuple((job, n) for n in range(parts.tasks[job]))


def _task(text: str) -> Task:
    job, _, number = text.partition(":")
    return job, int(number)


def _expanded(parts: RankGraphs, destinations: tuple[str, ...], source: Task) -> tuple[Task, ...]:
    """The tasks that destinations name; a value never goes back to where it comes from."""
    tasks: list[Task] = []
    for name in destinations:
        job, _, number = name.partition(":")
        tasks += [(job, int(number))] if number else [(job, n) for n in range(parts.tasks[job])]
    return tuple(task for task in dict.fromkeys(tasks) if task != source)


def _check_pairs(entry: str, events: dict[Task, list[_Event]]) -> None:
    sent: dict[tuple[str, Task, Task], _Event] = {}
    received: dict[tuple[str, Task, Task], _Event] = {}
    for task, own in events.items():
        for event in own:
            for pair in [(event.key, task, to) for to in event.to]:
                _enter(entry, sent, pair, event, "sent")
            if event.source is not None:
                _enter(entry, received, (event.key, event.source, task), event, "received")
    for pair in sent.keys() ^ received.keys():
        key, source, to = pair
        what = "sent, but nobody receives it" if pair in sent else "received, but nobody sends it"
        raise PartsError(f"{entry}: {key} from {_words(source)} to {_words(to)} is {what}")
    for pair, event in sent.items():
        other = received[pair]
        if (event.type, event.region) != (other.type, other.region):
            there = f"{other.type} in {'/'.join(other.region) or 'the entry'}"
            raise PartsError(f"{entry}: {event.key} is sent as {event.type}, and received as {there}")
    sources = Counter(key for key, _ in {(key, source) for key, source, _ in sent})
    for key, count in sources.items():
        if count > 1:
            raise PartsError(f"{entry}: {key} is sent by {count} tasks")


def _enter(
    entry: str, table: dict[tuple[str, Task, Task], _Event], pair: tuple[str, Task, Task], event: _Event, words: str
) -> None:
    if pair in table:
        raise PartsError(f"{entry}: {pair[0]} is {words} twice between {_words(pair[1])} and {_words(pair[2])}")
    table[pair] = event


def _check_end(entry: str, events: dict[Task, list[_Event]]) -> None:
    """Runs every task as far as it can, over and over."""
    position = dict.fromkeys(events, 0)
    arrived: set[tuple[str, Task]] = set()
    moved = True
    while moved:
        moved = False
        for task, own in events.items():
            while position[task] < len(own):
                event = own[position[task]]
                if event.source is not None and (event.key, task) not in arrived:
                    break
                arrived.update((event.key, to) for to in event.to)
                position[task] += 1
                moved = True
    stuck = {task: own[position[task]] for task, own in events.items() if position[task] < len(own)}
    if stuck:
        waits = [f"{_words(t)} for {e.key} from {_words(e.source or t)}" for t, e in sorted(stuck.items())]
        raise PartsError(f"{entry}: tasks wait for each other: {'; '.join(waits)}")


def _words(task: Task) -> str:
    return f"{task[0]}:{task[1]}"
