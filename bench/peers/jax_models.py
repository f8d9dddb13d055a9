"""JAX: LSTM, transformer, attention, convolutional networks, language models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.cases import language, networks
from bench.cases.networks import Average, Bottleneck, Conv, Dense, Flatten, Inception, Pool
from bench.peers.jax_support import arrays, constant
from bench.peers.prepared import Prepared, Request, adam_training, training

P = Any


def _cell(w: Any, b: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    value, forget, memory, output = jnp.split(jnp.concatenate([x, h], 1) @ w + b, 4, 1)
    c = jax.nn.sigmoid(forget + 1) * c + jax.nn.sigmoid(value) * jnp.tanh(memory)
    return jax.nn.sigmoid(output) * jnp.tanh(c), c


def _lstm_outputs(p: P, x: Any) -> Any:
    start = jnp.zeros(x.shape[1:])

    def step(state: Any, x: Any) -> Any:
        h1, c1, h2, c2 = state
        h1, c1 = _cell(p["first.w"], p["first.b"], x, h1, c1)
        h2, c2 = _cell(p["second.w"], p["second.b"], h1, h2, c2)
        return (h1, c1, h2, c2), h2

    return lax.scan(step, (start, start, start, start), x)[1]


def _model(function: Callable[[P, Any, Request], Any]) -> Callable[[Request], Prepared]:
    """A function of weights and feed."""
    return lambda request: constant(
        jax.jit(lambda p, x: function(p, x, request)), arrays(request.data.state), request.feeds[0]
    )


def _gradients(loss_of: Callable[[P, Any, Request], Any]) -> Callable[[Request], Prepared]:
    """Gradients in the order of the weights: the leaves of a dictionary come sorted by name, those of a list do not."""

    def prepare(request: Request) -> Prepared:
        names = list(request.data.state)

        def of_list(values: list[Any], x: Any) -> Any:
            return loss_of(dict(zip(names, values, strict=True)), x, request)

        return constant(jax.jit(jax.grad(of_list)), list(arrays(request.data.state).values()), request.feeds[0])

    return prepare


def _norm(p: P, name: str, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * p[f"{name}.scale"] + p[f"{name}.shift"]


def _attend(p: P, name: str, x: Any, heads: int, causal: bool) -> Any:
    shape = (*x.shape[:2], heads, x.shape[2] // heads)
    q, k, v = (t.reshape(shape) for t in jnp.split(x @ p[f"{name}to_qkv"] + p[f"{name}qkv_bias"], 3, -1))
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
    return mixed.reshape(x.shape) @ p[f"{name}to_out"] + p[f"{name}out_bias"]


def _feed(p: P, name: str, x: Any) -> Any:
    wide = jax.nn.gelu(x @ p[f"{name}to_wide"] + p[f"{name}wide_bias"])
    return wide @ p[f"{name}to_narrow"] + p[f"{name}narrow_bias"]


def _encode(p: P, x: Any, request: Request) -> Any:
    y = _norm(p, "encoder.norm1", x + _attend(p, "encoder.", x, request.sizes["heads"], causal=False))
    return _norm(p, "encoder.norm2", y + _feed(p, "encoder.", y))


def _cubes(y: Any) -> Any:
    return (y * y * y).mean()


def _mixed(q: Any, k: Any, v: Any) -> Any:
    """Heads are the third axis but one for JAX: [batch, tokens, heads, depth]."""
    turned = (x.transpose(1, 0, 2)[None] for x in (q, k, v))
    return jax.nn.dot_product_attention(*turned)[0].transpose(1, 0, 2)


def _attention(request: Request) -> Prepared:
    return constant(jax.jit(_mixed), *request.feeds)


def _attention_train(request: Request) -> Prepared:
    return constant(jax.jit(jax.grad(lambda q, k, v: jnp.sum(_mixed(q, k, v) ** 2), argnums=(0, 1, 2))), *request.feeds)


def _convolve(p: P, layer: Conv, x: Any, running: dict[str, Any] | None) -> Any:
    name, pads = layer.name, [(layer.pad, layer.pad)] * 2
    y = lax.conv_general_dilated(
        x, p[f"{name}.kernel"], (layer.stride,) * 2, pads, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    if not layer.norm:
        y = y + p[f"{name}.b"]
    else:
        mean, variance = p[f"{name}.running_mean"], p[f"{name}.running_variance"]
        if running is not None:
            batch_mean = y.mean((0, 1, 2))
            batch_variance = ((y - batch_mean) ** 2).mean((0, 1, 2))
            running[f"{name}.running_mean"] = mean + networks.MOMENTUM * (batch_mean - mean)
            running[f"{name}.running_variance"] = variance + networks.MOMENTUM * (batch_variance - variance)
            mean, variance = batch_mean, batch_variance
        y = (y - mean) * lax.rsqrt(variance + networks.EPSILON) * p[f"{name}.scale"] + p[f"{name}.shift"]
    return jax.nn.relu(y) if layer.relu else y


def _pool(x: Any, size: int, stride: int, pad: int) -> Any:
    window, pads = (1, size, size, 1), [(0, 0), (pad, pad), (pad, pad), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, window, (1, stride, stride, 1), pads)


def _network(p: P, layers: list[networks.Layer], x: Any, running: dict[str, Any] | None) -> Any:
    def chain(parts: tuple[Conv, ...], x: Any) -> Any:
        for part in parts:
            x = _convolve(p, part, x, running)
        return x

    for layer in layers:
        match layer:
            case Conv():
                x = _convolve(p, layer, x, running)
            case Pool(size, stride, pad):
                x = _pool(x, size, stride, pad)
            case Inception(branches):
                pooled = chain(branches[-1], _pool(x, 3, 1, 1))
                x = jnp.concatenate([*(chain(branch, x) for branch in branches[:-1]), pooled], -1)
            case Bottleneck(path, projection):
                same = _convolve(p, projection, x, running) if projection else x
                x = jax.nn.relu(chain(path, x) + same)
            case Average():
                x = x.mean((1, 2))
            case Flatten():
                x = x.reshape(x.shape[0], -1)
            case Dense(name, _, _, relu):
                x = x @ p[f"{name}.w"] + p[f"{name}.b"]
                x = jax.nn.relu(x) if relu else x
    return x


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def _network_infer(p: P, x: Any, request: Request) -> Any:
    return _network(p, networks.network_of(request.sizes).layers, x, None)


def _network_train(request: Request) -> Prepared:
    layers = networks.network_of(request.sizes).layers
    x, labels = (jnp.asarray(feed) for feed in request.feeds)
    state = arrays(request.data.state)
    held = [
        {name: value for name, value in state.items() if (".running_" in name) == is_running}
        for is_running in (False, True)
    ]

    def loss_of(p: P, statistics: P, x: Any, y: Any) -> Any:
        running: dict[str, Any] = {}
        return _cross_entropy(_network({**p, **statistics}, layers, x, running), y), running

    @partial(jax.jit, donate_argnums=(0, 1))
    def update(p: P, statistics: P, x: Any, y: Any) -> Any:
        (loss, statistics), g = jax.value_and_grad(loss_of, has_aux=True)(p, statistics, x, y)
        return loss, jax.tree.map(lambda w, g: w - networks.RATE * g, p, g), statistics

    def step() -> float:
        loss, held[0], held[1] = update(held[0], held[1], x, labels)
        return float(loss)

    return training(request, step, lambda name: np.asarray(held[0][name]))


def _gpt_loss(p: P, tokens: Any, following: Any, layers: int, heads: int) -> Any:
    x = p["words"][tokens] + p["positions"]
    for number in range(1, layers + 1):
        name = f"layer{number}"
        x = x + _attend(p, f"{name}.", _norm(p, f"{name}.norm1", x), heads, causal=True)
        x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
    return _cross_entropy(_norm(p, "norm", x) @ p["to_words"], following)


def _gpt_train(request: Request) -> Prepared:
    tokens, following = (jnp.asarray(feed) for feed in request.feeds)
    layers, heads = request.sizes["layers"], request.sizes["heads"]

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def update(p: P, m: P, v: P, count: Any, tokens: Any, following: Any) -> Any:
        loss, g = jax.value_and_grad(_gpt_loss)(p, tokens, following, layers, heads)
        m = jax.tree.map(lambda m, g: language.BETA1 * m + (1 - language.BETA1) * g, m, g)
        v = jax.tree.map(lambda v, g: language.BETA2 * v + (1 - language.BETA2) * g * g, v, g)
        rate = language.RATE * jnp.sqrt(1 - language.BETA2**count) / (1 - language.BETA1**count)
        p = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + language.ADAM_EPSILON), p, m, v)
        return loss, p, m, v

    state = arrays(request.data.state)
    held: list[Any] = [state, jax.tree.map(jnp.zeros_like, state), jax.tree.map(jnp.zeros_like, state)]
    count = [0]

    def step() -> float:
        count[0] += 1
        loss, *held[:] = update(*held, np.float32(count[0]), tokens, following)
        return float(loss)

    return adam_training(step)


def _gpt_token(request: Request) -> Prepared:
    sizes = request.sizes
    heads, layers = sizes["heads"], sizes["layers"]
    state = arrays(request.data.state)
    p = {name: value for name, value in state.items() if not name.endswith(language.CACHES)}
    held = [{name: value for name, value in state.items() if name.endswith(language.CACHES)}]

    @partial(jax.jit, donate_argnums=1)
    def generate(p: P, caches: P, token: Any, index: Any) -> Any:
        x, seen = (p["words"][token] + p["positions"][index])[None], jnp.arange(sizes["tokens"]) <= index
        caches = dict(caches)
        for number in range(1, layers + 1):
            name = f"layer{number}"
            qkv = _norm(p, f"{name}.norm1", x) @ p[f"{name}.to_qkv"] + p[f"{name}.qkv_bias"]
            q, k, v = (t.reshape(heads, -1) for t in jnp.split(qkv, 3, -1))
            keys = caches[f"{name}.keys"] = caches[f"{name}.keys"].at[index].set(k)
            values = caches[f"{name}.values"] = caches[f"{name}.values"].at[index].set(v)
            affinity = jnp.einsum("hd,mhd->hm", q, keys) * q.shape[-1] ** -0.5
            mixed = jnp.einsum("hm,mhd->hd", jax.nn.softmax(jnp.where(seen, affinity, -1e9)), values)
            x = x + mixed.reshape(1, -1) @ p[f"{name}.to_out"] + p[f"{name}.out_bias"]
            x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
        return _norm(p, "norm", x) @ p["to_words"], caches

    token, index = request.feeds

    def call() -> Any:
        scores, held[0] = generate(p, held[0], token, index)
        return np.asarray(scores)

    return Prepared(call, lambda: [call()])


KINDS: dict[str, Callable[[Request], Prepared]] = {
    "lstm": _model(lambda p, x, request: _lstm_outputs(p, x)),
    "lstm_train": _gradients(lambda p, x, request: jnp.mean(_lstm_outputs(p, x) ** 2)),
    "xf": _model(_encode),
    "xf_train": _gradients(lambda p, x, request: _cubes(_encode(p, x, request))),
    "attention": _attention,
    "attention_train": _attention_train,
    "network": _model(_network_infer),
    "network_train": _network_train,
    "gpt_train": _gpt_train,
    "gpt_token": _gpt_token,
}
