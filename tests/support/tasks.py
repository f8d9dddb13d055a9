"""Runs the parts of a partitioned program with the reference evaluator, a thread a task, messages through queues."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from dfc.distribute.partition import RankGraphs
from dfc.ir.graph import Graph, Node
from dfc.ops.effects.communication import RecvAttributes, SendAttributes
from dfc.ops.evaluate import Outcome, evaluate

Array = np.ndarray
PATIENCE = 60.0  # seconds: only a broken partition waits


class Mail:
    """What is under way between tasks, one queue for each key and pair."""

    def __init__(self, parts: RankGraphs) -> None:
        self._parts = parts
        self._boxes: dict[tuple[str, str, str], queue.Queue[Array]] = {}
        self._adding = threading.Lock()

    def done(self, me: str, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        match node.attributes:
            case SendAttributes(key, source, destinations):
                if source == me:
                    for to in self._tasks(destinations, source):
                        self._box(key, source, to).put(operands[0].copy())
                return ()
            case RecvAttributes(key, source, _):
                return (self._box(key, source, me).get(timeout=PATIENCE),)
            case _:
                raise AssertionError(node)

    def _box(self, key: str, source: str, to: str) -> queue.Queue[Array]:
        """The same queue for sender and receiver, whoever asks first: making one is several steps, so under a lock."""
        with self._adding:
            return self._boxes.setdefault((key, source, to), queue.Queue())

    def _tasks(self, destinations: Sequence[str], source: str) -> list[str]:
        tasks: list[str] = []
        for name in destinations:
            tasks += [name] if ":" in name else [f"{name}:{n}" for n in range(self._parts.tasks[name])]
        return [task for task in tasks if task != source]

    @property
    def is_empty(self) -> bool:
        return all(box.empty() for box in self._boxes.values())


def run_parts(
    parts: RankGraphs,
    entry: str,
    feeds: Mapping[str, Array],
    states: Mapping[str, Mapping[str, Array]],
    dims: Mapping[str, int] | None = None,
) -> tuple[dict[str, Array], dict[str, dict[str, Array]]]:
    """The results of an entry by name, and the state of each task (`job:n`) after it."""
    mail = Mail(parts)
    outcomes: dict[str, Outcome] = {}
    failures: list[BaseException] = []

    def work(task: str, graph: Graph) -> None:
        try:
            chosen = graph.entries[entry]
            mine = {name: feeds[name] for name in chosen.parameter_names}
            sizes = {str(s): (dims or {})[str(s)] for s in chosen.dim_feeds}
            outcomes[task] = evaluate(
                graph, entry, mine, states[task], sizes, network=lambda node, xs: mail.done(task, node, xs)
            )
        except BaseException as problem:
            failures.append(problem)

    threads: list[threading.Thread] = []
    for job, count in parts.tasks.items():
        for number in range(count):
            graph = parts.graphs[parts.role_of(job, number)]
            if entry in graph.entries:
                threads.append(threading.Thread(target=work, args=(f"{job}:{number}", graph), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert mail.is_empty, "somebody sent what nobody took"
    results = {name: _result(parts, entry, name, task, outcomes) for name, task in parts.entries[entry].results.items()}
    return results, {task: outcome.state for task, outcome in outcomes.items()}


def _result(parts: RankGraphs, entry: str, name: str, task: str, outcomes: Mapping[str, Outcome]) -> Array:
    job, _, number = task.partition(":")
    names = parts.graphs[parts.role_of(job, int(number))].entries[entry].result_names
    return outcomes[task].results[names.index(name)]
