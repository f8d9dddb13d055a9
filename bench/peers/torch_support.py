"""What all cases of PyTorch share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from bench.cases.case import Array
from bench.peers.prepared import Prepared

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What makes a function faster: nothing, or `torch.compile`."""


def unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def tensors(state: Mapping[str, Array], trained: bool = False) -> dict[str, Any]:
    """Copies: steps change them."""
    return {name: torch.from_numpy(value.copy()).requires_grad_(trained) for name, value in state.items()}


def to_numpy(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def inference(call: Callable[[], Any]) -> Prepared:
    """Without what gradients would need."""

    def without_gradients() -> Any:
        with torch.inference_mode():
            return call()

    return Prepared(without_gradients, lambda: [to_numpy(without_gradients())])


def backward(loss_of: Callable[[], Any], targets: list[Any]) -> Prepared:
    """The gradients of a loss, new ones in each call."""

    def call() -> list[Any]:
        return list(torch.autograd.grad(loss_of(), targets))

    return Prepared(call, lambda: [to_numpy(value) for value in call()])
