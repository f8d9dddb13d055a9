"""The run side with a real program: the digits sample, compiled for this machine."""

from __future__ import annotations

import os
import random
import signal
import threading
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime import Module
from dfc_runtime.checkpoints import store
from dfc_runtime.errors import FeedError, LimitError, RunError

SAMPLES = Path(__file__).parents[2] / "samples"


@cache
def bundle() -> bytes:
    return dfc.compile(SAMPLES / "digits.dfg").to_bytes()


@cache
def data() -> dict[str, np.ndarray]:
    with np.load(SAMPLES / "data" / "digits.npz") as file:
        return dict(file)


@pytest.fixture
def model() -> Module:
    return dfc_runtime.loads(bundle(), threads=2)


def train(model: Module, steps: int, batch: int = 32) -> None:
    images, labels = data()["train_images"], data()["train_labels"]
    for step in range(steps):
        part = slice(step * batch % 1400, step * batch % 1400 + batch)
        model.train(images=images[part], labels=labels[part], rate=0.1)


def bits(model: Module) -> bytes:
    return b"".join(np.asarray(model.state[name]).tobytes() for name in model.state)


def test_numbers_do_not_depend_on_threads_and_loading_starts_alike(model: Module) -> None:
    others = [dfc_runtime.loads(bundle(), threads=count) for count in (1, 3)]
    for each in (model, *others):
        train(each, 40)
    assert bits(model) == bits(others[0]) == bits(others[1])


def test_a_resumed_run_equals_one_that_was_never_stopped(tmp_path: Path, model: Module) -> None:
    train(model, 20)
    model.save(tmp_path)
    train(model, 20)
    resumed = dfc_runtime.loads(bundle())
    resumed.restore(tmp_path)
    train(resumed, 20)
    assert bits(resumed) == bits(model)


def test_one_bundle_serves_batches_of_every_size(model: Module) -> None:
    train(model, 60)
    images = data()["test_images"]
    whole = model.predict(images)
    for size in (1, 7, 32, 360):
        parts = [model.predict(images[i : i + size]) for i in range(0, len(images), size)]
        np.testing.assert_array_equal(np.concatenate([part.digit for part in parts]), whole.digit)
    assert model.predict(images[:0]).digit.shape == (0,)
    assert (whole.digit == data()["test_labels"]).mean() > 0.8


def test_feeds_of_any_layout_give_the_same_numbers(model: Module) -> None:
    images = data()["test_images"][:16]
    expected = model.predict(images).chance
    for given in (np.asfortranarray(images), np.repeat(images, 2, 0)[::2], images[::-1][::-1], memoryview(images)):
        np.testing.assert_array_equal(model.predict(given).chance, expected)


@pytest.mark.parametrize("label", [12, 10, -1, -3])
def test_a_label_out_of_range_is_an_error_with_line_and_numbers(model: Module, label: int) -> None:
    images, labels = data()["train_images"][:4], data()["train_labels"][:4].copy()
    labels[2] = label
    with pytest.raises(
        RunError, match=rf"^\[E0904\] index {label} is out of range for axis of size 10 at .*digits.dfg:\d+:\d+"
    ):
        model.train(images, labels, 0.1)
    labels[2] = 1
    assert np.isfinite(model.train(images, labels, 0.1).loss)


def test_wrong_feeds_are_refused_before_anything_runs(model: Module) -> None:
    before = bits(model)
    images, labels = data()["train_images"][:4], data()["train_labels"][:4]
    for feeds, words in (
        ({"images": images.reshape(4, 8, 8)}, "images.reshape(-1, 64)"),
        ({"images": images.astype("f8")}, "images.astype(np.float32)"),
        ({"labels": labels[:3]}, "`B` is 4 in images but 3 in labels"),
        ({"rate": "fast"}, "wants rate: f32, but got 'fast'"),
        ({"rates": 1}, "did you mean rate?"),
    ):
        with pytest.raises(FeedError) as caught:
            model.train(**{"images": images, "labels": labels, "rate": 0.1, **feeds})
        assert words in caught.value.message
    assert bits(model) == before


def test_a_batch_too_large_for_the_limit_is_refused() -> None:
    small = dfc_runtime.loads(bundle(), memory_limit=4 << 20)
    with pytest.raises(LimitError, match="`predict` with B = 100000 needs"):
        small.predict(np.zeros((100_000, 64), "f4"))


def test_calls_from_several_threads_queue_up(model: Module) -> None:
    images = data()["test_images"]
    expected = model.predict(images).chance
    wrong: list[int] = []

    def look() -> None:
        for _ in range(50):
            if not np.array_equal(model.predict(images).chance, expected):
                wrong.append(1)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_child_computes_the_same(model: Module) -> None:
    images = data()["test_images"]
    expected = model.predict(images).chance.tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if model.predict(images).chance.tobytes() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def save_for_ever(model: Module, folder: Path, writer: int) -> NoReturn:
    """Saves, says so, changes something, and so on."""
    try:
        while True:
            os.write(writer, Module.save(model, folder).name[5:].encode() + b" ")
            model.state["steps"] = model.state["steps"] + 1
    finally:
        os._exit(1)


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_during_a_save_never_costs_the_checkpoint_before(tmp_path: Path, model: Module, seed: int) -> None:
    """The child says after each save what it saved; the parent kills it at a random moment of a later one."""
    Module.save(model, tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(model, tmp_path, writer)
    random_ = random.Random(seed)
    os.close(writer)
    seen = b""
    while seen.count(b" ") < 3:
        seen += os.read(reader, 1000) or pytest.fail("the child has ended")
    for _ in range(random_.randrange(20_000)):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reader, 1000):
        seen += more
    os.close(reader)
    reported = int(seen.split()[-1])
    assert store.find(tmp_path).checkpoint.about.step >= reported
    assert int(Module.save(model, tmp_path).name[5:]) > reported
    assert not list(tmp_path.glob("*.tmp-*"))
