"""Cases without a model of their own: calls, loops, element-wise work, rows, tables, a perceptron, a stencil."""

from __future__ import annotations

import numpy as np

from bench.cases.case import SEED, Case, Data, Sizes, Target, Work, integers, normal, zeros

PIXELS, HIDDEN, CLASSES = 784, 100, 10


def _scalar(sizes: Sizes) -> Data:
    return Data({"x": np.array(1, np.float32)})


def _vector(sizes: Sizes) -> Data:
    return Data({"x": normal("x", sizes["count"])})


def _matrix(sizes: Sizes) -> Data:
    return Data({"x": normal("x", sizes["rows"], sizes["columns"])})


def perceptron_state() -> dict[str, np.ndarray]:
    """The weights of a 784-100-10 perceptron."""
    return {
        "w1": normal("w1", PIXELS, HIDDEN, scale=0.05),
        "b1": zeros(HIDDEN),
        "w2": normal("w2", HIDDEN, CLASSES, scale=0.1),
        "b2": zeros(CLASSES),
    }


def _perceptron(sizes: Sizes) -> Data:
    return Data({"images": normal("images", sizes["batch"], PIXELS)}, perceptron_state())


def _perceptron_train(sizes: Sizes) -> Data:
    batch = sizes["batch"]
    feeds = {"images": normal("images", batch, PIXELS), "labels": integers("labels", CLASSES, batch)}
    return Data(feeds, perceptron_state())


def _table(sizes: Sizes) -> Data:
    """Each row once: systems differ in what rows that stand twice do."""
    ids = np.random.default_rng(SEED).choice(sizes["rows"], sizes["reads"], replace=False)
    return Data({"ids": ids.astype(np.int64)}, {"table": normal("table", sizes["rows"], sizes["columns"])})


def _plate(sizes: Sizes) -> Data:
    steps = np.array(sizes["steps"], np.int32)
    return Data({"steps": steps}, {"plate": normal("plate", sizes["width"], sizes["width"])})


def _through(count: float) -> Work:
    """Each of so many numbers read once and written once."""
    return Work(bytes=8.0 * count)


_ROWS = {"rows": 4096, "columns": 1024}
_SMALL_ROWS = {"rows": 24, "columns": 40}

ELEMENTARY = [
    Case("null", "null", "elementary.dfg", "null", {}, {}, _scalar, target=Target(ratio=2)),
    Case("mlp_b1", "mlp", "mlp.dfg", "predict", {"batch": 1}, {}, _perceptron, target=Target(ratio=2), tolerance=1e-5),
    Case("mlp_b32", "mlp", "mlp.dfg", "predict", {"batch": 32}, {"batch": 4}, _perceptron, tolerance=1e-5),
    Case(
        "mlp_train",
        "mlp_train",
        "mlp.dfg",
        "train",
        {"batch": 100},
        {"batch": 8},
        _perceptron_train,
        target=Target(ratio=2),
    ),
    Case(
        "embed",
        "embed",
        "elementary.dfg",
        "touch",
        {"rows": 1_000_000, "columns": 64, "reads": 32},
        {"rows": 1000},
        _table,
        target=Target(ratio=2),
        tolerance=1e-6,
        settings=lambda sizes: {"ROWS": sizes["rows"], "COLUMNS": sizes["columns"]},
    ),
    Case(
        "while",
        "while",
        "elementary.dfg",
        "repeat",
        {"repeats": 1_000_000},
        {"repeats": 1000},
        _scalar,
        target=Target(ratio=1.5),
        settings=lambda sizes: {"REPEATS": sizes["repeats"]},
    ),
    Case(
        "eltwise",
        "eltwise",
        "elementary.dfg",
        "eltwise",
        {"count": 16 << 20},
        {"count": 1000},
        _vector,
        lambda sizes: _through(sizes["count"]),
        "copy",
        Target(ratio=2, share=0.8),
    ),
    Case(
        "softmax",
        "softmax",
        "elementary.dfg",
        "softmax_rows",
        _ROWS,
        _SMALL_ROWS,
        _matrix,
        lambda sizes: _through(sizes["rows"] * sizes["columns"]),
        "copy",
        Target(ratio=1.3, share=0.8),
    ),
    Case(
        "layernorm",
        "layernorm",
        "elementary.dfg",
        "layernorm_rows",
        _ROWS,
        _SMALL_ROWS,
        _matrix,
        lambda sizes: _through(sizes["rows"] * sizes["columns"]),
        "copy",
        Target(ratio=1.3, share=0.8),
    ),
    Case(
        "heat",
        "heat",
        "heat.dfg",
        "advance",
        {"width": 2048, "steps": 50},
        {"width": 20, "steps": 5},
        _plate,
        target=Target(ratio=1.5),
        settings=lambda sizes: {"N": sizes["width"]},
    ),
]
"""`heat` has no limit: steps that are fused in time read and write the plate less than once each."""
