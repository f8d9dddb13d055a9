"""The perceptrons among the samples train as their transcription in NumPy does; one bundle takes every batch size."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from dfc_runtime import Module
from tests.support.corpus import ROOT
from tests.support.perceptron import Perceptron, assert_within_rounding

SAMPLES = ROOT / "samples"
NAMES = {
    "language/01_mlp_digits.dfg": ("w1", "b1", "w2", "b2"),
    "digits.dfg": ("hidden.w", "hidden.b", "output.w", "output.b"),
}
PIXELS = {"language/01_mlp_digits.dfg": 784, "digits.dfg": 64}
BATCHES = (1, 7, 32, 1000)
programs = pytest.mark.parametrize("program", sorted(NAMES))


@cache
def bundle(program: str) -> bytes:
    return api.compile(SAMPLES / program).to_bytes()


def loaded(program: str, threads: int = 1) -> Module:
    return dfc_runtime.loads(bundle(program), threads=threads)


def weights(program: str, model: Module) -> tuple[np.ndarray, ...]:
    return tuple(model.state[name] for name in NAMES[program])


def batch(program: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images with labels."""
    rng = np.random.default_rng(seed)
    return rng.random((size, PIXELS[program]), np.float32), rng.integers(0, 10, size, np.int32)


@programs
@pytest.mark.parametrize("size", BATCHES)
def test_training_equals_numpy_for_every_batch_size(program: str, size: int) -> None:
    model = loaded(program)
    exact = Perceptron.of(weights(program, model), np.float64)
    rounded = Perceptron.of(weights(program, model), np.float32)
    for step in range(6):
        images, labels = batch(program, size, seed=step)
        found = model.train(images=images, labels=labels, rate=0.05)
        wanted, other = exact.train(images, labels, 0.05), rounded.train(images, labels, 0.05)
        assert_within_rounding(np.float32(found.loss), np.float64(wanted[0]), np.float32(other[0]))
        assert found.accuracy == np.float32(wanted[1])
    assert model.state["steps"] == 6
    for tensor, one, two in zip(weights(program, model), exact.tensors(), rounded.tensors(), strict=True):
        assert_within_rounding(tensor, one, two)


@programs
def test_one_bundle_takes_batches_of_changing_size(program: str) -> None:
    model = loaded(program, threads=2)
    exact = Perceptron.of(weights(program, model), np.float64)
    rounded = Perceptron.of(weights(program, model), np.float32)
    for step, size in enumerate((32, 1, 7, 1000, 32, 1, 1000, 7)):
        images, labels = batch(program, size, seed=step)
        model.train(images=images, labels=labels, rate=0.05)
        exact.train(images, labels, 0.05)
        rounded.train(images, labels, 0.05)
    for tensor, one, two in zip(weights(program, model), exact.tensors(), rounded.tensors(), strict=True):
        assert_within_rounding(tensor, one, two)


@programs
@pytest.mark.parametrize("size", BATCHES)
def test_predictions_equal_numpy(program: str, size: int) -> None:
    model = loaded(program)
    images, _ = batch(program, size, seed=size)
    digit, chance = model.predict(images=images)
    exact = Perceptron.of(weights(program, model), np.float64).chances(images)
    rounded = Perceptron.of(weights(program, model), np.float32).chances(images)
    assert digit.dtype == np.int32
    sure = np.sort(exact, axis=1)[:, -1] - np.sort(exact, axis=1)[:, -2] > 1e-5
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(digit[sure], exact.argmax(axis=1)[sure])
    assert_within_rounding(chance, exact.max(axis=1), rounded.max(axis=1))


@programs
def test_no_bit_depends_on_the_number_of_threads(program: str) -> None:
    models = [loaded(program, threads) for threads in (1, 2)]
    for step, size in enumerate((1, 7, 32, 1000)):
        images, labels = batch(program, size, seed=step)
        one, two = (np.float32(model.train(images=images, labels=labels, rate=0.05)) for model in models)
        assert one.tobytes() == two.tobytes()
    for one, two in zip(*(weights(program, model) for model in models), strict=True):
        assert one.tobytes() == two.tobytes()


@programs
def test_weights_begin_small_and_spread_and_biases_at_zero(program: str) -> None:
    for tensor in weights(program, loaded(program)):
        if tensor.ndim == 1:
            assert not tensor.any()
            continue
        limit = np.sqrt(6 / sum(tensor.shape))
        assert np.abs(tensor).max() <= limit
        assert np.abs(tensor).max() > 0.99 * limit
        assert abs(tensor.mean()) < 4 * limit / np.sqrt(3 * tensor.size)


def test_digits_evaluates_as_numpy_on_the_held_out_images() -> None:
    with np.load(SAMPLES / "data" / "digits.npz") as data:
        images, labels = data["test_images"], data["test_labels"]
    model = loaded("digits.dfg")
    found = model.evaluate(images=images, labels=labels)
    tensors = weights("digits.dfg", model)
    wanted = Perceptron.of(tensors, np.float64).train(images, labels, 0)
    other = Perceptron.of(tensors, np.float32).train(images, labels, 0)
    assert_within_rounding(np.float32(found.loss), np.float64(wanted[0]), np.float32(other[0]))
    assert found.accuracy == np.float32(wanted[1])


def test_a_setting_makes_another_width() -> None:
    model = dfc_runtime.loads(api.compile(SAMPLES / "digits.dfg", settings={"HIDDEN": 16}).to_bytes())
    assert model.state["hidden.w"].shape == (64, 16)
    images, labels = batch("digits.dfg", 5, seed=1)
    exact = Perceptron.of(weights("digits.dfg", model), np.float64)
    assert abs(model.train(images=images, labels=labels, rate=0.1).loss - exact.train(images, labels, 0.1)[0]) < 1e-5
