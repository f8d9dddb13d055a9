"""Turns of the copies of runners."""

from __future__ import annotations

import pytest

from dfc.kernels.program import HostCall, If, Program, Step
from dfc.lower.program import lower_graph
from tests.support.building import graph_of

PROGRAM = """
queue raw: f32[3] = fifo(capacity = 4)
queue pool: f32[3] = fifo(capacity = 4)
var broken: i64 = 0
entry feed(x: f32[3]) {
  raw.put(x)
}
runner work with copies = COPIES {
  let x = raw.take()
  let y = exp(x) * 2.0
  if sum(y) > 0.0 {
    pool.put(y)
  } else {
    broken += 1
  }
}
entry step() -> f32 {
  let x = pool.take()
  return sum(x)
}
"""


def lowered(copies: int) -> Program:
    return lower_graph(graph_of(PROGRAM.replace("COPIES", str(copies))))


def kind(program: Program, step: Step) -> str:
    """What a step is: of a turn, its number as well."""
    if not isinstance(step, HostCall):
        return type(step).__name__
    site = program.sites[step.site]
    turn = dict(site.attributes).get("turn", "")
    return f"{site.kind}{turn}"


def steps(program: Program, entry: str) -> list[str]:
    own = next(each for each in program.entries if each.name == entry)
    return [kind(program, step) for step in own.steps]


def test_a_turn_is_around_each_thing_that_copies_share_and_nothing_else() -> None:
    work = steps(lowered(3), "work")
    assert work[:3] == ["turn_take0", "queue_take", "turn_pass0"]
    assert "Launch" in work[3:-5]
    assert work[-5:] == ["turn_take1", "turn_take2", "If", "turn_pass1", "turn_pass2"]


def marks(program: Program, entry: str) -> list[tuple[str, int]]:
    """The sites of an entry in front of which it has done nothing, in their order."""
    own = next(each for each in program.entries if each.name == entry)
    attributes = [(step, dict(program.sites[step.site].attributes)) for step in own.steps if isinstance(step, HostCall)]
    return [(kind(program, step), each["first"]) for step, each in attributes if "first" in each]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", [("turn_take0", 1), ("queue_take", 1)]),
        ("let s = broken\n  ", [("turn_take0", 1), ("turn_take1", 1), ("queue_take", 1)]),
        ("broken += 1\n  ", []),
        ("let z = pool.size()\n  ", []),
    ],
)
def test_a_take_is_marked_that_an_iteration_begins_with(before: str, expected: list[tuple[str, int]]) -> None:
    """Reading what the runner writes later takes a turn as well."""
    text = PROGRAM.replace("COPIES", "2").replace("let x = raw", f"{before}let x = raw")
    if "let s" in before:
        text = text.replace("broken += 1", "broken += s")
    assert marks(lower_graph(graph_of(text)), "work") == expected


def test_what_was_drawn_for_the_first_take_is_marked() -> None:
    text = PROGRAM.replace("COPIES", "2").replace("raw: f32[3] = fifo(", "raw: f32[3] = shuffle_queue(ready = 2, ")
    assert marks(lower_graph(graph_of(text)), "work") == [("turn_take0", 1), ("turn_take1", 2), ("queue_take", 2)]


def test_turns_know_how_many_there_are() -> None:
    program = lowered(2)
    assert {dict(site.attributes)["turns"] for site in program.sites if site.kind.startswith("turn")} == {3}


def test_a_single_copy_and_an_entry_take_no_turns() -> None:
    program = lowered(1)
    assert not any(site.kind.startswith("turn") for site in program.sites)
    assert any(isinstance(step, If) for step in next(e for e in program.entries if e.name == "work").steps)
