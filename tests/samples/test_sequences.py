"""The samples that read sequences, compiled: forward as in NumPy, and they learn what they are shown."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime import Module
from tests.support.sample_tests import SAMPLES, passing_bundle
from tests.support.sweeping import WHOLE, few


@cache
def bundle(program: str, **settings: int) -> bytes:
    path = SAMPLES / program
    return dfc.compile(path, settings=settings).to_bytes() if settings else passing_bundle(path)


def loaded(program: str, **settings: int) -> Module:
    return dfc_runtime.loads(bundle(program, **settings), threads=1)


def narrow_lstm() -> Module:
    return loaded("lstm.dfg", WIDTH=8)


def sonnets() -> tuple[np.ndarray, np.ndarray]:
    with np.load(SAMPLES / "data" / "sonnets.npz") as data:
        return data["inputs"], data["targets"]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_loss(state: dict[str, np.ndarray], text: np.ndarray, following: np.ndarray) -> float:
    width = state["output.w"].shape[0]
    h, c = np.zeros((len(text), width)), np.zeros((len(text), width))
    losses = []
    for k in range(text.shape[1]):
        x = state["letters.table"][text[:, k]]
        gates = np.concatenate([x, h], axis=1) @ state["cell.w"] + state["cell.b"]
        enter, forget, value, leave = np.split(gates, 4, axis=1)
        c = sigmoid(forget + 1) * c + sigmoid(enter) * np.tanh(value)
        h = sigmoid(leave) * np.tanh(c)
        scores = h @ state["output.w"] + state["output.b"]
        losses.append(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(text)), following[:, k]])
    return float(np.mean(losses))


def doubled(model: Module) -> dict[str, np.ndarray]:
    return {name: np.asarray(value, np.float64) for name, value in model.state.items()}


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 40), (7, 13)])
def test_the_lstm_reads_texts_of_any_length_as_numpy(batch: int, length: int) -> None:
    text, following = sonnets()
    model = narrow_lstm()
    found = model.evaluate(text=text[:batch, :length], following=following[:batch, :length])
    wanted = lstm_loss(doubled(model), text[:batch, :length], following[:batch, :length])
    np.testing.assert_allclose(found.loss, wanted, rtol=1e-5)


def test_the_lstm_learns_a_text_by_heart() -> None:
    text, following = sonnets()
    model = loaded("lstm.dfg")
    first = model.train(text=text, following=following)
    np.testing.assert_allclose(first.loss, np.log(27), rtol=0.05)
    passes, most = (30, 1.6) if WHOLE else (16, 2.1)
    for _ in range(passes):
        for k in range(0, len(text), 10):
            model.train(text=text[k : k + 10], following=following[k : k + 10])
    found = model.evaluate(text=text, following=following).loss
    assert found < most
    np.testing.assert_allclose(found, lstm_loss(doubled(model), text, following), rtol=1e-4)
    letters = model.write(first=1, N=50).text
    assert letters.shape == (50,)
    assert ((letters >= 0) & (letters < 27)).all()
    assert len(set(letters.tolist())) > 4


def test_the_gradient_through_the_loop_equals_differences() -> None:
    """The first step of Adam moves each weight by the rate, against the sign of its gradient."""
    text, following = (x[:4, :9] for x in sonnets())
    model = narrow_lstm()
    before = doubled(model)
    model.train(text=text, following=following)
    after = doubled(model)
    moved = after["cell.w"] - before["cell.w"]
    checked = 0
    for row, column in few(np.ndindex(moved.shape), 171):
        step = np.zeros_like(moved)
        step[row, column] = 1e-5
        high = lstm_loss({**before, "cell.w": before["cell.w"] + step}, text, following)
        low = lstm_loss({**before, "cell.w": before["cell.w"] - step}, text, following)
        slope = (high - low) / 2e-5
        if abs(slope) > 1e-4:
            assert np.sign(moved[row, column]) == -np.sign(slope)
            checked += 1
    assert checked > 30


def test_the_transformer_learns_to_sort() -> None:
    model = loaded("transformer.dfg")
    assert model.train(steps=1, B=64).loss > 2
    model.train(steps=350 if WHOLE else 150, B=64)
    lists = np.random.default_rng(3).integers(0, 10, (200, 6), np.int32)
    found = model.sort_(x=lists).sorted
    assert (found == np.sort(lists, axis=1)).mean() > 0.98
