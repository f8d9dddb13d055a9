"""From programs to plans: what is refused, and how an entry is cut into launches."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.kernels.program import Locked, walk
from dfc.lower.threads import schedule
from dfc_runtime.graphs import nodes
from dfc_runtime.plans.plan import read_plan
from dfc_runtime.plans.segments import Branch, Count, FeedsIn, Fetch, Repeat, ResultsOut, Segment, arrange
from tests.support.simulated_programs import interpreted, program_of


def test_shared_state_is_refused() -> None:
    text = """
    var w: f32 = 0 with container = "pool"
    entry f(x: f32) -> (y: f32) { return w * x }"""
    with pytest.raises(CompileError, match="shared container 'pool'") as refused:
        interpreted(program_of(text))
    assert refused.value.diagnostics[0].code == "E1003"


def test_workspaces_begin_with_as_many_zeros_as_kernels_expect() -> None:
    assert nodes.ZEROED == schedule.ZEROED


def parts(text: str, *, conditional_nodes: bool = True) -> list[object]:
    """The actions of the only entry."""
    plan = read_plan(interpreted(program_of(text)).notes["plan"])
    return list(arrange(plan.entries[0], conditional_nodes=conditional_nodes))


LOOP = "readonly entry f(n: i64) -> (k: i64) { return loop k: i64 = 0 while k < n { k = k + 1 } }"


def test_an_entry_without_host_work_is_one_segment() -> None:
    (segment,) = parts(LOOP)
    assert isinstance(segment, Segment) and segment.waits
    assert isinstance(segment.parts[0], FeedsIn) and isinstance(segment.parts[-1], ResultsOut)


def test_an_older_driver_looks_at_the_condition_each_round() -> None:
    first, repeat, last = parts(LOOP, conditional_nodes=False)
    assert isinstance(first, Segment) and not first.waits, "nobody looks at what it leaves"
    assert isinstance(repeat, Repeat) and isinstance(last, Segment)
    (condition,) = repeat.condition
    assert isinstance(condition, Segment) and condition.waits
    assert condition.parts[-1] == Fetch((repeat.test,))
    (body,) = repeat.body
    assert isinstance(body, Segment) and not body.waits


HOSTED = """
readonly entry f[B](x: i64[B], n: i64, flag: bool) -> (total: i64) {
  let t = loop t: i64 = 0 for k in 0..n { t = t + sum(unique(x[x > k]).values) }
  return if flag { yield t + 1 } else { yield t }
}"""


def test_loops_with_host_work_are_run_by_the_host_and_others_are_not() -> None:
    actions = parts(HOSTED)
    assert [type(action).__name__ for action in actions] == ["Segment", "Count", "Segment"]
    (count,) = (action for action in actions if isinstance(action, Count))
    assert any(type(action).__name__ == "Measure" for action in count.body)
    assert not any(isinstance(action, Branch) for action in actions)
    older = parts(HOSTED, conditional_nodes=False)
    assert any(isinstance(action, Branch) for action in older)


def test_locks_are_left_out() -> None:
    text = """
    var w: f32[8] = 0
    readonly entry f(x: f32[8]) -> (s: f32) { return sum(w * x) }
    entry g(x: f32[8]) { w += x }"""
    assert any(isinstance(step, Locked) for entry in program_of(text).entries for step in walk(entry.steps))
    (segment,) = parts(text)
    assert isinstance(segment, Segment)
