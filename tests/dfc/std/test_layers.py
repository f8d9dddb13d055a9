"""Layers of `std.nn` that look up, normalise, remember and drop, compiled, against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
import dfc_runtime

RNG = np.random.default_rng(8)


def loaded(text: str) -> dfc_runtime.Module:
    return dfc_runtime.loads(dfc.compile(text="dfg 1\n" + text).to_bytes(), threads=1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_an_embedding_looks_up_rows_and_trains_only_these() -> None:
    model = loaded(
        "from std.nn import Embedding\nvar words = Embedding[7, 3]()\n"
        "readonly entry look[B](ids: i32[B, 2]) -> f32[B, 2, 3] { return words(ids) }\n"
        "entry train(ids: i32[4]) {\n let g = grad(sum(words(ids)), words.table)\n words.table -= g\n}\n"
    )
    table = model.state["words.table"].copy()
    assert 0 < np.abs(table).max() <= 0.05
    ids = np.array([[6, 0], [2, 2]], np.int32)
    np.testing.assert_array_equal(model.look(ids=ids), table[ids])
    model.train(ids=np.array([1, 1, 5, 1], np.int32))
    table[1] -= 3
    table[5] -= 1
    np.testing.assert_allclose(model.state["words.table"], table, rtol=1e-6)


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    model = loaded(
        "from std.nn import RmsNorm\nvar norm = RmsNorm[6]()\n"
        "readonly entry f[B](x: f32[B, 2, 6]) -> f32[B, 2, 6] { return norm(x) }\n"
    )
    x = RNG.normal(size=(3, 2, 6)).astype(np.float32)
    wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(model.f(x=x), wanted, rtol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_normalises_channels_together(groups: int) -> None:
    model = loaded(
        f"from std.nn import GroupNorm\nvar norm = GroupNorm[6](groups = {groups})\n"
        "readonly entry f[B](x: f32[B, 4, 3, 6]) -> f32[B, 4, 3, 6] { return norm(x) }\n"
    )
    x = RNG.normal(2, 3, size=(2, 4, 3, 6)).astype(np.float32)
    parts = x.astype(np.float64).reshape(2, 12, groups, 6 // groups)
    center, spread = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    wanted = ((parts - center) / np.sqrt(spread + 1e-5)).reshape(x.shape)
    np.testing.assert_allclose(model.f(x=x), wanted, rtol=1e-4, atol=1e-5)


def test_group_norm_wants_groups_of_equal_size() -> None:
    head = "from std.nn import GroupNorm\nvar norm = GroupNorm[6](groups = 4)\n"
    with pytest.raises(dfc.CompileError, match="groups == 0"):
        loaded(head + "entry f(x: f32[1, 1, 1, 6]) { let y = norm(x) }\n")


def test_a_gru_cell_takes_one_step() -> None:
    model = loaded(
        "from std.nn import GruCell\nvar cell = GruCell[2, 3]()\n"
        "readonly entry f[B](x: f32[B, 2], h: f32[B, 3]) -> f32[B, 3] { return cell(x, h) }\n"
    )
    x, h = (RNG.normal(size=(4, n)).astype(np.float32) for n in (2, 3))
    from_x = np.split(x @ model.state["cell.wx"] + model.state["cell.b"], 3, axis=1)
    from_h = np.split(h @ model.state["cell.wh"], 3, axis=1)
    keep, reset = sigmoid(from_x[0] + from_h[0]), sigmoid(from_x[1] + from_h[1])
    wanted = keep * h + (1 - keep) * np.tanh(from_x[2] + reset * from_h[2])
    np.testing.assert_allclose(model.f(x=x, h=h), wanted, rtol=1e-5, atol=1e-6)


def test_dropout_drops_other_values_each_time_and_none_outside_of_training() -> None:
    model = loaded(
        "from std.nn import Dropout\nvar drop = Dropout(share = 0.25, seed = 5)\n"
        "entry train(x: f32[8000]) -> f32[8000] {\n let y = drop(x, training = true)\n return y\n}\n"
        "readonly entry use(x: f32[8000]) -> f32[8000] { return drop(x, training = false) }\n"
    )
    x = np.ones(8000, np.float32)
    one, two = model.train(x=x), model.train(x=x)
    assert abs((one == 0).mean() - 0.25) < 0.02
    assert ((one == 0) != (two == 0)).mean() > 0.3
    np.testing.assert_allclose(one[one != 0], 1 / 0.75, rtol=1e-6)
    np.testing.assert_array_equal(model.use(x=x), x)
