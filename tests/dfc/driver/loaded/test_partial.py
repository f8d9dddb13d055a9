"""Partial execution from the text of a program: names, messages, what runs and what does not."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from random import Random

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.driver.loaded.partial import Specialiser
from dfc.ir.graph import Value
from dfc.ir.options import CompileOptions
from dfc.ir.types import TensorType
from dfc_runtime.calls.compiling import partial
from dfc_runtime.errors import RunError
from dfc_runtime.observe.kernel_times import TICK, Meter
from tests.support.cases import Case, array_of
from tests.support.observing import observed
from tests.support.random_graphs import random_case
from tests.support.sweeping import few

GRAPHS = int(os.environ.get("DFC_PARTIAL_GRAPHS", "200"))
BLOCKS = 10
TOLERANCE = 1e-9

PROGRAM = """
dfg 1
param w: f32[4, 3] = 0.5
var calls: i64 = 0
fn layer[B](x: f32[B, 4]) -> f32[B, 3] {
  let hidden = x @ w
  return tanh(hidden)
}
fn both(x: f32) -> (low: f32, high: f32) {
  let low = x - 1.0
  return low, x + 1.0
}
entry train[B](images: f32[B, 4], rate: f32) -> (loss: f32) where B > 0 {
  let logits = layer(images)
  let loss = mean(square(logits))
  calls += 1
  let count = calls
  w -= rate * grad(loss, w)
  let low, high = both(loss)
  return loss
}
readonly entry infer[B](images: f32[B, 4]) -> (y: f32[B, 3]) {
  let y, k = loop y = layer(images), k: i32 = 0 while k < 3 {
    let twice = y * 2.0
    y = twice
    k = k + 1
  }
  return y
}
entry sized[N](by: f32) -> (x: f32[N]) {
  let ramp = iota(f32[N])
  return ramp * by
}
"""


@pytest.fixture(scope="module")
def bundle() -> dfc.Bundle:
    return dfc.compile(text=PROGRAM)


@pytest.fixture
def model(bundle: dfc.Bundle) -> dfc.Module:
    return dfc.loads(bundle.to_bytes())


X = np.linspace(-1, 1, 20, dtype="f4").reshape(5, 4)


def logits(model: dfc.Module) -> np.ndarray:
    return np.tanh(X @ model.state["w"])


def test_one_name_gives_one_value_and_a_list_a_tuple_in_its_order(model: dfc.Module) -> None:
    feed = {"images": X}
    np.testing.assert_allclose(model.run("train/logits", feed), logits(model), rtol=1e-6)
    loss, found = model.run(["train/loss", "train/logits"], feed)
    np.testing.assert_allclose(found, logits(model), rtol=1e-6)
    np.testing.assert_allclose(loss, np.square(found).mean(), rtol=1e-6)
    assert len(model.run(["train/loss"], feed)) == 1


def test_effects_that_are_not_needed_do_not_run(model: dfc.Module) -> None:
    before = model.state["w"]
    model.run(["train/loss", "train/logits"], {"train/images": X})
    assert model.state["calls"] == 0
    assert model.run("train/count") == 1 and model.run("train/count") == 2
    assert model.state["calls"] == 2
    np.testing.assert_array_equal(model.state["w"], before)


def test_the_name_of_an_entry_executes_it_and_gives_nothing(model: dfc.Module) -> None:
    before = model.state["w"]
    assert model.run("train", {"images": X, "train/rate": 0.1}) is None
    assert model.state["calls"] == 1 and not np.array_equal(model.state["w"], before)
    with pytest.raises(dfc.FeedError, match="train"):
        model.run("train", {"pictures": X, "rate": 0.1})
    with pytest.raises(dfc.FeedError, match="`train` got the feed rate twice, as rate and as train/rate"):
        model.run("train", {"images": X, "rate": 0.1, "train/rate": 0.2})


def test_a_variable_is_fetched_as_the_entry_leaves_it(model: dfc.Module) -> None:
    """Its update runs, and nothing else."""
    assert model.run("train/calls") == 1
    assert model.state["calls"] == 1
    before, (loss, w) = model.state["w"], model.run(["train/loss", "train/w"], {"images": X, "rate": 0.1})
    assert model.state["calls"] == 1
    np.testing.assert_array_equal(model.state["w"], w)
    model.state["w"] = before
    assert model.train(X, 0.1) == loss
    np.testing.assert_array_equal(model.state["w"], w)


def test_a_part_works_on_the_state_of_the_module(model: dfc.Module) -> None:
    model.run("train/loss", {"images": X})
    model.train(X, 0.1)
    np.testing.assert_allclose(model.run("train/logits", {"images": X}), logits(model), rtol=1e-6)
    model.state["w"] = np.zeros((4, 3), "f4")
    assert not model.run("train/logits", {"images": X}).any()


def test_feeding_an_inner_value_replaces_what_is_above_it(model: dfc.Module) -> None:
    rows = np.ones((2, 3), "f4")
    assert model.run("train/loss", {"train/logits": rows * 2}) == 4
    low, high = model.run(["train/low", "train/high"], {"train/loss": 5})
    assert (low, high) == (4, 6)
    np.testing.assert_array_equal(model.run("infer/y", {"infer/layer/hidden": 0 * rows}), 0 * rows)


def test_what_is_fed_can_be_fetched(model: dfc.Module) -> None:
    np.testing.assert_array_equal(model.run("train/images", {"images": X}), X)
    assert model.run(["train/loss", "train/loss"], {"train/loss": 3}) == (3, 3)


def test_results_of_loops_and_sizes_have_names(model: dfc.Module) -> None:
    assert model.run("infer/k", {"images": X}) == 3
    np.testing.assert_array_equal(model.run("sized/ramp", {"N": 4}), [0, 1, 2, 3])
    np.testing.assert_array_equal(model.run("sized/x", {"sized/N": 2, "by": 3}), [0, 3])


def test_one_signature_serves_every_size(model: dfc.Module) -> None:
    for rows in (1, 5, 64):
        assert model.run("train/logits", {"images": np.ones((rows, 4), "f4")}).shape == (rows, 3)


@pytest.mark.parametrize(
    ("fetch", "feed", "words"),
    [
        ("train/logit", {}, "`train` has no value `train/logit`; did you mean train/logits?"),
        ("logits", {}, "`logits` is no entry, and no value of one, .* did you mean train/logits?"),
        ("trian/logits", {}, "did you mean train/logits?"),
        ("infer/twice", {}, "`infer/twice` is inside a loop, .* fetch `infer/y` instead"),
        ("train/loss", {}, "`train/loss` needs the feed images: f32\\[B, 4\\]"),
        (["train", "train/loss"], {}, "`train` is an entry, which runs where it is fetched alone; its values"),
        (["train/loss", "infer/y"], {}, "one run is of one entry, but `train` and `infer` are two"),
        ("train/loss", {"image": X}, "did you mean train/images"),
        ("train/loss", {"images": X, "train/images": X}, "is fed images twice, as images and as train/images"),
        ("train/loss", {"images": X[0]}, "wants images: f32\\[B, 4\\], but got float32 of shape"),
        ("train/loss", {"images": X[:0]}, "B > 0"),
        ("train/loss", {"train/logits": X}, "wants train/logits: f32\\[B, 3\\]"),
        ("sized/ramp", {}, "misses the size N"),
        ([], {}, "fetch wants the full name"),
        (3, {}, "fetch wants the full name"),
        ("train/loss", [], "feed wants values by name"),
    ],
)
def test_mistakes_are_told(model: dfc.Module, fetch: object, feed: object, words: str) -> None:
    with pytest.raises(dfc.FeedError, match=words):
        model.run(fetch, feed)
    assert model.state["calls"] == 0


def test_without_the_compiler_it_says_so(model: dfc.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "COMPILER", "dfc.no_such_module")
    with pytest.raises(dfc.UnsupportedError, match="the compiler is not installed"):
        model.run("train/loss", {"images": X})


def test_a_signature_is_compiled_once_by_threads_that_race(model: dfc.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    original = Specialiser.specialise

    def counted(self: Specialiser, fetches: list[str], feeds: list[str]) -> object:
        made.append((*fetches, *feeds))
        return original(self, fetches, feeds)

    monkeypatch.setattr(Specialiser, "specialise", counted)
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(model.run("train/count"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(1, 9)) and made == [("train/count",)]
    model.run(["train/count"])
    assert len(made) == 2


def test_imported_files_travel_in_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "helpers.dfg").write_text("dfg 1\nfn double(x: f32) -> f32 = x * 2.0\n")
    text = (
        "dfg 1\nfrom .helpers import double\nentry e(x: f32) -> (z: f32) {\n  let y = double(x)\n  return y + 1.0\n}\n"
    )
    (tmp_path / "main.dfg").write_text(text)
    data = dfc.compile(tmp_path / "main.dfg").to_bytes()
    for file in tmp_path.iterdir():
        file.unlink()
    assert dfc.loads(data).run("e/y", {"x": 4}) == 8


# ------------------------------------------------------------- random graphs --


@pytest.mark.parametrize("block", few(range(BLOCKS), 1))
def test_a_fetched_value_is_that_of_the_unfused_graph(block: int) -> None:
    count = -(-GRAPHS // BLOCKS)
    for seed in range(70_000 + block * count, 70_000 + (block + 1) * count):
        _compare(random_case(seed, size=14), Random(seed))


def _compare(case: Case, random: Random) -> None:
    entry = case.graph.entries["e"]
    values = [v for node in entry.block.nodes for v in node.results if isinstance(v.type, TensorType)]
    fetched = random.sample(values, min(len(values), random.randint(1, 2)))
    floating = [v for v in values if v.tensor.machine.is_float]  # other numbers may be sizes or indices
    fed = random.sample(floating, min(len(floating), random.choice([0, 0, 1, 2])))
    arrays = {value: _value(value, case, random.randrange(1 << 30)) for value in fed}
    expected = observed(case, arrays)
    feeds = {**case.feeds(), **{value.name: array for value, array in arrays.items()}}
    got = _run(case, [value.name for value in fetched], feeds)
    for value, result in zip(fetched, got, strict=True):
        message = f"{value.name} of seed {case.seed}, fed {[v.name for v in fed]}"
        assert result.dtype == expected[value].dtype, message
        np.testing.assert_allclose(result, expected[value], TOLERANCE, TOLERANCE, err_msg=message)


def _value(value: Value, case: Case, seed: int) -> np.ndarray:
    return array_of(value.tensor, case.size, np.random.default_rng(seed))


def _run(case: Case, names: list[str], feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    made = Specialiser(case.graph, CompileOptions()).specialise(names, list(feeds))
    module = dfc.loads(made.bundle, threads=1)
    state = case.state()
    for name in module.state:
        module.state[name] = state[name]
    with np.errstate(all="ignore"):
        return module.entries["e"](**{made.feeds[name]: array for name, array in feeds.items()})


# ------------------------------------------------------- as it was compiled --

IMAGES = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)


def test_parts_have_the_clocks_of_their_program() -> None:
    for timed in (False, True):
        meter = Meter()
        data = compile_source(SourceFile("model.dfg", PROGRAM.lstrip()), CompileOptions(timed=timed)).to_bytes()
        dfc.loads(data, handlers={TICK: meter.tick}).run("infer/y", {"images": IMAGES})
        assert ("infer" in {site.entry for site, _, _ in meter.kernels()}) is timed


def test_parts_have_the_checks_of_their_program_and_say_where_it_began() -> None:
    plain, checked = (dfc.compile(text=PROGRAM, check_finite=check).to_bytes() for check in (False, True))
    infinite = {"train/logits": np.full((2, 3), np.inf, np.float32)}
    for model in (dfc.loads(checked), dfc.loads(plain, check_finite=True)):
        with pytest.raises(RunError) as caught:
            model.run(["train/loss", "train/count"], infinite)
        told = caught.value.message
        assert caught.value.code == "E0910"
        assert "is inf at <text>:15:" in told and "let loss = mean(square(logits))" in told, told
        assert told.endswith("in call 1 of `run(train/loss, train/count)`; state is as before this call")
        assert int(model.state["calls"]) == 0
        assert float(model.run("train/loss", {"images": IMAGES})) > 0
    assert not np.isfinite(dfc.loads(plain).run("train/loss", infinite))
