"""The kernels of the run half: they assemble for old and new devices, and call what the driver provides."""

from __future__ import annotations

import re

import pytest

from dfc_driver_cuda import control
from dfc_runtime.graphs.control import BEGIN, CHECK, CONDITIONAL, COPY, NEXT, PLAIN, SET
from dfc_runtime.plans.plan import INDICES
from dfc_target_cuda.code.assemble import assemble, find_ptxas

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
ENTRY = re.compile(r"\.visible \.entry (\w+)\(([^)]*)\)")


def entries(module: str) -> dict[str, int]:
    """Names, and how many parameters each has."""
    return {match[1]: match[2].count(".param .u64") for match in ENTRY.finditer(module)}


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("module", [control.plain_module(), control.conditional_module()], ids=["plain", "nodes"])
def test_they_assemble(module: str, architecture: str) -> None:
    made = assemble(module, architecture)
    assert made is not None
    assert {each.name for each in made.reports} == set(entries(module))
    assert all(each.spill_bytes == 0 for each in made.reports)


def test_each_has_the_parameters_that_the_run_half_passes() -> None:
    assert entries(control.plain_module()) == {CHECK: 3, COPY: 4}
    integers = {BEGIN + name: 6 for name in INDICES} | {NEXT + name: 4 for name in INDICES}
    assert entries(control.conditional_module()) == {SET: 4, **integers}
    assert {*PLAIN, *CONDITIONAL} == {CHECK, COPY, SET, *integers}


def test_every_decision_is_told_to_the_driver() -> None:
    module = control.conditional_module()
    assert module.count(".extern .func cudaGraphSetConditional (.param .b64") == 1
    assert module.count("call.uni cudaGraphSetConditional") == len(entries(module))
    assert "cudaGraphSetConditional" not in control.plain_module()
