from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime import Module
from dfc_runtime.errors import BundleError, FeedError, LimitError, RunError, UnsupportedError
from tests.support import fake_driver
from tests.support.bundles import LOCATION, Sketch, entry, formula
from tests.support.fake_driver import Call, native
from tests.support.natives import program


@pytest.fixture
def model() -> Module:
    return dfc_runtime.loads(program().to_bytes())


def test_an_entry_is_a_method_that_returns_numpy_scalars(model: Module) -> None:
    result = model.add(1.5, 2)
    assert type(result) is np.float32
    assert result == 3.5
    assert model.add(x=1, y=np.float64(2)) == 3
    assert model.add(1, y=2) == 3


def test_numbers_in_arrays_are_numbers(model: Module) -> None:
    one, two = np.array(1.5, "f4"), np.array(2, "f4")
    assert model.add(one, two) == model.add(one, two) == model.add(1.5, two) == model.add(one, y=2) == 3.5
    assert model.add(np.array(np.inf, "f4"), two) == np.inf
    for wrong in (one.astype(">f4"), one.astype("f8"), np.array([1.5], "f4")):
        with pytest.raises(FeedError, match="E0901"):
            model.add(wrong, two)


def test_results_are_a_named_tuple(model: Module) -> None:
    x = np.ones((3, 4), "f4")
    result = model.scale(x, rate=2)
    assert result._fields == ("y", "total")
    np.testing.assert_array_equal(result.y, 2 * x)
    y, total = result
    assert y is result.y and total == result[1] == 12
    assert result.y.flags.owndata
    assert repr(model.tick()) == "tick_results(count=np.int64(1))"
    assert model.insist(True) is None


def test_one_bundle_serves_every_batch_size(model: Module) -> None:
    for rows in (1, 7, 0, 1000, 7):
        x = np.random.default_rng(rows).random((rows, 4), "f4")
        np.testing.assert_array_equal(model.scale(x, 3.0).y, x * np.float32(3))


def test_results_of_two_calls_do_not_share_memory(model: Module) -> None:
    x = np.ones((2, 4), "f4")
    assert not np.shares_memory(model.scale(x, 1).y, model.scale(x, 1).y)


def test_help_shows_the_entry(model: Module) -> None:
    assert model.add.__doc__ == "entry add(x: f32, y: f32) -> f32\n\nThe sum.\n\nx: the left one"
    assert str(inspect.signature(model.add)) == "(x: 'f32', y: 'f32')"
    assert model.scale.__name__ == "scale"
    assert "add" in dir(model)
    assert "entry scale[B](x: f32[B, 4], rate: f32) -> (y: f32[B, 4], total: f32)" in repr(model)


def test_entries_are_found_by_name(model: Module) -> None:
    assert list(model.entries) == ["init", "add", "scale", "tick", "pick", "insist", "save", "restore"]
    assert model.entries["add"](1, 2) == 3
    assert model.entries["pick"].signature.readonly
    with pytest.raises(AttributeError, match="no entry 'ad'; did you mean add"):
        _ = model.ad


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((), {}, "misses the feed x: f32, the feed y: f32"),
        ((1,), {}, "misses the feed y: f32"),
        ((1, 2, 3), {}, "takes the feeds x, y, but got 3 by position"),
        ((1, 2), {"x": 1}, "got the feed x twice"),
        ((1,), {"z": 1}, "has no feed z"),
        ((1, "2"), {}, "wants y: f32, but got '2'"),
        ((1, 1e39), {}, "wants y: f32, but got 1e\\+39"),
        ((1, True), {}, "a truth value is no number"),
    ],
)
def test_wrong_calls_say_what_is_wrong(model: Module, arguments: tuple, named: dict, words: str) -> None:
    for _ in range(2):
        with pytest.raises(FeedError, match=words):
            model.add(*arguments, **named)
    assert model.add(1, 2) == 3


def test_a_number_that_packs_once_is_still_checked_later(model: Module) -> None:
    assert model.add(1.0, 1.0) == 2
    with pytest.raises(FeedError, match="it does not fit"):
        model.add(1.0, 1e300)
    x = np.ones((1, 4), "f4")
    model.scale(x, 1.0)
    with pytest.raises(FeedError, match="it does not fit"):
        model.scale(x, 1e300)


def test_wrong_shapes_are_found_after_right_ones(model: Module) -> None:
    model.scale(np.ones((1, 4), "f4"), 1)
    for shape in ((1, 5), (4,), (1, 1, 4), ()):
        with pytest.raises(FeedError, match="wants x"):
            model.scale(np.ones(shape, "f4"), 1)


def test_did_you_mean_is_offered_for_feeds(model: Module) -> None:
    with pytest.raises(FeedError, match="has no feed rat; did you mean rate"):
        model.scale(x=1, rat=2)
    with pytest.raises(FeedError, match="the shapes of its feeds decide that size"):
        model.scale(x=1, rate=2, B=3)


