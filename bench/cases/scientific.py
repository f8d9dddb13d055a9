"""Cases of scientists: factorisations in f64, an N-body step, a Fourier transform written by hand."""

from __future__ import annotations

import numpy as np

from bench.cases.case import Array, Case, Data, Sizes, Target, Work, normal

TARGET = Target(ratio=1, compile_seconds=0.5)


def _wide(name: str, *shape: int) -> Array:
    return normal(name, *shape).astype(np.float64)


def _matrix(sizes: Sizes) -> Data:
    return Data({"a": _wide("a", sizes["rows"], sizes["columns"])})


def _positive(sizes: Sizes) -> Data:
    """Symmetric, its eigenvalues apart."""
    a, n = _wide("a", sizes["rows"], sizes["rows"]), sizes["rows"]
    return Data({"a": a @ a.T + np.diag(np.arange(1.0, n + 1))})


def _equations(sizes: Sizes) -> Data:
    n = sizes["rows"]
    return Data({"a": _wide("a", n, n) + 2 * np.sqrt(n) * np.eye(n), "b": _wide("b", n)})


def _many_equations(sizes: Sizes) -> Data:
    count, n = sizes["count"], sizes["rows"]
    return Data({"a": _wide("a", count, n, n) + 2 * np.sqrt(n) * np.eye(n), "b": _wide("b", count, n)})


def _bodies(sizes: Sizes) -> Data:
    n = sizes["bodies"]
    return Data({"x": normal("x", n, 3), "v": normal("v", n, 3), "m": np.abs(normal("m", n)) / np.float32(n)})


def _signal(sizes: Sizes) -> Data:
    return Data({"re": normal("re", sizes["points"]), "im": normal("im", sizes["points"])})


def _case(name: str, kind: str, entry: str, sizes: Sizes, small: Sizes, data: object, flops: object) -> Case:
    return Case(
        name, kind, "scientific.dfg", entry, sizes, small, data, lambda s: Work(flops=flops(s)),  # type: ignore[arg-type,operator]
        target=TARGET, tolerance=1e-4 if kind in ("nbody", "fft") else 1e-8,
    )  # fmt: skip


SCIENTIFIC = [
    _case("cholesky", "cholesky", "cholesky_of", {"rows": 500}, {"rows": 40}, _positive, lambda s: s["rows"] ** 3 / 3),
    _case("solve", "solve", "solution", {"rows": 500}, {"rows": 40}, _equations, lambda s: s["rows"] ** 3 * 2 / 3),
    _case(
        "solve_batched",
        "solve_batched",
        "solutions",
        {"count": 1000, "rows": 16},
        {"count": 5},
        _many_equations,
        lambda s: s["count"] * s["rows"] ** 3 * 2 / 3,
    ),
    _case(
        "qr",
        "qr",
        "orthonormal",
        {"rows": 500, "columns": 40},
        {"rows": 50, "columns": 4},
        _matrix,
        lambda s: 4 * s["rows"] * s["columns"] ** 2,
    ),
    _case("eigh", "eigh", "eigen", {"rows": 200}, {"rows": 20}, _positive, lambda s: 9 * s["rows"] ** 3),
    _case(
        "svd",
        "svd",
        "singular",
        {"rows": 500, "columns": 40},
        {"rows": 50, "columns": 4},
        _matrix,
        lambda s: 6 * s["rows"] * s["columns"] ** 2,
    ),
    _case("nbody", "nbody", "advance", {"bodies": 1000}, {"bodies": 20}, _bodies, lambda s: 20 * s["bodies"] ** 2),
    _case("fft", "fft", "transform", {"points": 1024}, {}, _signal, lambda s: 5 * s["points"] * 10),
]
"""No limits: what bounds these is not one rate. Operations are what textbooks count."""
