"""Language models of 2 and 12 layers: a training step with Adam, and one token more with the keys and values kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.cases.case import F32, Case, Data, Sizes, Target, Work, integers, normal, ones, zeros

RATE, BETA1, BETA2, ADAM_EPSILON = 3e-4, 0.9, 0.999, 1e-8
CACHES = ("keys", "values")


def _norm(name: str, width: int) -> dict[str, F32]:
    return {f"{name}.scale": ones(width), f"{name}.shift": zeros(width)}


def layer_state(name: str, width: int) -> dict[str, F32]:
    """What is trained of a layer, in the order of the program."""
    wide = 4 * width

    def matrix(part: str, rows: int, columns: int) -> dict[str, F32]:
        return {f"{name}.{part}": normal(f"{name}.{part}", rows, columns, scale=0.02)}

    return {
        **_norm(f"{name}.norm1", width),
        **matrix("to_qkv", width, 3 * width),
        f"{name}.qkv_bias": zeros(3 * width),
        **matrix("to_out", width, width),
        f"{name}.out_bias": zeros(width),
        **_norm(f"{name}.norm2", width),
        **matrix("to_wide", width, wide),
        f"{name}.wide_bias": zeros(wide),
        **matrix("to_narrow", wide, width),
        f"{name}.narrow_bias": zeros(width),
    }


def weights(sizes: Sizes) -> dict[str, F32]:
    """All that is trained."""
    width, words = sizes["width"], sizes["words"]
    state = {
        "words": normal("words", words, width, scale=0.02),
        "positions": normal("positions", sizes["tokens"], width, scale=0.02),
    }
    for number in range(1, sizes["layers"] + 1):
        state |= layer_state(f"layer{number}", width)
    return {**state, **_norm("norm", width), "to_words": normal("to_words", width, words, scale=0.02)}


def _train_data(sizes: Sizes) -> Data:
    shape = sizes["batch"], sizes["tokens"]
    names = ("tokens", "following")
    return Data({name: integers(name, sizes["words"], *shape) for name in names}, weights(sizes))


def _generate_data(sizes: Sizes) -> Data:
    """A token at three quarters of the text. What was in front of it is in the caches."""
    state = weights(sizes)
    shape = sizes["tokens"], sizes["heads"], sizes["width"] // sizes["heads"]
    for number in range(1, sizes["layers"] + 1):
        state |= {f"layer{number}.{cache}": normal(f"layer{number}.{cache}", *shape) for cache in CACHES}
    token, index = np.array(7, np.int32), np.array(3 * sizes["tokens"] // 4, np.int32)
    return Data({"token": token, "index": index}, state)


def _train_work(sizes: Sizes) -> Work:
    """Products, going forward and twice as much back; no more of attention than looking at what is in front needs."""
    width, tokens = sizes["width"], sizes["tokens"]
    layer = 12 * width * width + tokens * width
    return Work(flops=3 * 2.0 * sizes["batch"] * tokens * (sizes["layers"] * layer + width * sizes["words"]))


def _settings(sizes: Sizes) -> dict[str, int]:
    return {name.upper(): sizes[name] for name in ("tokens", "width", "heads", "words")}


def _cases(layers: int) -> Iterator[Case]:
    sizes = {"layers": layers, "tokens": 256, "width": 256, "heads": 4, "words": 4096, "batch": 8}
    small = {"tokens": 8, "width": 16, "heads": 2, "words": 30, "batch": 2}
    program = f"gpt_{layers}.dfg"
    seconds = 5.0 if layers == 12 else None
    yield Case(
        f"gpt_{layers}_train", "gpt_train", program, "train", sizes, small, _train_data, _train_work, "fma",
        Target(ratio=1.2, compile_seconds=seconds), 1e-3, _settings,
    )  # fmt: skip
    yield Case(
        f"gpt_{layers}_token", "gpt_token", program, "generate", sizes, small, _generate_data,
        target=Target(ratio=1.5, compile_seconds=seconds), tolerance=1e-4, settings=_settings,
    )  # fmt: skip


LANGUAGE = [*_cases(2), *_cases(12)]