def test_a_fault_is_an_error_with_line_and_values_and_the_module_lives(model: Module) -> None:
    with pytest.raises(RunError) as caught:
        model.pick(12)
    assert caught.value.message == (
        "index 12 is out of range for axis of size 10 at model.dfg:31:7\n  31 | let picked = table[id]"
    )
    assert (caught.value.code, caught.value.line, caught.value.values) == ("E0904", 31, (12, 10))
    with pytest.raises(RunError, match=r"the rate is above zero at model\.dfg:31:7"):
        model.insist(False)
    assert model.pick(3) == 3


def test_state_is_initialised_when_a_module_is_loaded(model: Module) -> None:
    np.testing.assert_array_equal(model.state["w"], [[0, 1, 2], [3, 4, 5]])
    assert model.tick().count == 1
    assert model.tick().count == 2
    model.init()
    assert model.tick().count == 1


def test_state_is_copied_out_and_checked_in(model: Module) -> None:
    copy = model.state["w"]
    copy[:] = 9
    assert model.state["w"].max() == 5
    model.state["w"] = np.full((2, 3), 7, "f4")
    assert model.state["w"].min() == 7
    model.state["count"] = 41
    assert model.tick().count == 42
    assert type(model.state["count"]) is np.int64
    assert set(model.state) == {"w", "count", "cache"}
    assert repr(model.state) == "<state\n  w: f32[2, 3]\n  count: i64\n  cache: f32[4]>"
    with pytest.raises(FeedError, match=r"w is f32\[2, 3\]"):
        model.state["w"] = np.zeros((3, 2), "f4")
    with pytest.raises(FeedError, match="float64"):
        model.state["w"] = np.zeros((2, 3))
    with pytest.raises(FeedError, match="there is no state `v`"):
        model.state["v"] = 1
    assert model.state.get("v") is None
    with pytest.raises(FeedError, match="whole numbers"):
        model.state["count"] = 0.5


def test_state_that_nothing_has_set_is_an_error_at_its_first_read() -> None:
    model = dfc_runtime.loads(program().to_bytes(), initialise=False)
    with pytest.raises(RunError, match="`tick` reads count, which nothing has set"):
        model.tick()
    model.state["count"] = 5
    assert model.tick().count == 6


def test_captured_state_takes_the_place_of_init() -> None:
    sketch = program()
    sketch.weights = {"w": np.full((2, 3), 8, "f4"), "count": np.array(3, "i8")}
    model = dfc_runtime.loads(sketch.to_bytes())
    assert model.state["w"].tolist() == [[8, 8, 8], [8, 8, 8]]
    assert model.tick().count == 4


def test_sizes_that_no_feed_decides_are_feeds() -> None:
    @native
    def iota(call: Call) -> None:
        call.array(0, "i4", (call.size(1),))[:] = range(call.size(1))

    generate = entry("generate", {}, "i32[N]", dims=["N"], dim_feeds=["N"])
    model = dfc_runtime.loads(Sketch([(generate, "iota")]).to_bytes())
    assert model.generate(N=3).tolist() == [0, 1, 2]
    assert model.generate(N=np.int8(1)).tolist() == [0]
    assert model.generate(N=0).shape == (0,)
    assert str(inspect.signature(model.generate)) == "(*, N: 'int')"
    for wrong, words in ((-1, "at least 0"), (1.5, "whole number"), (True, "whole number"), ("3", "whole number")):
        with pytest.raises(FeedError, match=words):
            model.generate(N=wrong)
    with pytest.raises(FeedError, match="misses the size N"):
        model.generate()
    with pytest.raises(LimitError):
        model.generate(N=2**61)


def test_the_memory_limit_can_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    data = program().to_bytes()
    x = np.ones((1000, 4), "f4")
    with pytest.raises(LimitError, match=r"`scale` with B = 1000 needs 31 KiB, more than the limit of 4096 bytes"):
        dfc_runtime.loads(data, memory_limit=4096).scale(x, 1)
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "4K")
    with pytest.raises(LimitError):
        dfc_runtime.loads(data).scale(x, 1)
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "1M")
    assert dfc_runtime.loads(data).scale(x, 1).total == 4000
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "much")
    with pytest.raises(LimitError, match="for example 8G"):
        dfc_runtime.loads(data)


def test_the_arena_is_aligned_and_used_again(model: Module) -> None:
    seen: list[int] = []

    @native
    def arena(call: Call) -> None:
        seen.append(int(call.view(2, "u8")[0]))
        call.array(2, "u1", (call.size(1) * 100,))[:] = 1

    made = entry("f", {"x": "f32[B]"}, dims=["B"], arena=formula("$B", 100, "*"))
    small = dfc_runtime.loads(Sketch([(made, "arena")]).to_bytes())
    for size in (5, 3, 5):
        small.f(np.zeros(size, "f4"))
    assert len(set(seen)) == 1 and seen[0] % 64 == 0
    small.free()
    small.f(np.zeros(1000, "f4"))
    assert seen[-1] % 64 == 0


def test_threads_come_from_argument_environment_or_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    data = program().to_bytes()
    dfc_runtime.loads(data, threads=3)
    assert fake_driver.INSTANCES[-1].threads == 3
    monkeypatch.setenv("DFC_THREADS", "5")
    dfc_runtime.loads(data)
    assert fake_driver.INSTANCES[-1].threads == 5
    for wrong in (0, -1, 10**6, True):
        with pytest.raises(FeedError, match="number of threads"):
            dfc_runtime.loads(data, threads=wrong)


