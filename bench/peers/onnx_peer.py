"""ONNX Runtime and OpenVINO on the CPU, both from the same ONNX graphs; inference alone, in f32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

from bench.peers.onnx_graphs import GRAPHS, serialized
from bench.peers.prepared import Prepare, Prepared, Request, forward

Session = Callable[[bytes, Mapping[str, Any]], Callable[[], Any]]


def version(system: str) -> str:
    return version_of({"ort": "onnxruntime", "openvino": "openvino"}[system])


def _onnxruntime(model: bytes, feeds: Mapping[str, Any]) -> Callable[[], Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)[0]


def _openvino(model: bytes, feeds: Mapping[str, Any]) -> Callable[[], Any]:
    """Inputs are shared, not copied; the precision is stated, since it would choose bf16 where there is hardware."""
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request, output = compiled.create_infer_request(), compiled.output(0)
    return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)[output]


SESSIONS: dict[str, Session] = {"ort": _onnxruntime, "openvino": _openvino}


def preparation(system: str, kind: str) -> Prepare | None:
    graph, session = GRAPHS.get(kind), SESSIONS[system]
    if graph is None:
        return None
    __import__({"ort": "onnxruntime", "openvino": "openvino"}[system])

    def prepare(request: Request) -> Prepared:
        feeds = {name: np.array(value, order="C") for name, value in request.data.feeds.items()}
        call = session(serialized(graph, request), feeds)
        return forward(call, np.array)

    return prepare
