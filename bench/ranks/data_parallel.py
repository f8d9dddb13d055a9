"""Training on several ranks with one thread each: images a second and rank.

    mpiexec -n N python -m mpi4py -m bench.ranks.data_parallel

Each rank has one block of `BATCH` images of every step. `bench.ranks.ddp` measures the same networks, written for
torch, with its DistributedDataParallel over gloo. Prints one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mpi4py import MPI

from bench.comparison.rates import best_rate
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source, read
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.loading import load_on

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
BATCH = 64
Feeds = Mapping[str, object]


def feeds(ranks: int) -> Mapping[str, Feeds]:
    """A whole batch for each program."""
    with np.load(SAMPLES / "data" / "digits.npz") as data:
        images = np.resize(data["train_images"], (BATCH * ranks, 64))
        labels = np.resize(data["train_labels"], BATCH * ranks)
    common = {"images": images, "labels": labels}
    return {"digits": {**common, "rate": 0.1}, "convnet": {**common, "steps": 100_000}}


def bundle(comm: MPI.Intracomm, name: str) -> bytes:
    """Compiled by rank 0, for all."""
    data = b""
    if comm.rank == 0:
        settings = f'mode = "sync", split = "B", blocks = {comm.size}'
        deploy = f"job worker tasks {comm.size}\nreplicate train over worker with {settings}\n"
        text = SourceFile("x.deploy", f'deploy 1 for "{name}.dfg"\n{deploy}')
        data = compile_source(read(SAMPLES / f"{name}.dfg"), CompileOptions(), text).to_bytes()
    return comm.bcast(data)


def main() -> None:
    comm = MPI.COMM_WORLD
    rates: dict[str, float] = {}
    for name, batch_feeds in feeds(comm.size).items():
        module = load_on(bundle(comm, name), comm, threads=1)
        if comm.rank:
            module.serve()
            continue
        train = module.entries["train"].function
        rates[name] = round(best_rate(lambda train=train, chosen=batch_feeds: train(**chosen)) * BATCH)
        module.close()
    if comm.rank == 0:
        print(json.dumps({"ranks": comm.size, "images_per_second_and_rank": rates}), flush=True)


if __name__ == "__main__":
    main()
