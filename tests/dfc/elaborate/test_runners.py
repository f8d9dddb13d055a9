"""Runners."""

from __future__ import annotations

import pytest

from tests.support.building import codes, graph_of, messages

QUEUE = "queue q: i64 = fifo(capacity = 8)\nvar n: i64 = 0\nentry next() -> i64 {\n  let x = q.take()\n  return x\n}\n"


def runner(*lines: str, settings: str = "") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"runner count{settings} {{\n{body}}}\n"


def test_a_runner_is_an_entry_that_nobody_calls() -> None:
    entry = graph_of(QUEUE + runner("n += 1", "q.put(n)", settings=" with copies = 3")).entries["count"]
    assert (entry.is_runner, entry.copies, entry.parameter_names, entry.result_names) == (True, 3, (), ())


def test_an_entry_is_no_runner() -> None:
    assert not graph_of(QUEUE + runner("q.put(1)")).entries["next"].is_runner


@pytest.mark.parametrize("copies", ["0", "-1", "5000", "1.5", "true"])
def test_copies_are_a_number_of_threads(copies: str) -> None:
    assert codes(QUEUE + runner("q.put(1)", settings=f" with copies = {copies}")) == ["E0315"]


def test_an_unknown_setting_is_one_mistake() -> None:
    assert "did you mean `copies`?" in messages(QUEUE + runner("q.put(1)", settings=" with copie = 2"))


def test_a_runner_without_a_queue_would_never_start() -> None:
    assert codes(QUEUE + runner("n += 1") + "entry feed() {\n  q.put(1)\n}\n") == ["E0703"]


def test_a_runner_that_takes_nothing_at_the_end_of_the_data_would_never_end() -> None:
    helper = "proc more() -> i64 {\n  let [K] _: i64[K] = q.take_up_to(4, least = 0)\n  return K\n}\n"
    feed = "entry feed() {\n  q.put(1)\n}\n"
    shown = messages(QUEUE + feed + helper + runner("let k = more()", "n += k"))
    assert "error[E0315]: the runner `count` would never end" in shown
    assert "leave `least = 0` out" in shown


def test_a_runner_is_called_by_nobody() -> None:
    assert codes(QUEUE + runner("q.put(1)") + "entry step() {\n  count()\n}\n") == ["E0207"]


def test_a_runner_has_nothing_to_return() -> None:
    assert len(codes(QUEUE + runner("q.put(1)", "return 3"))) == 1


def test_a_runner_has_a_name_of_its_own() -> None:
    assert codes(QUEUE + runner("q.put(1)") + "entry count() { }\n") == ["E0205"]


def test_a_runner_in_a_block_is_refused_and_not_left_out() -> None:
    member = "queue q: i64 = fifo(capacity = 3)\n  runner r {\n    q.put(1)\n  }"
    assert "E1001" in codes(
        f"block B {{\n  {member}\n}}\nvar b = B()\nentry get() -> i64 {{\n  let n = b.q.size()\n  return n\n}}\n"
    )
