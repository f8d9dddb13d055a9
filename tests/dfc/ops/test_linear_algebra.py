"""Factors and inverses by what defines them, not by another routine that computes them."""

import itertools
import math

import numpy as np
import pytest

from dfc.ir.attributes import NoAttributes
from dfc.ops import registry
from dfc.ops.attributes import TriangularAttributes
from dfc.ops.record import OpRecord, Sample
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, evaluate_sample, samples

TOLERANCE = {4: 1e-5, 8: 1e-12}


def _valid(*names: str) -> list[object]:
    """Samples of single matrices; what stacks are is said in `test_stacks`."""
    found = [*samples("regular"), *samples("edge")]
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(found)
        if record.name in names and sample.operands[0].ndim == 2
    ]


def _close(got: np.ndarray, wanted: np.ndarray) -> None:
    slack = TOLERANCE[got.dtype.itemsize]
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=slack, atol=slack * 10)


def _decomposed(name: str, *operands: np.ndarray) -> list[np.ndarray]:
    """The results of the loops an op is made of."""
    scratch, record = Scratch(), registry.record(name)
    node = scratch.builder.node(name, [scratch.feed(x) for x in operands], NoAttributes())
    results = record.lowering.rewrite(scratch.builder, node)
    scratch.block.nodes.remove(node)
    with np.errstate(all="ignore"):
        return scratch.run(results)


@one_test_an_op(_valid("inverse"))
def test_a_matrix_times_its_inverse(record: OpRecord, sample: Sample) -> None:
    (a,) = sample.operands
    (got,) = evaluate_sample(record, sample)
    _close(got @ a, np.eye(a.shape[0]))


def _leibniz(a: np.ndarray) -> float:
    """The sum over all permutations."""
    size = a.shape[0]
    total = 0.0
    for order in itertools.permutations(range(size)):
        inversions = sum(order[i] > order[j] for i in range(size) for j in range(i + 1, size))
        total += (-1) ** inversions * math.prod(a[i, j] for i, j in enumerate(order))
    return total


@one_test_an_op(_valid("determinant", "log_determinant"))
def test_determinants_are_sums_over_permutations(record: OpRecord, sample: Sample) -> None:
    wanted = _leibniz(sample.operands[0].astype(np.float64))
    (got,) = evaluate_sample(record, sample)
    _close(got, np.array(wanted if record.name == "determinant" else math.log(abs(wanted))))


def test_the_determinant_of_a_singular_matrix_is_zero() -> None:
    for matrix in (np.zeros((3, 3)), np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[0.0, 1.0], [0.0, 2.0]])):
        assert _decomposed("determinant", matrix) == [0]
        assert _decomposed("log_determinant", matrix) == [-np.inf]


@one_test_an_op(_valid("triangular_solve"))
def test_triangular_equations_hold(record: OpRecord, sample: Sample) -> None:
    a, right = sample.operands
    assert isinstance(sample.attributes, TriangularAttributes)
    (x,) = evaluate_sample(record, sample)
    triangle = np.tril(a) if sample.attributes.lower else np.triu(a)
    _close(triangle @ x, right)


@one_test_an_op(_valid("cholesky"))
def test_a_root_of_a_positive_matrix(record: OpRecord, sample: Sample) -> None:
    (a,) = sample.operands
    (root,) = evaluate_sample(record, sample)
    if a.size and np.min(np.linalg.eigvalsh(a)) <= 0:
        assert np.all(np.isnan(root)) and np.all(np.isnan(_decomposed("cholesky", a)[0]))
        return
    _close(root @ root.T, a)
    assert np.all(np.triu(root, 1) == 0) and np.all(np.diagonal(root) > 0)


@one_test_an_op(_valid("qr"))
def test_orthonormal_columns_times_a_triangle(record: OpRecord, sample: Sample) -> None:
    (a,) = sample.operands
    q, r = evaluate_sample(record, sample)
    _close(q @ r, a)
    _close(q.T @ q, np.eye(min(a.shape)))
    assert np.all(np.tril(r, -1) == 0) and np.all(np.diagonal(r) > 0)


@one_test_an_op(_valid("eigh"))
def test_eigenvectors_are_only_stretched(record: OpRecord, sample: Sample) -> None:
    (a,) = sample.operands
    w, v = evaluate_sample(record, sample)
    _close(a @ v, v * w)
    _close(v.T @ v, np.eye(a.shape[0]))
    assert np.all(np.diff(w) >= 0)
    assert all(column[np.argmax(np.abs(column))] > 0 for column in v.T)


@one_test_an_op(_valid("svd"))
def test_singular_values_between_orthonormal_factors(record: OpRecord, sample: Sample) -> None:
    (a,) = sample.operands
    u, s, vt = evaluate_sample(record, sample)
    _close(u * s @ vt, a)
    _close(u.T @ u, np.eye(min(a.shape)))
    _close(vt @ vt.T, np.eye(min(a.shape)))
    assert np.all(np.diff(s) <= 0) and np.all(s >= 0)


@pytest.mark.parametrize("size", [2, 3, 8, 15, 24])
def test_rotations_find_the_eigenvalues_of_larger_matrices(size: int) -> None:
    x = np.random.default_rng(size).normal(size=(size, size))
    w, v = _decomposed("eigh", x + x.T)
    np.testing.assert_allclose(v * w @ v.T, x + x.T, atol=1e-12 * size)
    np.testing.assert_allclose(v.T @ v, np.eye(size), atol=1e-12)


def test_equal_eigenvalues_have_orthonormal_vectors_too() -> None:
    x = np.ones((4, 4)) + 2 * np.eye(4)
    w, v = _decomposed("eigh", x)
    np.testing.assert_allclose(w, [2, 2, 2, 6], atol=1e-12)
    np.testing.assert_allclose(v.T @ v, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("shape", [(9, 9), (20, 7), (16, 16)])
def test_rotations_find_the_singular_values_of_larger_matrices(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(shape[0]).normal(size=shape)
    u, s, vt = _decomposed("svd", x)
    np.testing.assert_allclose(u * s @ vt, x, atol=1e-11)
    np.testing.assert_allclose(u.T @ u, np.eye(shape[1]), atol=1e-11)
    assert np.all(np.diff(s) <= 0)


def test_nearly_dependent_columns_stay_orthogonal() -> None:
    x = np.vander(np.linspace(0, 1, 12), 8)
    q, r = _decomposed("qr", x)
    np.testing.assert_allclose(q.T @ q, np.eye(8), atol=1e-13)
    np.testing.assert_allclose(q @ r, x, atol=1e-13)
