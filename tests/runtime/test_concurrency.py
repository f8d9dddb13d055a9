"""Litmus tests of what is promised when several threads call one program, or several programs share state."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.errors import BundleError, RunError
from dfc_runtime.state import containers

THREADS = 8
TIMES = 10_000

PROGRAM = """
dfg 1
var n: i64 = 0
var v: f64[3000] = 0
var a: i64 = 0
var b: i64 = 0
var flag: i64 = 0
var dice: rng = philox(7)

entry add() with concurrent = true { n += 1 }
entry add_many(at: i64) with concurrent = true { v[at] += 1 }
entry add_all() with concurrent = true { v += 1 }
entry fill(x: f64) with concurrent = true { v := x }
entry take_turns() -> i64 {
  let before = n
  n := before + 1
  return before
}
entry raise_flag() with concurrent = true { flag := 1 }
entry wait() -> (rounds: i64) with concurrent = true {
  let rounds, seen = loop rounds: i64 = 0, seen = flag while seen == 0 {
    rounds = rounds + 1
    flag += 0
    seen = flag
  }
  return rounds
}
entry draw() -> f64[2] with concurrent = true {
  let u = dice.uniform(f64[2])
  return u
}
entry both(rounds: i64) {
  let k = loop k: i64 = 0 while k < rounds {
    a += 1
    b -= 1
    k = k + 1
  }
}
entry wide(x: f64) { v := x }
entry long(rounds: i64) -> (x: f64) {
  let k, x = loop k: i64 = 0, x: f64 = 0.5 while k < rounds {
    k = k + 1
    x = x * 1.0000001 + 0.1
  }
  return x
}
entry fails(at: i64) with concurrent = true { v[at] += 1 }
entry fails_alone(at: i64) {
  a += 1
  v[at] += 1
}
readonly entry look() -> (lowest: f64, highest: f64, a: i64, b: i64) { return min(v), max(v), a, b }
entry look_too() -> (lowest: f64, highest: f64) with concurrent = true {
  let now = v
  return min(now), max(now)
}
"""


@cache
def compiled() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


@pytest.fixture
def model() -> dfc.Module:
    return dfc.loads(compiled(), threads=2)


def at_once(*actions: Callable[[], object]) -> None:
    """Runs all of them in threads of their own; what one raises is raised."""
    problems: list[BaseException] = []
    start = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> None:
        try:
            start.wait()
            action()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def times(count: int, action: Callable[..., object], *arguments: object) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            action(*arguments)

    return run


# ------------------------------------------------------------------ atomicity --


def test_increments_of_a_scalar_are_exact(model: dfc.Module) -> None:
    at_once(*[times(TIMES, model.add)] * THREADS)
    assert model.state["n"] == THREADS * TIMES


def test_increments_of_elements_and_of_arrays_are_exact(model: dfc.Module) -> None:
    at_once(*[times(1000, model.add_many, 5)] * 4, *[times(200, model.add_all)] * 4)
    expected = np.full(3000, 800.0)
    expected[5] += 4000
    np.testing.assert_array_equal(model.state["v"], expected)


@pytest.mark.parametrize("reader", ["look", "look_too"])
@pytest.mark.parametrize("writer", ["fill", "wide"])
def test_a_reader_never_sees_half_a_write(model: dfc.Module, writer: str, reader: str) -> None:
    write, read = getattr(model, writer), getattr(model, reader)

    def reading() -> None:
        for _ in range(2000):
            found = read()
            assert found.lowest == found.highest

    at_once(*[times(2000, write, float(x)) for x in (1, 2)], reading, reading)


def test_a_readonly_call_sees_all_writes_of_an_exclusive_call_or_none(model: dfc.Module) -> None:
    def reading() -> None:
        for _ in range(3000):
            found = model.look()
            assert found.a == -found.b and found.a % 7 == 0

    at_once(times(1500, model.both, 7), times(1500, model.both, 7), reading, reading)
    assert model.state["a"] == 2 * 1500 * 7


def test_readers_wait_for_long_writers_and_writers_for_readers(model: dfc.Module) -> None:
    """Long enough that whoever waits goes to sleep."""

    def reading() -> None:
        for _ in range(30):
            assert model.look().a % 100_000 == 0

    at_once(*[times(10, model.both, 100_000)] * 2, *[reading] * 3)
    assert model.look().a == 2_000_000


def test_exclusive_calls_queue_up_beside_all_others(model: dfc.Module) -> None:
    seen: list[int] = []
    writers = [lambda: seen.extend(int(model.take_turns()) for _ in range(2000)) for _ in range(3)]
    at_once(*writers, times(500, model.look), times(500, model.look_too))
    assert sorted(seen) == list(range(6000)) and model.state["n"] == 6000


def test_exclusive_and_concurrent_calls_never_overlap(model: dfc.Module) -> None:
    at_once(*[times(1000, model.take_turns)] * 2, *[times(2000, model.add)] * 4)
    assert model.state["n"] == 2 * 1000 + 4 * 2000


def test_draws_of_threads_are_those_of_one_thread(model: dfc.Module) -> None:
    drawn: list[tuple[float, ...]] = []
    at_once(*[lambda: drawn.extend(tuple(model.draw()) for _ in range(500)) for _ in range(THREADS)])
    alone = dfc.loads(compiled())
    assert sorted(drawn) == sorted(tuple(alone.draw()) for _ in range(500 * THREADS))


def test_a_concurrent_call_sees_what_another_writes_while_it_runs(model: dfc.Module) -> None:
    """It reads a variable again after it has written it."""
    for _ in range(50):
        model.state["flag"] = 0
        rounds: list[object] = []
        at_once(lambda seen=rounds: seen.append(model.wait()), times(1, model.raise_flag))
        assert len(rounds) == 1


def test_python_works_on_state_alone(model: dfc.Module) -> None:
    def python() -> None:
        for number in range(300):
            model.state["v"] = np.full(3000, float(number))
            found = model.state["v"]
            assert found.min() == found.max()

    at_once(times(1000, model.fill, 3.0), times(1000, model.wide, 4.0), times(300, model.look_too), python)


# ------------------------------------------------------------------- progress --


def test_python_goes_on_while_native_code_runs(model: dfc.Module) -> None:
    thread = threading.Thread(target=model.long, args=(30_000_000,))
    thread.start()
    count = 0
    while thread.is_alive():
        count += 1
        thread.join(0.001)
    assert count > 5


def test_a_readonly_call_ends_while_an_exclusive_one_runs(model: dfc.Module) -> None:
    thread = threading.Thread(target=model.long, args=(100_000_000,))
    thread.start()
    for _ in range(20):
        model.look()
    assert thread.is_alive()
    thread.join()


@pytest.mark.parametrize("entry", ["fails", "fails_alone"])
def test_a_call_that_fails_gives_its_locks_back(model: dfc.Module, entry: str) -> None:
    for _ in range(3):
        with pytest.raises(RunError, match="index 3000 is out of range"):
            getattr(model, entry)(3000)
    getattr(model, entry)(0)
    assert model.look().highest == 1 and model.look_too().highest == 1


def test_results_do_not_depend_on_how_many_calls_run(model: dfc.Module) -> None:
    """Two calls that want the threads of the pool at once: one gets them, the other computes alone."""
    text = """
        dfg 1
        param w: f32[256, 256] = uniform(-1, 1)
        readonly entry f(x: f32[64, 256]) -> f32[64, 256] { return tanh(x @ w) @ w }
        """
    model = dfc.loads(dfc.compile(text="\n".join(line.strip() for line in text.splitlines())).to_bytes(), threads=2)
    x = np.random.default_rng(0).random((64, 256), "f4")
    expected = model.f(x).tobytes()

    def same() -> None:
        for _ in range(50):
            assert model.f(x).tobytes() == expected

    at_once(*[same] * 4)


# ----------------------------------------------------------------- containers --

SHARED = """
dfg 1
var visits: i64 = {start} with container = "{name}"
var own: i64 = 0
entry visit() -> i64 {{
  visits += 1
  own += 1
  return visits
}}
entry visit_too() with concurrent = true {{ visits += 1 }}
readonly entry count() -> (visits: i64, own: i64) {{ return visits, own }}
entry forget() {{ reset("{name}") }}
"""


@cache
def sharing(name: str = "statistics", start: int = 0) -> bytes:
    return dfc.compile(text=SHARED.format(name=name, start=start)).to_bytes()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A container of its own for each test."""
    return str(request.node.name)


