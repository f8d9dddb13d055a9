"""TensorFlow: LSTM, transformer, attention, convolutional networks, language models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bench.cases import language, networks
from bench.cases.networks import Average, Bottleneck, Conv, Dense, Flatten, Inception, Pool
from bench.peers.prepared import Prepared, Request, adam_training, training
from bench.peers.tensorflow_support import Wrap, constant, several, variables

P = Any


def _cell(w: Any, b: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    value, forget, memory, output = tf.split(tf.concat([x, h], 1) @ w + b, 4, 1)
    c = tf.sigmoid(forget + 1) * c + tf.sigmoid(value) * tf.tanh(memory)
    return tf.sigmoid(output) * tf.tanh(c), c


def _lstm_outputs(p: P, x: Any) -> Any:
    start = tf.zeros(x.shape[1:])

    def step(state: Any, x: Any) -> Any:
        h1, c1, h2, c2 = state
        h1, c1 = _cell(p["first.w"], p["first.b"], x, h1, c1)
        h2, c2 = _cell(p["second.w"], p["second.b"], h1, h2, c2)
        return h1, c1, h2, c2

    return tf.scan(step, x, (start, start, start, start))[2]


def _model(function: Callable[[P, Any, Request], Any]) -> Callable[[Request, Wrap], Prepared]:
    def prepare(request: Request, wrap: Wrap) -> Prepared:
        p, x = variables(request.data.state), tf.constant(request.feeds[0])
        wrapped = wrap(lambda x: function(p, x, request))
        return constant(lambda: wrapped(x))

    return prepare


def _gradients(loss_of: Callable[[P, Any, Request], Any]) -> Callable[[Request, Wrap], Prepared]:
    def prepare(request: Request, wrap: Wrap) -> Prepared:
        p, x = variables(request.data.state), tf.constant(request.feeds[0])

        def gradients(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(p, x, request)
            return tape.gradient(loss, list(p.values()))

        wrapped = wrap(gradients)
        return several(lambda: wrapped(x))

    return prepare


def _linear(x: Any, w: Any, b: Any) -> Any:
    """Over the last axis."""
    return tf.tensordot(x, w, 1) + b


def _norm(p: P, name: str, x: Any) -> Any:
    center, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, center, variance, p[f"{name}.shift"], p[f"{name}.scale"], 1e-5)


def _mixed(q: Any, k: Any, v: Any, is_causal: bool = False) -> Any:
    """Operands are [.., tokens, depth]."""
    affinity = tf.matmul(q, k, transpose_b=True) * q.shape[-1] ** -0.5
    if is_causal:
        tokens = tf.range(q.shape[-2])
        affinity = tf.where(tokens[:, None] >= tokens, affinity, -1e9)
    return tf.matmul(tf.nn.softmax(affinity), v)


def _attend(p: P, name: str, x: Any, heads: int, is_causal: bool) -> Any:
    batch, tokens, width = x.shape
    parts = tf.split(_linear(x, p[f"{name}to_qkv"], p[f"{name}qkv_bias"]), 3, -1)
    shape = [batch, tokens, heads, width // heads]
    q, k, v = (tf.transpose(tf.reshape(part, shape), [0, 2, 1, 3]) for part in parts)
    mixed = tf.transpose(_mixed(q, k, v, is_causal), [0, 2, 1, 3])
    return _linear(tf.reshape(mixed, x.shape), p[f"{name}to_out"], p[f"{name}out_bias"])


def _feed(p: P, name: str, x: Any) -> Any:
    wide = tf.nn.gelu(_linear(x, p[f"{name}to_wide"], p[f"{name}wide_bias"]), approximate=True)
    return _linear(wide, p[f"{name}to_narrow"], p[f"{name}narrow_bias"])


def _encode(p: P, x: Any, request: Request) -> Any:
    y = _norm(p, "encoder.norm1", x + _attend(p, "encoder.", x, request.sizes["heads"], is_causal=False))
    return _norm(p, "encoder.norm2", y + _feed(p, "encoder.", y))


def _attention(request: Request, wrap: Wrap) -> Prepared:
    operands, wrapped = [tf.constant(x) for x in request.feeds], wrap(_mixed)
    return constant(lambda: wrapped(*operands))


def _attention_train(request: Request, wrap: Wrap) -> Prepared:
    operands = [tf.constant(x) for x in request.feeds]

    def gradients(*operands: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            loss = tf.reduce_sum(tf.square(_mixed(*operands)))
        return tape.gradient(loss, list(operands))

    wrapped = wrap(gradients)
    return several(lambda: wrapped(*operands))


def _convolve(p: P, layer: Conv, x: Any, is_training: bool) -> Any:
    name, pad = layer.name, layer.pad
    y = tf.nn.conv2d(x, p[f"{name}.kernel"], layer.stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
    if not layer.norm:
        y = y + p[f"{name}.b"]
    else:
        state = (p[f"{name}.{part}"] for part in ("scale", "shift", "running_mean", "running_variance"))
        scale, shift, center, variance = state
        if is_training:
            y, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
                y, scale, shift, epsilon=networks.EPSILON, is_training=True
            )
            center.assign_add(networks.MOMENTUM * (batch_mean - center))
            variance.assign_add(networks.MOMENTUM * (batch_variance - variance))
        else:
            y = tf.compat.v1.nn.fused_batch_norm(
                y, scale, shift, center.value(), variance.value(), networks.EPSILON, is_training=False
            )[0]
    return tf.nn.relu(y) if layer.relu else y


def _pool(x: Any, size: int, stride: int, pad: int) -> Any:
    """Padded before: XLA has no pooling with explicit padding."""
    if pad:
        x = tf.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]], constant_values=x.dtype.min)
    return tf.nn.max_pool2d(x, size, stride, "VALID")


def _network(p: P, layers: list[networks.Layer], x: Any, is_training: bool) -> Any:
    def chain(parts: Sequence[Conv], x: Any) -> Any:
        for part in parts:
            x = _convolve(p, part, x, is_training)
        return x

    for layer in layers:
        match layer:
            case Conv():
                x = _convolve(p, layer, x, is_training)
            case Pool(size, stride, pad):
                x = _pool(x, size, stride, pad)
            case Inception(branches):
                pooled = chain(branches[-1], _pool(x, 3, 1, 1))
                x = tf.concat([*(chain(branch, x) for branch in branches[:-1]), pooled], -1)
            case Bottleneck(path, projection):
                same = _convolve(p, projection, x, is_training) if projection else x
                x = tf.nn.relu(chain(path, x) + same)
            case Average():
                x = tf.reduce_mean(x, [1, 2])
            case Flatten():
                x = tf.reshape(x, [x.shape[0], -1])
            case Dense(name, _, _, relu):
                x = x @ p[f"{name}.w"] + p[f"{name}.b"]
                x = tf.nn.relu(x) if relu else x
    return x


def _network_infer(p: P, x: Any, request: Request) -> Any:
    return _network(p, networks.network_of(request.sizes).layers, x, is_training=False)


def _network_train(request: Request, wrap: Wrap) -> Prepared:
    p, layers = variables(request.data.state), networks.network_of(request.sizes).layers
    trained = [value for name, value in p.items() if ".running_" not in name]
    feeds = [tf.constant(x) for x in request.feeds]

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = _network(p, layers, x, is_training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        for value, g in zip(trained, tape.gradient(loss, trained), strict=True):
            value.assign_sub(networks.RATE * g)
        return loss

    wrapped = wrap(update)
    return training(request, lambda: float(wrapped(*feeds)), lambda name: p[name].numpy())


def _gpt_loss(p: P, tokens: Any, following: Any, layers: int, heads: int) -> Any:
    x = tf.gather(p["words"], tokens) + p["positions"]
    for number in range(1, layers + 1):
        name = f"layer{number}"
        x = x + _attend(p, f"{name}.", _norm(p, f"{name}.norm1", x), heads, is_causal=True)
        x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
    logits = tf.tensordot(_norm(p, "norm", x), p["to_words"], 1)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits))


def _gpt_train(request: Request, wrap: Wrap) -> Prepared:
    p, sizes = variables(request.data.state), request.sizes
    moments = {name: [tf.Variable(tf.zeros(value.shape)) for _ in range(2)] for name, value in p.items()}
    count, feeds = tf.Variable(0.0), [tf.constant(x) for x in request.feeds]

    def update(tokens: Any, following: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = _gpt_loss(p, tokens, following, sizes["layers"], sizes["heads"])
        count.assign_add(1.0)
        rate = language.RATE * tf.sqrt(1 - language.BETA2**count) / (1 - language.BETA1**count)
        for name, g in tape.gradient(loss, p).items():
            g, (m, v) = tf.convert_to_tensor(g), moments[name]
            m.assign(language.BETA1 * m + (1 - language.BETA1) * g)
            v.assign(language.BETA2 * v + (1 - language.BETA2) * g * g)
            p[name].assign_sub(rate * m / (tf.sqrt(v) + language.ADAM_EPSILON))
        return loss

    wrapped = wrap(update)
    return adam_training(lambda: float(wrapped(*feeds)))


def _gpt_token(request: Request, wrap: Wrap) -> Prepared:
    p, sizes = variables(request.data.state), request.sizes
    heads = sizes["heads"]

    def generate(token: Any, index: Any) -> Any:
        x = (tf.gather(p["words"], token) + tf.gather(p["positions"], index))[None]
        seen = tf.range(sizes["tokens"]) <= index
        for number in range(1, sizes["layers"] + 1):
            name = f"layer{number}"
            qkv = _linear(_norm(p, f"{name}.norm1", x), p[f"{name}.to_qkv"], p[f"{name}.qkv_bias"])
            q, k, v = (tf.reshape(part, [heads, -1]) for part in tf.split(qkv, 3, -1))
            keys, values = p[f"{name}.keys"], p[f"{name}.values"]
            keys.scatter_nd_update([[index]], k[None])
            values.scatter_nd_update([[index]], v[None])
            affinity = tf.einsum("hd,mhd->hm", q, keys) * q.shape[-1] ** -0.5
            weights = tf.nn.softmax(tf.where(seen, affinity, -1e9))
            mixed = tf.reshape(tf.einsum("hm,mhd->hd", weights, values), [1, -1])
            x = x + _linear(mixed, p[f"{name}.to_out"], p[f"{name}.out_bias"])
            x = x + _feed(p, f"{name}.", _norm(p, f"{name}.norm2", x))
        return tf.tensordot(_norm(p, "norm", x), p["to_words"], 1)

    wrapped, (token, index) = wrap(generate), (tf.constant(x) for x in request.feeds)
    return constant(lambda: wrapped(token, index))


def _cubes(y: Any) -> Any:
    return tf.reduce_mean(y * y * y)


KINDS: dict[str, Callable[[Request, Wrap], Prepared]] = {
    "lstm": _model(lambda p, x, request: _lstm_outputs(p, x)),
    "lstm_train": _gradients(lambda p, x, request: tf.reduce_mean(tf.square(_lstm_outputs(p, x)))),
    "xf": _model(_encode),
    "xf_train": _gradients(lambda p, x, request: _cubes(_encode(p, x, request))),
    "attention": _attention,
    "attention_train": _attention_train,
    "network": _model(_network_infer),
    "network_train": _network_train,
    "gpt_train": _gpt_train,
    "gpt_token": _gpt_token,
}
