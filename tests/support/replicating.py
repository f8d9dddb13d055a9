"""Replicated entries run by the reference evaluator: ranks are threads that share a network of dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent

import numpy as np

from dfc.diagnostics.source import SourceFile, Span
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.replicate import Piece, Replication, replicate
from dfc.driver.pipeline import check, optimise
from dfc.elaborate.build import build
from dfc.ir.graph import Graph, Node
from dfc.ops.effects.communication import CombinedAttributes, ContributeAttributes
from dfc.ops.evaluate import Outcome, evaluate, initial_state
from dfc.ops.record import Array
from dfc.ops.spelling import show

PATIENCE = 60


def statement(entry: str, blocks: int, *, split: str = "B", combine: str = "mean") -> Replicate:
    """`replicate entry over worker with ..`."""
    nowhere = Span.nowhere()
    return Replicate(entry, "worker", "sync", split, combine, blocks, nowhere, nowhere, nowhere)


def tree(parts: Sequence[Array], how: str) -> Array:
    """The blocks together: along the binary tree that splits at the largest power of two."""
    if how == "concat":
        return np.concatenate(parts)
    if len(parts) == 1:
        return parts[0]
    middle = 1 << (len(parts) - 1).bit_length() - 1
    left, right = tree(parts[:middle], how), tree(parts[middle:], how)
    function = {"sum": np.add, "max": np.maximum, "min": np.minimum, "and": np.logical_and, "or": np.logical_or}[how]
    with np.errstate(all="ignore"):
        return np.asarray(function(left, right), left.dtype)


@dataclass
class Network:
    """What the ranks have contributed, by key and block: one list entry for each time."""

    parts: dict[tuple[str, int], list[Array]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    failed: bool = False

    def put(self, key: str, part: Array, block: int) -> None:
        with self.changed:
            self.parts.setdefault((key, block), []).append(part.copy())
            self.changed.notify_all()

    def wait(self, key: str, blocks: int, time: int) -> list[Array]:
        """What all blocks contributed the time that is asked for."""

        def all_there() -> bool:
            return self.failed or all(len(self.parts.get((key, b), ())) > time for b in range(blocks))

        with self.changed:
            assert self.changed.wait_for(all_there, PATIENCE), f"{key} never came together"
            assert not self.failed, "another rank has failed"
            return [self.parts[key, b][time] for b in range(blocks)]

    def fail(self) -> None:
        with self.changed:
            self.failed = True
            self.changed.notify_all()


class Rank:
    """One task's side of the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._times: dict[str, int] = {}

    def __call__(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        match node.attributes:
            case ContributeAttributes() as how:
                parts = operands[0] if how.stacked else [operands[0]]
                for block, part in enumerate(parts, int(operands[1])):
                    self._network.put(how.key, part, block)
                return ()
            case CombinedAttributes() as how:
                time = self._times.get(how.key, 0)
                self._times[how.key] = time + 1
                total = tree(self._network.wait(how.key, how.blocks, time), how.combination)
                return (total if how.scale == 1 else total * total.dtype.type(how.scale),)
            case _:
                raise AssertionError(node)


def pieces(whole: Array, piece: Piece, blocks: int, sizes: Mapping[str, int]) -> list[Array]:
    """The pieces of a whole array, one a block."""
    outer = piece.outer.evaluate({s: sizes[str(s)] for s in piece.outer.symbols()})
    axis = piece.axis
    length = whole.shape[axis] // max(outer, 1) // blocks
    apart = whole.reshape(*whole.shape[:axis], outer, blocks, length, *whole.shape[axis + 1 :])
    rows = np.moveaxis(apart, axis + 1, 0)
    return [np.ascontiguousarray(_merged(row, axis)) for row in rows]


def together(parts: Sequence[Array], piece: Piece, sizes: Mapping[str, int]) -> Array:
    """The whole array from its pieces."""
    outer = piece.outer.evaluate({s: sizes[str(s)] for s in piece.outer.symbols()})
    axis = piece.axis
    split = [(*part.shape[:axis], outer, part.shape[axis] // max(outer, 1), *part.shape[axis + 1 :]) for part in parts]
    apart = [part.reshape(shape) for part, shape in zip(parts, split, strict=True)]
    return _merged(np.concatenate(apart, axis + 1), axis)


def _merged(array: Array, axis: int) -> Array:
    """The axis and the next one as one."""
    shape = array.shape
    return array.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


@dataclass(frozen=True)
class Together:
    """What a call returned on all ranks together, and each rank's state after it."""

    results: dict[str, Array]
    states: list[dict[str, Array]]


def call(
    graph: Graph,
    about: Replication,
    feeds: Mapping[str, object],
    state: Mapping[str, Array],
    ranks: int,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Together:
    """One call of a replicated entry. `feeds` are whole; `sizes` those that pieces of results mention."""
    entry, blocks = graph.entries[about.entry], about.blocks
    blocks_of_feeds = {
        name: pieces(np.asarray(feeds[name]), piece, blocks, sizes or {}) for name, piece in about.feeds.items()
    }
    network = Network()
    outcomes: dict[int, Outcome] = {}
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        first, stop = rank * blocks // ranks, (rank + 1) * blocks // ranks
        own = {name: np.stack(parts)[first:stop] for name, parts in blocks_of_feeds.items()}
        own_dims = {**(dims or {}), str(about.first): first}
        try:
            outcomes[rank] = evaluate(graph, entry, {**feeds, **own}, state=state, dims=own_dims, network=Rank(network))
        except BaseException as problem:
            failures.append(problem)
            network.fail()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    results: dict[str, Array] = {}
    for number, name in enumerate(entry.result_names):
        each = [outcomes[rank].results[number] for rank in range(ranks)]
        if name in about.results:
            results[name] = together([row for rows in each for row in rows], about.results[name], sizes or {})
        else:
            assert all(same_bits(each[0], other) for other in each), f"{name} differs between ranks"
            results[name] = each[0]
    return Together(results, [outcomes[rank].state for rank in range(ranks)])


def same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def agrees(
    text: str,
    entry: str,
    feeds: Mapping[str, object],
    *,
    blocks: int = 8,
    settings: Mapping[str, int] | None = None,
    dims: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    combine: str = "mean",
    split: str = "B",
    bound: float = 1e-12,
) -> Replication:
    """Runs an entry undivided, and in blocks on 1, 2, 4 and 8 ranks and on as many as there are blocks: the same bits
    on all of these, and the undivided numbers within `bound`. Everything of f32 is computed in f64."""
    plain = optimised(text, settings)
    graph, about = replicate(plain, statement(entry, blocks, split=split, combine=combine))
    check(graph, "replicate")
    state = initial_state(plain)
    expected = evaluate(plain, entry, feeds, state, dims)
    first = call(graph, about, feeds, state, 1, dims, sizes)
    _assert_close(first, expected, plain.entries[entry].result_names, bound)
    for ranks in sorted({ranks for ranks in (2, 4, 8, blocks) if 1 < ranks <= blocks}):
        other = call(graph, about, feeds, state, ranks, dims, sizes)
        assert all(same_bits(first.results[name], other.results[name]) for name in first.results), ranks
        for after in other.states:
            assert all(same_bits(first.states[0][name], after[name]) for name in after), ranks
    return about


def _assert_close(actual: Together, expected: Outcome, names: Sequence[str], bound: float) -> None:
    for name, array in zip(names, expected.results, strict=True):
        np.testing.assert_allclose(actual.results[name], array, rtol=bound, atol=bound, err_msg=name)
    assert actual.states[0].keys() == expected.state.keys()
    for name, array in expected.state.items():
        np.testing.assert_allclose(actual.states[0][name], array, rtol=bound, atol=bound, err_msg=name)


def in_f64(graph: Graph) -> Graph:
    """The same program with f64 for f32."""
    text = show(graph)
    if "f32" not in text:
        return graph
    return build(SourceFile("program.dfg", text.replace("f32", "f64")), None)


def optimised(text: str, settings: Mapping[str, int] | None = None) -> Graph:
    """The graph of a program after all passes, in f64."""
    return in_f64(optimise(build(SourceFile("program.dfg", dedent(text)), settings)))


def replicated(text: str, entry: str, *, blocks: int) -> tuple[Graph, Replication]:
    """A program with one entry in blocks."""
    return replicate(optimised(text), statement(entry, blocks))


def replicated_f32(text: str, entry: str, blocks: int, settings: Mapping[str, int]) -> tuple[Graph, Graph, Replication]:
    """A program as it is, undivided and with one entry in blocks."""
    plain = optimise(build(SourceFile("program.dfg", text), settings))
    return plain, *replicate(plain, statement(entry, blocks))
