"""How streams end: closed, exhausted, or with the failure of a runner, which reaches whoever takes."""

from __future__ import annotations

import pytest

import dfc
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import RunError
from tests.support.pipelines import COUNT, drained, eventually, loaded, runner_threads

CHAIN = """
queue a: i64 = fifo(capacity = 3)
queue b: i64 = fifo(capacity = 3)
queue c: i64 = fifo(capacity = 3)
entry give(k: i64) { a.put(k) }
entry close_a() { a.close() }
runner first with copies = {copies} { let k = a.take()
  let x = loop x = k for i in 0..(k // 100) * 1_000_000 { x = x * 3 % 1000 }
  assert k < 100 or x < 0, "too large"
  b.put(k + 1) }
runner second { let k = b.take()
  c.put(k * 2) }
entry next() -> i64 { return c.take() }
entry pair() -> i64[2] { return c.take(2) }
"""


def chain(copies: int = 1) -> dfc.Module:
    return loaded(CHAIN.replace("{copies}", str(copies)))


@pytest.mark.parametrize("copies", [1, 4])
def test_the_end_of_the_data_travels_down_behind_the_last_element(copies: int) -> None:
    model = chain(copies)
    for k in range(3):
        model.give(k)
    model.close_a()
    model.close_a()  # a second time changes nothing
    assert drained(model.next) == [2, 4, 6]
    with pytest.raises(dfc.EndOfData) as caught:
        model.next()
    assert (caught.value.code, caught.value.spans[0].line) == ("E0918", 14)
    assert "the queue `c` is closed, and has nothing more to give, at <text>:14:30" in str(caught.value)
    with pytest.raises(RunError, match="the queue `a` is closed: nothing can be put in any more at <text>:6:"):
        model.give(9)
    eventually(lambda: not runner_threads(model))


def test_what_is_left_is_less_than_a_take_asks_for() -> None:
    model = chain()
    for k in range(3):
        model.give(k)
    model.close_a()
    assert model.pair().tolist() == [2, 4]
    with pytest.raises(dfc.EndOfData):
        model.pair()
    assert model.next() == 6


DRAINED = """
queue lengths: i64 = fifo(capacity = 8)
queue words: i64[?] = bucket_queue(capacity = 9, bounds = [1, 4])
entry give(n: i64) { lengths.put(n) }
entry finish() { lengths.close() }
runner make { let n = lengths.take()
  let [N] word: i64[N] = range(n, 4)
  words.put(word) }
entry drain() -> (total: i64, words: i64, takes: i64) {
  let total, count, takes, k = loop total: i64 = 0, count: i64 = 0, takes: i64 = 0, k: i64 = 1 while k > 0 {
    let [K, L] some: i64[K, L], length = words.take_up_to(2, least = 0)
    total = total + sum(some + L) + sum(length)
    count = count + K
    takes = takes + 1
    k = K
  }
  return total, count, takes
}
entry some() -> i64 { let [K, L] _: i64[K, L], _ = words.take_up_to(2)
  return K }
"""


def test_a_loop_takes_what_is_left_and_ends_with_its_sums_where_the_data_ends() -> None:
    model = loaded(DRAINED)
    for n in (1, 4, 0, 3, 2):
        model.give(n)
    model.finish()

    # Sum of all words; each of their places counts the length of its batch: (1, 0), (4, 3), (2).
    assert model.drain() == ((0 + 6 + 3 + 1) + (2 * 1 * 1 + 2 * 4 * 4 + 1 * 2 * 2) + (1 + 0 + 4 + 3 + 2), 5, 4)
    assert model.drain() == (0, 0, 1)
    with pytest.raises(dfc.EndOfData):
        model.some()


def test_a_loop_that_takes_what_is_left_fails_where_the_runner_did() -> None:
    model = loaded(DRAINED)
    model.give(1)
    model.give(5)
    with pytest.raises(RunError, match="the runner `make` has failed in iteration 1"):
        model.drain()


@pytest.mark.parametrize("copies", [1, 4])
def test_a_runner_that_fails_gives_its_error_behind_the_elements_before_it(copies: int) -> None:
    model = chain(copies)
    model.give(1)
    model.give(2)
    model.give(100)
    assert [model.next(), model.next()] == [4, 6]
    for _ in range(2):
        with pytest.raises(RunError) as caught:
            model.next()
        assert (caught.value.code, caught.value.line) == ("E0903", 10)
        assert str(caught.value).splitlines() == [
            "[E0903] the runner `first` has failed in iteration 2: too large at <text>:10:3",
            '  10 | assert k < 100 or x < 0, "too large"',
            "  the queue `c` has nothing more because of it, at <text>:14:30",
        ]
        assert isinstance(caught.value.__cause__, RunError)
    with pytest.raises(RunError, match="`first` has failed in iteration 2") as caught:
        model.give(3)
    assert caught.value.line == 10


