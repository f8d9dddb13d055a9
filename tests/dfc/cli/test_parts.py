"""`dfc run --fetch`: values of an entry by their names, from its feeds or from other values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.checkpoints import store
from tests.support.command_line import Command

X, Y = ("--feed", "x=data.npz:x"), ("--feed", "y=data.npz:y")


@pytest.mark.parametrize("file", ["line.bundle", "line.dfg"])
def test_values_are_computed_from_what_is_fed(file: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", file, "--fetch", "predict/y", "--fetch", "predict/total", *X, "--out", "out.npz", "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["fetch"] == ["predict/y", "predict/total"]
    y, total = dfc_runtime.load("line.bundle").predict(np.load("data.npz")["x"])
    with np.load("out.npz") as written:
        assert sorted(written.files) == ["predict/total", "predict/y"]
        np.testing.assert_array_equal(written["predict/y"], y)
    assert np.float32(told["results"]["predict/total"]) == total


def test_an_inner_value_takes_the_place_of_what_computes_it(folder: Path, dfc: Command) -> None:
    noise = np.linspace(-1, 1, 10, dtype=np.float32)
    np.savez("noise.npz", **{"train/noise:0": noise})
    feeds = (*X, *Y, "--feed", "train/noise=noise.npz:train/noise:0")
    ended = dfc("run", "line.bundle", "--fetch", "train/loss", *feeds)
    model, data = dfc_runtime.load("line.bundle"), np.load("data.npz")
    loss = model.run("train/loss", {"x": data["x"], "y": data["y"], "train/noise": noise})
    assert (ended.code, ended.out, ended.err) == (0, f"train/loss {float(loss):.6g}\n", "")


def test_state_is_restored_and_saved_only_if_the_part_writes_some(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "fill", "--feed", "value=2", "--state", "state").code == 0
    ended = dfc("run", "line.bundle", "--fetch", "predict/total", *X, "--state", "state", "--json")
    total = json.loads(ended.out)["results"]["predict/total"]
    np.testing.assert_allclose(total, 2 * np.load("data.npz")["x"].sum(), rtol=1e-5)  # sums of 30 in another order
    assert store.steps_in(folder / "state") == [1]
    assert dfc("run", "line.bundle", "--fetch", "train/noise", *X, "--state", "state").code == 0
    assert store.steps_in(folder / "state") == [2, 1], "drawing has moved the generator on"


def test_an_entry_is_executed_for_its_effects_which_are_saved(folder: Path, dfc: Command) -> None:
    model, data = dfc_runtime.load("line.bundle"), np.load("data.npz")
    model.fill(2)
    model.train(data["x"], data["y"], 0.1)
    assert dfc("run", "line.bundle", "fill", "--feed", "value=2", "--state", "state").code == 0
    words = ("--fetch", "train", *X, *Y, "--feed", "train/rate=0.1", "--state", "state")
    ended = dfc("run", "line.bundle", *words)
    assert (ended.code, ended.out) == (0, "train executed\n")
    after = dfc_runtime.load("line.bundle")
    after.restore("state")
    np.testing.assert_array_equal(after.state["w"], model.state["w"])
    ended = dfc("run", "line.bundle", "--fetch", "save", "--feed", "path=copy", "--state", "state", "--json")
    assert (json.loads(ended.out), (folder / "copy").exists()) == ({"fetch": ["save"], "results": {}}, True)
    assert store.steps_in(folder / "state") == [2, 1], "what reads state alone is not saved"


def test_sizes_and_numbers_are_fed_by_their_names(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "--fetch", "grid/x", "--feed", "N=3", "--feed", "grid/first=1.5")
    assert (ended.code, ended.out) == (0, "grid/x [1.5, 2.5, 3.5]\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give an ENTRY to call, or values to compute: --fetch ENTRY/NAME"),
        (("train", "--fetch", "train/loss"), "give an ENTRY or --fetch, not both: values are called ENTRY/NAME"),
        (("--fetch", "train/loss", "--fetch", "train/loss"), "the value train/loss is fetched twice"),
        (("--fetch", "train/loss", "--steps", "2"), "--fetch makes one call: --batch, --epochs and --steps"),
        (("--fetch", "train/loss", "--batch", "2"), "--fetch makes one call: --batch, --epochs and --steps"),
        (("--fetch", "a/b", "--state", "s", "--save-every", "2"), "--fetch makes one call: --save-every, --best and"),
        (("--fetch", "a/b", "--state", "s", "--again"), "--fetch makes one call: --save-every, --best and --again"),
        (("--fetch", "train/los", *X, *Y), "`train` has no value `train/los`; did you mean train/loss?"),
        (("--fetch", "loss", *X, *Y), "`loss` is no entry, and no value of one, as entry/name; did you mean"),
        (("--fetch", "train/loss", *X), "`train/loss` needs the feed y: f32[B]"),
        (("--fetch", "train", "--fetch", "train/loss"), "--fetch train executes the entry, and stands alone: leave it"),
        (("--fetch", "train", *X, *Y, "--out", "out.npz"), "gives no values for --out: give train as ENTRY, or"),
        (("--fetch", "train", *X, *Y), "`train` misses the feed rate: f32"),
        (("--fetch", "trai", *X, *Y), "`trai` is no entry, and no value of one, as entry/name; did you mean train?"),
        (("--fetch", "train/loss", "--fetch", "add/a"), "one run is of one entry, but `train` and `add` are two"),
        (("--fetch", "train/loss", *X, *Y, "--feed", "z=1"), "`train` has no value `train/z`"),
        (("--fetch", "train/loss", *X, "--feed", "x=data.npz:x"), "the feed x is given twice"),
        (("--fetch", "train/loss", "--feed", "/x=1"), "feed '/x=1' is not of the form NAME=VALUE"),
        (("--fetch", "train/loss", *X, "--feed", "y=x.npy"), "wants y: f32[B], but got float32 of shape (10, 3)"),
        (("train", "--feed", "train/x=1"), "feed 'train/x=1' is not of the form NAME=VALUE"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_message(words: tuple[str, ...], told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", *words)
    assert ended.code == 2
    assert told in ended.message
    assert len(ended.err.splitlines()) <= 3
