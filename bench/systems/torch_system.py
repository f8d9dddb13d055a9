"""PyTorch, eager, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from bench import inputs

Call = Callable[[], object]


def _forward(x, p):
    return F.relu(x @ p[0] + p[1]) @ p[2] + p[3]


def null() -> Call:
    def call():
        with torch.no_grad():
            return (torch.tensor(1.0) + torch.tensor(2.0)).numpy()

    return call


def _predict(batch: int) -> Call:
    p = [torch.from_numpy(w) for w in inputs.weights()]
    x = inputs.normal(batch, inputs.PIXELS)

    def call():
        with torch.inference_mode():
            return _forward(torch.from_numpy(x), p).numpy()

    return call


def mlp_b1() -> Call:
    return _predict(1)


def mlp_b32() -> Call:
    return _predict(32)


def mlp_train() -> Call:
    images, labels = inputs.digits()
    x, y = torch.from_numpy(images), torch.from_numpy(labels).long()
    p = [torch.from_numpy(w).requires_grad_() for w in inputs.weights()]
    optimiser = torch.optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1)

    def call() -> float:
        optimiser.zero_grad()
        loss = F.cross_entropy(_forward(x, p), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    return call


def _unary(function, x) -> Call:
    tensor = torch.from_numpy(x)

    def call():
        with torch.inference_mode():
            return function(tensor)

    return call


def eltwise() -> Call:
    return _unary(lambda x: F.gelu(x * 1.1 + 0.3) * torch.sigmoid(x), inputs.normal(inputs.ELEMENTS))


def softmax() -> Call:
    return _unary(lambda x: torch.softmax(x, -1), inputs.normal(inputs.ROWS, inputs.COLUMNS))


def layernorm() -> Call:
    return _unary(lambda x: F.layer_norm(x, (inputs.COLUMNS,)), inputs.normal(inputs.ROWS, inputs.COLUMNS))


def matmul() -> Call:
    b = torch.from_numpy(inputs.normal(inputs.PRODUCT, inputs.PRODUCT, seed=1))
    return _unary(lambda a: a @ b, inputs.normal(inputs.PRODUCT, inputs.PRODUCT))
