"""What programs do with queues."""

from __future__ import annotations

import pytest

from dfc.ir import walk
from dfc.ir.graph import Node
from dfc.ops.effects.queues import TakeAttributes
from tests.support.building import codes, graph_of, messages

FIFO = "queue q: (x: f32[3], y: i32) = fifo(capacity = 8)\n"
SHUFFLED = "queue q: (x: f32[3], y: i32) = shuffle_queue(capacity = 8, ready = 3)\n"
FEED = "entry feed(x: f32[3], y: i32) {\n  q.put(x, y)\n}\n"


def step(*lines: str, result: str = "", queue: str = FIFO) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{queue}{FEED}entry step(){result} {{\n{body}}}\n"


def nodes(text: str) -> list[Node]:
    """The nodes of the entry `step`, but for constants."""
    return [node for node in walk.nodes(graph_of(text).entries["step"].block) if node.op != "constant"]


def test_a_take_gives_the_fields_by_name() -> None:
    assert [node.op for node in nodes(step("let one = q.take()", "return sum(one.x)", result=" -> f32"))] == [
        "queue_take",
        "sum",
    ]


def test_several_elements_are_stacked() -> None:
    take, *_ = nodes(step("let x, y = q.take(4)", "return sum(x), sum(y)", result=" -> (a: f32, b: i32)"))
    assert [str(value.type) for value in take.results] == ["f32[4, 3]", "i32[4]", "token(q)"]
    assert isinstance(take.attributes, TakeAttributes)
    assert str(take.attributes.count) == "4"


def test_what_is_left_has_a_size_that_is_found_out() -> None:
    lines = ("let [K] x: f32[K, 3], y: i32[K] = q.take_up_to(4)", "return K, sum(x)")
    take, size, *rows = nodes(step(*lines, result=" -> (k: i64, s: f32)"))
    assert [str(value.type) for value in take.results] == ["f32[4, 3]", "i32[4]", "i64", "token(q)"]
    assert (size.op, size.operands) == ("range", (take.results[2],))
    assert [node.op for node in rows].count("gather") == 2


def test_a_shuffled_queue_draws_a_number_for_each_element() -> None:
    text = step("let x, _ = q.take(4)", "return sum(x)", result=" -> f32", queue=SHUFFLED)
    draw, take, *_ = nodes(text)
    assert (draw.op, str(draw.result.type)) == ("draw", "f64[4]")
    assert take.operands[0] is draw.result


def test_an_element_is_put_as_fields_by_name_or_as_a_whole() -> None:
    take, whole, named = nodes(step("let one = q.take()", "q.put(one)", "q.put(y = 3, x = one.x)"))
    assert (whole.operands[:2], named.operands[0]) == (take.results[:2], take.results[0])


def test_effects_on_a_queue_keep_the_order_of_lines() -> None:
    size, close = nodes(step("let before = q.size()", "q.close()", "return before", result=" -> i64"))
    assert close.operands[-1] is size.results[-1]


def test_a_size_can_be_asked_for_after_a_value() -> None:
    lines = ("let x, _ = q.take()", "let s = sum(x)", "let n = q.size() after s", "return n")
    _, total, size = nodes(step(*lines, result=" -> i64"))
    assert size.operands[0] is total.result


MISTAKES = {
    "q.put(zeros(f32[3]))": "E0204",
    "q.put(zeros(f32[4]), 1)": "E0316",
    "q.put(zeros(f32[3]), 1.5)": "E0311",
    "q.put(zeros(f32[3]), 1, 2)": "E0204",
    "q.put(x = zeros(f32[3]), z = 1)": "E0204",
    "q.size(3)": "E0204",
    "q.close(1)": "E0204",
    "q.tak()": "E0203",
    "let _ = q.take(-1)": "E0315",
    "let _ = q.take(9)": "E0702",
    "let _ = q.take(sum(zeros(f32[3])))": "E0309",
    "let _ = q.take_up_to()": "E0204",
    "let _ = q.take_up_to(9)": "E0702",
    "let _ = q.take_up_to(4, 0)": "E0204",
    "let _ = q.take_up_to(4, least = 2)": "E0315",
    "let _ = q.take(4, least = 0)": "E0204",
    "q := 3": "E0406",
    "let _ = q + 1": "E0316",
    "let _ = q.take().y + 1": "E0403",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_use_is_one_mistake(line: str) -> None:
    assert codes(step(line)) == [MISTAKES[line]]


def test_a_shuffled_queue_gives_fewer_at_once() -> None:
    assert codes(step("let _ = q.take(6)", queue=SHUFFLED)) == []
    shown = messages(step("let _ = q.take(7)", queue=SHUFFLED))
    assert "it has room for 8, and takes only while 3 are ready" in shown


def test_a_size_of_the_entry_is_checked_when_it_is_called() -> None:
    text = "entry step[N]() -> f32 {\n  let x, _ = q.take(N)\n  return sum(x)\n}\n"
    (check,) = graph_of(FIFO + FEED + text).entries["step"].checks
    assert {str(check.left), str(check.right)} == {"8", "N"}


def test_functions_and_readonly_entries_take_nothing() -> None:
    takes = "let _, y = q.take()\n  return y"
    assert codes(f"{FIFO}{FEED}fn f() -> i32 {{\n  {takes}\n}}\n") == ["E0401"]
    assert codes(f"{FIFO}{FEED}readonly entry f() -> i32 {{\n  {takes}\n}}\n") == ["E0402"]
    assert codes(f"{FIFO}{FEED}readonly entry f() -> i64 {{\n  let n = q.size()\n  return n\n}}\n") == []
