"""Branches that run at the same time: the bits of one thread, the fault of the first that fails, an end when asked."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import dfc
from dfc_runtime.calls import interrupting
from dfc_runtime.errors import RunError

LOOPS = """
dfg 1
entry two(x: f32[8, 64], y: f32[8, 64], w: f32[64, 64], n: i64) -> (a: f32[8, 64], b: f32[8, 64], i: i64) {
  let p, i = loop p = x, i: i64 = 0 while i < n {
    p = tanh(p @ w)
    i = i + 1
  }
  let q = loop q = y for k in 0..100 { q = tanh(q @ w + 0.5) }
  return p, q, i + 1
}
entry many(x: f32[8, 64], w: f32[12, 64, 64]) -> f32[8, 64] {
  return MANY
}
entry failing(x: f32[8, 64], w: f32[64, 64], first: i64[200], second: i64[200], n: i64) -> f32[8, 64] {
  let p, i = loop p = x, i: i64 = 0 while i < n {
    p = tanh(p @ w) + w[first[i % 200]]
    i = i + 1
  }
  let q, j = loop q = x, j: i64 = 0 while j < n {
    q = tanh(q @ w) + w[second[j % 200]]
    j = j + 1
  }
  return p + q
}
entry endless(x: f32[8, 64], w: f32[64, 64], n: i64) -> f32[8, 64] {
  let q = loop q = x for k in 0..100 { q = tanh(q @ w) }
  let p, i = loop p = x, i: i64 = 0 while i < n {
    p = tanh(p @ w)
    i = i + 1
  }
  return p + q
}
"""
MANY = " + ".join(f"tanh(tanh(x @ w[{k}]) @ w[{k}]) @ w[{k}]" for k in range(12))
RANDOM = np.random.default_rng(3)
X, Y = (RANDOM.standard_normal((8, 64), dtype=np.float32) for _ in range(2))
W = RANDOM.standard_normal((64, 64), dtype=np.float32) / 8
FINE = np.arange(200) % 64
BAD = np.where(np.arange(200) == 150, 99, FINE)
EARLY = np.where(np.arange(200) == 1, 77, FINE)


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return dfc.compile(text=LOOPS.replace("MANY", MANY)).to_bytes()


def test_loops_beside_each_other_compute_what_numpy_does(bundle: bytes) -> None:
    p, q = X, Y
    for _ in range(50):
        p = np.tanh(p @ W)
    for _ in range(100):
        q = np.tanh(q @ W + np.float32(0.5))
    results = dfc.loads(bundle, threads=2).two(x=X, y=Y, w=W, n=50)
    np.testing.assert_allclose(results.a, p, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results.b, q, rtol=1e-4, atol=1e-5)
    assert int(results.i) == 51


def test_bits_do_not_depend_on_the_threads(bundle: bytes) -> None:
    stack = RANDOM.standard_normal((12, 64, 64), dtype=np.float32) / 8
    bits = set[bytes]()
    for threads in (1, 2, 8):
        module = dfc.loads(bundle, threads=threads)
        results = module.two(x=X, y=Y, w=W, n=50)
        bits.add(results.a.tobytes() + results.b.tobytes() + module.many(x=X, w=stack).tobytes())
    assert len(bits) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("first", "second", "told"),
    [(BAD, EARLY, "99"), (FINE, EARLY, "77"), (EARLY, BAD, "77")],
    ids=["the first fails late", "the second fails", "the first fails early"],
)
def test_the_first_branch_that_fails_says_why(
    bundle: bytes, threads: int, first: np.ndarray, second: np.ndarray, told: str
) -> None:
    module = dfc.loads(bundle, threads=threads)
    with pytest.raises(RunError, match=told):
        module.failing(x=X, w=W, first=first, second=second, n=200)
    assert np.isfinite(module.failing(x=X, w=W, first=FINE, second=FINE, n=10)).all()


def test_a_branch_behind_one_that_fails_does_not_go_on(bundle: bytes) -> None:
    """In the order of the steps it would never have begun; its loop would take hours."""
    with pytest.raises(RunError, match="77"):
        dfc.loads(bundle, threads=2).failing(x=X, w=W, first=EARLY, second=FINE, n=10**10)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_whose_branch_goes_on_is_interrupted(bundle: bytes, threads: int) -> None:
    module = dfc.loads(bundle, threads=threads)
    problems: list[BaseException] = []

    def call() -> None:
        try:
            module.endless(x=X, w=W, n=10**12)
        except KeyboardInterrupt as problem:
            problems.append(problem)

    caller = threading.Thread(target=call)
    caller.start()
    while caller.is_alive():
        interrupting.interrupt(caller.ident or 0)
        time.sleep(0.01)
    caller.join()
    assert len(problems) == 1
