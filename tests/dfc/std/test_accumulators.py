"""Accumulators of gradients: averages of so many, none of an older version, and workers in step."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from tests.support.corpus import ROOT
from tests.support.pipelines import eventually, loaded

TEXT = """
from std.accumulators import Accumulator
var w: f64[2, 3] = 1
var sums = Accumulator(w, 3)
entry pull() -> (w: f64[2, 3], stamp: i64) with concurrent = true {
  let now, stamp = sums.pull()
  return now, stamp
}
entry add(x: f64[2, 3], stamp: i64) with concurrent = true { sums.add(x, stamp) }
entry apply(rate: f64) with concurrent = true { sums.apply(rate) }
"""
RNG = np.random.default_rng(4)


def test_an_average_of_so_many_is_applied_and_what_comes_late_is_dropped() -> None:
    model = loaded(TEXT)
    w, gradients = np.ones((2, 3)), RNG.random((8, 2, 3))
    for gradient in gradients[:3]:
        model.add(gradient, 0)
    model.add(gradients[3], 0)  # complete already, though not applied yet
    model.apply(0.5)
    w -= 0.5 * (gradients[0] + gradients[1] + gradients[2]) / 3
    now = model.pull()
    np.testing.assert_array_equal(now.w, w)
    assert now.stamp == 1
    for gradient, stamp in zip(gradients[4:], (1, 0, 1, 1), strict=True):
        model.add(gradient, stamp)
    model.apply(2.0)
    w -= 2.0 * (gradients[4] + gradients[6] + gradients[7]) / 3
    np.testing.assert_array_equal(model.pull().w, w)
    assert (int(model.state["sums.dropped"]), int(model.pull().stamp)) == (2, 2)


def test_a_checkpoint_has_what_is_added_up_and_what_is_not_yet_applied(tmp_path: Path) -> None:
    model, gradients = loaded(TEXT), RNG.random((6, 2, 3))
    for gradient in gradients[:3]:
        model.add(gradient, 0)
    model.save(tmp_path / "complete")
    model.apply(0.5)
    for gradient in gradients[3:5]:
        model.add(gradient, 1)
    model.save(tmp_path / "in part")
    again = loaded(TEXT)
    again.restore(tmp_path / "complete")
    again.apply(0.5)
    np.testing.assert_array_equal(again.pull().w, model.pull().w)
    again.restore(tmp_path / "in part")
    for each in (model, again):
        each.add(gradients[5], 1)
        each.apply(0.25)
    w = np.ones((2, 3)) - 0.5 * (gradients[0] + gradients[1] + gradients[2]) / 3
    w -= 0.25 * (gradients[3] + gradients[4] + gradients[5]) / 3
    np.testing.assert_array_equal(model.pull().w, w)
    np.testing.assert_array_equal(again.pull().w, w)


def test_applying_waits_for_the_last_gradient() -> None:
    model = loaded(TEXT)
    applying = threading.Thread(target=model.apply, args=(1.0,))
    applying.start()
    model.add(np.ones((2, 3)), 0)
    model.add(np.ones((2, 3)), 0)
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None and each.queue == "sums.averages" for each in queues.calls()))
    assert model.pull().stamp == 0
    model.add(np.ones((2, 3)), 0)
    applying.join()
    np.testing.assert_array_equal(model.pull().w, np.zeros((2, 3)))


def test_workers_of_the_sample_are_in_step_and_train_as_one_would() -> None:
    """Three threads against gradient descent on the mean of their losses, in NumPy."""
    steps = 9
    model = loaded((ROOT / "samples" / "synchronous.dfg").read_text(encoding="utf-8").removeprefix("dfg 1\n"))
    images = RNG.random((steps, 3, 8, 64)).astype(np.float32)
    labels = RNG.integers(0, 10, (steps, 3, 8)).astype(np.int32)
    versions: list[list[int]] = [[], [], []]

    def work(number: int) -> None:
        for step in range(steps):
            done = model.work(images=images[step, number], labels=labels[step, number])
            versions[number].append(int(done.version))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [list(range(steps))] * 3
    w, b = np.zeros((64, 10)), np.zeros(10)
    for step in range(steps):
        x, y = images[step].reshape(24, 64).astype(np.float64), labels[step].reshape(24)
        scores = np.exp(x @ w + b)
        error = (scores / scores.sum(axis=1, keepdims=True) - np.eye(10)[y]) / 24
        w, b = w - 0.5 * x.T @ error, b - 0.5 * error.sum(axis=0)
    np.testing.assert_allclose(model.state["w"], w, rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.state["b"], b, rtol=0, atol=1e-5)
    assert int(model.state["for_w.dropped"]) == 0
    model.close()
