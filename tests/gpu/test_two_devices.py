"""A task on processors and GPUs at once. With one GPU it and the processors share a program, with two all three do."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_driver_cuda import libcuda
from dfc_runtime.errors import DfcError, RunError
from tests.support.clusters import on_cluster

PROGRAM = """dfg 1

param w: f32[64, 96] = uniform(-0.1, 0.1)
param v: f32[96, 10] = uniform(-0.1, 0.1)
var seen: i64 = 0

entry train[B](x: f32[B, 64], y: f32[B, 10], pick: i64) -> (loss: f32, one: f32) {
  let h = tanh(x @ w)
  let p = h @ v
  let loss = mean(square(p - y))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  seen += B
  return loss, p[pick, 0]
}
"""
JOB = "job worker tasks 1 with gpu = 2\n"
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(32, 64)).astype(np.float32)
Y = RANDOM.normal(size=(32, 10)).astype(np.float32)


def devices() -> int:
    """How many there are, as far as two."""
    count = 0
    for number in range(2):
        try:
            libcuda.device_bits(number)
        except DfcError:
            break
        count += 1
    return count


def run(lines: str, architecture: str) -> tuple[np.ndarray, ...]:
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{JOB}{lines}')
    options = CompileOptions(target_options=TargetOptions((architecture,)))
    data = compile_source(SourceFile("model.dfg", PROGRAM), options, deploy).to_bytes()

    def work(module: object) -> tuple[np.ndarray, ...]:
        return trained(module)

    return on_cluster(data, 1, work)


def trained(module: object) -> tuple[np.ndarray, ...]:
    losses = [module.train(X, Y, 0).loss for _ in range(5)]  # type: ignore[attr-defined]
    with pytest.raises(RunError, match="index 32"):
        module.train(X, Y, 32)  # type: ignore[attr-defined]
    return np.array(losses), *(np.array(module.state[name]) for name in ("w", "v"))  # type: ignore[attr-defined]


def check(found: tuple[np.ndarray, ...]) -> None:
    alone = dfc.loads(dfc.compile(text=PROGRAM).to_bytes())
    losses = np.array([alone.train(X, Y, 0).loss for _ in range(5)])
    np.testing.assert_allclose(found[0], losses, rtol=1e-3)


def test_a_gpu_and_the_processors_are_one_task(architecture: str) -> None:
    lines = 'place "**" on worker gpu 0\nplace "w" on worker any cpu\nplace "train/loss" on worker any cpu\n'
    check(run(lines, architecture))


def test_two_gpus_are_one_task(architecture: str) -> None:
    if devices() < 2:
        pytest.skip("there is one GPU")
    check(run('place "**" on worker gpu 0\nplace "v" on worker gpu 1\nplace "seen" on worker any cpu\n', architecture))


def test_two_gpus_have_the_bits_of_one(architecture: str) -> None:
    """Kernels and their order of sums are the same: what crosses is copied."""
    if devices() < 2:
        pytest.skip("there is one GPU")
    one, other = (run(f'place "**" on worker gpu {n}\nplace "seen" on worker any cpu\n', architecture) for n in (0, 1))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