def test_of_several_iterations_that_fail_the_first_one_counts() -> None:
    """The others fail sooner: it takes long, and they are behind it."""
    text = f"""
queue numbers: i64 = fifo(capacity = 50)
queue kept: i64 = fifo(capacity = 50)
{COUNT.format(last=1000)}
runner work with copies = 8 {{
  let k = numbers.take()
  let slow = (k == 96) as i64
  let x = loop x = k for i in 0..slow * 1_000_000 {{ x = x * 3 % 1000 }}
  assert k < 96 or x < 0
  kept.put(k)
}}
entry next() -> i64 {{ return kept.take() }}
"""
    model = loaded(text)
    assert [int(model.next()) for _ in range(96)] == list(range(96))
    with pytest.raises(RunError, match="`work` has failed in iteration 96"):
        model.next()


def test_an_index_out_of_range_in_the_first_iteration_does_not_hang_anybody() -> None:
    text = """
param table: f32[4] = 0
queue rows: f32 = fifo(capacity = 2)
var n: i64 = 9
runner read { rows.put(table[n]) }
entry next() -> f32 { return rows.take() }
"""
    model = loaded(text)
    with pytest.raises(
        RunError, match="the runner `read` has failed in iteration 0: index 9 is out of range"
    ) as caught:
        model.next()
    assert (caught.value.code, caught.value.values, caught.value.line) == ("E0904", (9, 4), 6)


def test_what_a_handler_raises_in_a_runner_reaches_who_takes() -> None:
    def fail(request: HostRequest) -> None:
        raise KeyError(request.call.number)

    text = """
queue rows: i64 = fifo(capacity = 2)
runner read {
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  rows.put(t)
}
entry next() -> i64 { return rows.take() }
"""
    with pytest.raises(RunError, match="the runner `read` has failed in iteration 0: KeyError: 0") as caught:
        loaded(text, recv=fail).next()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.line == 4


def test_a_queue_that_calls_fill_too_stays_open_when_its_runner_ends() -> None:
    text = f"""
queue numbers: i64 = fifo(capacity = 8)
queue all: i64 = fifo(capacity = 8)
{COUNT.format(last=2)}
runner copy {{ let k = numbers.take()
  all.put(k) }}
entry give(k: i64) {{ all.put(k) }}
entry next() -> i64 {{ return all.take() }}
"""
    model = loaded(text)
    assert [model.next(), model.next()] == [0, 1]
    eventually(lambda: not runner_threads(model))
    model.give(7)
    assert model.next() == 7


def test_a_queue_of_two_runners_closes_behind_the_last_of_them() -> None:
    text = """
queue all: i64 = fifo(capacity = 2)
var n: i64 = 0
var m: i64 = 0
queue ones: i64 = fifo(capacity = 2)
queue twos: i64 = fifo(capacity = 2)
runner one { ones.put(n)
  n += 1
  if n == 5 { ones.close() } }
runner two { twos.put(m)
  m += 1
  if m == 30 { twos.close() } }
runner left { let k = ones.take()
  all.put(k + 1000) }
runner right { let k = twos.take()
  all.put(k) }
entry next() -> i64 { return all.take() }
"""
    values = [int(each) for each in drained(loaded(text).next)]
    assert [each for each in values if each < 1000] == list(range(30))
    assert [each for each in values if each >= 1000] == list(range(1000, 1005))


def test_runners_start_with_the_first_call_that_needs_them() -> None:
    text = f"""
queue numbers: i64 = fifo(capacity = 2)
queue doubled: i64 = fifo(capacity = 2)
queue other: i64 = fifo(capacity = 2)
var k: i64 = 0
{COUNT.format(last=100)}
runner double {{ let j = numbers.take()
  doubled.put(j * 2) }}
runner apart {{ k += 1
  other.put(k) }}
entry plain() -> i64 {{ return 3 }}
entry next() -> i64 {{ return doubled.take() }}
entry more() -> i64 {{ return other.take() }}
"""
    model = loaded(text)
    assert model.plain() == 3
    assert runner_threads(model) == []
    model.next()
    assert runner_threads(model) == ["dfc-count-0", "dfc-double-0"]
    model.more()
    assert runner_threads(model) == ["dfc-apart-0", "dfc-count-0", "dfc-double-0"]
    model.close()
    assert runner_threads(model) == []


def test_runners_and_queues_are_not_seen_as_entries_and_state() -> None:
    model = chain()
    assert set(model.entries) == {"give", "close_a", "next", "pair", "init"}
    assert list(model.state) == [] and len(model.state) == 0
    assert "queue" not in repr(model.state)
    with pytest.raises(KeyError, match="`a` is a queue: entries put into it and take out of it"):
        model.state["a"]
    assert not hasattr(model, "first")
    captured = dfc.compile(text=f"dfg 1\n{CHAIN.replace('{copies}', '1')}").with_state(model.state)
    assert dfc.loads(captured.to_bytes()).entries.keys() == model.entries.keys()