def test_a_bundle_for_other_processors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = program()
    sketch.required_bits = ("quantum",)
    with pytest.raises(BundleError, match="code for fake; this processor lacks quantum"):
        dfc_runtime.loads(sketch.to_bytes())


def test_a_missing_driver_is_named() -> None:
    sketch = program()
    sketch.driver = "abacus"
    with pytest.raises(BundleError, match="needs the driver abacus; installed: "):
        dfc_runtime.loads(sketch.to_bytes())


def test_the_driver_gets_constants_that_are_aligned_and_frozen(model: Module) -> None:
    made = fake_driver.INSTANCES[-1]
    assert made.constants.tobytes() == b"constant data"
    assert made.constants.ctypes.data % 64 == 0
    assert not made.constants.flags.writeable
    assert all(array.ctypes.data % 64 == 0 for array in made.resources.values())
    assert list(made.resources) == ["w", "count", "cache"]


def test_partial_execution_of_a_program_that_is_no_program_is_refused(model: Module) -> None:
    with pytest.raises(UnsupportedError, match="the program in the bundle does not compile here"):
        model.run(["add/sum"])


def test_exclusive_calls_queue_up_and_shared_calls_do_not() -> None:
    together = threading.Barrier(2, timeout=60)

    @native
    def meet(call: Call) -> None:
        together.wait()

    @native
    def alone(call: Call) -> int:
        busy = inside.locked()
        inside.acquire(blocking=False)
        for _ in range(100):
            np.arange(100).sum()
        inside.release()
        return call.fault(0) if busy else 0

    inside = threading.Lock()
    sketch = Sketch([(entry("look", {}, readonly=True), "meet"), (entry("work", {}), "alone")])
    sketch.faults = [program().faults[1].__class__("assert", "two at once", LOCATION)]
    sketch.driver = "reentrant"
    model = dfc_runtime.loads(sketch.to_bytes())
    _in_threads(2, model.look)
    _in_threads(4, lambda: [model.work() for _ in range(50)])


def _in_threads(count: int, action: object) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_an_interrupted_call_leaves_the_module_usable() -> None:
    @native
    def interrupted(call: Call) -> None:
        raise KeyboardInterrupt

    sketch = program()
    sketch.entries.append((entry("stop", {"x": "f32[B]"}, dims=["B"]), "interrupted"))
    model = dfc_runtime.loads(sketch.to_bytes())
    with pytest.raises(KeyboardInterrupt):
        model.stop(np.zeros(3, "f4"))
    assert model.add(1, 2) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dfc_runtime.load(None), "load wants the path of a bundle, not None"),
        (lambda: dfc_runtime.load(b"bytes"), "the path of a bundle, not a value of type bytes"),
        (lambda: dfc_runtime.loads("text"), "loads wants the bytes of a bundle, not a value of type str"),
        (lambda: dfc_runtime.loads(5), "the bytes of a bundle, not a value of type int"),
        (lambda: dfc_runtime.inspect(None), "a bundle is a path, or bytes, not None"),
        (lambda: dfc_runtime.loads(b"", threads="2"), "the number of threads is a whole number"),
        (lambda: dfc_runtime.loads(b"", threads=2.0), "the number of threads is a whole number"),
        (lambda: dfc_runtime.loads(b"", memory_limit="10"), "memory_limit is a whole number of bytes, not '10'"),
        (lambda: dfc_runtime.loads(b"", memory_limit=-1), "memory_limit is a whole number of bytes, not -1"),
    ],
)
def test_things_of_a_wrong_kind_are_refused_by_name(call: Callable[[], object], words: str) -> None:
    with pytest.raises(FeedError, match=re.escape(words)):
        call()


def test_a_name_of_a_wrong_kind_is_no_state(model: Module) -> None:
    with pytest.raises(KeyError, match="there is no state `5`"):
        _ = model.state[5]


@pytest.mark.parametrize("entry", ["add", "scale", "tick", "init"])
def test_nothing_of_a_closed_module_runs(model: Module, entry: str) -> None:
    feeds = {"add": (1, 2), "scale": (np.ones((1, 4), "f4"), 1)}.get(entry, ())
    model.entries[entry](*feeds)
    model.close()
    model.close()
    with pytest.raises(RunError, match=rf"\[E0903\] `{entry}` cannot run: the module was closed"):
        model.entries[entry](*feeds)


def test_the_state_of_a_closed_module_can_be_read_and_saved(model: Module, tmp_path: Path) -> None:
    model.tick()
    model.close()
    assert model.state["count"] == 1
    Module.save(model, tmp_path)
    with pytest.raises(RunError, match="no part can run: the module was closed"):
        model.run("add/x")


def test_closing_waits_for_calls_and_refuses_the_next_ones(model: Module) -> None:
    refused: list[int] = []

    def call() -> None:
        for _ in range(100_000):
            try:
                model.tick()
            except RunError:
                refused.append(1)
                return

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 4
