"""Whole programs on ranks of MPI: the bits of one process, failures, a rank that dies, one that hangs."""

from __future__ import annotations

from pathlib import Path

from tests.support.clusters import cluster_bundle
from tests.support.mpi import run_ranks

PROGRAM = """dfg 1

param w: f32[40, 30] = uniform(-1.0, 1.0)
param v: f32[30, 2] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 40], y: f32[B, 2]) -> (loss: f32, p: f32[B, 2]) {
  let p = tanh(x @ w) @ v
  let loss = mean(square(p - y))
  let gw = grad(loss, w)
  let gv = grad(loss, v)
  w := w - 0.01 * gw
  v := v - 0.01 * gv
  return loss, p
}

entry checked(n: i64) -> f32 {
  assert n > 0, "n has to be positive"
  return sum(w) + sum(v)
}
"""
REPLICATED = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
PLACED = """
job ps tasks 1
job worker tasks 1
place "w" on ps
place "v" on worker
"""
START = """
import hashlib, os, sys
import numpy as np
from mpi4py import MPI
from dfc_runtime.distributed.loading import load_on

random = np.random.default_rng(0)
x = random.normal(size=(400, 40)).astype(np.float32)
y = random.normal(size=(400, 2)).astype(np.float32)

def digest(module):
    parts = [module.train(x, y).p.tobytes() for _ in range(5)]
    parts += [module.state[name].tobytes() for name in ("w", "v")]
    return hashlib.sha256(b"".join(parts)).hexdigest()

"""


def saved(folder: Path, deployment: str) -> Path:
    path = folder / "model.bundle"
    path.write_bytes(cluster_bundle(PROGRAM, deployment))
    return path


def test_one_two_and_three_ranks_train_to_the_same_bits(tmp_path):
    path = saved(tmp_path, REPLICATED)
    text = f"""
module = load_on({str(path)!r}, MPI.COMM_WORLD, jobs={{"worker": MPI.COMM_WORLD.size}})
if module.rank:
    module.serve()
else:
    print(digest(module))
    module.close()
"""
    said = [run_ranks(count, START + text).out for count in (1, 2, 3)]
    assert len(said[0][0]) == 65
    assert said == [[said[0][0]], [said[0][0], ""], [said[0][0], "", ""]]


def test_all_ranks_may_call(tmp_path):
    path = saved(tmp_path, PLACED)
    text = f"""
module = load_on({str(path)!r}, MPI.COMM_WORLD)
print(digest(module))
try:
    module.checked(-1)
except Exception as problem:
    print(problem)
print(digest(module))
module.close()
"""
    first, second = run_ranks(2, START + text).out
    assert first == second
    assert "n has to be positive" in first
    assert len(set(first.split())) > 10


def test_a_rank_that_dies_ends_the_job(tmp_path):
    path = saved(tmp_path, PLACED)
    text = f"""
module = load_on({str(path)!r}, MPI.COMM_WORLD)
if module.rank:
    os.kill(os.getpid(), 9)
module.train(x, y)
print("never")
"""
    ended = run_ranks(2, START + text, check=False, with_launcher=True)
    assert ended.code != 0
    assert "never" not in "".join(ended.out)


def test_a_rank_that_hangs_is_reported_with_the_line_awaited(tmp_path):
    path = saved(tmp_path, PLACED)
    text = f"""
import time
module = load_on({str(path)!r}, MPI.COMM_WORLD, seconds=1)
if module.rank:
    time.sleep(200)  # as if it computed: rank 0 gives up long before
else:
    try:
        module.train(x, y)
    except Exception as problem:
        print(problem, flush=True)
        sys.exit(problem.exit_code)
"""
    ended = run_ranks(2, START + text, check=False, timeout=100)
    assert ended.code == 75
    assert "rank 0 (ps task 0) has waited 1 s for" in ended.out[0]
    assert "rank 1 (worker task 0): does not answer: it computes, is stopped or gone" in ended.out[0]
