"""A program whose parts are run on many ranks: replicated, and with its state in several tasks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import dfc
from tests.support.clusters import cluster_bundle, undivided

PROGRAM = """dfg 1

param w: f32[4, 3] = uniform(-1.0, 1.0)
param v: f32[3, 2] = uniform(-1.0, 1.0)
var table: f32[10, 3] = uniform(0.0, 1.0)
var steps: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 2], rate: f32) -> (loss: f32, p: f32[B, 2]) {
  let h = tanh(x @ w)
  let p = h @ v
  let loss = mean(square(p - y))
  let centre = mean(h, axis = 0)
  let most = max(h)
  let gv = grad(loss, v)
  let gw = grad(loss, w)
  w := w - rate * gw
  v := v - rate * gv
  steps := steps + 1
  let count = steps
  return loss, p
}

entry checked(n: i64) -> f32 {
  let k = n + steps
  assert k > 0, "k has to be positive"
  let rows = table[k]
  return sum(rows)
}

entry several(x: f32[3]) -> f32[3] {
  let k, a = loop k: i32 = 0, a = x while k < 3 {
    let twice = a * 2.0
    a = twice + v[:, 0]
    k = k + 1
  }
  steps := steps + 5
  return a + table[0]
}
"""
REPLICATED = """
job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
PARTITIONED = """
job ps tasks 2
job worker tasks 1
place "w" on worker
place "v" on ps task 1
place "steps" on ps task 1
place "table" on ps task 0
"""
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(24, 4)).astype(np.float32)
Y = RANDOM.normal(size=(24, 2)).astype(np.float32)
TRAIN = {"x": X, "y": Y}
NAMES = ["train/h", "train/p", "train/loss", "train/centre", "train/most", "train/gv", "train/gw"]


def partitioned(more: str = "") -> bytes:
    return cluster_bundle(PROGRAM, PARTITIONED + more)


def replicated(more: str = "") -> bytes:
    return cluster_bundle(PROGRAM, REPLICATED + more)


def alone() -> dfc.Module:
    return undivided(PROGRAM, threads=1)


def bits(values: Iterable[object]) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Types, shapes and bytes, to compare."""
    return [(np.asarray(each).dtype.str, np.asarray(each).shape, np.asarray(each).tobytes()) for each in values]
