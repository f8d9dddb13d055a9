"""The cases of scientists in JAX, jitted; factorisations in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.peers.prepared import Prepared, Request
from bench.peers.scientific_signs import signed


def _factors(kind: str, function: Callable[..., Any]) -> Callable[[Request], Prepared]:
    def prepare(request: Request) -> Prepared:
        jax.config.update("jax_enable_x64", any(x.dtype == np.float64 for x in request.feeds))
        jitted, held = jax.jit(function), [jnp.asarray(x) for x in request.feeds]

        def call() -> Any:
            return jax.block_until_ready(jitted(*held))

        return Prepared(call, lambda: signed(kind, call()))

    return prepare


def _advance(x: Any, v: Any, m: Any) -> Any:
    d = x[None] - x[:, None]
    r2 = (d * d).sum(2) + 1e-4
    pull = lax.rsqrt(r2) / r2 * m[None]
    faster = v + 0.01 * (pull[:, :, None] * d).sum(1)
    return x + 0.01 * faster, faster


def _transform(re: Any, im: Any) -> Any:
    y = jnp.fft.fft(lax.complex(re, im))
    return y.real, y.imag


KINDS: dict[str, Callable[[Request], Prepared]] = {
    "cholesky": _factors("", lambda a: [jnp.linalg.cholesky(a)]),
    "solve": _factors("", lambda a, b: [jnp.linalg.solve(a, b)]),
    "solve_batched": _factors("", lambda a, b: [jnp.linalg.solve(a, b[..., None])[..., 0]]),
    "qr": _factors("qr", jnp.linalg.qr),
    "eigh": _factors("eigh", jnp.linalg.eigh),
    "svd": _factors("svd", lambda a: jnp.linalg.svd(a, full_matrices=False)),
    "nbody": _factors("", _advance),
    "fft": _factors("", _transform),
}
