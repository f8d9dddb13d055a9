"""ONNX Runtime on the CPU, where a case is inference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from bench import inputs

Call = Callable[[], object]


def _session(nodes, feeds, result, weights=()) -> onnxruntime.InferenceSession:
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in feeds.items()],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _predict(batch: int) -> Call:
    node = helper.make_node
    session = _session(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"]),
            node("Relu", ["h"], ["r"]),
            node("Gemm", ["r", "w2", "b2"], ["y"]),
        ],
        {"x": ["B", inputs.PIXELS]},
        "y",
        list(zip(("w1", "b1", "w2", "b2"), inputs.weights(), strict=True)),
    )
    x = inputs.normal(batch, inputs.PIXELS)
    return lambda: session.run(None, {"x": x})


def mlp_b1() -> Call:
    return _predict(1)


def mlp_b32() -> Call:
    return _predict(32)


def null() -> Call:
    session = _session([helper.make_node("Add", ["a", "b"], ["c"])], {"a": [], "b": []}, "c")
    one, two = np.float32(1).reshape(()), np.float32(2).reshape(())
    return lambda: session.run(None, {"a": one, "b": two})


def softmax() -> Call:
    session = _session([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": ["R", "C"]}, "y")
    x = inputs.normal(inputs.ROWS, inputs.COLUMNS)
    return lambda: session.run(None, {"x": x})


def matmul() -> Call:
    session = _session([helper.make_node("MatMul", ["a", "b"], ["c"])], {"a": ["M", "K"], "b": ["K", "N"]}, "c")
    a, b = inputs.normal(inputs.PRODUCT, inputs.PRODUCT), inputs.normal(inputs.PRODUCT, inputs.PRODUCT, seed=1)
    return lambda: session.run(None, {"a": a, "b": b})
