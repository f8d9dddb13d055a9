"""Steps that compute next to nothing: what it takes to fetch parameters from servers and to update them there.

    scalar       one number, in one server
    dense        all of so many bytes, an equal part in each server
    sparse       32 rows for each worker of a table that lies in rows in all servers; once more of one 16 times as large

Each worker fetches what a step uses, makes a gradient of it, and the owners update their parts; steps are synchronous.
Beside them the same parameters and gradients are sent as plain messages of MPI, which add nothing up. Assumes that
servers are the first ranks. Guarantees that all ranks measure the same steps in the same order.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dfc.deferred.dataclasses import dataclass

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.calls.cluster_module import ClusterModule

ROWS, WIDTH = 32, 256
"""Rows that a worker looks up in a step, and numbers in each."""
LARGER = 16
NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """Ranks of both jobs, and how many numbers the dense parameters have, and rows the smaller table; both are
    multiples of the number of servers."""

    servers: int
    workers: int
    dense: int
    rows: int

    @property
    def ranks(self) -> int:
        return self.servers + self.workers

    def program(self) -> str:
        """The program."""
        parts = [f"dense{number}" for number in range(self.servers)]
        state = "".join(f"param {part}: f32[{self.dense // self.servers}] = 1\n" for part in parts)
        losses = " + ".join(f"mean(square(x[:, new] * {part}[new, :]))" for part in parts)
        gradients = ", ".join(f"to_{part}" for part in parts)
        updates = "".join(f"  {part} -= to_{part}\n" for part in parts)
        tables = "".join(_lookup(name, rows) for name, rows in self._tables())
        return f"""dfg 1
param number: f32 = 1
{state}
entry scalar[B](x: f32[B]) {{
  number -= grad(mean(square(x * number)), number)
}}

entry dense[B](x: f32[B]) {{
  let {gradients} = grad({losses}, [{", ".join(parts)}])
{updates}}}
{tables}"""

    def deployment(self) -> str:
        """Where it runs."""
        dense = "".join(f'place "dense{number}" on ps task {number}\n' for number in range(self.servers))
        shards = "".join(f'shard "{name}_table" axis 0 over ps by modulo\n' for name, _ in self._tables())
        entries = ("scalar", "dense", *(name for name, _ in self._tables()))
        settings = f'mode = "sync", split = "B", blocks = {self.workers}'
        replicated = "".join(f"replicate {entry} over worker with {settings}\n" for entry in entries)
        jobs = f"job ps     tasks {self.servers}\njob worker tasks {self.workers}\n"
        constraints = f'place "**" on worker\nplace "number" on ps task 0\n{dense}'
        return f'deploy 1 for "null.dfg"\n{jobs}{constraints}{shards}{replicated}'

    def steps(self) -> list[Step]:
        """What is measured, in order."""
        numbers = np.full(self.workers, 0.1, np.float32)
        lookups = ROWS * WIDTH
        return [
            Step("scalar", 1, [1] + [0] * (self.servers - 1), lambda _: numbers),
            Step("dense", self.dense, [self.dense // self.servers] * self.servers, lambda _: numbers),
            *(Step(name, rows * WIDTH, self._by_server(lookups), self._ids(rows)) for name, rows in self._tables()),
        ]

    def _tables(self) -> list[tuple[str, int]]:
        return [("sparse", self.rows), (f"sparse_{LARGER}", self.rows * LARGER)]

    def _by_server(self, numbers: int) -> list[int]:
        """How many numbers each server sends to a worker, if rows are spread evenly."""
        each, left = divmod(numbers, self.servers)
        return [each + (task < left) for task in range(self.servers)]

    def _ids(self, rows: int) -> Callable[[int], NDArray[np.generic]]:
        return lambda number: np.random.default_rng(number).integers(0, rows, self.workers * ROWS).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Step:
    """An entry, how many numbers its parameters have, how many of them each server sends to a worker in a step (and
    gets back), and what step n is fed."""

    entry: str
    numbers: int
    fetched: Sequence[int]
    feed: Callable[[int], NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each step by the compiler, and of the same messages alone."""

    step: Step
    seconds: Sequence[float]
    messages: Sequence[float]

    @property
    def ratio(self) -> float:
        """How many times as long as the messages a step takes."""
        return statistics.median(self.seconds) / statistics.median(self.messages)


def percentiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    """The 10th, 50th and 90th."""
    low, middle, high = np.percentile(np.array(seconds), (10, 50, 90))
    return float(low), float(middle), float(high)


def steps_measured(module: ClusterModule, step: Step, warm_up: int, count: int) -> list[float]:
    """Seconds of each step, as rank 0 sees them."""
    entry, times = module.entries[step.entry], list[float]()
    for number in range(warm_up + count):
        feed = step.feed(number)
        start = time.perf_counter()
        entry(feed)
        times.append(time.perf_counter() - start)
    return times[warm_up:]


def messages_measured(comm: MPI.Intracomm, sizes: Sizes, step: Step, warm_up: int, count: int) -> list[float]:
    """Seconds that all ranks together take for the messages of a step, each worker with each server."""
    own = comm.rank
    is_server = own < sizes.servers
    peers = range(sizes.servers, sizes.ranks) if is_server else range(sizes.servers)
    lengths = [step.fetched[own if is_server else peer] for peer in peers]
    arrays = [(peer, np.ones(length, np.float32)) for peer, length in zip(peers, lengths, strict=True) if length]
    times = list[float]()
    for _ in range(warm_up + count):
        comm.Barrier()
        start = time.perf_counter()
        for sends in (is_server, not is_server):  # parameters come, then gradients go
            transfer = comm.Isend if sends else comm.Irecv
            requests = [transfer(array, peer) for peer, array in arrays]
            for request in requests:
                request.Wait()
        comm.Barrier()
        times.append(time.perf_counter() - start)
    return times[warm_up:]


def _lookup(name: str, rows: int) -> str:
    return f"""
param {name}_table: f32[{rows}, {WIDTH}] = 1

entry {name}[B](ids: i32[B]) {{
  let rows = {name}_table[ids]
  {name}_table[ids] -= grad(mean(square(rows)), rows)
}}
"""
