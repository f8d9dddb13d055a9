"""Routines on processors, by what defines their results: below, at and above a block, in stacks, on any threads."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.form import ROUTINE, RoutineKernel
from dfc.kernels.routines import BLOCK, ROUTINES
from dfc.lower.program import lower_graph
from dfc_target_cpu.entries.program import lower_program
from dfc_target_cpu.machine import MACHINES, detect_host
from tests.support.building import graph_of, run
from tests.support.native_run import NativeRun
from tests.support.sweeping import few

TEXT = """
entry cholesky[S, N](a: f64[S, N, N]) -> (l: f64[S, N, N]) { return cholesky(a) }
entry solve[S, N, R](a: f64[S, N, N], b: f64[S, N, R]) -> (x: f64[S, N, R]) { return solve(a, b) }
entry vector[S, N](a: f64[S, N, N], b: f64[S, N]) -> (x: f64[S, N]) { return solve(a, b) }
entry lower[S, N, R](a: f64[S, N, N], b: f64[S, N, R]) -> (x: f64[S, N, R]) { return triangular_solve(a, b) }
entry upper[S, N, R](a: f64[S, N, N], b: f64[S, N, R]) -> (x: f64[S, N, R]) {
  return triangular_solve(a, b, lower = false)
}
entry triangles[S, N](a: f64[S, N, N], b: f64[S, N]) -> (x: f64[S, N], y: f64[S, N]) {
  return triangular_solve(a, b), triangular_solve(a, b, lower = false)
}
entry inverse[S, N](a: f64[S, N, N]) -> (x: f64[S, N, N]) { return inverse(a) }
entry determinants[S, N](a: f64[S, N, N]) -> (d: f64[S], l: f64[S]) { return determinant(a), log_determinant(a) }
entry qr[S, M, N](a: f64[S, M + N, N]) -> (q: f64[S, M + N, N], r: f64[S, N, N]) {
  let q, r = qr(a)
  return q, r
}
entry wide_qr[S, M](a: f64[S, M, M + 7]) -> (q: f64[S, M, M], r: f64[S, M, M + 7]) {
  let q, r = qr(a)
  return q, r
}
entry eigh[S, N](a: f64[S, N, N]) -> (w: f64[S, N], v: f64[S, N, N]) {
  let w, v = eigh(a)
  return w, v
}
entry svd[S, M, N](a: f64[S, M + N, N]) -> (u: f64[S, M + N, N], s: f64[S, N], vt: f64[S, N, N]) {
  let u, s, vt = svd(a)
  return u, s, vt
}
entry wide_svd[S, M](a: f64[S, M, M + 7]) -> (u: f64[S, M, M], s: f64[S, M], vt: f64[S, M, M + 7]) {
  let u, s, vt = svd(a)
  return u, s, vt
}
"""
SIZES = [0, 1, 2, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 5]
CLOSE = 1e-10
VARIANTS = [name for name in ("x86-64-v4", "x86-64-v3", "x86-64-v2") if name in MACHINES]


@cache
def native(isa: str = "", threads: int = 1) -> NativeRun:
    program = lower_graph(optimise(graph_of(TEXT)), forms=[ROUTINE])
    assert {k.name for k in program.kernels if isinstance(k, RoutineKernel)} == set(ROUTINES)
    return NativeRun(program, {}, threads, isa)


def available() -> list[str]:
    """Those of the variants that this machine runs."""
    host = detect_host()
    names = list(MACHINES)
    return [v for v in VARIANTS if host is not None and names.index(v) >= names.index(host.name)]


def call(name: str, *arrays: Any, isa: str = "", threads: int = 1, **sizes: int) -> list[Any]:
    return native(isa, threads).call(name, arrays, {"S": len(arrays[0]), **sizes})


def matrices(rows: int, columns: int, stack: int = 2) -> Any:
    return np.random.default_rng(rows * 1000 + columns).standard_normal((stack, rows, columns))


def close(got: Any, wanted: Any, scale: float = 1.0) -> None:
    np.testing.assert_allclose(got, wanted, atol=CLOSE * scale, rtol=CLOSE)


def turned(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def orthonormal_columns(x: Any) -> None:
    close(turned(x) @ x, np.broadcast_to(np.eye(x.shape[-1]), (len(x), x.shape[-1], x.shape[-1])))


def has_positive_largest(x: Any) -> bool:
    """Whether the largest element of each row is positive."""
    return not x.size or bool(np.all(np.take_along_axis(x, np.argmax(np.abs(x), 2)[..., None], 2) > 0))


def definite(n: int) -> Any:
    x = matrices(n, n)
    return x @ turned(x) + n * np.eye(n)


def test_routines_are_compiled_apart_and_by_the_optimiser() -> None:
    """Their text keeps what changes in memory, which the optimiser puts into registers."""
    program = lower_graph(optimise(graph_of(TEXT)), forms=[ROUTINE])
    lowered = lower_program(program, MACHINES["x86-64-v3"], [])
    for name in ROUTINES:
        holders = [text for text in lowered.texts if f"define hidden void @routine_{name}(" in text]
        assert len(holders) == 1 and "alloca" in holders[0], name
    assert not any("@routine_" in text for text in lowered.libraries)


@pytest.mark.parametrize("isa", few(available(), 2))
@pytest.mark.parametrize("n", SIZES)
def test_a_root_is_lower_triangular_and_reads_no_more(n: int, isa: str) -> None:
    a = definite(n)
    (root,) = call("cholesky", np.tril(a) + np.triu(np.full((n, n), np.nan), 1), isa=isa, N=n)
    close(root @ turned(root), a, n + 1)
    assert np.all(np.triu(root, 1) == 0) and np.all(np.diagonal(root, 0, 1, 2) > 0)


@pytest.mark.parametrize("isa", few(available(), 2))
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("columns", [0, 1, 3, 40])
def test_equations_hold(n: int, columns: int, isa: str) -> None:
    a, b = matrices(n, n), matrices(n, columns)
    (x,) = call("solve", a, b, isa=isa, N=n, R=columns)
    close(a @ x, b, 1e3)
    a += 3 * n * np.eye(n)
    for name, triangle in (("lower", np.tril), ("upper", np.triu)):
        other = np.where(triangle(np.ones((n, n))) == 1, a, np.nan)
        (x,) = call(name, other, b, isa=isa, N=n, R=columns)
        close(triangle(a) @ x, b)


@pytest.mark.parametrize("n", SIZES)
def test_a_vector_is_a_matrix_of_one_column(n: int) -> None:
    a, b = matrices(n, n) + 2 * n * np.eye(n), matrices(1, n)[:, 0]
    for got, matrix in zip(
        (*call("vector", a, b, N=n), *call("triangles", a, b, N=n)), (a, np.tril(a), np.triu(a)), strict=True
    ):
        close((matrix @ got[..., None])[..., 0], b)


@pytest.mark.parametrize("n", SIZES)
def test_inverses_and_determinants_are_those_of_numpy(n: int) -> None:
    a = matrices(n, n) + np.eye(n)
    close(call("inverse", a, N=n)[0] @ a, np.broadcast_to(np.eye(n), a.shape), 1e3)
    determinants, logarithms = call("determinants", a, N=n)
    np.testing.assert_allclose(determinants, np.linalg.det(a), rtol=1e-9)
    close(logarithms, np.linalg.slogdet(a)[1], 10)


@pytest.mark.parametrize("isa", few(available(), 2))
@pytest.mark.parametrize(("m", "n"), [(0, 0), (3, 0), (0, 1), (0, 8), (5, 3), (0, 33), (40, 33), (1, 70)])
def test_a_factor_is_orthonormal_the_other_a_triangle(m: int, n: int, isa: str) -> None:
    tall, wide = matrices(m + n, n), matrices(m, m + 7)
    for a, (q, r) in (
        (tall, call("qr", tall, isa=isa, M=m, N=n)),
        (wide, call("wide_qr", wide, isa=isa, M=m)),
    ):
        close(q @ r, a)
        orthonormal_columns(q)
        assert np.all(np.tril(r, -1) == 0) and np.all(np.diagonal(r, 0, 1, 2) >= 0)


@pytest.mark.parametrize("isa", few(available(), 2))
@pytest.mark.parametrize("n", SIZES)
def test_eigenvectors_are_only_stretched(n: int, isa: str) -> None:
    a = matrices(n, n)
    w, v = call("eigh", a, isa=isa, N=n)
    symmetric = (a + turned(a)) / 2
    close(symmetric @ v, v * w[:, None], n + 1)
    orthonormal_columns(v)
    close(w, np.linalg.eigvalsh(symmetric), n + 1)
    assert has_positive_largest(turned(v))


@pytest.mark.parametrize("isa", few(available(), 2))
@pytest.mark.parametrize(("m", "n"), [(0, 0), (3, 0), (0, 1), (0, 8), (5, 3), (0, 33), (40, 33), (1, 70)])
def test_singular_values_stand_between_orthonormal_factors(m: int, n: int, isa: str) -> None:
    tall, wide = matrices(m + n, n), matrices(m, m + 7)
    for a, (u, s, vt), small in (
        (tall, call("svd", tall, isa=isa, M=m, N=n), 2),
        (wide, call("wide_svd", wide, isa=isa, M=m), 0),
    ):
        close(u * s[:, None] @ vt, a, 10)
        orthonormal_columns(u)
        orthonormal_columns(turned(vt))
        close(s, np.linalg.svd(a, compute_uv=False), 10)
        signed = vt if small else turned(u)
        assert has_positive_largest(signed)


AWKWARD = {
    "zeros": np.zeros((9, 9)),
    "ones": np.ones((9, 9)),
    "equal": 2 * np.eye(9),
    "graded": np.diag(10.0 ** np.arange(0, -18, -2.0)) + np.triu(np.ones((9, 9)), 1) * 1e-9,
    "ungraded": np.diag(10.0 ** np.arange(-16, 2, 2.0)) + np.triu(np.ones((9, 9)), 1) * 1e-9,
    "huge": np.arange(81.0).reshape(9, 9) * 1e300,
    "tiny": np.arange(81.0).reshape(9, 9) * 1e-300,
    "hilbert": 1 / (np.arange(9)[:, None] + np.arange(9) + 1.0),
    "bidiagonal with a zero": np.diag([1.0, 2, 0, 3, 4, 5, 0, 1, 2]) + np.diag(np.ones(8), 1),
    "nilpotent": np.diag(np.ones(8), 1),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_matrices_have_factors_too(name: str) -> None:
    a = AWKWARD[name]
    size = max(float(np.max(np.abs(a))), 1e-300)
    q, r = (x[0] for x in call("qr", a[None], M=0, N=9))
    w, v = (x[0] for x in call("eigh", a[None], N=9))
    u, s, vt = (x[0] for x in call("svd", a[None], M=0, N=9))
    symmetric = a / 2 + a.T / 2
    for product, wanted in ((q @ (r / size), a), (v * (w / size) @ v.T, symmetric), (u * (s / size) @ vt, a)):
        np.testing.assert_allclose(product, wanted / size, atol=1e-13)
    for factor in (q, v, u, vt):
        np.testing.assert_allclose(factor.T @ factor, np.eye(9), atol=1e-13)


def test_no_root_no_solution_and_no_number_is_nan() -> None:
    indefinite, singular = np.diag([1.0, -1, 2, 3])[None], np.diag([1.0, 2, 0, 3])[None] + np.eye(4, k=1)
    assert np.all(np.isnan(call("cholesky", indefinite, N=4)[0]))
    assert not np.any(np.isfinite(call("solve", np.ones((1, 40, 40)), np.ones((1, 40, 2)), N=40, R=2)[0]))
    assert not np.any(np.isfinite(call("vector", np.zeros((1, 3, 3)), np.ones((1, 3)), N=3)[0]))
    assert call("determinants", singular, N=4)[0] == 0 and call("determinants", singular, N=4)[1] == -np.inf
    for bad in (np.nan, np.inf):
        a = definite(5)
        a[0, 3, 1] = bad
        for name, sizes in (("cholesky", {"N": 5}), ("eigh", {"N": 5}), ("svd", {"M": 0, "N": 5})):
            for result in call(name, a, **sizes):
                assert np.all(np.isnan(result[0])) and np.all(np.isfinite(result[1])), name
        assert np.any(np.isnan(call("qr", a, M=0, N=5)[0][0]))


def test_bits_of_a_matrix_depend_on_neither_threads_nor_its_stack() -> None:
    stack = matrices(37, 37, stack=21)
    positive = stack @ turned(stack) + np.eye(37)
    cases = [
        ("cholesky", (positive,), {"N": 37}),
        ("solve", (stack, stack[..., :5]), {"N": 37, "R": 5}),
        ("qr", (stack,), {"M": 0, "N": 37}),
        ("eigh", (positive,), {"N": 37}),
        ("svd", (stack,), {"M": 0, "N": 37}),
    ]
    for name, arrays, sizes in cases:
        first = call(name, *arrays, **sizes)
        alone = call(name, *(x[7:8] for x in arrays), **sizes)
        assert all(a[7].tobytes() == b[0].tobytes() for a, b in zip(first, alone, strict=True)), name
        for threads in (2, 8):
            other = call(name, *arrays, threads=threads, **sizes)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True)), name


GRADIENTS = """
entry g[S, N](a: f64[S, N, N], b: f64[S, N, 2]) -> (c: f64[S, N, N], d: f64[S, N, N], e: f64[S, N, N], f: f64[S, N, N],
    h: f64[S, N, N], i: f64[S, N, 2]) {
  let p = einsum("sij,skj->sik", a, a) + iota(f64[N])[new, :, new] * 0.1
  let q, r = qr(a)
  let w, v = eigh(a)
  let u, s, vt = svd(a)
  let loss = sum(square(solve(a, b)))
  return grad(sum(cholesky(p)), a), grad(sum(square(q[:, 0])) + sum(r), a), grad(sum(w ** 3.0) + sum(v[:, 0]), a),
    grad(sum(s ** 3.0) + sum(u[:, 0] * vt[:, 0]), a), grad(sum(log_determinant(p)) + loss, a), grad(loss, b)
}
"""


def test_gradients_are_those_of_the_reference() -> None:
    graph = graph_of(GRADIENTS)
    a, b = matrices(4, 4) + 3 * np.diag([1.0, 2, 3, 4]), matrices(4, 2)
    run_ = NativeRun(lower_graph(optimise(graph), forms=[ROUTINE]), {})
    for got, wanted in zip(run_.call("g", (a, b), {"S": 2, "N": 4}), run(graph, "g", a=a, b=b).results, strict=True):
        close(got, wanted, 100)
