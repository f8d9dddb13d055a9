"""The metrics of `std.metrics` equal NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np

import dfc
import dfc_runtime

TEXT = """dfg 1
from std.metrics import RunningMean, accuracy, confusion, f1_score, precision, r2_score, recall, top_k_accuracy
from std.metrics import mean_absolute_error, mean_squared_error
var average = RunningMean()
readonly entry ranks[B](scores: f32[B, 5], labels: i32[B]) -> (first: f32, within: f32) {
  return accuracy(scores, labels), top_k_accuracy(scores, labels, 3)
}
readonly entry classes[B](labels: i32[B], guesses: i32[B])
    -> (counts: f32[4, 4], precision: f32[4], recall: f32[4], f1: f32[4]) {
  let counts = confusion(labels, guesses, 4)
  return counts, precision(counts), recall(counts), f1_score(counts)
}
readonly entry errors[B](guess: f64[B], truth: f64[B]) -> (square: f64, size: f64, r2: f64) {
  return mean_squared_error(guess, truth), mean_absolute_error(guess, truth), r2_score(guess, truth)
}
entry add[B](x: f32[B, 2]) -> f64 {
  average.add(x)
  return average.value()
}
entry clear() { average.clear() }
"""
RNG = np.random.default_rng(11)


@cache
def model() -> dfc_runtime.Module:
    return dfc_runtime.loads(dfc.compile(text=TEXT).to_bytes(), threads=1)


def test_accuracy_counts_the_labels_among_the_best() -> None:
    scores, labels = RNG.random((60, 5), np.float32), RNG.integers(0, 5, 60, np.int32)
    order = np.argsort(-scores, axis=1)
    found = model().ranks(scores=scores, labels=labels)
    np.testing.assert_allclose(found.first, (order[:, 0] == labels).mean(), rtol=1e-6)
    np.testing.assert_allclose(found.within, (order[:, :3] == labels[:, None]).any(1).mean(), rtol=1e-6)
    assert 0 < found.first < found.within < 1


def test_classes_are_confused_as_in_numpy() -> None:
    labels, guesses = RNG.integers(0, 3, 80, np.int32), RNG.integers(0, 3, 80, np.int32)
    guesses[0] = 3
    counts = np.zeros((4, 4))
    np.add.at(counts, (labels, guesses), 1)
    found = model().classes(labels=labels, guesses=guesses)
    np.testing.assert_array_equal(found.counts, counts)
    right = np.diag(counts)
    precision, recall = right / counts.sum(0), right / np.maximum(counts.sum(1), 1)
    np.testing.assert_allclose(found.precision, precision, rtol=1e-6)
    np.testing.assert_allclose(found.recall, recall, rtol=1e-6)
    expected = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    np.testing.assert_allclose(found.f1, expected, rtol=1e-6)
    assert found.recall[3] == 0, "there is no member of this class"


def test_errors_of_numbers() -> None:
    truth = RNG.normal(size=50)
    guess = truth + RNG.normal(size=50) / 3
    found = model().errors(guess=guess, truth=truth)
    np.testing.assert_allclose(found.square, ((guess - truth) ** 2).mean(), rtol=1e-12)
    np.testing.assert_allclose(found.size, np.abs(guess - truth).mean(), rtol=1e-12)
    np.testing.assert_allclose(found.r2, 1 - ((guess - truth) ** 2).mean() / truth.var(), rtol=1e-12)


def test_a_running_mean_is_that_of_all_numbers_since_it_was_cleared() -> None:
    parts = [RNG.random((n, 2), np.float32) for n in (3, 1, 7)]
    model().clear()
    for k, part in enumerate(parts):
        seen = np.concatenate(parts[: k + 1]).astype(np.float64)
        np.testing.assert_allclose(model().add(x=part), seen.mean(), rtol=1e-14)
    model().clear()
    np.testing.assert_allclose(model().add(x=parts[0]), parts[0].astype(np.float64).mean(), rtol=1e-14)
