"""A step on tables whose rows lie in two of three ranks: time and bytes a step, whatever the number of rows.

    mpiexec -n 3 python -m mpi4py -m bench.ranks.sharded [ROWS ...]

The program is skip-gram without noise, 256 pairs a step, tables of 16 numbers a row. Bytes are those that leave all
ranks in a step, messages of control included; beside them what ids (8 bytes) and rows alone are. Prints a JSON object a
number of rows.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np
from mpi4py import MPI

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import Bytes, Pending
from dfc_runtime.distributed.transport.mpi import MpiComm

ROWS = (10**5, 10**6, 10**7)
PAIRS, WIDTH, WARM_UP, STEPS = 256, 16, 30, 300
PROGRAM = """dfg 1
const WORDS = {rows}
const WIDTH = {width}
param table: f32[WORDS, WIDTH] = uniform(-0.1, 0.1)
param output: f32[WORDS, WIDTH] = 0
entry train[B](center: i32[B], context: i32[B], rate: f32) -> (loss: f32) {{
  let x = table[center]
  let loss = mean(square(1.0 - sum(x * output[context], axis = 1)))
  let dx, doutput = grad(loss, [x, output])
  table[center] -= rate * dx
  output -= rate * doutput
  return loss
}}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"
job worker tasks 1
job ps     tasks 2
shard "table"  axis 0 over ps by modulo
shard "output" axis 0 over ps by modulo
replicate train over worker with mode = "sync", split = "B", blocks = 4
"""


class Counting(MpiComm):
    """Counts what leaves the rank."""

    sent = 0

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        self.sent += buffer.size
        return super().isend(buffer, destination, tag, synchronous=synchronous)


def bundle(comm: MPI.Intracomm, rows: int) -> bytes:
    """Compiled by rank 0, for all."""
    data = b""
    if comm.rank == 0:
        program = SourceFile("model.dfg", PROGRAM.format(rows=rows, width=WIDTH))
        deployment = SourceFile("model.deploy", DEPLOYMENT)
        data = compile_source(program, CompileOptions(), deployment).to_bytes()
    return comm.bcast(data)


def batches(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    while True:
        center, context = random.integers(0, rows, (2, PAIRS)).astype(np.int32)
        yield center, context


def main() -> None:
    world = MPI.COMM_WORLD
    for rows in [int(word) for word in sys.argv[1:]] or ROWS:
        counting = Counting(world)
        module = load_on(bundle(world, rows), counting, threads=1)
        before = counting.sent
        times: list[float] = []
        if world.rank:
            module.serve()
        else:
            train, data = module.entries["train"].function, batches(rows)
            for _ in range(WARM_UP + STEPS):
                center, context = next(data)
                start = time.perf_counter()
                train(center, context, 0.1)
                times.append(time.perf_counter() - start)
            module.close()
        sent = world.reduce(counting.sent - before)
        if world.rank == 0 and sent is not None:
            step = {"microseconds": round(statistics.median(times[WARM_UP:]) * 1e6), "best": round(min(times) * 1e6)}
            needed = 2 * PAIRS * (8 + 2 * WIDTH * 4)
            row = {"rows": rows, **step, "bytes": sent // (WARM_UP + STEPS), "ids_and_rows": needed}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
