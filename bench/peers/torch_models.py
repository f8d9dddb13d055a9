"""PyTorch: LSTM, transformer, attention, convolutional networks, language models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from bench.cases import language, networks
from bench.cases.networks import Average, Bottleneck, Conv, Dense, Flatten, Inception, Pool
from bench.peers.prepared import Prepared, Request, adam_training, training
from bench.peers.torch_support import Wrap, backward, inference, tensors

State = Mapping[str, Any]


def _cell(w: Any, b: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    value, forget, memory, output = torch.addmm(b, torch.cat([x, h], 1), w).chunk(4, 1)
    c = torch.sigmoid(forget + 1) * c + torch.sigmoid(value) * torch.tanh(memory)
    return torch.sigmoid(output) * torch.tanh(c), c


def _lstm_outputs(p: State, x: Any) -> Any:
    h1 = c1 = h2 = c2 = torch.zeros(x.shape[1:])
    above: list[Any] = []
    for step in x:
        h1, c1 = _cell(p["first.w"], p["first.b"], step, h1, c1)
        h2, c2 = _cell(p["second.w"], p["second.b"], h1, h2, c2)
        above.append(h2)
    return torch.stack(above)


def _lstm(request: Request, wrap: Wrap) -> Prepared:
    p, x = tensors(request.data.state), torch.from_numpy(request.feeds[0])
    outputs = wrap(lambda x: _lstm_outputs(p, x))
    return inference(lambda: outputs(x))


def _lstm_train(request: Request, wrap: Wrap) -> Prepared:
    p, x = tensors(request.data.state, trained=True), torch.from_numpy(request.feeds[0])
    loss_of = wrap(lambda x: _lstm_outputs(p, x).square().mean())
    return backward(lambda: loss_of(x), list(p.values()))


def _heads(x: Any, heads: int) -> Any:
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def _attend(p: State, name: str, x: Any, heads: int, causal: bool) -> Any:
    q, k, v = F.linear(x, p[f"{name}to_qkv"].t(), p[f"{name}qkv_bias"]).chunk(3, -1)
    mixed = F.scaled_dot_product_attention(*(_heads(t, heads) for t in (q, k, v)), is_causal=causal)
    mixed = mixed.transpose(1, 2).reshape(x.shape)
    return F.linear(mixed, p[f"{name}to_out"].t(), p[f"{name}out_bias"])


def _feed(p: State, name: str, x: Any) -> Any:
    wide = F.gelu(F.linear(x, p[f"{name}to_wide"].t(), p[f"{name}wide_bias"]), approximate="tanh")
    return F.linear(wide, p[f"{name}to_narrow"].t(), p[f"{name}narrow_bias"])


def _norm(p: State, name: str, x: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], p[f"{name}.scale"], p[f"{name}.shift"])


def _encode(p: State, x: Any, heads: int) -> Any:
    y = _norm(p, "encoder.norm1", x + _attend(p, "encoder.", x, heads, causal=False))
    return _norm(p, "encoder.norm2", y + _feed(p, "encoder.", y))


def _xf(request: Request, wrap: Wrap) -> Prepared:
    p, x, heads = tensors(request.data.state), torch.from_numpy(request.feeds[0]), request.sizes["heads"]
    encode = wrap(lambda x: _encode(p, x, heads))
    return inference(lambda: encode(x))


def _xf_train(request: Request, wrap: Wrap) -> Prepared:
    p, x, heads = tensors(request.data.state, trained=True), torch.from_numpy(request.feeds[0]), request.sizes["heads"]

    def loss_of(x: Any) -> Any:
        y = _encode(p, x, heads)
        return (y * y * y).mean()

    wrapped = wrap(loss_of)
    return backward(lambda: wrapped(x), list(p.values()))


def _attention(request: Request, wrap: Wrap) -> Prepared:
    q, k, v = (torch.from_numpy(x)[None] for x in request.feeds)
    attend = wrap(F.scaled_dot_product_attention)
    return inference(lambda: attend(q, k, v)[0])


def _attention_train(request: Request, wrap: Wrap) -> Prepared:
    inputs = [torch.from_numpy(x.copy()).requires_grad_() for x in request.feeds]
    loss_of = wrap(lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None]).square().sum())
    return backward(lambda: loss_of(*inputs), inputs)


def _conv_state(request: Request, trained: bool) -> dict[str, Any]:
    """Kernels as [out, in, height, width], channels last in memory."""
    state: dict[str, Any] = {}
    for name, value in tensors(request.data.state).items():
        if value.ndim == 4:
            value = value.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        state[name] = value.requires_grad_(trained and ".running_" not in name)
    return state


def _convolve(p: State, layer: Conv, x: Any, is_training: bool) -> Any:
    name = layer.name
    if not layer.norm:
        y = F.conv2d(x, p[f"{name}.kernel"], p[f"{name}.b"], layer.stride, layer.pad)
    else:
        y = F.conv2d(x, p[f"{name}.kernel"], None, layer.stride, layer.pad)
        statistics = p[f"{name}.running_mean"], p[f"{name}.running_variance"]
        scale, shift = p[f"{name}.scale"], p[f"{name}.shift"]
        y = F.batch_norm(y, *statistics, scale, shift, is_training, networks.MOMENTUM, networks.EPSILON)
    return F.relu(y) if layer.relu else y


def _network(p: State, layers: list[networks.Layer], x: Any, is_training: bool) -> Any:
    def chain(parts: tuple[Conv, ...], x: Any) -> Any:
        for part in parts:
            x = _convolve(p, part, x, is_training)
        return x

    for layer in layers:
        match layer:
            case Conv():
                x = _convolve(p, layer, x, is_training)
            case Pool(size, stride, pad):
                x = F.max_pool2d(x, size, stride, pad)
            case Inception(branches):
                pooled = F.max_pool2d(x, 3, 1, 1)
                x = torch.cat([chain(b, x) for b in branches[:-1]] + [chain(branches[-1], pooled)], 1)
            case Bottleneck(path, projection):
                same = _convolve(p, projection, x, is_training) if projection else x
                x = F.relu(chain(path, x) + same)
            case Average():
                x = x.mean((2, 3))
            case Flatten():
                x = x.permute(0, 2, 3, 1).flatten(1)  # rows of the first dense layer are in dfc's order
            case Dense(name, _, _, relu):
                x = F.linear(x, p[f"{name}.w"].t(), p[f"{name}.b"])
                x = F.relu(x) if relu else x
    return x


def _images(request: Request) -> Any:
    return torch.from_numpy(request.feeds[0]).permute(0, 3, 1, 2)


def _network_infer(request: Request, wrap: Wrap) -> Prepared:
    p, x, layers = _conv_state(request, trained=False), _images(request), networks.network_of(request.sizes).layers
    scores = wrap(lambda x: _network(p, layers, x, is_training=False))
    return inference(lambda: scores(x))


def _network_train(request: Request, wrap: Wrap) -> Prepared:
    p, x, layers = _conv_state(request, trained=True), _images(request), networks.network_of(request.sizes).layers
    labels = torch.from_numpy(request.feeds[1]).long()
    trained = [value for value in p.values() if value.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=networks.RATE)
    loss_of = wrap(lambda x, y: F.cross_entropy(_network(p, layers, x, is_training=True), y))
    return training(request, _step(loss_of, optimiser, x, labels), lambda name: p[name].detach().numpy())


def _step(loss_of: Callable[..., Any], optimiser: Any, *feeds: Any) -> Callable[[], float]:
    def step() -> float:
        optimiser.zero_grad()
        loss = loss_of(*feeds)
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def _gpt_train(request: Request, wrap: Wrap) -> Prepared:
    p, sizes = tensors(request.data.state, trained=True), request.sizes
    tokens, following = (torch.from_numpy(x).long() for x in request.feeds)
    optimiser = torch.optim.Adam(list(p.values()), lr=language.RATE, eps=language.ADAM_EPSILON, fused=True)

    def loss_of(tokens: Any, following: Any) -> Any:
        x = F.embedding(tokens, p["words"]) + p["positions"]
        for number in range(1, sizes["layers"] + 1):
            name = f"layer{number}"
            x = x + _attend(p, f"{name}.", _norm(p, f"{name}.norm1", x), sizes["heads"], causal=True)
            x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
        logits = F.linear(_norm(p, "norm", x), p["to_words"].t())
        return F.cross_entropy(logits.flatten(0, 1), following.flatten())

    return adam_training(_step(wrap(loss_of), optimiser, tokens, following))


def _gpt_token(request: Request, wrap: Wrap) -> Prepared:
    """Looks at no more of the caches than the tokens in front."""
    p, sizes = tensors(request.data.state), request.sizes
    token, index = int(request.feeds[0]), int(request.feeds[1])
    heads, width = sizes["heads"], sizes["width"]

    def generate(token: Any) -> Any:
        x = F.embedding(token, p["words"]) + p["positions"][index]
        for number in range(1, sizes["layers"] + 1):
            name = f"layer{number}"
            y = _norm(p, f"{name}.norm1", x)
            q, k, v = F.linear(y, p[f"{name}.to_qkv"].t(), p[f"{name}.qkv_bias"]).chunk(3, -1)
            keys, values = p[f"{name}.keys"], p[f"{name}.values"]
            keys[index], values[index] = k.reshape(heads, -1), v.reshape(heads, -1)
            seen = (t[: index + 1].transpose(0, 1)[None] for t in (keys, values))
            mixed = F.scaled_dot_product_attention(q.reshape(1, heads, 1, -1), *seen).reshape(1, width)
            x = x + F.linear(mixed, p[f"{name}.to_out"].t(), p[f"{name}.out_bias"])
            x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
        return F.linear(_norm(p, "norm", x), p["to_words"].t())

    wrapped, fed = wrap(generate), torch.tensor([token])
    return inference(lambda: wrapped(fed))


KINDS: dict[str, Callable[[Request, Wrap], Prepared]] = {
    "lstm": _lstm,
    "lstm_train": _lstm_train,
    "xf": _xf,
    "xf_train": _xf_train,
    "attention": _attention,
    "attention_train": _attention_train,
    "network": _network_infer,
    "network_train": _network_train,
    "gpt_train": _gpt_train,
    "gpt_token": _gpt_token,
}
