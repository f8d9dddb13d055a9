"""What an `rng` draws follows its distribution, and is the same on any number of threads.

Seeds are fixed, so that nothing here depends on chance: a limit that is passed once is passed always.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import permutations

import numpy as np
import pytest

import dfc
from dfc_runtime.module import Module

COUNT = 40_000
THREADS = (1, 2, 4)
PROGRAM = f"""dfg 1

var dice: rng = philox(seed = 11)
var rounds: i64 = 0

entry uniform() -> (x: f32[{COUNT}]) {{
  let x = dice.uniform(f32[{COUNT}], -2, 3)
  return x
}}
entry uniform_wide() -> (x: f64[{COUNT}]) {{
  let x = dice.uniform(f64[{COUNT}])
  return x
}}
entry normal() -> (x: f32[{COUNT}]) {{
  let x = dice.normal(f32[{COUNT}], 1, 2)
  return x
}}
entry normal_wide() -> (x: f64[{COUNT}]) {{
  let x = dice.normal(f64[{COUNT}])
  return x
}}
entry truncated_normal() -> (x: f32[{COUNT}]) {{
  let x = dice.truncated_normal(f32[{COUNT}], mean = -1, deviation = 0.5)
  return x
}}
entry bernoulli() -> (x: bool[{COUNT}]) {{
  let x = dice.bernoulli(bool[{COUNT}], 0.3)
  return x
}}
entry categorical(logits: f32[{COUNT}, 5]) -> (x: i32[{COUNT}]) {{
  let x = dice.categorical(logits)
  return x
}}
entry log_uniform() -> (x: i64[{COUNT}]) {{
  let x = dice.log_uniform(i64[{COUNT}], 50)
  return x
}}
entry permutation() -> (x: i32[{COUNT}]) {{
  let x = dice.permutation(i32[{COUNT}])
  return x
}}
entry shuffled(xs: f32[{COUNT}]) -> (x: f32[{COUNT}]) {{
  let order = dice.permutation(i32[{COUNT}])
  return xs[order]
}}
entry small_permutation() -> (x: i32[4]) {{
  let x = dice.permutation(i32[4])
  return x
}}
entry dropped(xs: f32[{COUNT}]) -> (x: f32[{COUNT}]) {{
  let keep = dice.bernoulli(bool[{COUNT}], 0.75)
  return select(keep, xs / 0.75, 0)
}}
"""
CHANCES = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
FEEDS = {
    "categorical": {"logits": np.tile(np.log(CHANCES).astype(np.float32), (COUNT, 1))},
    "shuffled": {"xs": np.arange(COUNT, dtype=np.float32)},
    "dropped": {"xs": np.ones(COUNT, np.float32)},
}
ENTRIES = (
    "uniform",
    "uniform_wide",
    "normal",
    "normal_wide",
    "truncated_normal",
    "bernoulli",
    "categorical",
    "log_uniform",
    "permutation",
    "shuffled",
    "dropped",
)


@cache
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def model(threads: int = 1) -> Module:
    return dfc.loads(bundle(), threads=threads)


def drawn(entry: str, threads: int = 1) -> np.ndarray:
    """The numbers of the second call: the first only moves the stream."""
    made = model(threads)
    made.entries[entry](**FEEDS.get(entry, {}))
    (x,) = made.entries[entry](**FEEDS.get(entry, {}))
    return np.asarray(x)


def normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def truncated(x: float) -> float:
    low, high = normal(-2), normal(2)
    return min(max((normal((x + 1) / 0.5) - low) / (high - low), 0), 1)


DISTRIBUTIONS = {
    "uniform": lambda x: (x + 2) / 5,
    "uniform_wide": lambda x: x,
    "normal": lambda x: normal((x - 1) / 2),
    "normal_wide": normal,
    "truncated_normal": truncated,
}


@pytest.mark.parametrize("entry", DISTRIBUTIONS)
def test_the_distance_of_kolmogorov_and_smirnov_is_small(entry: str) -> None:
    x = np.sort(drawn(entry).astype(np.float64))
    below = np.array([DISTRIBUTIONS[entry](each) for each in x])
    places = np.arange(COUNT + 1) / COUNT
    distance = max(np.max(places[1:] - below), np.max(below - places[:-1]))
    assert distance < 1.63 / math.sqrt(COUNT)  # one seed in a hundred is beyond


BOUNDS = {"uniform": (-2, 3), "uniform_wide": (0, 1), "truncated_normal": (-2, 0)}


@pytest.mark.parametrize("entry", BOUNDS)
def test_bounds_are_kept(entry: str) -> None:
    (low, high), x = BOUNDS[entry], drawn(entry)
    assert low <= x.min() and x.max() < high


def chi_square(found: np.ndarray, chances: np.ndarray) -> float:
    wanted = chances * found.sum()
    return float(np.sum((found - wanted) ** 2 / wanted))


def limit(degrees: int) -> float:
    """What one seed in a hundred is beyond (Wilson and Hilferty)."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + 2.326 * math.sqrt(spread)) ** 3


def test_truth_values_have_their_chance() -> None:
    x = drawn("bernoulli")
    assert chi_square(np.array([x.sum(), COUNT - x.sum()]), np.array([0.3, 0.7])) < limit(1)


def test_classes_have_their_chances() -> None:
    assert chi_square(np.bincount(drawn("categorical"), minlength=5), CHANCES) < limit(4)


def test_log_uniform_numbers_have_their_chances() -> None:
    x = drawn("log_uniform")
    k = np.arange(50)
    chances = np.log((k + 2) / (k + 1)) / math.log(51)
    assert x.min() >= 0 and x.max() < 50
    assert chi_square(np.bincount(x, minlength=50), chances) < limit(49)


def test_neighbours_are_independent() -> None:
    x = drawn("uniform_wide")
    cells = (x[0::2] * 8).astype(int) * 8 + (x[1::2] * 8).astype(int)
    assert chi_square(np.bincount(cells, minlength=64), np.full(64, 1 / 64)) < limit(63)


def test_every_order_is_as_likely_as_any_other() -> None:
    made = model()
    orders = {order: number for number, order in enumerate(permutations(range(4)))}
    found = [orders[tuple(int(i) for i in made.small_permutation()[0])] for _ in range(4800)]
    assert chi_square(np.bincount(found, minlength=24), np.full(24, 1 / 24)) < limit(23)


def test_a_permutation_holds_every_number_once() -> None:
    np.testing.assert_array_equal(np.sort(drawn("permutation")), np.arange(COUNT))
    x = drawn("shuffled")
    np.testing.assert_array_equal(np.sort(x), np.arange(COUNT))
    assert abs(np.corrcoef(x, np.arange(COUNT))[0, 1]) < 2.6 / math.sqrt(COUNT)


def test_dropout_keeps_the_mean() -> None:
    x = drawn("dropped")
    assert set(np.unique(x)) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert abs(x.mean() - 1) < 2.6 * math.sqrt(0.25 / 0.75 / COUNT)


@pytest.mark.parametrize("entry", ENTRIES)
def test_numbers_do_not_depend_on_the_threads(entry: str) -> None:
    alone = drawn(entry)
    for threads in THREADS[1:]:
        np.testing.assert_array_equal(drawn(entry, threads), alone)


def test_each_call_goes_on_where_the_one_before_ended() -> None:
    made = model()
    first, second = made.uniform()[0], made.uniform()[0]
    assert not np.any(first == second)
    again = model()
    np.testing.assert_array_equal(again.uniform()[0], first)
