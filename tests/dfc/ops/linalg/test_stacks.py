"""Stacks of matrices: what an op makes of a stack is what it makes of each matrix, in the backward pass too."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ops import registry
from dfc.ops.record import OpRecord, Sample
from tests.support.building import codes, graph_of, result, run
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import evaluate_sample

NAMES = (
    "inverse",
    "pivots",
    "determinant",
    "log_determinant",
    "solve",
    "triangular_solve",
    "cholesky",
    "qr",
    "eigh",
    "svd",
)


def stacks() -> list[object]:
    return [
        pytest.param(record, sample, id=f"{name}-{number}")
        for name in NAMES
        for record in [registry.record(name)]
        for number, sample in enumerate(record.samples())
        if sample.kind != "invalid" and sample.operands[0].ndim > 2
    ]


@one_test_an_op(stacks())
def test_each_matrix_of_a_stack_is_worked_on_by_itself(record: OpRecord, sample: Sample) -> None:
    leading = sample.operands[0].shape[:-2]
    results = evaluate_sample(record, sample)
    for place in np.ndindex(*leading):
        single = Sample(tuple(x[place] for x in sample.operands), sample.attributes)
        for got, wanted in zip(results, evaluate_sample(record, single), strict=True):
            np.testing.assert_array_equal(got[place], wanted)
    assert all(got.shape[: len(leading)] == leading for got in results)


def test_every_op_of_single_matrices_takes_stacks() -> None:
    covered = {case.values[0].name for case in stacks()}  # type: ignore[attr-defined]
    assert covered == set(NAMES)


@pytest.fixture
def matrices() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=(2, 3, 4, 4)) + 4 * np.eye(4)


def test_programs_solve_stacks_of_equations(matrices: np.ndarray) -> None:
    right = np.random.default_rng(4).normal(size=(2, 3, 4))
    text = "entry f[A, B, N](a: f64[A, B, N, N], b: f64[A, B, N]) -> (x: f64[A, B, N]) { return solve(a, b) }"
    np.testing.assert_allclose(result(text, a=matrices, b=right), np.linalg.solve(matrices, right[..., None])[..., 0])


def test_gradients_of_a_stack_are_those_of_each_matrix(matrices: np.ndarray) -> None:
    text = """
    entry f[A, B, N](a: f64[A, B, N, N]) -> (g: f64[A, B, N, N], h: f64[A, B, N, N]) {
      let g = grad(sum(log_determinant(a)), a)
      return g, grad(sum(square(g)), a)
    }"""
    found = run(graph_of(text), "f", a=matrices).results
    inverse = np.linalg.inv(matrices)
    across = np.swapaxes(inverse, -1, -2)
    np.testing.assert_allclose(found[0], across, rtol=1e-9)
    np.testing.assert_allclose(found[1], -2 * across @ inverse @ across, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("types", "code"),
    [
        ("a: f64[2, 3, 3], b: f64[3]", "E0301"),
        ("a: f64[2, 3, 3], b: f64[4, 3]", "E0301"),
        ("a: f64[2, 3, 4], b: f64[2, 3]", "E0301"),
    ],
)
def test_stacks_that_do_not_fit_are_explained(types: str, code: str) -> None:
    assert codes(f"entry f({types}) -> (s: f64) {{ return sum(solve(a, b)) }}") == [code]
