"""What messages cost between two ranks, as `dfc place --simulate ranks=N,network=FILE` reads it.

    mpiexec -n 2 python -m mpi4py -m bench.ranks.network [FILE]

Through the transport of dfc, of which each figure is the best of `REPEATS`: a message of 8 bytes there and back; many
of them one after the other, whose senders need not wait (`message`, the time of a processor for each); and one of 16 MB
(`bandwidth`). `latency` is half of a round trip without the processors. `request` is from two programs, one with a sum
and one with nine: half of what a sum costs; `call` is what is left of the first one's step, half for each rank. Ranks
on one machine have its memory between them; for a network run them on two hosts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

from bench.comparison.rates import best_rate
from dfc.diagnostics.source import SourceFile
from dfc.distribute.simulate.network import FORMAT
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.mpi import MpiComm

REPEATS, TURNS, BURST = 30, 100, 200
SMALL, LARGE = np.zeros(8, np.uint8), np.zeros(16 << 20, np.uint8)
THERE, BACK = 11, 12


class Pair:
    """Rank 0 and rank 1."""

    def __init__(self, comm: MpiComm) -> None:
        self._comm = comm

    def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            pass

    def _send(self, message: np.ndarray, tag: int) -> None:
        self._wait(self._comm.isend(message, 1 - self._comm.rank, tag).test)

    def _receive(self, message: np.ndarray, tag: int) -> None:
        self._wait(self._comm.irecv(message, 1 - self._comm.rank, tag).test)

    def round_trip(self, message: np.ndarray) -> float:
        """Seconds there and back."""
        into = message.copy()
        start = time.perf_counter()
        for _ in range(TURNS if message.nbytes < 1000 else 3):
            if self._comm.rank == 0:
                self._send(message, THERE)
                self._receive(into, BACK)
            else:
                self._receive(into, THERE)
                self._send(message, BACK)
        return (time.perf_counter() - start) / (TURNS if message.nbytes < 1000 else 3)

    def burst(self) -> float:
        """Seconds of the sender for a message, of many that nobody answers."""
        if self._comm.rank == 1:
            for _ in range(BURST):
                self._receive(SMALL.copy(), THERE)
            self._send(SMALL, BACK)
            return 0.0
        start = time.perf_counter()
        pending = [self._comm.isend(SMALL, 1, THERE) for _ in range(BURST)]
        seconds = (time.perf_counter() - start) / BURST
        for each in pending:
            self._wait(each.test)
        self._receive(SMALL.copy(), BACK)
        return seconds


def with_sums(count: int) -> float:
    """Seconds of a step with so many sums of one number over both ranks."""
    numbers = range(count)
    state = "".join(f"param w{i}: f32 = 0.5\n" for i in numbers)
    loss = " + ".join(f"square(w{i} * x)" for i in numbers)
    updates = "".join(f"  w{i} -= 0.001 * grad(loss, w{i})\n" for i in numbers)
    body = f"  let loss = mean({loss})\n{updates}  return loss\n"
    text = f"dfg 1\n\n{state}\nentry train[B](x: f32[B]) -> (loss: f32) {{\n{body}}}\n"
    settings = 'mode = "sync", split = "B", combine = "mean", blocks = 2'
    deploy = f'deploy 1 for "s.dfg"\n\njob worker tasks 2\n\nreplicate train over worker with {settings}\n'
    data = b""
    if MPI.COMM_WORLD.rank == 0:
        data = compile_source(SourceFile("s.dfg", text), CompileOptions(), SourceFile("s.deploy", deploy)).to_bytes()
    module = load_on(MPI.COMM_WORLD.bcast(data), MPI.COMM_WORLD, threads=1)
    if MPI.COMM_WORLD.rank:
        module.serve()
        return 0.0
    train, x = module.entries["train"].function, np.ones(2, np.float32)
    rate = best_rate(lambda: train(x))
    module.close()
    return 1 / rate


def measured(comm: MpiComm) -> dict[str, object]:
    """The description of the network."""
    pair = Pair(comm)
    trip = min(pair.round_trip(SMALL) for _ in range(REPEATS))
    large = min(pair.round_trip(LARGE) for _ in range(REPEATS))
    message = min(pair.burst() for _ in range(REPEATS))
    one, nine = with_sums(1), with_sums(9)
    request, sums = max((nine - one) / 16, 0.0), 2  # the gradient and the loss
    messages = 2 + 2 * sums + 2  # a call and its feed, sums, an answer: each sent and received
    left = one - 2 * sums * request - 2 * messages * message
    return {
        "format": FORMAT,
        "latency": max(trip / 2 - 2 * message, 0.0),
        "message": message,
        "request": request,
        "call": max(left / 2, 0.0),
        "bandwidth": LARGE.nbytes / max(large / 2 - trip / 2, 1e-9),
        "measured": {
            "ranks": 2,
            "round_trip": trip,
            "hosts": len(set(MPI.COMM_WORLD.allgather(MPI.Get_processor_name()))),
        },
    }


def main() -> None:
    if MPI.COMM_WORLD.size != 2:
        sys.exit("start it with two ranks: mpiexec -n 2 python -m mpi4py -m bench.ranks.network")
    data = measured(MpiComm(MPI.COMM_WORLD))
    if MPI.COMM_WORLD.rank == 0:
        text = json.dumps(data, indent=1)
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
