"""An LSTM over a sequence, a block of a transformer, attention by itself; each with gradients too."""

from __future__ import annotations

from bench.cases.case import Case, Data, Sizes, Target, Work, normal, ones, zeros


def _lstm_data(sizes: Sizes) -> Data:
    steps, batch, width = sizes["steps"], sizes["batch"], sizes["width"]
    state: dict[str, object] = {}
    for layer in ("first", "second"):
        state[f"{layer}.w"] = normal(f"{layer}.w", 2 * width, 4 * width, scale=0.68 / width**0.5)
        state[f"{layer}.b"] = zeros(4 * width)
    return Data({"x": normal("x", steps, batch, width)}, state)  # pyright: ignore[reportArgumentType]


def _lstm_work(sizes: Sizes, times: int) -> Work:
    """Products alone: two layers, each of two matrices by four gates."""
    return Work(flops=times * 2 * 2.0 * sizes["steps"] * sizes["batch"] * 2 * sizes["width"] * 4 * sizes["width"])


def _xf_data(sizes: Sizes) -> Data:
    width, wide = sizes["width"], 4 * sizes["width"]
    scale = 0.9 / width**0.5
    state = {
        "encoder.to_qkv": normal("encoder.to_qkv", width, 3 * width, scale=scale),
        "encoder.qkv_bias": zeros(3 * width),
        "encoder.to_out": normal("encoder.to_out", width, width, scale=scale),
        "encoder.out_bias": zeros(width),
        "encoder.norm1.scale": ones(width),
        "encoder.norm1.shift": zeros(width),
        "encoder.to_wide": normal("encoder.to_wide", width, wide, scale=scale),
        "encoder.wide_bias": zeros(wide),
        "encoder.to_narrow": normal("encoder.to_narrow", wide, width, scale=scale / 2),
        "encoder.narrow_bias": zeros(width),
        "encoder.norm2.scale": ones(width),
        "encoder.norm2.shift": zeros(width),
    }
    return Data({"x": normal("x", sizes["batch"], sizes["tokens"], width)}, state)


def _xf_work(sizes: Sizes, times: int) -> Work:
    rows, width, tokens = sizes["batch"] * sizes["tokens"], sizes["width"], sizes["tokens"]
    return Work(flops=times * 2.0 * rows * (12 * width * width + 2 * tokens * width))


def _attention_data(sizes: Sizes) -> Data:
    shape = sizes["heads"], sizes["tokens"], sizes["depth"]
    return Data({name: normal(name, *shape) for name in "qkv"})


def _attention_work(sizes: Sizes, products: int) -> Work:
    """Forward is two products; backward five, the weights of the sum being computed again, not stored."""
    return Work(flops=2.0 * products * sizes["heads"] * sizes["tokens"] ** 2 * sizes["depth"])


_LSTM, _SMALL_LSTM = {"steps": 20, "batch": 64, "width": 512}, {"steps": 3, "batch": 2, "width": 8}
_XF, _SMALL_XF = (
    {"batch": 8, "tokens": 128, "width": 512, "heads": 8},
    {"batch": 2, "tokens": 6, "width": 16, "heads": 2},
)


def _width(sizes: Sizes) -> dict[str, int]:
    return {"WIDTH": sizes["width"]}


def _block(sizes: Sizes) -> dict[str, int]:
    return {"WIDTH": sizes["width"], "HEADS": sizes["heads"]}


def _attention(name: str, tokens: int, entry: str, products: int, ratio: float) -> Case:
    sizes = {"heads": 8, "tokens": tokens, "depth": 64}
    return Case(
        name, entry, "attention.dfg", entry, sizes, {"heads": 2, "tokens": 7, "depth": 8}, _attention_data,
        lambda sizes: _attention_work(sizes, products), "fma", Target(ratio=ratio, share=0.85), 1e-4,
    )  # fmt: skip


SEQUENCES = [
    Case(
        "lstm", "lstm", "stacked_lstm.dfg", "forward", _LSTM, _SMALL_LSTM, _lstm_data,
        lambda sizes: _lstm_work(sizes, 1), "fma", Target(ratio=1.25, share=0.85), 1e-4, _width,
    ),
    Case(
        "lstm_train", "lstm_train", "stacked_lstm.dfg", "gradients", _LSTM, _SMALL_LSTM, _lstm_data,
        lambda sizes: _lstm_work(sizes, 3), "fma", Target(ratio=1.4, share=0.85), 1e-3, _width,
    ),
    Case(
        "xf", "xf", "encoder.dfg", "forward", _XF, _SMALL_XF, _xf_data,
        lambda sizes: _xf_work(sizes, 1), "fma", Target(ratio=1.1, share=0.85), 1e-4, _block,
    ),
    Case(
        "xf_train", "xf_train", "encoder.dfg", "gradients", _XF, _SMALL_XF, _xf_data,
        lambda sizes: _xf_work(sizes, 3), "fma", Target(ratio=1.2, share=0.85), 1e-3, _block,
    ),
    _attention("attention_1024", 1024, "attention", 2, 1.2),
    _attention("attention_4096", 4096, "attention", 2, 1.2),
    _attention("attention_1024_train", 1024, "attention_train", 7, 1.2),
    _attention("attention_4096_train", 4096, "attention_train", 7, 1.2),
]  # fmt: skip
"""Gradients take twice the products that going forward does, and go forward first."""
