"""Ranks of MPI that each work on several devices: simulated ones, each rank with its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from tests.support.mpi import run_ranks

PROGRAM = """dfg 1

param w: f32[6, 5] = uniform(-1.0, 1.0)
param v: f32[5, 2] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry train[B](x: f32[B, 6], y: f32[B, 2]) -> (loss: f32, p: f32[B, 2]) {
  let h = tanh(x @ w)
  let p = h @ v
  let loss = mean(square(p - y))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  seen += B
  return loss, p
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"

job worker tasks 2 with gpu = 2

place "**" on worker gpu 0
place "v" on worker gpu 1
place "seen" on worker any cpu
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
RUN = """
import threading
import numpy as np
from mpi4py import MPI
from dfc_runtime.distributed.loading import load_on
from tests.support.cuda_simulator import simulation
from tests.support.simulated_runtime import simulated_devices

lock = threading.Lock()

def alone(*launch):
    with lock:
        simulation.simulate(*launch)

random = np.random.default_rng(0)
x, y = random.normal(size=(8, 6)).astype(np.float32), random.normal(size=(8, 2)).astype(np.float32)
with simulated_devices(4, launch=alone) as opened:
    module = load_on({bundle!r}, MPI.COMM_WORLD, jobs={{"worker": MPI.COMM_WORLD.size}}, seconds=120)
    if module.rank:
        module.serve()
    else:
        found = [module.train(x, y) for _ in range(3)]
        state = {{name: module.state[name] for name in ("w", "v", "seen")}}
        np.savez({out!r}, loss=np.array([each.loss for each in found]), p=found[-1].p, **state)
        module.close()
    print(*(len(each) for each in opened))
"""


def test_two_gpus_in_each_rank_train_as_one_processor_does_with_the_same_bits_on_any_ranks(tmp_path: Path) -> None:
    bundle = tmp_path / "model.bundle"
    options = CompileOptions(target_options=TargetOptions(("simulator",)))
    deployment = SourceFile("model.deploy", DEPLOYMENT)
    compile_source(SourceFile("model.dfg", PROGRAM), options, deployment).save(bundle)
    found = []
    for count, opened in ((1, ["1 1 0 0\n"]), (2, ["1 1 0 0\n", "0 0 1 1\n"])):
        out = tmp_path / f"{count}.npz"
        assert run_ranks(count, RUN.format(bundle=str(bundle), out=str(out)), timeout=120).out == opened
        with np.load(out) as arrays:
            found.append(dict(arrays))
    random = np.random.default_rng(0)
    x, y = random.normal(size=(8, 6)).astype(np.float32), random.normal(size=(8, 2)).astype(np.float32)
    alone = dfc.loads(dfc.compile(text=PROGRAM).to_bytes())
    losses = [alone.train(x, y) for _ in range(3)]
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)
    np.testing.assert_allclose(found[0]["loss"], [each.loss for each in losses], rtol=1e-4)
    np.testing.assert_allclose(found[0]["p"], losses[-1].p, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0]["w"], alone.state["w"], rtol=1e-4, atol=1e-5)
    assert found[0]["seen"] == alone.state["seen"] == 24
