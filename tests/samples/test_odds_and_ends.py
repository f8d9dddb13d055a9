"""The corners of the language, without the parts about strings and quantised numbers: they run and equal NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from dfc_runtime import FeedError, Module
from tests.support.corpus import ROOT

LANGUAGE = ROOT / "samples" / "language"
NAME = "09_odds_and_ends.dfg"
AHEAD = ("quant(", "Pixel", "string")
MORE = """
param weights: f32[3] = [0.4, -1.6, 2.5]

fn twice_less_one[B, D](x: f32[B, D]) -> f32[B, D] = 2 * x - 1

## What the functions above make, with their gradients.
entry functions(x: f32[3]) -> (rounded: f32[3], slope: f32[3], plus: f32[3], rise: f32[3], tidied: f32[3]) {
  let rounded = soft_round(x)
  let slope = grad(sum(rounded * [1.0, 2.0, 3.0]), x)
  let plus = softplus(x)
  let rise = grad(sum(plus), x)
  return rounded, slope, plus, rise, tidy(x)
}

entry iterated[B](x: f32[B, 3]) -> f32[B, 3] { return iterate(x, twice_less_one, times = 5) }

entry forget() { reset("default") }
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The sample without the paragraphs that are ahead of this version, and entries for the functions in it."""
    paragraphs = (LANGUAGE / NAME).read_text().split("\n\n")
    kept = [each for each in paragraphs if not any(word in each for word in AHEAD)]
    assert len(paragraphs) - len(kept) == 3
    folder = tmp_path_factory.mktemp("language")
    (folder / NAME).write_text("\n\n".join(kept) + MORE)
    (folder / "helpers.dfg").write_text((LANGUAGE / "helpers.dfg").read_text())
    return api.compile(folder / NAME).to_bytes()


@pytest.fixture
def model(bundle: bytes) -> Module:
    return dfc_runtime.loads(bundle, threads=1)


def test_the_stopwatch_counts_its_visits_and_tells_its_time(model: Module, capfd: pytest.CaptureFixture[str]) -> None:
    a = np.random.default_rng(0).random((200, 200), np.float32)
    before = int(model.state["visits"])  # which all programs of the process share
    times = [model.stopwatch(a=a).nanoseconds for _ in range(3)]
    assert all(50_000 < time < 10**10 for time in times)  # 16 million operations do not take less
    assert model.state["visits"] == before + 3
    told = capfd.readouterr().err.splitlines()
    assert told == [f"took {time} ns for N = 200" for time in times]


def test_visits_lie_in_a_container_of_their_own(model: Module) -> None:
    before = int(model.state["visits"])
    model.stopwatch(a=np.ones((2, 2), np.float32))
    model.state["weights"] = np.zeros(3, np.float32)
    model.forget()
    assert model.state["visits"] == before + 1
    np.testing.assert_array_equal(model.state["weights"], np.float32([0.4, -1.6, 2.5]))
    assert [entry.saved for entry in model.manifest.state if entry.name == "visits"] == [False]


def test_a_gray_image_is_the_first_channel_or_blank(model: Module) -> None:
    images = np.random.default_rng(1).random((2, 28, 28, 3), np.float32)
    np.testing.assert_array_equal(model.first_channel(images=images, off=False).gray, images[..., 0])
    np.testing.assert_array_equal(model.first_channel(images=images, off=True).gray, np.zeros((2, 28, 28)))
    nothing = model.first_channel(images=images[:0], off=True).gray
    assert nothing.shape == (0, 28, 28)
    with pytest.raises(FeedError, match="C >= 1"):
        model.first_channel(images=images[..., :0], off=False)


@pytest.mark.parametrize(("kind", "x"), [(0, 3.0), (0, -3.0), (1, 4.0), (1, -4.0), (2, -4.5), (7, 0.0)])
def test_a_chain_of_conditions_picks_one_branch(model: Module, kind: int, x: float) -> None:
    wanted = x * x if kind == 0 else np.sign(x) * np.sqrt(abs(x)) if kind == 1 else x
    assert model.pick(kind=kind, x=x).y == np.float32(wanted)


def test_functions_and_their_own_gradients_equal_numpy(model: Module) -> None:
    x = np.float32([0.4, -1.6, 2.5])
    found = model.functions(x=x)
    np.testing.assert_array_equal(found.rounded, np.round(x))
    np.testing.assert_array_equal(found.slope, [1, 2, 3])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found.plus, np.log1p(np.exp(wide)), rtol=1e-6)
    np.testing.assert_allclose(found.rise, 1 / (1 + np.exp(-wide)), rtol=1e-6)
    moved = wide - wide.mean()
    np.testing.assert_allclose(found.tidied, moved / np.sqrt(np.mean(moved**2) + 1e-6), rtol=1e-5)
    large = model.functions(x=np.float32([100, -100, 0]))
    np.testing.assert_allclose(large.plus, [100, 0, np.log(2)], rtol=1e-6, atol=1e-30)
    assert np.isfinite(large.rise).all()


def test_a_function_is_passed_to_a_function(model: Module) -> None:
    x = np.random.default_rng(2).random((4, 3), np.float32)
    np.testing.assert_allclose(model.iterated(x=x), 32 * x - 31, rtol=1e-5, atol=1e-5)
