"""TensorFlow on the CPU: functions as graphs, and the same compiled by XLA. State is variables.

Models of several layers are in `tensorflow_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bench.peers import tensorflow_models
from bench.peers.prepared import Prepare, Prepared, Request, training
from bench.peers.tensorflow_support import Wrap, constant, variables, wrapper


def version(system: str) -> str:
    return tf.__version__


def _null(request: Request, wrap: Wrap) -> Prepared:
    add, x = wrap(lambda x: x + 0), request.feeds[0]
    return constant(lambda: add(tf.constant(x)))


def _while(request: Request, wrap: Wrap) -> Prepared:
    count, x = request.sizes["repeats"], request.feeds[0]

    def repeat(x: Any) -> Any:
        return tf.while_loop(lambda k, _: k < count, lambda k, x: (k + 1, (x + 0.75) * 0.5), (0, x))[1]

    wrapped = wrap(repeat)
    return constant(lambda: wrapped(tf.constant(x)))


def _scores(p: Any, x: Any) -> Any:
    return tf.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


def _mlp(request: Request, wrap: Wrap) -> Prepared:
    p, images = variables(request.data.state), request.feeds[0]
    predict = wrap(lambda x: _scores(p, x))
    return constant(lambda: predict(tf.constant(images)))


def _mlp_train(request: Request, wrap: Wrap) -> Prepared:
    p = variables(request.data.state)
    totals = {name: tf.Variable(tf.fill(value.shape, 0.1)) for name, value in p.items()}
    images, labels = (tf.constant(x) for x in request.feeds)

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, _scores(p, x)))
        for name, g in tape.gradient(loss, p).items():
            totals[name].assign_add(g * g)
            p[name].assign_sub(0.01 * g * tf.math.rsqrt(totals[name]))
        return loss

    wrapped = wrap(update)
    return training(request, lambda: float(wrapped(images, labels)), lambda name: p[name].numpy())


def _embed(request: Request, wrap: Wrap) -> Prepared:
    table, ids = tf.Variable(request.data.state["table"]), request.feeds[0]

    def touch(ids: Any) -> Any:
        table.scatter_sub(tf.IndexedSlices(0.01 * tf.gather(table, ids), ids))
        return tf.constant(0)

    wrapped = wrap(touch)

    def call() -> None:
        wrapped(tf.constant(ids)).numpy()

    def results() -> list[Any]:
        call()
        return [tf.gather(table, ids).numpy()]

    return Prepared(call, results)


def _unary(function: Callable[[Any], Any]) -> Callable[[Request, Wrap], Prepared]:
    def prepare(request: Request, wrap: Wrap) -> Prepared:
        wrapped, x = wrap(function), tf.constant(request.feeds[0])
        return constant(lambda: wrapped(x))

    return prepare


def _layernorm(x: Any) -> Any:
    center, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, center, variance, None, None, 1e-5)


def _heat(request: Request, wrap: Wrap) -> Prepared:
    plate, steps = tf.Variable(request.data.state["plate"]), request.sizes["steps"]

    def step(k: Any, u: Any) -> Any:
        flow = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return k + 1, u + 0.1 * tf.pad(flow, [[1, 1], [1, 1]])

    def advance() -> Any:
        plate.assign(tf.while_loop(lambda k, _: k < steps, step, (0, plate.value()))[1])
        return plate.value()

    return constant(wrap(advance))


def _product(request: Request, wrap: Wrap) -> Prepared:
    a, b = (tf.constant(x) for x in request.feeds)
    turned_a, turned_b = bool(request.sizes["turned_a"]), bool(request.sizes["turned_b"])
    multiply = wrap(lambda a, b: tf.matmul(a, b, transpose_a=turned_a, transpose_b=turned_b))
    return constant(lambda: multiply(a, b))


KINDS: dict[str, Callable[[Request, Wrap], Prepared]] = {
    "null": _null,
    "while": _while,
    "mlp": _mlp,
    "mlp_train": _mlp_train,
    "embed": _embed,
    "eltwise": _unary(lambda x: tf.nn.gelu(x * 1.1 + 0.3, approximate=True) * tf.sigmoid(x)),
    "softmax": _unary(tf.nn.softmax),
    "layernorm": _unary(_layernorm),
    "heat": _heat,
    "product": _product,
    **tensorflow_models.KINDS,
}


def preparation(system: str, kind: str) -> Prepare | None:
    prepare = KINDS.get(kind)
    return None if prepare is None else lambda request: prepare(request, wrapper(system))
