"""What comes out of queues and runners: the same stream for any number of copies and threads, never more than fits."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import dfc
from dfc.ir.dtypes import F64, I64
from dfc.ops.creation.philox import numbers
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.records.example import encode_example
from dfc_runtime.records.writing import RecordWriter
from tests.support.pipelines import COUNT, compiled, drained, eventually, loaded, numbers_of
from tests.support.queue_programs import Reference, form
from tests.support.sweeping import few
from tests.support.workers.worker import anonymous_bytes

STAGES = """
queue numbers: i64 = fifo(capacity = 7)
queue kept: (k: i64, row: f32[33]) = fifo(capacity = 3)
queue mixed: (k: i64, row: f32[33]) = shuffle_queue(capacity = 40, ready = 16, seed = 5)
{source}
runner work with copies = {copies} {{
  let k = numbers.take()
  let row = loop x = broadcast(k as f32, [33]) for i in 0..(k * 7919 % 13) * 20 {{ x = x * 1.5 - x * 0.5 }}
  if k % 3 != 0 {{ kept.put(k, row) }}
}}
runner mix {{
  let k, row = kept.take()
  mixed.put(k, row)
}}
entry batch() -> (k: i64[4], row: f32[4, 33]) {{
  let k, row = mixed.take(4)
  return k, row
}}
"""


def shuffled(keys: list[int], key: tuple[int, int], capacity: int, window: int, count: int) -> list[int]:
    """The keys in the order in which a shuffled queue gives them, `count` at once; the draws of an rng are numbered."""
    reference = Reference(form([(I64, ())], capacity, window))
    order: list[int] = []
    for take in range(len(keys) // count):
        while keys and len(reference.elements) < capacity:
            reference.put(np.int64(keys.pop(0)))
        draws = numbers("uniform", F64, (count,), key, draw=take)
        order += [int(each[0]) for each in reference.take(draws.tolist())]
    return order


@pytest.mark.parametrize("copies", few([1, 2, 8, 30], 3))
def test_copies_of_a_runner_give_the_stream_of_one(copies: int) -> None:
    """Iterations take different times, and some put nothing; of 30 copies on few processors, most are behind."""
    model = loaded(STAGES.format(source=COUNT.format(last=402), copies=copies))
    key = tuple(int(word) for word in model.state["mixed.order"][:2])
    batches = drained(model.batch)
    keys = np.concatenate([batch.k for batch in batches])
    rows = np.concatenate([batch.row for batch in batches])
    assert keys.tolist() == shuffled_with_room([k for k in range(402) if k % 3 != 0], key)
    np.testing.assert_array_equal(rows, np.repeat(keys.astype(np.float32)[:, None], 33, axis=1))
    model.close()


def shuffled_with_room(keys: list[int], key: tuple[int, int]) -> list[int]:
    """A take needs a full window and no more, so how full the queue is does not matter."""
    return shuffled(keys, key, capacity=len(keys), window=16, count=4)


@pytest.mark.parametrize("copies", [1, 4])
def test_a_fifo_keeps_the_order_of_its_runner(copies: int) -> None:
    text = f"""
queue numbers: i64 = fifo(capacity = 1)
queue squares: i64 = fifo(capacity = 5)
{COUNT.format(last=300)}
runner square with copies = {copies} {{
  let k = numbers.take()
  squares.put(k * k)
}}
entry next() -> i64 {{ return squares.take() }}
"""
    assert drained(loaded(text).next) == [k * k for k in range(300)]


def test_copies_change_a_variable_in_the_order_of_iterations() -> None:
    """A recurrence that every order but one would change."""
    text = f"""
queue numbers: i64 = fifo(capacity = 4)
queue hashes: u64 = fifo(capacity = 4)
var hash: u64 = 1
{COUNT.format(last=500)}
runner mix with copies = 6 {{
  let k = numbers.take()
  hash := hash * 6364136223846793005 + (k as u64)
  hashes.put(hash)
}}
entry next() -> u64 {{ return hashes.take() }}
"""
    hash, expected = 1, []
    for k in range(500):
        hash = (hash * 6364136223846793005 + k) % 2**64
        expected.append(hash)
    assert drained(loaded(text).next) == expected


def test_a_priority_queue_orders_what_copies_make() -> None:
    """By the deadline that each element gets, among eight at a time; equal ones in the order of their numbers."""
    text = f"""
