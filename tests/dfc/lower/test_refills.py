"""Which queues are refilled from a reader in place of being saved, and why others are not."""

from __future__ import annotations

import pytest

from dfc.lower.refills import with_queue_plans
from dfc_runtime.formats.queue_layout import Refill
from tests.support.building import graph_of

STATE = """
var files = array_files("*.npy", (x = u8))
queue pool: u8 = shuffle_queue(capacity = 64, ready = 32)
queue first: u8 = fifo(capacity = 64)
var other: u8 = 0
var dice: rng = philox(seed = 3)
"""
READ = """
runner read with copies = 2 {
  let row = files.next()
  pool.put(row.x)
}
"""
TAKE = """
entry batch() -> (x: u8[8], skipped: i64) {
  let x = pool.take(8)
  return x, files.skipped()
}
"""
POSITION = "uses `files.skipped()`, or `files.position()` in front of the record"


def plan(text: str) -> tuple[Refill | None, str]:
    form = with_queue_plans(graph_of(STATE + text))["pool"].queue
    assert form is not None
    return form.refill, form.kept


@pytest.mark.parametrize(
    "take", [TAKE, TAKE.replace("let", "let y = pool.take(8)\n  let"), TAKE + TAKE.replace("batch", "another")]
)
def test_a_runner_that_puts_in_an_element_a_record_refills_its_queue(take: str) -> None:
    assert plan(READ + take) == (Refill("read", "files", 8), "")
    checked = READ.replace("pool.put", "assert row.x < 9\n  if row.x > 3 { assert row.x > 4 }\n  pool.put")
    assert plan(checked + take) == (Refill("read", "files", 8), "")


@pytest.mark.parametrize(
    "body",
    [
        "pool.put(row.x)\n other += row.x",
        "let chance = dice.uniform(f32[])\n pool.put(row.x)\n other := chance as u8",
        "if other < 9 { other += 1 }\n pool.put(row.x)",
        "pool.put(row.x + (files.position() as u8))",
        "let z = loop z = row.x while z > 9 {\n z = z - 1\n }\n pool.put(z)",
    ],
)
def test_what_else_a_runner_does_to_state_does_not_matter(body: str) -> None:
    assert plan(READ.replace("pool.put(row.x)", body) + TAKE) == (Refill("read", "files", 8), "")


def test_a_queue_without_draws_is_refilled_whoever_takes_from_it() -> None:
    text = READ.replace("pool", "first") + TAKE.replace("pool", "first")
    more = "entry one() -> u8 with concurrent = true { return first.take() }\nentry feed(x: u8) { pool.put(x) }"
    resources = with_queue_plans(graph_of(STATE + text + more))
    assert resources["first"].queue.refill == Refill("read", "files", 1) and resources["first"].queue.kept == ""
    assert with_queue_plans(graph_of(STATE + READ + TAKE))["first"].queue.kept == "nobody fills it"


def test_a_put_in_a_branch_may_leave_out_a_record() -> None:
    body = "if row.x > 3 {\n if row.x < 9 { pool.put(row.x) }\n } else { other += 1 }"
    assert plan(READ.replace("pool.put(row.x)", body) + TAKE) == (Refill("read", "files", 8, always=False), "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("pool.put(row.x)\n pool.put(row.x)", "may put in several elements of one record"),
        ("for i in 0..2 { pool.put(row.x) }", "may put in several elements of one record"),
        ("let next = files.next()\n pool.put(next.x)", "does not read one record for each element"),
        ("pool.put(row.x)\n first.put(row.x)", "uses `first`, too"),
        ("let n = pool.size()\n pool.put(row.x)\n other := n as u8", "uses `pool` in another way, too"),
        ("pool.put(row.x + (files.skipped() as u8))", POSITION),
        ('pool.put(row.x)\n debug.print("{}", row.x)', "does more than making elements"),
    ],
)
def test_a_runner_whose_work_cannot_be_done_again_has_its_elements_saved(body: str, reason: str) -> None:
    assert plan(READ.replace("pool.put(row.x)", body) + TAKE) == (None, f"the runner `read` {reason}")


@pytest.mark.parametrize(
    "body",
    [
        "pool.put(row.x + other)",
        "if other < 9 { pool.put(row.x) }",
        "if row.x > 3 { if other < 9 { pool.put(row.x) } }",
        "assert other < 9\n pool.put(row.x)",
        "let z = loop z = row.x while z > other {\n z = z - 1\n }\n pool.put(z)",
        "let z, k = loop z = row.x, k = 0 while k < 3 {\n z = z + other\n k = k + 1\n }\n pool.put(z)",
        "let z = if row.x > 3 then other else row.x\n pool.put(z)",
    ],
)
def test_elements_that_depend_on_state_are_saved(body: str) -> None:
    reason = "what the runner `read` puts in depends on `other`"
    assert plan(READ.replace("pool.put(row.x)", body) + TAKE) == (None, reason)


def test_elements_that_depend_on_draws_are_saved() -> None:
    body = "let chance = dice.uniform(f32[])\n pool.put(if chance > 0.5 then row.x else 3)"
    reason = "what the runner `read` puts in depends on `dice`"
    assert plan(READ.replace("pool.put(row.x)", body) + TAKE) == (None, reason)


def test_what_is_to_persist_is_saved_and_can_be_read_again() -> None:
    form = with_queue_plans(graph_of(STATE.replace("ready = 32)", "ready = 32) with persist = true") + READ + TAKE))
    queue = form["pool"].queue
    assert queue is not None and queue.refill == Refill("read", "files", 8)
    assert queue.kept == "it is declared `with persist = true`"


def test_the_position_in_front_of_a_record_is_another_one_later() -> None:
    text = READ.replace("let row", "let at = files.position()\n  let row").replace("row.x", "row.x + (at as u8)")
    assert plan(text + TAKE) == (None, f"the runner `read` {POSITION}")


def test_a_queue_that_others_fill_or_close_has_its_elements_saved() -> None:
    assert plan(READ + TAKE + "entry feed(x: u8) { pool.put(x) }") == (None, "`feed` is called to fill it")
    assert plan(READ + TAKE + "entry finish() { pool.close() }") == (None, "`finish` closes it")
    assert plan(READ + TAKE + "runner more { pool.put(3) }") == (None, "several runners fill it")
    assert plan(TAKE + "runner more { pool.put(3) }") == (None, "the runner `more` reads no records")


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (TAKE + "entry one() -> u8 { return pool.take() }", "its takes get different numbers of elements"),
        (
            TAKE.replace("batch()", "batch[N]()").replace("8", "N").replace("uN", "u8"),
            "its takes get different numbers",
        ),
        (TAKE.replace("{", "with concurrent = true {", 1), "calls of `batch` take from it at the same time"),
        (TAKE + "runner move {\n let x = pool.take()\n first.put(x)\n}", "`batch` and `move` take from it at the same"),
        ("entry none() -> i64 { return files.skipped() }", "nobody takes from it"),
    ],
)
def test_where_draws_do_not_say_what_was_taken_elements_are_saved_and_can_be_read_again(take: str, reason: str) -> None:
    refill, kept = plan(READ + take)
    assert refill == Refill("read", "files", 0) and kept.startswith(reason)
