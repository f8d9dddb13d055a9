"""The cases of inference as ONNX graphs, node by node, with the weights inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.cases import networks
from bench.cases.networks import Average, Bottleneck, Conv, Dense, Flatten, Inception, Pool
from bench.peers.prepared import Request

OPSET = 20
"""The first one with Gelu."""


class Nodes:
    """Adds nodes and constants, and gives their names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        outputs = [f"v{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, **attributes))
        return outputs

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype), name))
        return name

    def whole(self, values: Sequence[int]) -> str:
        return self.constant(values, np.int64)


Graph = Callable[[Nodes, Request], str]
"""Adds a case to the nodes; gives the name of the result."""


def serialized(graph: Graph, request: Request) -> bytes:
    """The model; its inputs are the feeds, with the shapes that they have."""
    nodes = Nodes()
    result = graph(nodes, request)
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    inputs = [
        helper.make_tensor_value_info(name, kinds[value.dtype], value.shape)
        for name, value in request.data.feeds.items()
    ]
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    whole = helper.make_graph(nodes.nodes, "case", inputs, [output], nodes.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(whole, opset_imports=opsets, ir_version=9).SerializeToString()


def _null(n: Nodes, request: Request) -> str:
    return n("Add", "x", n.constant(0))


def _mlp(n: Nodes, request: Request) -> str:
    p = request.data.state
    hidden = n("Relu", n("Gemm", "images", n.constant(p["w1"]), n.constant(p["b1"])))
    return n("Gemm", hidden, n.constant(p["w2"]), n.constant(p["b2"]))


def _eltwise(n: Nodes, request: Request) -> str:
    x = n("Add", n("Mul", "x", n.constant(1.1)), n.constant(0.3))
    return n("Mul", n("Gelu", x, approximate="tanh"), n("Sigmoid", "x"))


def _softmax(n: Nodes, request: Request) -> str:
    return n("Softmax", "x", axis=-1)


def _layernorm(n: Nodes, request: Request) -> str:
    width = request.sizes["columns"]
    return n("LayerNormalization", "x", n.constant(np.ones(width)), n.constant(np.zeros(width)), axis=-1)


def _product(n: Nodes, request: Request) -> str:
    axes = [0, 2, 1] if request.sizes["count"] else [1, 0]
    a = n("Transpose", "a", perm=axes) if request.sizes["turned_a"] else "a"
    b = n("Transpose", "b", perm=axes) if request.sizes["turned_b"] else "b"
    return n("MatMul", a, b)


def _lstm(n: Nodes, request: Request) -> str:
    """Two LSTM nodes. ONNX orders the gates input, output, forget, cell, and keeps matrices by rows of gates; the 1
    that the case adds to the forget gate is part of the bias."""
    width, x = request.sizes["width"], "x"
    for layer in ("first", "second"):
        w, b = request.data.state[f"{layer}.w"], request.data.state[f"{layer}.b"]
        i, f, g, o = (w[:, k * width : (k + 1) * width].T for k in range(4))
        bi, bf, bg, bo = (b[k * width : (k + 1) * width] for k in range(4))
        rows = np.concatenate([i, o, f, g])
        bias = np.concatenate([bi, bo, bf + 1, bg, np.zeros(4 * width)])
        operands = [n.constant(part[None]) for part in (rows[:, :width], rows[:, width:], bias)]
        outputs = n.several("LSTM", 1, x, *operands, hidden_size=width)
        x = n("Squeeze", outputs[0], n.whole([1]))
    return x


def _attend(n: Nodes, q: str, k: str, v: str, depth: int) -> str:
    """Operands are [.., heads, tokens, depth]."""
    turned = n("Transpose", k, perm=[0, 1, 3, 2])
    weights = n("Softmax", n("Mul", n("MatMul", q, turned), n.constant(depth**-0.5)), axis=-1)
    return n("MatMul", weights, v)


def _attention(n: Nodes, request: Request) -> str:
    q, k, v = (n("Unsqueeze", name, n.whole([0])) for name in "qkv")
    return n("Squeeze", _attend(n, q, k, v, request.sizes["depth"]), n.whole([0]))


def _xf(n: Nodes, request: Request) -> str:
    p = {name.removeprefix("encoder."): n.constant(value) for name, value in request.data.state.items()}
    batch, tokens, width, heads = (request.sizes[name] for name in ("batch", "tokens", "width", "heads"))
    qkv = n("Add", n("MatMul", "x", p["to_qkv"]), p["qkv_bias"])
    parts = n.several("Split", 3, qkv, axis=-1, num_outputs=3)
    split = n.whole([batch, tokens, heads, width // heads])
    q, k, v = (n("Transpose", n("Reshape", part, split), perm=[0, 2, 1, 3]) for part in parts)
    mixed = n("Transpose", _attend(n, q, k, v, width // heads), perm=[0, 2, 1, 3])
    mixed = n("Reshape", mixed, n.whole([batch, tokens, width]))
    mixed = n("Add", n("MatMul", mixed, p["to_out"]), p["out_bias"])
    y = n("LayerNormalization", n("Add", "x", mixed), p["norm1.scale"], p["norm1.shift"], axis=-1)
    wide = n("Gelu", n("Add", n("MatMul", y, p["to_wide"]), p["wide_bias"]), approximate="tanh")
    narrow = n("Add", n("MatMul", wide, p["to_narrow"]), p["narrow_bias"])
    return n("LayerNormalization", n("Add", y, narrow), p["norm2.scale"], p["norm2.shift"], axis=-1)


def _convolve(n: Nodes, state: Any, layer: Conv, x: str) -> str:
    name = layer.name
    kernel = n.constant(state[f"{name}.kernel"].transpose(3, 2, 0, 1))
    bias = () if layer.norm else (n.constant(state[f"{name}.b"]),)
    y = n("Conv", x, kernel, *bias, strides=[layer.stride] * 2, pads=[layer.pad] * 4, kernel_shape=[layer.size] * 2)
    if layer.norm:
        parts = (n.constant(state[f"{name}.{part}"]) for part in ("scale", "shift", "running_mean", "running_variance"))
        y = n("BatchNormalization", y, *parts, epsilon=networks.EPSILON)
    return n("Relu", y) if layer.relu else y


def _pool(n: Nodes, x: str, size: int, stride: int, pad: int) -> str:
    return n("MaxPool", x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)


def _network(n: Nodes, request: Request) -> str:
    """Channels come first in ONNX; images are turned on the way in, and what is flattened is turned back."""
    state, x = request.data.state, n("Transpose", "x", perm=[0, 3, 1, 2])

    def chain(parts: Sequence[Conv], x: str) -> str:
        for part in parts:
            x = _convolve(n, state, part, x)
        return x

    for layer in networks.network_of(request.sizes).layers:
        match layer:
            case Conv():
                x = _convolve(n, state, layer, x)
            case Pool(size, stride, pad):
                x = _pool(n, x, size, stride, pad)
            case Inception(branches):
                pooled = chain(branches[-1], _pool(n, x, 3, 1, 1))
                x = n("Concat", *(chain(branch, x) for branch in branches[:-1]), pooled, axis=1)
            case Bottleneck(path, projection):
                same = _convolve(n, state, projection, x) if projection else x
                x = n("Relu", n("Add", chain(path, x), same))
            case Average():
                x = n("Flatten", n("GlobalAveragePool", x))
            case Flatten():
                x = n("Flatten", n("Transpose", x, perm=[0, 2, 3, 1]))
            case Dense(name, _, _, relu):
                x = n("Gemm", x, n.constant(state[f"{name}.w"]), n.constant(state[f"{name}.b"]))
                x = n("Relu", x) if relu else x
    return x


GRAPHS: dict[str, Graph] = {
    "null": _null,
    "mlp": _mlp,
    "eltwise": _eltwise,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "product": _product,
    "lstm": _lstm,
    "attention": _attention,
    "xf": _xf,
    "network": _network,
}
