"""The convnet of the language's examples: its training step, statistics and predictions equal NumPy's; what it records
and saves."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from dfc_runtime import CheckpointError, Module
from dfc_runtime.observe.summaries import Histogram
from tests.support.convnet import PARAMETERS, STATISTICS, ConvNet
from tests.support.corpus import ROOT
from tests.support.perceptron import assert_within_rounding

PROGRAM = ROOT / "samples" / "language" / "02_convnet_batchnorm.dfg"


@cache
def bundle() -> bytes:
    return api.compile(PROGRAM).to_bytes()


def loaded() -> Module:
    return dfc_runtime.loads(bundle(), threads=2)


def batch(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((size, 28, 28, 1), np.float32), rng.integers(0, 10, size, np.int32)


@cache
def doubled() -> bytes:
    """The program with the layers that it imports written into it, all of it in double precision."""
    layers = (ROOT / "dfc" / "std" / "nn.dfg").read_text().removeprefix("dfg 1")
    text = PROGRAM.read_text().replace("from std.nn import BatchNorm, Conv2d, Dense\n", "")
    assert "std.nn" not in text
    return api.compile(text=(text + layers).replace("f32", "f64")).to_bytes()


def test_training_in_double_precision_equals_numpy() -> None:
    model = dfc_runtime.loads(doubled(), threads=2)
    exact = ConvNet.of(model.state, np.float64)
    for step, size in enumerate((3, 1, 4)):
        images, labels = batch(size, step)
        found = model.train(images=images.astype(np.float64), labels=labels).loss
        np.testing.assert_allclose(found, exact.train(images, labels), rtol=1e-9)
    assert model.state["steps"] == 3
    for name in (*PARAMETERS, *STATISTICS):
        np.testing.assert_allclose(model.state[f"net.{name}"], exact.values[name], rtol=1e-7, atol=1e-10)
    for name in PARAMETERS:
        np.testing.assert_allclose(model.state[f"sgd.slots[net.{name}].v"], exact.moves[name], rtol=1e-7, atol=1e-10)


def test_the_loss_in_single_precision_equals_numpy() -> None:
    model = loaded()
    exact, rounded = ConvNet.of(model.state, np.float64), ConvNet.of(model.state, np.float32)
    images, labels = batch(4, 0)
    found = model.train(images=images, labels=labels).loss
    wanted, other = exact.train(images, labels), rounded.train(images, labels)
    assert_within_rounding(np.float32(found), np.float64(wanted), np.float32(other))


def test_predictions_use_the_statistics_of_training_and_leave_them_alone() -> None:
    model = loaded()
    for step in range(3):
        model.train(*batch(4, step))
    before = {name: value.copy() for name, value in model.state.items()}
    images, labels = batch(6, 9)
    exact = ConvNet.of(model.state, np.float64).logits(images)
    rounded = ConvNet.of(model.state, np.float32).logits(images)
    loss, accuracy = model.evaluate(images=images, labels=labels)
    np.testing.assert_array_equal(model.predict(images=images).digit, exact.argmax(1))
    assert accuracy == np.float32((exact.argmax(1) == labels).mean())

    def cost(logits: np.ndarray) -> np.ndarray:
        return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(6), labels])

    assert_within_rounding(np.float32(loss), cost(exact), cost(rounded))
    for name, value in before.items():
        np.testing.assert_array_equal(model.state[name], value)


def test_every_hundredth_step_is_recorded() -> None:
    model = loaded()
    model.state["steps"] = 98
    losses = [model.train(*batch(2, step)).loss for step in range(4)]
    assert [(event.step, event.tag) for event in model.summaries] == [(1, "loss"), (1, "logits")]
    loss, logits = model.summaries
    assert loss.value == losses[1]
    assert isinstance(logits.value, Histogram)
    assert (logits.value.count, sum(logits.value.counts), logits.value.not_finite) == (20, 20, 0)
    assert logits.value.minimum < 0 < logits.value.maximum


def test_the_entries_save_and_restore_where_they_are_told(tmp_path: Path) -> None:
    model, other = loaded(), loaded()
    model.train(*batch(3, 0))
    model.save(path=str(tmp_path / "trained"))
    other.restore(path=str(tmp_path / "trained"))
    for each in (model, other):
        each.train(*batch(3, 1))
    for name, value in model.state.items():
        assert value.tobytes() == other.state[name].tobytes(), name
    with pytest.raises(CheckpointError):
        other.restore(path=str(tmp_path / "absent"))
    assert other.state["steps"] == 2
