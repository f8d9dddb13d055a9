"""PyTorch on the CPU, eager and through torch.compile. Images go channels last, kernels as its convolutions want them.

Models of several layers are in `torch_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from bench.peers import torch_models, torch_science
from bench.peers.prepared import Prepare, Prepared, Request, training
from bench.peers.torch_support import Wrap, inference, tensors, unchanged


def version(system: str) -> str:
    return torch.__version__


def _compiled(request: Request) -> Wrap:
    """`torch.compile`, restricted like the libraries: it chooses the width of its vectors itself."""
    config: Any = torch._inductor.config  # pyright: ignore[reportAttributeAccessIssue]
    if request.isa:
        config.cpp.simdlen = {"x86-64-v2": 0, "x86-64-v3": 256, "x86-64-v4": 512}[request.isa]
    return torch.compile


def _null(request: Request, wrap: Wrap) -> Prepared:
    add, x = wrap(lambda x: x + 0), request.feeds[0]
    return inference(lambda: add(torch.from_numpy(x)).numpy())


def _while(request: Request, wrap: Wrap) -> Prepared:
    count = request.sizes["repeats"]

    def repeat(x: Any) -> Any:
        k = 0
        while k < count:
            x = (x + 0.75) * 0.5
            k += 1
        return x

    x = torch.from_numpy(request.feeds[0])
    return inference(lambda: repeat(x))


def _mlp(request: Request, wrap: Wrap) -> Prepared:
    p, images = tensors(request.data.state), request.feeds[0]
    predict = wrap(lambda x: _scores(p, x))
    return inference(lambda: predict(torch.from_numpy(images)).numpy())


def _scores(p: dict[str, Any], x: Any) -> Any:
    return torch.addmm(p["b2"], F.relu(torch.addmm(p["b1"], x, p["w1"])), p["w2"])


def _mlp_train(request: Request, wrap: Wrap) -> Prepared:
    p = tensors(request.data.state, trained=True)
    images, labels = torch.from_numpy(request.feeds[0]), torch.from_numpy(request.feeds[1]).long()
    optimiser = torch.optim.Adagrad(list(p.values()), lr=0.01, initial_accumulator_value=0.1, eps=0)
    loss_of = wrap(lambda x, y: F.cross_entropy(_scores(p, x), y))

    def step() -> float:
        optimiser.zero_grad()
        loss = loss_of(images, labels)
        loss.backward()
        optimiser.step()
        return loss.item()

    return training(request, step, lambda name: p[name].detach().numpy())


def _embed(request: Request, wrap: Wrap) -> Prepared:
    table, ids = torch.from_numpy(request.data.state["table"].copy()), torch.from_numpy(request.feeds[0])

    def touch() -> None:
        table.index_add_(0, ids, table[ids], alpha=-0.01)

    def results() -> list[Any]:
        touch()
        return [table[ids].numpy()]

    return Prepared(touch, results)


def _unary(function: Callable[[Any], Any]) -> Callable[[Request, Wrap], Prepared]:
    def prepare(request: Request, wrap: Wrap) -> Prepared:
        x, wrapped = torch.from_numpy(request.feeds[0]), wrap(function)
        return inference(lambda: wrapped(x))

    return prepare


def _heat(request: Request, wrap: Wrap) -> Prepared:
    plate, steps = torch.from_numpy(request.data.state["plate"].copy()), request.sizes["steps"]

    def step(u: Any) -> None:
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])

    wrapped = wrap(step)

    def call() -> Any:
        for _ in range(steps):
            wrapped(plate)
        return plate

    return inference(call)


def _product(request: Request, wrap: Wrap) -> Prepared:
    a, b = (torch.from_numpy(x) for x in request.feeds)
    a = a.transpose(-2, -1) if request.sizes["turned_a"] else a
    b = b.transpose(-2, -1) if request.sizes["turned_b"] else b
    multiply = wrap(torch.matmul)
    return inference(lambda: multiply(a, b))


Kind = Callable[[Request, Wrap], Prepared]
EAGER_ONLY = {"while", "embed", *torch_science.EAGER_ONLY}
"""What torch.compile adds nothing to: it would unroll a loop of a million iterations, or has one operation to call."""

KINDS: dict[str, Kind] = {
    "null": _null,
    "while": _while,
    "mlp": _mlp,
    "mlp_train": _mlp_train,
    "embed": _embed,
    "eltwise": _unary(lambda x: F.gelu(x * 1.1 + 0.3, approximate="tanh") * torch.sigmoid(x)),
    "softmax": _unary(lambda x: torch.softmax(x, -1)),
    "layernorm": _unary(lambda x: F.layer_norm(x, x.shape[-1:])),
    "heat": _heat,
    "product": _product,
    **torch_models.KINDS,
    **torch_science.KINDS,
}


def preparation(system: str, kind: str) -> Prepare | None:
    prepare = KINDS.get(kind)
    if prepare is None or (system == "torch_compile" and kind in EAGER_ONLY):
        return None
    if system == "torch":
        return lambda request: prepare(request, unchanged)
    return lambda request: prepare(request, _compiled(request))
