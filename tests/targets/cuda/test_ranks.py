"""Programs on many ranks of which some work on GPUs: what is sent passes through the memory of the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.in_process import Network
from dfc_target_cuda.target import SIMULATOR
from tests.support.bundles import roles_of
from tests.support.clusters import on_cluster
from tests.support.cuda_simulator import simulation
from tests.support.ranks import outcomes_on
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_runtime import simulated_devices

PROGRAM = """dfg 1

param w: f32[4, 5] = uniform(-1.0, 1.0)
param v: f32[5, 2] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4], y: f32[B, 2]) -> (loss: f32) {
  let h = tanh(x @ w)
  let loss = mean(square(h @ v - y))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  return loss
}
"""
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(4, 4)).astype(np.float32)
Y = RANDOM.normal(size=(4, 2)).astype(np.float32)
BESIDE = """
job ps tasks 1
job worker tasks 1 with gpu = 2

place "**" on worker gpu 1
place "w" on ps
"""
REPLICATED = """
job worker tasks 2 with gpu = 1

place "**" on worker any gpu
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
"""


@pytest.fixture(autouse=True)
def gpus() -> Iterator[list[list[SimulatedDevice]]]:
    """What is opened of each of four. Ranks of one process are threads, and a simulated launch needs it to itself."""
    one_at_a_time = threading.Lock()

    def simulate_alone(*launch: Any) -> None:
        with one_at_a_time:
            simulation.simulate(*launch)

    with simulated_devices(4, launch=simulate_alone) as opened:
        yield opened


def bundle(deployment: str) -> bytes:
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{deployment}')
    options = CompileOptions(target_options=TargetOptions((SIMULATOR,)))
    return compile_source(SourceFile("model.dfg", PROGRAM), options, deploy).to_bytes()


def trained(module: ClusterModule) -> tuple[np.ndarray, ...]:
    losses = np.array([module.train(X, Y).loss for _ in range(3)])
    return losses, np.array(module.state["w"]), np.array(module.state["v"])


def check(found: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(found, trained(dfc.loads(dfc.compile(text=PROGRAM).to_bytes())), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)  # sums are in another order


def test_a_processor_and_a_gpu_train_together(gpus: list[list[SimulatedDevice]]) -> None:
    check(on_cluster(bundle(BESIDE), 2, trained))
    assert [len(opened) for opened in gpus] == [0, 0, 0, 1]  # the second one of the second rank, each rank having two


def test_a_stated_device_is_for_those_who_work_on_one(
    gpus: list[list[SimulatedDevice]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_DEVICE", "2")
    check(on_cluster(bundle(BESIDE), 2, trained))
    network = Network(2)
    modules = outcomes_on(network, lambda comm: load_on(bundle(BESIDE), comm, threads=1, device=1, initialise=False))
    assert not any(isinstance(each, BaseException) for each in modules)
    assert [len(opened) for opened in gpus] == [0, 1, 1, 0]


def test_each_role_has_the_code_of_its_device() -> None:
    drivers = {name: dfc.verify(data).driver for name, data in roles_of(bundle(BESIDE)).items()}
    assert drivers == {"role/ps-0": "cpu", "role/worker-0": "cuda"}


def test_gpus_train_on_blocks_of_a_batch(gpus: list[list[SimulatedDevice]]) -> None:
    check(on_cluster(bundle(REPLICATED), 2, trained))
    assert [len(opened) for opened in gpus] == [1, 1, 0, 0]


def test_a_checkpoint_of_gpus_is_restored_on_processors(tmp_path: Path) -> None:
    def work(module: ClusterModule) -> tuple[np.ndarray, ...]:
        found = trained(module)
        ClusterModule.save(module, tmp_path)
        return found

    _, w, v = on_cluster(bundle(BESIDE), 2, work)
    alone = dfc.loads(dfc.compile(text=PROGRAM).to_bytes())
    alone.restore(tmp_path)
    np.testing.assert_array_equal(alone.state["w"], w)
    np.testing.assert_array_equal(alone.state["v"], v)
