"""The initialisers of `std.init`: variance and range as their formulas say, one stream for each variable."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime

FILLS = {
    "xavier_uniform": ("xavier_uniform(200, 100)", 2 / 300, True),
    "xavier_normal": ("xavier_normal(200, 100)", 2 / 300, False),
    "he_uniform": ("he_uniform(200)", 2 / 200, True),
    "kaiming_normal": ("kaiming_normal(200)", 2 / 200, False),
    "lecun_uniform": ("lecun_uniform(200)", 1 / 200, True),
    "lecun_normal": ("lecun_normal(200)", 1 / 200, False),
}


def state(text: str) -> dict[str, np.ndarray]:
    return dict(dfc_runtime.loads(dfc.compile(text="dfg 1\n" + text).to_bytes(), threads=1).state)


@cache
def filled(t: str) -> dict[str, np.ndarray]:
    lines = [f"from std.init import {', '.join(FILLS)}"]
    lines += [f"param my_{name}: {t}[200, 100] = {call}" for name, (call, _, _) in FILLS.items()]
    return state("\n".join(lines) + "\n")


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("name", FILLS)
def test_the_variance_is_that_of_the_formula(name: str, t: str) -> None:
    _, variance, uniform = FILLS[name]
    x = filled(t)[f"my_{name}"]
    assert str(x.dtype) == t.replace("f", "float")
    assert abs(x.mean()) < 4 * np.sqrt(variance / x.size)
    np.testing.assert_allclose(x.var(), variance, rtol=0.05)
    largest = np.abs(x).max() / np.sqrt(variance)
    assert (0.999 * np.sqrt(3) < largest <= np.sqrt(3) * 1.000001) if uniform else largest > 3.5


def test_variables_differ_and_lines_can_move() -> None:
    head = "from std.init import lecun_normal\n"
    lines = ["param a: f32[3, 4] = lecun_normal(3)\n", "param b: f32[3, 4] = lecun_normal(3)\n"]
    one, two = state(head + lines[0] + lines[1]), state(head + lines[1] + lines[0])
    assert (one["a"] != one["b"]).all()
    for name in "ab":
        np.testing.assert_array_equal(one[name], two[name])


def test_an_initialiser_fills_the_variables_of_a_block() -> None:
    text = """
    from std.init import constant, he_uniform
    block Layer[I, O] {
      param w: f32[I, O] = he_uniform(I)
      param b: f32[O] = constant(0.5)
    }
    var first = Layer[3, 50]()
    var second = Layer[3, 50]()
    """
    found = state(text)
    assert (found["first.b"] == 0.5).all()
    assert np.abs(found["first.w"]).max() <= np.sqrt(2)
    assert (found["first.w"] != found["second.w"]).any()


@pytest.mark.parametrize("size", ["5, 5", "40, 7", "1, 1"])
def test_orthogonal_columns_are_orthonormal(size: str) -> None:
    q = state(f"from std.init import orthogonal\nparam q: f64[{size}] = orthogonal()\n")["q"]
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-13)


def test_a_random_initialiser_is_refused_outside_of_initial_values() -> None:
    body = "entry f() -> f32[3] {\n let x: f32[3] = lecun_normal(3)\n return x\n}\n"
    with pytest.raises(dfc.CompileError, match="E0407"):
        dfc.compile(text="dfg 1\nfrom std.init import lecun_normal\n" + body)