queue numbers: i64 = fifo(capacity = 4)
queue jobs: (deadline: i64, k: i64) = priority_queue(capacity = 12, ready = 8)
queue again: (k: i64, weight: f32) = AGAIN
{COUNT.format(last=300)}
runner plan with copies = 5 {{
  let k = numbers.take()
  jobs.put(k * 7919 % 31, k)
}}
runner pass {{
  let deadline, k = jobs.take()
  again.put(k, -((k * 31 % 300) as f32))
}}
entry next() -> i64 {{
  let k, _ = again.take()
  return k
}}
"""
    whole = 'priority_queue(capacity = 300, ready = 300, by = "weight")'
    assert drained(loaded(text.replace("AGAIN", whole)).next) == sorted(range(300), key=lambda k: -(k * 31 % 300))
    waiting = [(k * 7919 % 31, k) for k in range(300)]
    expected = []
    while waiting:
        expected.append(waiting.pop(waiting.index(min(waiting[:8])))[1])
    assert drained(loaded(text.replace("AGAIN", "fifo(capacity = 4)")).next) == expected


SHARED = """
queue jobs: (who: i64, k: i64) = fifo(capacity = 4)
entry give(who: i64, k: i64) with concurrent = true { jobs.put(who, k) }
entry take() -> (who: i64, k: i64) with concurrent = true {
  let who, k = jobs.take()
  return who, k
}
entry close() with concurrent = true { jobs.close() }
entry size() -> i64 with concurrent = true { return jobs.size() }
"""


def test_many_threads_share_a_queue_which_never_holds_more_than_fits() -> None:
    model = loaded(SHARED)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    sizes = [int(model.size())]  # more of them if the threads are not done by then

    def give(who: int) -> None:
        for k in range(200):
            model.give(who, k)

    def take(number: int) -> None:
        taken[number] = [(int(each.who), int(each.k)) for each in drained(model.take)]

    givers = [threading.Thread(target=give, args=(who,)) for who in range(4)]
    takers = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in givers + takers:
        thread.start()
    while any(thread.is_alive() for thread in givers):
        put, gone, _ = numbers_of(model, "jobs")
        sizes += [int(model.size()), max(put - gone, 0)]  # the two numbers are read one after the other
        for thread in givers:
            thread.join(0.001)
    model.entries["close"]()
    for thread in takers:
        thread.join()
    assert sorted(each for one in taken for each in one) == [(who, k) for who in range(4) for k in range(200)]
    for one in taken:  # of one giver, each taker sees the numbers in their order
        for who in range(4):
            own = [k for each, k in one if each == who]
            assert own == sorted(own)
    assert max(sizes) <= 4 + 1


def test_a_put_waits_while_the_queue_is_full() -> None:
    model = loaded(SHARED)
    for k in range(4):
        model.give(0, k)
    waiting = threading.Thread(target=model.give, args=(0, 4))
    waiting.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None and each.to_put for each in queues.calls()))
    assert numbers_of(model, "jobs")[:2] == (4, 0)
    assert [int(model.take().k) for _ in range(5)] == [0, 1, 2, 3, 4]
    waiting.join()


def test_ten_thousand_elements_pass_three_stages_without_python() -> None:
    """The one request is made where the last element comes by."""
    asked: list[int] = []

    def answer(request: HostRequest) -> None:
        asked.append(request.call.number)
        request.outputs[0][...] = 5

    text = f"""
queue numbers: i64 = fifo(capacity = 64)
queue doubled: i64 = fifo(capacity = 64)
queue kept: i64 = fifo(capacity = 64)
{COUNT.format(last=10_000)}
runner double {{ let k = numbers.take()
  doubled.put(k * 2) }}
