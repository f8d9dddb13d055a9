"""Steps that do not depend on each other become branches where that pays; effects, faults and large kernels do not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dfc.kernels.program import Launch, Parallel, Program, walk
from dfc.lower.buffers.verify import verify_program
from dfc.lower.program import lower_graph
from dfc.lower.reasons import explained
from dfc.lower.schedule.parallel import in_order_of_faults
from dfc.lower.verify import LoweringError
from dfc.transforms.expand import expand
from tests.support.building import graph_of

LOOP = "loop x = {start} for i in 0..100 {{ x = tanh(x @ {weights}) }}"
HEAD = "dfg 1\nvar n: i64 = 0\nvar kept: f32[64, 64] = 0\n"
FEEDS = "a: f32[8, 64], b: f32[8, 64], v: f32[64, 64], w: f32[64, 64]"


def loop(start: str, weights: str) -> str:
    return LOOP.format(start=start, weights=weights)


def lowered(body: str, *, feeds: str = FEEDS, results: str = "") -> Program:
    text = f"{HEAD}entry e({feeds}) {results}{{\n{body}\n}}"
    program = lower_graph(expand(graph_of(text)), forms={"parallel"})
    verify_program(program)
    return program


def branches(program: Program) -> list[int]:
    """How many branches each parallel step has."""
    return [len(step.branches) for step in walk(program.entries[0].steps) if isinstance(step, Parallel)]


PAIR = f"let y = {loop('a', 'v')}\nlet z = {loop('b', 'w')}\nreturn y + z"


def test_two_loops_are_two_branches() -> None:
    program = lowered(PAIR, results="-> f32[8, 64] ")
    (step,) = (each for each in program.entries[0].steps if isinstance(each, Parallel))
    assert len(step.branches) == 2
    assert step.costs[0] == step.costs[1] > 0


def test_a_loop_behind_what_it_does_not_need_is_beside_another_one() -> None:
    body = f"let y = {loop('a', 'v')}\nlet big = b @ u @ u\nlet z = {loop('big', 'w')}\nreturn y + z"
    feeds = f"{FEEDS}, u: f32[64, 64]"
    assert branches(lowered(body, feeds=feeds, results="-> f32[8, 64] ")) == [2]


@pytest.mark.parametrize(
    "body",
    [
        f"let y = {loop('a', 'v')}\nlet z = {loop('y', 'w')}\nreturn z",
        "let y = tanh(a)\nlet z = tanh(b)\nreturn y + z @ w",
        f"let y = {loop('a', 'kept')}\nkept := v\nlet z = {loop('b', 'kept')}\nreturn y + z",
    ],
    ids=["one needs the other", "too small to pay", "state changes between them"],
)
def test_other_steps_stay_one_after_the_other(body: str) -> None:
    assert branches(lowered(body, results="-> f32[8, 64] ")) == []


def test_loops_that_change_state_stay_one_after_the_other() -> None:
    body = f"for i in 0..100 {{ n += i }}\nlet y = {loop('a', 'v')}\nfor i in 0..100 {{ kept += w }}\nreturn y"
    assert branches(lowered(body, results="-> f32[8, 64] ")) == []


def test_large_kernels_are_shared_out_by_themselves() -> None:
    body = "return max(a @ v), max(b @ w)"
    feeds = "a: f32[512, 512], b: f32[512, 512], v: f32[512, 512], w: f32[512, 512]"
    assert branches(lowered(body, feeds=feeds, results="-> (y: f32, z: f32) ")) == []


def test_kernels_that_grow_with_the_call_state_from_where_on_they_are_large() -> None:
    feeds = "a: f32[B, 64], b: f32[B, 64], v: f32[64, 64], w: f32[64, 64]"
    text = f"{HEAD}entry e[B]({feeds}) -> f32[B, 64] {{\n{PAIR}\n}}"
    program = lower_graph(expand(graph_of(text)), forms={"parallel"})
    (step,) = (each for each in program.entries[0].steps if isinstance(each, Parallel))
    (size,) = program.entries[0].dims
    assert step.work.evaluate({size: 8}) < step.most < step.work.evaluate({size: 8192})


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ({1, 2}, [[1, 3], [2, 4]]),
        ({2, 3}, [[2, 4], [1, 3]]),
        ({1, 2, 3}, [[1, 2, 3, 4]]),
        ({2}, [[2, 4], [1, 3]]),
        (set[int](), [[1, 3], [2, 4]]),
    ],
)
def test_faults_of_branches_come_in_the_order_of_the_steps(failing: set[int], expected: list[list[int]]) -> None:
    assert in_order_of_faults([[1, 3], [2, 4]], failing) == expected


def test_branches_share_no_memory() -> None:
    """The check behind the planning of memory finds a branch that writes what another one uses."""
    program = lowered(PAIR, results="-> f32[8, 64] ")
    entry = program.entries[0]
    (step,) = (each for each in entry.steps if isinstance(each, Parallel))
    first, second = (
        {number for each in walk(branch) if isinstance(each, Launch) for number in each.buffers}
        for branch in step.branches
    )
    mine = next(n for n in sorted(first - second) if entry.buffers[n].role.value == "arena")
    theirs = next(n for n in sorted(second - first) if entry.buffers[n].role.value == "arena")
    entry.buffers[theirs] = replace(entry.buffers[theirs], offset=entry.buffers[mine].offset)
    with pytest.raises(LoweringError, match="what another one uses"):
        verify_program(program)


def test_targets_that_do_not_take_them_get_steps_in_a_row() -> None:
    text = f"{HEAD}entry e({FEEDS}) -> f32[8, 64] {{\n{PAIR}\n}}"
    assert branches(lower_graph(expand(graph_of(text)))) == []


def test_what_runs_at_the_same_time_is_explained() -> None:
    text = explained(lowered(PAIR, results="-> f32[8, 64] "))
    assert re.search(r"2 branches at the same time: predicted \d+ us one after the other", text)
