"""Programs as text: golden cases from a program to its kernels, which also pin down what fuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.printer import print_program
from dfc.kernels.program import Launch, walk
from dfc.lower.program import lower_graph
from tests.support.building import graph_of
from tests.support.golden import Case, check_case, read_cases


@pytest.mark.parametrize("case", read_cases(Path(__file__).with_name("kernels.cases")), ids=lambda case: case.name)
def test_kernels_of_small_programs(case: Case, bless: bool) -> None:
    program = lower_graph(optimise(graph_of(case.source)))
    program.entries = [entry for entry in program.entries if entry.name == "run"]
    used = [step.kernel for step in walk(program.entries[0].steps) if isinstance(step, Launch)]
    del program.kernels[max(used) + 1 :]
    check_case(case, print_program(program), bless)


def test_equal_graphs_print_equally() -> None:
    text = "dfg 1\n\nentry e[B](x: f32[B]) -> (y: f32[B]) { return exp(x) + sum(x) }\n"
    first, second = (print_program(lower_graph(optimise(graph_of(text)))) for _ in range(2))
    assert first == second
