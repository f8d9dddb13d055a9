"""Products compute the columns that something asks for, with the bits of the whole product."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.driver import pipeline
from dfc.kernels.form import ContractKernel
from tests.support.building import graph_of

HEAD = "dfg 1\n\nreadonly entry e(a: f32[5, 40], b: f32[40, 24]) -> "


def widths(text: str) -> list[int | None]:
    """How many columns the products of a program have."""
    program = pipeline.scheduled(pipeline.optimise(graph_of(text)))
    products = [kernel for kernel in program.kernels if isinstance(kernel, ContractKernel)]
    return sorted(kernel.axes[kernel.n].extent.constant or 0 for kernel in products)


def test_columns_that_nobody_uses_are_not_computed() -> None:
    text = HEAD + "(y: f32[5, 7]) { return (a @ b)[:, 10:17] }\n"
    assert widths(text) == [7]
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 40), (40, 24)))
    whole = dfc_runtime.loads(dfc.compile(text=HEAD + "(y: f32[5, 24]) { return a @ b }\n").to_bytes())
    some = dfc_runtime.loads(dfc.compile(text=text).to_bytes())
    np.testing.assert_array_equal(some.e(a, b).y, whole.e(a, b).y[:, 10:17])


@pytest.mark.parametrize(
    "result",
    [
        "(y: f32[5, 7], z: f32[5, 24]) {\n  let p = a @ b\n  return p[:, 10:17], p\n}\n",
        "(y: f32[5, 7], z: f32[5, 3]) {\n  let p = a @ b\n  return p[:, 10:17], p[:, 0:3]\n}\n",
        "(y: f32[2, 24]) { return (a @ b)[1:3] }\n",
        "(y: f32[5, 1]) { return (a @ b)[:, 3:4] }\n",
        "(y: f32[5, 12]) { return (a @ b)[:, 0:24:2] }\n",
    ],
)
def test_other_products_stay_whole(result: str) -> None:
    assert widths(HEAD + result) == [24]


def test_a_recurrent_cell_has_no_gradient_for_inputs_that_need_none() -> None:
    text = """dfg 1
param w: f32[80, 24] = normal()
entry e[B](xs: f32[9, B, 56]) -> (gw: f32[80, 24]) {
  let h = loop h = zeros(f32[B, 24]) for x in xs {
    h = tanh(concat([x, h], axis = 1) @ w)
  }
  return grad(sum(h), w)
}
"""
    assert widths(text) == [24, 24, 24]
