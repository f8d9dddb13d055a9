"""Products of factors that are made from their index alone."""

from __future__ import annotations

import numpy as np

import dfc

PROGRAM = """dfg 1

readonly entry f[B](b: f32[4, 5]) -> (ones: f32[B, 5], twos: f32[3, 5], same: f32[4, 4], rows: f32[2, 5]) {
  let w = eye(f32[4, 4])
  return ones(f32[B, 4]) @ b, full(f32[3, 4], 2) @ b, transpose(w) @ w, broadcast(iota(f32[4]), [2, 4]) @ b
}
"""


def test_constants_and_counters_are_laid_out_for_a_product() -> None:
    module = dfc.loads(dfc.compile(text=PROGRAM).to_bytes())
    b = np.arange(20, dtype=np.float32).reshape(4, 5)
    results = module.f(b, B=2)
    np.testing.assert_array_equal(results.ones, np.ones((2, 4)) @ b)
    np.testing.assert_array_equal(results.twos, np.full((3, 4), 2) @ b)
    np.testing.assert_array_equal(results.same, np.eye(4))
    np.testing.assert_array_equal(results.rows, np.tile(np.arange(4), (2, 1)) @ b)