def test_programs_share_the_state_of_a_container(name: str) -> None:
    one, two = dfc.loads(sharing(name)), dfc.loads(sharing(name, start=100))
    one.visit()
    two.visit()
    assert tuple(one.count()) == (2, 1) == tuple(two.count())
    assert one.state["visits"] == 2 == two.state["visits"]
    two.state["visits"] = 9
    assert one.visit() == 10
    elsewhere = dfc.loads(sharing("elsewhere", 5))
    assert elsewhere.count().visits == 5


def test_a_container_is_initialised_by_whoever_comes_first_and_lives_as_long_as_it_is_used(name: str) -> None:
    one = dfc.loads(sharing(name, start=7))
    one.visit()
    two = dfc.loads(sharing(name, start=70))
    del one
    gc.collect()
    assert two.visit() == 9 and two.count().own == 1
    two.forget()
    assert two.count().visits == 70
    two.visit()
    two.init()
    assert tuple(two.count()) == (70, 0)
    del two
    gc.collect()
    assert dfc.loads(sharing(name, start=3)).count().visits == 3


def test_a_program_that_declares_shared_state_otherwise_is_refused(name: str) -> None:
    one = dfc.loads(sharing(name))
    text = (
        f'dfg 1\nvar visits: f32[2] = 0 with container = "{name}"\nreadonly entry e() -> f32[2] {{ return visits }}\n'
    )
    other = dfc.compile(text=text).to_bytes()
    with pytest.raises(
        BundleError, match=r"visits of the container .* is i64 in a program .*, and f32\[2\] in this one"
    ):
        dfc.loads(other)
    assert one.visit() == 1


def test_increments_from_two_programs_are_exact(name: str) -> None:
    models = [dfc.loads(sharing(name)) for _ in range(2)]
    at_once(*[times(2000, model.visit) for model in models], *[times(2000, model.visit_too) for model in models] * 2)
    assert models[0].count().visits == 2 * 2000 + 4 * 2000


def test_shared_state_is_saved_and_restored_like_any_other(name: str, tmp_path: Path) -> None:
    one, two = dfc.loads(sharing(name)), dfc.loads(sharing(name))
    one.visit()
    one.save(tmp_path)
    two.visit()
    two.visit()
    assert one.count().visits == 3
    one.restore(tmp_path)
    assert two.count().visits == 1


def test_programs_that_are_loaded_at_once_initialise_shared_state_once(name: str) -> None:
    models: list[dfc.Module] = []

    def load() -> None:
        model = dfc.loads(sharing(name, 1))
        model.visit()
        models.append(model)

    for _ in range(5):
        at_once(*[load] * 4)
        assert models[0].count().visits == 1 + 4
        models.clear()
        gc.collect()
        assert name not in containers._shared
