"""Training with backup tasks among tasks that are slow by chance, in one process.

Assumes nothing of the machine but that it can sleep: ranks are threads, and what makes a task slow is a sleep before it
hands over a gradient. Guarantees delays that depend on the seed, the task and the number of its step alone.
"""

from __future__ import annotations

import threading
import time
from random import Random
from typing import cast

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import FIRST_EDGE, Bytes, Comm, Pending
from dfc_runtime.distributed.transport.in_process import InProcessComm, Network

PROGRAM = """dfg 1

param w: f32[64] = 1

entry train[B](x: f32[B, 64], rate: f32) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w -= rate * grad(loss, w)
  return loss
}
"""
EAGER = 1 << 14
"""Messages of so many bytes are sent as soon as they are given, as MPI does it."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds of a usual step and of a slow one, and how often it is one."""

    usual: float
    slow: float
    chance: float
    seed: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds a step, and how many gradients came too late, with so many tasks that count and so many backups."""

    tasks: int
    backups: int
    seconds: float
    dropped: int

    def gain(self, without: Measured) -> float:
        """The normalised speed-up over a run without backups: what they gain, by what they cost."""
        return without.seconds / self.seconds * self.tasks / (self.tasks + self.backups)


class _SlowComm(InProcessComm):
    """An end of the network whose rank takes its time for what it hands over."""

    def __init__(self, network: Network, rank: int, delays: Delays) -> None:
        super().__init__(network, rank)
        self._delays = delays
        self._draws = Random(f"{delays.seed}/{rank}")

    def isend(self, buffer: Bytes, destination: int, tag: int, *, synchronous: bool = False) -> Pending:
        if tag >= FIRST_EDGE:
            is_slow = self._draws.random() < self._delays.chance
            time.sleep(self._delays.slow if is_slow else self._delays.usual)
        return super().isend(buffer, destination, tag, synchronous=synchronous)


def measured(tasks: int, backups: int, steps: int, delays: Delays) -> Measured:
    """One run with so many steps."""
    total = tasks + backups
    deployment = f"""deploy 1 for "slow.dfg"
job ps tasks 1
job worker tasks {total}
replicate train over worker with mode = "backup", split = "B", backups = {backups}, blocks = {total * steps}
"""
    source, deploy = SourceFile("slow.dfg", PROGRAM), SourceFile("slow.deploy", deployment)
    data = compile_source(source, CompileOptions(), deploy).to_bytes()
    network = Network(total + 1, eager=EAGER)
    threads = [
        threading.Thread(target=_serve, args=(data, _SlowComm(network, rank, delays)), daemon=True)
        for rank in range(1, total + 1)
    ]
    for thread in threads:
        thread.start()
    seconds, dropped = _trained(data, network.comm(0), total * steps)
    for thread in threads:
        thread.join()
    return Measured(tasks, backups, seconds / steps, dropped)


def _serve(data: bytes, comm: Comm) -> None:
    module = cast(ClusterModule, load_on(data, comm, threads=1))
    module.serve()
    module.close()


def _trained(data: bytes, comm: Comm, blocks: int) -> tuple[float, int]:
    """Seconds of a call, and what was dropped in it."""
    module = cast(ClusterModule, load_on(data, comm, threads=1))
    log = module.entries["train"].updates
    assert log is not None, "its tasks take steps of their own"
    x = np.zeros((blocks, 64), np.float32)
    start = time.perf_counter()
    module.entries["train"](x, 0.1)
    seconds = time.perf_counter() - start
    dropped = log.read().dropped
    module.close()
    return seconds, dropped
