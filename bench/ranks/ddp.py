"""The networks of `bench.ranks.data_parallel` for torch: DistributedDataParallel over gloo, one thread a rank.

    python -m bench.ranks.ddp N

Needs torch and NumPy alone. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from bench.comparison.rates import best_rate

DATA = Path(__file__).resolve().parents[2] / "samples" / "data" / "digits.npz"
BATCH = 64


def digits() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def convnet() -> nn.Module:
    channels = 16
    first = [nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]
    second = [
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.BatchNorm2d(2 * channels),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *first, *second, nn.Flatten(), nn.Linear(8 * channels, 10))


def rate(network: nn.Module, optimiser: torch.optim.Optimizer) -> float:
    """The best number of steps a second."""
    with np.load(DATA) as data:
        images = torch.from_numpy(data["train_images"][:BATCH])
        labels = torch.from_numpy(data["train_labels"][:BATCH].astype(np.int64))

    def step() -> None:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimiser.step()
        loss.item()

    return best_rate(step)


def run(rank: int, size: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531")
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    rates: dict[str, int] = {}
    for name, network in (("digits", digits()), ("convnet", convnet())):
        parallel = DistributedDataParallel(network)
        parameters = parallel.parameters()
        optimizer = torch.optim.SGD(parameters, 0.1) if name == "digits" else torch.optim.Adam(parameters, 0.005)
        rates[name] = round(rate(parallel, optimizer) * BATCH)
    if rank == 0:
        print(json.dumps({"ranks": size, "images_per_second_and_rank": rates}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(run, (int(sys.argv[1]),), int(sys.argv[1]))
