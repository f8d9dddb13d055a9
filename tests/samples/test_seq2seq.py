"""The sample that translates: a padded batch costs what its numbers cost one by one, and it learns."""

from __future__ import annotations

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.reader.reading import read_source
from tests.support.corpus import ROOT

BATCH, END, BEGIN = 64, 7, 8
State = dict[str, np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def cell(state: State, name: str, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gates = np.concatenate([x, h]) @ state[f"{name}.w"] + state[f"{name}.b"]
    enter, forget, value, leave = np.split(gates, 4)
    c = sigmoid(forget + 1) * c + sigmoid(enter) * np.tanh(value)
    return sigmoid(leave) * np.tanh(c), c


def read(state: State, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = c = np.zeros(state["output.w"].shape[0])
    for digit in digits:
        h, c = cell(state, "encoder", state["digit_vectors.table"][digit], h, c)
    return h, c


def loss_of(state: State, pairs: list[Pair]) -> float:
    """The mean over all letters, number by number."""
    losses: list[float] = []
    for digits, letters in pairs:
        h, c = read(state, digits)
        for before, letter in zip([BEGIN, *letters[:-1]], letters, strict=True):
            h, c = cell(state, "decoder", state["letter_vectors.table"][before], h, c)
            scores = h @ state["output.w"] + state["output.b"]
            losses.append(np.log(np.exp(scores).sum()) - scores[letter])
    return float(np.mean(losses))


def batch(generator: np.random.Generator) -> list[Pair]:
    """Of the bucket from 9 to 10 letters; one to four digits."""
    pairs: list[Pair] = []
    for _ in range(BATCH):
        digits = generator.integers(0, 10, generator.integers(1, 5), np.int32)
        letters = generator.integers(0, 7, generator.integers(8, 10), np.int32)
        pairs.append((digits, np.append(letters, np.int32(END))))
    return pairs


def doubled(model: dfc_runtime.Module) -> State:
    return {name: np.asarray(value, np.float64) for name, value in model.state.items() if name != "numbers"}


@pytest.fixture(scope="module")
def bundle() -> bytes:
    source = read_source(ROOT / "samples" / "seq2seq.dfg")
    assert api.check(source, {}) == []
    return api.compile_source(source, CompileOptions()).to_bytes()


def test_a_padded_batch_has_the_loss_of_its_numbers_and_is_learnt(bundle: bytes) -> None:
    model = dfc_runtime.loads(bundle, threads=1)
    pairs = batch(np.random.default_rng(2))
    losses: list[float] = []
    for _ in range(12):
        expected = loss_of(doubled(model), pairs) if len(losses) in (0, 11) else None
        for digits, letters in pairs:
            model.feed(digits=digits, letters=letters)
        found = model.train()
        losses.append(float(found.loss))
        if expected is not None:
            np.testing.assert_allclose(losses[-1], expected, rtol=1e-5)
    letters = sum(len(each) for _, each in pairs)
    np.testing.assert_allclose(found.padding, 1 - letters / (BATCH * 10), rtol=1e-5)
    assert losses[-1] < 0.95 * losses[0]


def test_what_is_written_does_not_depend_on_what_pads_a_number(bundle: bytes) -> None:
    """Each letter is the likeliest one after those before it."""
    model = dfc_runtime.loads(bundle, threads=1)
    state = doubled(model)
    numbers = [np.array(digits) for digits in ([4], [1, 9], [2, 0, 4, 8])]
    padded = np.array([np.pad(each, (0, 4 - len(each)), constant_values=3) for each in numbers], np.int32)
    written = model.write(digits=padded, length=np.array([1, 2, 4])).letters
    for row, digits in zip(written, numbers, strict=True):
        h, c = read(state, digits)
        before = BEGIN
        for letter in row[:6]:
            h, c = cell(state, "decoder", state["letter_vectors.table"][before], h, c)
            scores = h @ state["output.w"] + state["output.b"]
            assert scores[letter] > scores.max() - 1e-5
            before = int(letter)
