"""The cases of scientists in NumPy: its LAPACK, broadcast differences, its own Fourier transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.peers.prepared import Prepared, Request
from bench.peers.scientific_signs import signed


def _factors(kind: str, function: Callable[..., Any]) -> Callable[[Request], Prepared]:
    def prepare(request: Request) -> Prepared:
        feeds = request.feeds

        def call() -> Any:
            return function(*feeds)

        return Prepared(call, lambda: signed(kind, call()))

    return prepare


def _advance(x: Any, v: Any, m: Any) -> Any:
    d = x[None] - x[:, None]
    r2 = np.square(d).sum(2) + np.float32(1e-4)
    pull = m / (r2 * np.sqrt(r2))
    faster = v + np.float32(0.01) * np.einsum("ij,ijk->ik", pull, d)
    return x + np.float32(0.01) * faster, faster


def _fft(request: Request) -> Prepared:
    re, im = request.feeds
    signal = (re + 1j * im).astype(np.complex64)

    def results() -> list[Any]:
        y = np.fft.fft(signal)
        return [y.real, y.imag]

    return Prepared(lambda: np.fft.fft(signal), results)


KINDS: dict[str, Callable[[Request], Prepared]] = {
    "cholesky": _factors("", lambda a: [np.linalg.cholesky(a)]),
    "solve": _factors("", lambda a, b: [np.linalg.solve(a, b)]),
    "solve_batched": _factors("", lambda a, b: [np.linalg.solve(a, b[..., None])[..., 0]]),
    "qr": _factors("qr", np.linalg.qr),
    "eigh": _factors("eigh", np.linalg.eigh),
    "svd": _factors("svd", lambda a: np.linalg.svd(a, full_matrices=False)),
    "nbody": _factors("", _advance),
    "fft": _fft,
}
