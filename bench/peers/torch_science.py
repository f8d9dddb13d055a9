"""The cases of scientists in PyTorch; factorisations are single operations, so that nothing of them is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.peers.prepared import Prepared, Request
from bench.peers.scientific_signs import signed
from bench.peers.torch_support import Wrap, to_numpy


def _factors(kind: str, function: Callable[..., Any]) -> Callable[[Request, Wrap], Prepared]:
    def prepare(request: Request, wrap: Wrap) -> Prepared:
        held, wrapped = [torch.from_numpy(x.copy()) for x in request.feeds], wrap(function)

        def call() -> Any:
            with torch.inference_mode():
                return wrapped(*held)

        return Prepared(call, lambda: signed(kind, [to_numpy(value) for value in call()]))

    return prepare


def _advance(x: Any, v: Any, m: Any) -> Any:
    d = x[None] - x[:, None]
    r2 = (d * d).sum(2) + 1e-4
    pull = torch.rsqrt(r2) / r2 * m[None]
    faster = v + 0.01 * (pull[:, :, None] * d).sum(1)
    return x + 0.01 * faster, faster


def _transform(re: Any, im: Any) -> Any:
    y = torch.fft.fft(torch.complex(re, im))
    return y.real, y.imag


EAGER_ONLY = {"cholesky", "solve", "solve_batched", "qr", "eigh", "svd", "fft"}
KINDS: dict[str, Callable[[Request, Wrap], Prepared]] = {
    "cholesky": _factors("", lambda a: [torch.linalg.cholesky(a)]),
    "solve": _factors("", lambda a, b: [torch.linalg.solve(a, b)]),
    "solve_batched": _factors("", lambda a, b: [torch.linalg.solve(a, b)]),
    "qr": _factors("qr", torch.linalg.qr),
    "eigh": _factors("eigh", torch.linalg.eigh),
    "svd": _factors("svd", lambda a: torch.linalg.svd(a, full_matrices=False)),
    "nbody": _factors("", _advance),
    "fft": _factors("", _transform),
}
