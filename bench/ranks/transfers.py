"""Steps that fetch state of other ranks, beside the same messages of raw mpi4py, in turns in one run.

    mpiexec -n N python -m mpi4py -m bench.ranks.transfers [MEGABYTES]

Rank 0 calls; every other rank holds a number and its part of a dense array. A step of `scalar` adds the numbers, one of
`fetch` takes an element of each part, for which the parts travel whole. Raw: rank 0 sends a byte to each of the others,
and they send what they have, out of their own memory into memory of rank 0. Prints one JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.calls.rank import Answer, Data
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import Array

REPEATS = 9
SHORT_REPEATS = 60
Step = Callable[[], object]


def program(holders: int, elements: int) -> tuple[str, str]:
    """The program and its deployment."""
    numbers = range(holders)
    state = "".join(f"var far{i}: f32 = 2\nvar dense{i}: f32[{elements}] = 3\n" for i in numbers)
    scalar = " + ".join(["near", *(f"far{i}" for i in numbers)])
    parts = " + ".join(["near", *(f"dense{i}[7]" for i in numbers)])
    text = f"""dfg 1
var near: f32 = 1
{state}
readonly entry scalar() -> f32 {{
  let result = {scalar}
  return result
}}
readonly entry fetch() -> f32 {{
  let result = {parts}
  return result
}}
"""
    placements = "".join(f'place "far{i}" on ps task {i}\nplace "dense{i}" on ps task {i}\n' for i in numbers)
    jobs = "job worker tasks 1\n" + (f"job ps tasks {holders}\n" if holders else "")
    return text, f'deploy 1 for "t.dfg"\n{jobs}place "**" on worker\n{placements}'


def bundle(comm: MPI.Intracomm, elements: int) -> bytes:
    """Compiled by rank 0, for all."""
    data = b""
    if comm.rank == 0:
        text, deploy = program(comm.size - 1, elements)
        data = compile_source(SourceFile("t.dfg", text), CompileOptions(), SourceFile("t.deploy", deploy)).to_bytes()
    return comm.bcast(data)


class Raw:
    """The same messages without anything else. Buffers are made once."""

    def __init__(self, comm: MPI.Intracomm, size: int) -> None:
        self._comm = comm
        self._asked = np.zeros(1, np.uint8)
        self._others = range(1, comm.size)
        self._parts = [np.ones(size, np.uint8) for _ in (self._others if comm.rank == 0 else [0])]

    def run(self, data: Data, _: list[Array]) -> Answer:
        """A command for all ranks: so many steps; rank 0 says how long one took."""
        count = int(str(data["count"]))
        start = time.perf_counter()
        for _ in range(count):
            self._ask() if self._comm.rank == 0 else self._answer()
        return {"us": (time.perf_counter() - start) / count * 1e6}, []

    def _ask(self) -> None:
        comm = self._comm
        arriving = [comm.Irecv([part, MPI.BYTE], rank) for part, rank in zip(self._parts, self._others, strict=True)]
        for rank in self._others:
            comm.Send([self._asked, MPI.BYTE], rank)
        MPI.Request.Waitall(arriving)

    def _answer(self) -> None:
        self._comm.Recv([self._asked, MPI.BYTE], 0)
        self._comm.Send([self._parts[0], MPI.BYTE], 0)


def timed(step: Step, count: int) -> float:
    """Microseconds a step."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count * 1e6


def compare(module: ClusterModule, step: Step, command: str, count: int, repeats: int) -> dict[str, float]:
    """Both in turns: the best and the median of each."""

    def raw(client: Client) -> Answer:
        return client.command({"command": command, "count": count})[0][0], []

    timed(step, count)
    pairs = [(timed(step, count), float(str(module.together(command, raw)[0]["us"]))) for _ in range(repeats)]
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    return {
        "dfc_us": round(min(ours), 1),
        "dfc_median_us": round(statistics.median(ours), 1),
        "raw_us": round(min(theirs), 1),
        "raw_median_us": round(statistics.median(theirs), 1),
    }


def main() -> None:
    comm = MPI.COMM_WORLD
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 100) * 1e6) // max(comm.size - 1, 1)
    module = load_on(bundle(comm, size // 4), comm, threads=1)
    module.add_command("raw scalar", Raw(comm, 4).run)
    module.add_command("raw dense", Raw(comm, size).run)
    if comm.rank:
        module.serve()
        return
    scalar = compare(module, module.scalar, "raw scalar", 30, SHORT_REPEATS)
    dense = compare(module, module.fetch, "raw dense", 3, REPEATS)
    if comm.size > 1:
        dense["of_raw_bandwidth"] = round(dense["raw_us"] / dense["dfc_us"], 2)
    print(json.dumps({"ranks": comm.size, "scalar": scalar, "dense": dense}), flush=True)
    module.close()


if __name__ == "__main__":
    main()
