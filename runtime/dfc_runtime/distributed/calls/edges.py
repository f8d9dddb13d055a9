"""The edges of a program at one rank: what its native code sends, receives, contributes and takes.

Assumes the attributes that partition and replicate write, one call at a time, and that both ends of an edge meet its
messages in the same order. Guarantees that values arrive bit by bit, but for f32 between jobs that the deployment says
are to be compressed, and that memory of the program is not looked at after a handler is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.distributed.calls.routing import Router
from dfc_runtime.distributed.reduce.operation import Group, Operation
from dfc_runtime.distributed.reduce.reducer import Reducer
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.transport.buffers import Pool
from dfc_runtime.distributed.transport.comm import FIRST_EDGE, Array, Bytes, as_bytes
from dfc_runtime.distributed.transport.compression import compressed, expanded
from dfc_runtime.distributed.transport.sending import PIECE, Sender, pieces
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.errors import RankError
from dfc_runtime.formats.manifest import HostSite

_F32 = np.dtype(np.float32)


class _End:
    """This rank's end of an edge at one place of the program, with all that can be known before a call. `whole` and
    `short` are the ranks that get the value as it is, and cut short; `source` is who sends it."""

    __slots__ = ("_bytes", "_value", "awaited", "is_short", "key", "number", "short", "site", "source", "whole")

    def __init__(self, edges: Edges, site: HostSite, topology: Topology, rank: int) -> None:
        self.site = site
        self.key = _text(site, "key")
        self.number = edges.number(self.key)
        (self.source,) = topology.ranks_of(_text(site, "source"))
        self.awaited = edges.awaiting(self.key, lambda: self.source)
        operands = (*site.inputs, *site.outputs)
        dtype = numpy_dtype(operands[0].dtype)
        self.is_short = edges.is_compressed(dtype, self.source, rank)
        texts = site.attributes.get("destinations", ())
        assert isinstance(texts, tuple)
        ranks = sorted({each for text in texts for each in topology.ranks_of(text)} - {rank})
        self.short = [each for each in ranks if edges.is_compressed(dtype, rank, each)]
        self.whole = [each for each in ranks if each not in self.short]
        self._value: Array | None = None
        self._bytes = np.empty(0, np.uint8)

    def bytes_of(self, value: Array) -> Bytes:
        """Its memory. Programs use the same memory in call after call, so the last one is kept."""
        if value is not self._value:
            self._value, self._bytes = value, as_bytes(value)
        return self._bytes


class Tags:
    """Tags of messages: each edge has two. Messages of calls that failed are of another generation: nobody takes them
    for his. A program and the parts of its entries run one at a time, and share these."""

    def __init__(self, edges: int) -> None:
        self._stride = edges + 1

    def make_room(self, edges: int) -> None:
        """For a program with so many edges, on all ranks. What is left of earlier generations has lower tags still."""
        self._stride = max(self._stride, edges + 1)

    def tag(self, generation: int, number: int) -> int:
        return FIRST_EDGE + 2 * (generation * self._stride + number)


class Edges:
    """Handlers for the host calls of one rank. A part of an entry has edges of its own, and the tags of the whole."""

    def __init__(self, topology: Topology, waiting: Waiting, tags: Tags | None = None) -> None:
        self._topology = topology
        self._waiting = waiting
        self._comm = waiting.comm
        self._job = topology.by_rank[self._comm.rank].job
        self._numbers = {edge.key: number for number, edge in enumerate(topology.cluster.edges)}
        self.tags = tags or Tags(len(self._numbers))
        self._pool = Pool()
        self._sender = Sender(self._comm, self._pool, self._wait_for_taking)
        self._ends: dict[int, _End] = {}
        self._sums: dict[int, tuple[str, float, HostSite]] = {}
        self._generation = 0
        self._abandoned: list[Reducer] = []
        self._reducer = self._new_reducer()
        self._router = Router(topology, waiting, self)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By the kind of host call."""
        return {
            "send": self.send,
            "send_rows": self.send_rows,
            "recv": self.receive,
            "contribute": self.contribute,
            "combined": self.combined,
            **{kind: self._flushing(handler) for kind, handler in self._router.handlers.items()},
        }

    def _flushing(self, handler: Handler) -> Handler:
        """A handler that may wait."""

        def flushing(request: HostRequest) -> None:
            self._reducer.flush()
            handler(request)

        return flushing

    def begin(self, generation: int) -> None:
        """Before each call. Messages of calls that failed are of another generation: nobody takes them for his."""
        if generation != self._generation:
            self._generation = generation
            self._reducer = self._new_reducer()
            self._sums.clear()
            if self._tag(len(self._numbers)) > self._comm.highest_tag:
                raise RankError("too many calls have failed: start the program again", code="E0911")

    def finish(self) -> None:
        """After each call: waits until what was sent has left."""
        self._reducer.finish()
        self._sender.finish()

    def cancel(self) -> None:
        """After a call that failed: gives up what is under way."""
        self._abandoned.append(self._reducer)
        self._reducer.cancel()
        self._sender.cancel()

    def send(self, request: HostRequest) -> None:
        """Sends a value to all tasks that want it, if this is the task that has it."""
        end, value = self._end(request.site), request.inputs[0]
        if end.source != self._comm.rank or not value.nbytes:
            return
        tag = self._tag(end.number)
        if end.short:
            halves = self._pool.take(value.size * 2)
            compressed(value, halves)
            self._sender.send_buffer(end.key, halves, end.short, tag)
        if end.whole:
            self._sender.send(end.key, end.bytes_of(value), end.whole, tag)

    def send_rows(self, request: HostRequest) -> None:
        """Sends each task the rows of its blocks, which lie one behind the other, if this is the task that has all."""
        end, value, blocks = self._end(request.site), request.inputs[0], request.site.attributes["blocks"]
        assert isinstance(blocks, int)
        if end.source != self._comm.rank or not value.nbytes:
            return
        tag, rows = self._tag(end.number), len(value) // blocks
        for rank in (*end.short, *end.whole):
            task = self._topology.by_rank[rank]
            first, last = dealt(blocks, self._topology.tasks[task.job], task.number)
            own = value[first * rows : last * rows]
            if not own.nbytes:
                continue
            if rank in end.short:
                halves = self._pool.take(own.size * 2)
                compressed(own, halves)
                self._sender.send_buffer(end.key, halves, [rank], tag)
            else:
                self._sender.send(end.key, as_bytes(own), [rank], tag)

    def receivers(self, site: HostSite) -> Sequence[int]:
        """The ranks that this one sends to at such a place of the program."""
        end = self._end(site)
        return [*end.short, *end.whole] if end.source == self._comm.rank else []

    def receive(self, request: HostRequest) -> None:
        """Waits for a value."""
        end, out = self._end(request.site), request.outputs[0]
        if not out.nbytes:
            return
        self._reducer.flush()
        tag = self._tag(end.number)
        if end.is_short:
            halves = self._pool.take(out.size * 2)
            self._waiting.wait(self._comm.irecv(halves, end.source, tag).test, end.awaited)
            expanded(halves, out)
            self._pool.give(halves)
            return
        memory = end.bytes_of(out)
        if memory.size <= PIECE:
            self._waiting.wait(self._comm.irecv(memory, end.source, tag).test, end.awaited)
            return
        for pending in [self._comm.irecv(piece, end.source, tag) for piece in pieces(memory)]:
            self._waiting.wait(pending.test, end.awaited)

    def _end(self, site: HostSite) -> _End:
        end = self._ends.get(id(site))  # it keeps its site, so that no other gets its number
        if end is None:
            end = self._ends[id(site)] = _End(self, site, self._topology, self._comm.rank)
        return end

    def contribute(self, request: HostRequest) -> None:
        """The part of one block of what all tasks of a job make together, or those of all blocks of this task."""
        key, _, site = self._sums.get(id(request.site)) or self._sum(request.site)
        value, number = request.inputs
        give = self._reducer.contribute_all if site.attributes["stacked"] else self._reducer.contribute
        give(key, number.item(), value)

    def combined(self, request: HostRequest) -> None:
        """Waits for what all blocks make together. Only here is it known what a sum is to be multiplied by."""
        key, scale, _ = self._sums.get(id(request.site)) or self._sum(request.site)
        self._reducer.combined(key, request.outputs[0], scale)

    def _sum(self, site: HostSite) -> tuple[str, float, HostSite]:
        """What a place of the program says of a sum; known from now on, and with its site, as in `_end`."""
        key, scale = _text(site, "key"), site.attributes.get("scale", 1.0)
        assert isinstance(scale, float | int)
        self._declare(key, site)
        prepared = self._sums[id(site)] = key, float(scale), site
        return prepared

    def send_once(self, key: str, buffer: Bytes, rank: int) -> None:
        """Sends a buffer that nobody uses again."""
        self._sender.send_once(key, buffer, rank, self.tag(key))

    def number(self, key: str) -> int:
        """The number of an edge among all."""
        return self._numbers[key]

    def tag(self, key: str) -> int:
        """Where messages of an edge are in this call."""
        return self._tag(self._numbers[key])

    def _declare(self, key: str, site: HostSite) -> None:
        if self._reducer.knows(key):
            return
        blocks, number = site.attributes["blocks"], self._numbers[key]
        assert isinstance(blocks, int)
        ranks = self._topology.ranks_of(_text(site, "job"))
        tag = self._tag(number)
        what = Operation(blocks, (tag, tag + 1), number, _text(site, "combination"))
        self._reducer.declare(key, what, Group(ranks, ranks.index(self._comm.rank)))

    def _new_reducer(self) -> Reducer:
        return Reducer(self._comm, self._pool, self._wait_for_sum, tag=self._tag(len(self._numbers)))

    def is_compressed(self, dtype: np.dtype[np.generic], source: int, destination: int) -> bool:
        """Whether numbers of this type are cut short between two ranks."""
        jobs = self._topology.by_rank[source].job, self._topology.by_rank[destination].job
        return dtype == _F32 and jobs in self._topology.cluster.compressed

    def _tag(self, number: int) -> int:
        return self.tags.tag(self._generation, number)

    def _described(self, key: str) -> str:
        edge = self._topology.cluster.edges[self._numbers[key]]
        return f"`{edge.name}` ({edge.location})" if edge.location else f"`{edge.name}`"

    def awaiting(self, key: str, rank: Callable[[], int]) -> Callable[[], Awaited]:
        """What a rank waits for, for reports."""
        return lambda: Awaited(self._described(key), rank())

    def _wait_for_taking(self, condition: Callable[[], bool], key: str, rank: int) -> None:
        self._reducer.flush()
        self._waiting.wait(condition, lambda: Awaited(f"{self._described(key)} to be taken", rank))

    def _wait_for_sum(self, condition: Callable[[], bool], key: str) -> None:
        awaited = self._reducer.awaited
        self._waiting.wait(condition, self.awaiting(key, lambda: -1 if (rank := awaited(key)) is None else rank))


def _text(site: HostSite, name: str) -> str:
    value = site.attributes[name]
    assert isinstance(value, str)
    return value