runner keep {{ let k = doubled.take()
  if k == 19_998 {{
    let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
    kept.put(t)
  }} else if k % 1000 == 0 {{ kept.put(k) }}
}}
entry next() -> i64 {{ return kept.take() }}
"""
    model = loaded(text, recv=answer)
    assert drained(model.next) == [*range(0, 20_000, 1000), 5]
    assert asked == [9_999]


RECORDS = """
var files = record_files("a.rec", shuffle = "records", seed = 3)
queue pool: (x: f32[3], label: i64) = shuffle_queue(capacity = 64, ready = 16)
runner read with copies = 2 {
  let record = files.next()
  let fields = parse_example(record, (x = f32[3], label = i64))
  pool.put(fields.x * 2.0, fields.label)
}
entry total() -> (sum: i64, count: i64) {
  let total, count, _ = loop total: i64 = 0, count: i64 = 0, more = true while more {
    let [K] _, labels: i64[K] = pool.take_up_to(8, least = 0)
    total = total + sum(labels)
    count = count + K
    more = K > 0
  }
  return total, count
}
"""


def test_records_are_read_and_parsed_without_a_line_of_python_each(tmp_path: Path) -> None:
    """Threads of a runner enter fewer functions of Python than there are records: they do so for a block of many."""
    entered: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and threading.current_thread().name.startswith("dfc-read-"):
            entered[frame.f_code.co_qualname] += 1

    for count in (10, 3000):  # what is imported with the first record is there afterwards
        labels = range(count)
        examples = [encode_example({"x": np.zeros(3, np.float32), "label": np.array([k])}) for k in labels]
        with RecordWriter(str(tmp_path / f"{count}.rec")) as writer:
            writer.write(examples)
        model = dfc.loads(compiled(RECORDS), threads=1, data={"files": tmp_path / f"{count}.rec"})
        entered.clear()
        threading.setprofile(profile)  # of threads that begin from now on
        try:
            with ThreadPoolExecutor(1) as caller:
                done = caller.submit(model.total).result()
        finally:
            threading.setprofile(None)
        model.close()
        assert (done.sum, done.count) == (sum(labels), count)
    assert 0 < entered["Reader.next"] <= 4
    assert entered.total() < 3000


def test_elements_that_pass_leave_no_memory_behind() -> None:
    """Thirteen megabytes of them, before which as many passed."""
    text = """
queue rows: f32[784] = fifo(capacity = 16)
var n: i64 = 0
runner fill { n += 1
  rows.put(broadcast(n as f32, [784])) }
entry last(count: i64) -> f32 {
  return loop last: f32 = 0 for i in 0..count {
    let row = rows.take()
    last = row[0]
  }
}
"""
    model = loaded(text)
    assert model.last(4096) == 4096
    before = anonymous_bytes()
    assert model.last(4096) == 8192
    assert anonymous_bytes() - before < 1 << 20
    model.close()


def test_runners_of_two_modules_have_queues_of_their_own() -> None:
    text = f"""
queue numbers: i64 = fifo(capacity = 4)
{COUNT.format(last=9)}
entry next() -> i64 {{ return numbers.take() }}
"""
    first, second = loaded(text), loaded(text)
    assert [int(first.next()) for _ in range(3)] == [0, 1, 2]
    assert drained(second.next) == list(range(9))
    assert drained(first.next) == list(range(3, 9))


def test_a_thousand_copies_that_wait_leave_the_pool_to_calls() -> None:
    text = """
queue jobs: i64 = fifo(capacity = 4)
queue answers: i64 = fifo(capacity = 4)
entry give(k: i64) { jobs.put(k) }
runner answer with copies = 1000 { let k = jobs.take()
  answers.put(k + 1) }
entry next() -> i64 { return answers.take() }
entry product(x: f32[300, 300]) -> f32[300, 300] { return x @ x }
"""
    model = loaded(text, threads=2)
    model.give(1)
    assert model.next() == 2
    x = np.eye(300, dtype=np.float32) * 3
    for _ in range(5):
        np.testing.assert_array_equal(model.product(x), x * 3)
    model.give(5)
    assert model.next() == 6
    model.close()
