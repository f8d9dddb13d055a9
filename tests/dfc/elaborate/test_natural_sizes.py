"""Programs that use sizes as people do, each as a function for any sizes and as an entry that is run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.building import graph_of, run

Case = tuple[str, str, str, str, Callable[[np.ndarray], np.ndarray], tuple[int, ...]]
# generic names, type of x, type of the result (and `where`), result, what NumPy makes of it, a shape to try
CASES: dict[str, Case] = {
    "pooling": (
        "N", "f32[N]", "f32[N // 2]", "max(reshape(x[:N // 2 * 2], [N // 2, 2]), axis = 1)",
        lambda x: x[: len(x) // 2 * 2].reshape(-1, 2).max(1), (7,),
    ),
    "flattening": (
        "B, H, W, C", "f32[B, H, W, C]", "f32[B, H * W * C]", "reshape(x, [B, H * W * C])",
        lambda x: x.reshape(len(x), -1), (2, 3, 4, 5),
    ),
    "heads": (
        "B, T, D", "f32[B, T, D]", "f32[B, 2, T, D // 2] where D % 2 == 0",
        "transpose(reshape(x, [B, T, 2, D // 2]), [0, 2, 1, 3])",
        lambda x: x.reshape(2, 3, 2, 2).transpose(0, 2, 1, 3), (2, 3, 4),
    ),
    "padding to a multiple": (
        "N", "f32[N]", "f32[ceil_div(N, 8) * 8]", "concat([x, zeros(f32[ceil_div(N, 8) * 8 - N])])",
        lambda x: np.pad(x, (0, -len(x) % 8)), (13,),
    ),
    "padding by a remainder": (
        "N", "f32[N]", "f32[ceil_div(N, 8) * 8]", "concat([x, zeros(f32[(8 - N % 8) % 8])])",
        lambda x: np.pad(x, (0, -len(x) % 8)), (16,),
    ),
    "cutting off a remainder": (
        "N", "f32[N]", "f32[N - N % 4]", "x[:N // 4 * 4]",
        lambda x: x[: len(x) // 4 * 4], (11,),
    ),
    "interleaving": (
        "N", "f32[N]", "f32[2 * N]", "reshape(stack([x, -x], axis = 1), [2 * N])",
        lambda x: np.stack([x, -x], 1).reshape(-1), (3,),
    ),
    "taking apart and together": (
        "N", "f32[N]", "f32[N]", "concat([x[::2], x[1::2]])",
        lambda x: np.concatenate([x[::2], x[1::2]]), (7,),
    ),
    "a batch cut in two": (
        "B, D", "f32[B, D]", "f32[B, D]", "concat([x[B // 2:], x[:B // 2]])",
        lambda x: np.concatenate([x[len(x) // 2 :], x[: len(x) // 2]]), (5, 2),
    ),
    "halving twice": (
        "N", "f32[N]", "f32[N // 4]", "x[:N // 2][:N // 2 // 2]",
        lambda x: x[: len(x) // 4], (11,),
    ),
    "strided twice": (
        "N", "f32[N]", "f32[ceil_div(N, 4)]", "x[::2][::2]",
        lambda x: x[::4], (11,),
    ),
    "windows behind each other": (
        "N", "f32[N]", "f32[(N - 3) // 2 + 1] where N >= 3", "x[:-2][::2]",
        lambda x: x[:-2][::2], (8,),
    ),
    "patches": (
        "H, W", "f32[H, W]", "f32[H // 2 * (W // 2), 4] where H % 2 == 0 and W % 2 == 0",
        "reshape(transpose(reshape(x, [H // 2, 2, W // 2, 2]), [0, 2, 1, 3]), [H // 2 * (W // 2), 4])",
        lambda x: x.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).reshape(6, 4), (4, 6),
    ),
    "a product that a promise gives": (
        "A, B, C, D, K", "f32[A * B, K]", "f32[C * D * K] where A * B == C * D", "reshape(x, [A * B * K])",
        lambda x: x.reshape(-1), (6, 2),
    ),
    "one more block": (
        "N", "f32[N + 4]", "f32[(ceil_div(N, 4) + 1) * 4]",
        "concat([x, zeros(f32[ceil_div(N + 4, 4) * 4 - N - 4])])",
        lambda x: np.pad(x, (0, -len(x) % 4)), (9,),
    ),
}  # fmt: skip
SIZES = {"a product that a promise gives": {"A": 2, "B": 3, "C": 1, "D": 6}, "one more block": {"N": 5}}


@pytest.mark.parametrize("name", CASES)
def test_sizes_fit_for_any_caller_and_in_a_run(name: str) -> None:
    names, given, gives, text, expected, shape = CASES[name]
    result, _, where = gives.partition(" where ")
    promise = f"where {where}" if where else ""
    program = f"""
        fn made[{names}](x: {given}) -> {result} {promise} = {text}
        readonly entry f[{names}](x: {given}) -> (y: {result}) {promise} {{ return {text} }}
    """
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(run(graph_of(program), "f", SIZES.get(name), x=x).result, expected(x))
