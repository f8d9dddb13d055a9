"""Rows of sharded variables on their way between the tasks that use them and those that have them.

Assumes the attributes that the pass `shard` writes, and that both sides meet the messages of a key in the same order.
Guarantees that only ids and rows travel; that the rows which reach an owner stand in the order of the tasks that sent
them, and those of each in the order of its ids; that ids outside of the variable stop the call before any is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.shards import Division, Rows
from dfc_runtime.distributed.topology import Topology
from dfc_runtime.distributed.transport.comm import Array, Bytes, Pending, as_bytes
from dfc_runtime.distributed.transport.compression import compressed, expanded
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting
from dfc_runtime.errors import RunError
from dfc_runtime.formats.manifest import HostSite


class Wires(Protocol):
    """What all edges of a rank share."""

    def tag(self, key: str) -> int: ...

    def awaiting(self, key: str, rank: Callable[[], int]) -> Callable[[], Awaited]: ...

    def is_compressed(self, dtype: np.dtype[np.generic], source: int, destination: int) -> bool: ...

    def send_once(self, key: str, buffer: Bytes, rank: int) -> None:
        """Sends a buffer that nobody uses again."""
        ...


@dataclass(frozen=True, slots=True)
class _Route:
    """Where the ids of one routing go: their order by owner, and where the part of each owner begins and ends."""

    order: Rows
    borders: Sequence[tuple[int, int]]


class Router:
    """Handlers for what is routed at one rank."""

    def __init__(self, topology: Topology, waiting: Waiting, wires: Wires) -> None:
        self._topology = topology
        self._waiting = waiting
        self._comm = waiting.comm
        self._wires = wires
        self._routes: dict[str, _Route] = {}
        self._arrived: dict[str, list[int]] = {}
        self._positions: dict[Division, Rows] = {}

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By the kind of host call."""
        return {
            "route_ids": self.route_ids,
            "routed_ids": self.routed_ids,
            "route_rows": self.route_rows,
            "routed_rows": self.routed_rows,
            "answer_rows": self.answer_rows,
            "answered_rows": self.answered_rows,
            "shard_place": self.own_shard,
            "shard_rows": self.rows,
            "shard_positions": self.positions,
        }

    # ---------------------------------------------------------------- ids --

    def route_ids(self, request: HostRequest) -> None:
        """Sorts ids by owner, and sends each owner the numbers that its rows have there."""
        site, division = request.site, self._division(request.site)
        ids = _checked(request.inputs[0].reshape(-1), division.rows, site)
        tasks, local = division.locate(ids)
        order = np.argsort(tasks, kind="stable")
        ends = np.cumsum(np.bincount(tasks, minlength=division.tasks))
        borders = list(pairwise([0, *(int(end) for end in ends)]))
        self._routes[_text(site, "routing")] = _Route(order, borders)
        if not self._sends(site):
            return
        ordered = local[order]
        for rank, (first, last) in zip(self._owners(site), borders, strict=True):
            numbers = np.empty(1 + last - first, np.int64)
            numbers[0] = last - first
            numbers[1:] = ordered[first:last]
            self._wires.send_once(_text(site, "key"), as_bytes(numbers), rank)

    def routed_ids(self, request: HostRequest) -> None:
        """The local numbers of all rows that are meant, and how many they are."""
        site, (count, out) = request.site, request.outputs
        key, total = _text(site, "key"), 0
        counts: list[int] = []
        for rank in self._sources(site):
            awaited = self._wires.awaiting(key, lambda rank=rank: rank)
            arrival = self._waiting.message(rank, self._wires.tag(key), awaited)
            numbers = self._waiting.bytes_of(arrival, awaited).view(np.int64)
            if numbers.size <= numbers[0]:  # longer than one message of the network can be: the rest comes behind
                whole = np.empty(1 + int(numbers[0]), np.int64)
                whole[: numbers.size] = numbers
                self._wait(self._comm.irecv(as_bytes(whole[numbers.size :]), rank, self._wires.tag(key)), awaited)
                numbers = whole
            counts.append(numbers.size - 1)
            out[total : total + counts[-1]] = numbers[1:]
            total += counts[-1]
        self._arrived[_text(site, "routing")] = counts
        count[...] = total

    # ---------------------------------------------------------------- rows --

    def route_rows(self, request: HostRequest) -> None:
        """Sends rows to the owners of what they belong to."""
        site, rows = request.site, request.inputs[0]
        if not self._sends(site):
            return
        route = self._routes[_text(site, "routing")]
        for rank, (first, last) in zip(self._owners(site), route.borders, strict=True):
            self._send(site, rows, route.order[first:last], rank)

    def routed_rows(self, request: HostRequest) -> None:
        """Rows of all who sent some, one behind the other."""
        site, out = request.site, request.outputs[0]
        first = 0
        for rank, count in zip(self._sources(site), self._arrived[_text(site, "routing")], strict=True):
            self._receive(site, out[first : first + count], rank)
            first += count

    def answer_rows(self, request: HostRequest) -> None:
        """Sends rows to those who asked: what one asked for in the name of all goes to all."""
        site, rows = request.site, request.inputs[0]
        sources, counts = self._sources(site), self._arrived[_text(site, "routing")]
        if len(sources) == 1:
            for rank in self._callers(site):
                self._send(site, rows, slice(None), rank)
            return
        first = 0
        for rank, count in zip(sources, counts, strict=True):
            self._send(site, rows, slice(first, first + count), rank)
            first += count

    def answered_rows(self, request: HostRequest) -> None:
        """Rows from their owners, in the order of the ids."""
        site, out = request.site, request.outputs[0]
        route = self._routes[_text(site, "routing")]
        for rank, (first, last) in zip(self._owners(site), route.borders, strict=True):
            if first == last or not out.nbytes:
                continue
            rows = np.empty((last - first, *out.shape[1:]), out.dtype)
            self._receive(site, rows, rank)
            out[route.order[first:last]] = rows

    def _send(self, site: HostSite, rows: Array, chosen: NDArray[np.int64] | slice, rank: int) -> None:
        """Sends some rows, as a copy."""
        picked = np.array(rows[chosen], order="C")
        if not picked.nbytes:
            return
        message = as_bytes(picked)
        if self._wires.is_compressed(rows.dtype, self._comm.rank, rank):
            message = np.empty(picked.size * 2, np.uint8)
            compressed(picked, message)
        self._wires.send_once(_text(site, "key"), message, rank)

    def _receive(self, site: HostSite, out: Array, rank: int) -> None:
        """Fills an array that lies in a row."""
        if not out.nbytes:
            return
        key = _text(site, "key")
        tag, awaited = self._wires.tag(key), self._wires.awaiting(key, lambda: rank)
        if self._wires.is_compressed(out.dtype, rank, self._comm.rank):
            halves = np.empty(out.size * 2, np.uint8)
            self._wait(self._comm.irecv(halves, rank, tag), awaited)
            expanded(halves, out)
        else:
            self._wait(self._comm.irecv(as_bytes(out), rank, tag), awaited)

    def _wait(self, pending: Pending, awaited: Callable[[], Awaited]) -> None:
        self._waiting.wait(pending.test, awaited)

    # ---------------------------------------------------------------- shards --

    def own_shard(self, request: HostRequest) -> None:
        """The number of this task, and how many rows lie here."""
        task = self._topology.by_rank[self._comm.rank].number
        request.outputs[0][...] = task
        request.outputs[1][...] = self._division(request.site).count(task)

    def rows(self, request: HostRequest) -> None:
        """The rows that lie here; the last one again where the memory has room for one more."""
        task, out = self._topology.by_rank[self._comm.rank].number, request.outputs[0]
        rows = self._division(request.site).rows_of(task)
        out[: len(rows)] = rows
        out[len(rows) :] = rows[-1]

    def positions(self, request: HostRequest) -> None:
        """Where each row is, if the memory of all tasks stands in a line."""
        division = self._division(request.site)
        if division not in self._positions:
            tasks, local = division.locate(np.arange(division.rows))
            self._positions[division] = tasks * division.most + local
        request.outputs[0][...] = self._positions[division]

    # ---------------------------------------------------------------- who --

    def _division(self, site: HostSite) -> Division:
        rows = site.attributes["rows"]
        assert isinstance(rows, int)
        return Division(_text(site, "rule"), rows, len(self._owners(site)))

    def _owners(self, site: HostSite) -> tuple[int, ...]:
        return self._topology.ranks_of(_text(site, "owners"))

    def _sources(self, site: HostSite) -> tuple[int, ...]:
        return self._topology.ranks_of(_text(site, "source"))

    def _callers(self, site: HostSite) -> tuple[int, ...]:
        return self._topology.ranks_of(_text(site, "callers"))

    def _sends(self, site: HostSite) -> bool:
        return self._comm.rank in self._sources(site)


def _checked(ids: Array, rows: int, site: HostSite) -> Rows:
    """Ids from the start, all of them inside."""
    numbers = ids.astype(np.int64, copy=False)
    outside = (numbers < -rows) | (numbers >= rows)
    if outside.any():
        wrong, location = int(numbers[int(np.argmax(outside))]), site.location
        line = f"\n  {location.line} | {location.text.strip()}" if location.text.strip() else ""
        text = f"index {wrong} is out of range for axis of size {rows} at {location}{line}"
        raise RunError(text, code="E0904", spans=[location], values=(wrong, rows))
    return np.where(numbers < 0, numbers + rows, numbers)


def _text(site: HostSite, name: str) -> str:
    value = site.attributes[name]
    assert isinstance(value, str)
    return value
