"""The order of passes: nothing that merges equal values runs before gradients are taken."""

from __future__ import annotations

import dfc

PROGRAM = """dfg 1

readonly entry slopes() -> (of_constant: f64, of_one_of_two: f64) {
  let x = 3.0 as f64
  let y = 3.0 as f64
  return grad(square(x), x), grad(x * x + 5 * y, y)
}
"""


def test_a_gradient_is_with_respect_to_one_of_two_equal_constants() -> None:
    module = dfc.loads(dfc.compile(text=PROGRAM).to_bytes())
    slopes = module.slopes()
    assert slopes.of_constant == 6
    assert slopes.of_one_of_two == 5
