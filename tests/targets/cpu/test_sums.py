"""The tree of a sum is a matter of its length: what is fused with it changes none of its bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
from dfc_runtime.module import Module
from tests.support.sweeping import few

COMPANIONS = {
    "checked": ("bool", "all(is_finite({x}), axis = 1)"),
    "wide": ("f64", "sum({x} as f64, axis = 1)"),
    "narrow": ("f16", "sum({x} as f16, axis = 1)"),
    "counted": ("i64", "sum(({x} > 0) as i64, axis = 1)"),
    "searched": ("i32", "argmax({x}, axis = 1)"),
    "costly": ("f32", "sum(sin(exp({x})) * tanh({x}), axis = 1)"),
    "costlier": ("f32", "sum(sin({x}) * cos({x}) * exp({x}) * log(abs({x})) * erf({x}) * tanh({x}), axis = 1)"),
    "product": ("f32", "prod({x}, axis = 1)"),
}
TERMS = {"plain": "x", "terms": "(x * 1.5 + y)", "exponents": "(exp(x) * y)"}
PAIRS = [(term, name) for term in TERMS for name in (COMPANIONS if term == "plain" else few(COMPANIONS, 3))]
SIZES = ((3, 5), (3, 63), (4, 64), (2, 1000), (3, 5000))


@cache
def model() -> Module:
    lines = ["dfg 1\n"]
    for term, text in TERMS.items():
        head = "[R, C](x: f32[R, C], y: f32[R, C]) -> (total: f32[R]"
        lines.append(f"readonly entry {term}{head}) {{\n  return sum({text}, axis = 1)\n}}")
        for name in [name for other, name in PAIRS if other == term]:
            kind, companion = COMPANIONS[name]
            beside = companion.format(x=text)
            lines.append(f"readonly entry {term}_{name}{head}, beside: {kind}[R]) {{")
            lines.append(f"  return sum({text}, axis = 1), {beside}\n}}")
    return dfc.loads(dfc.compile(text="\n".join(lines) + "\n").to_bytes(), threads=1)


@pytest.mark.parametrize(("term", "companion"), PAIRS)
def test_a_sum_has_its_bits_whatever_is_fused_with_it(term: str, companion: str) -> None:
    numbers = np.random.default_rng(1)
    for size in SIZES:
        x, y = (numbers.standard_normal(size).astype(np.float32) for _ in range(2))
        alone = model().entries[term](x=x, y=y)
        beside = model().entries[f"{term}_{companion}"](x=x, y=y)
        np.testing.assert_array_equal(alone[0], beside[0], err_msg=f"{size}")
