"""What a bundle says about its kernels, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc_runtime.observe.kernel_reports import CALLS, NOTE, Taken, call_reports, kernel_reports
from tests.support.natives import program

KERNEL = {
    "name": "k0",
    "values": ["train/h", "train/logits"],
    "line": "model.dfg:3:7",
    "points": "4*d0",
    "per_block": 256,
    "threads": 64,
    "most": 2048,
    "wide": 3,
    "taken": {"sm_90": [32, 0, 1024, 8]},
}


def told(note: object) -> object:
    return kernel_reports(replace(program().manifest(), notes={NOTE: note}))


def test_a_kernel_says_where_it_is_from_and_what_it_takes() -> None:
    (kernel,) = told([KERNEL])
    assert (kernel.name, kernel.line, kernel.values, kernel.wide) == (
        "k0",
        "model.dfg:3:7",
        ("train/h", "train/logits"),
        3,
    )
    assert kernel.geometry == "64 threads x (4*d0) / 256 blocks, at most 2048"
    assert kernel.taken == {"sm_90": Taken(registers=32, spilled=0, shared=1024, stack=8)}


def test_a_bundle_that_says_nothing_has_no_kernels_to_show() -> None:
    assert kernel_reports(program().manifest()) == ()


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ({}, "report is not a list"),
        ([{**KERNEL, "threads": 0}], r"report\[0\].threads is not a whole number from 1"),
        ([{**KERNEL, "more": 0}], r"report\[0\] has an unknown key more"),
        ([{**KERNEL, "taken": {"sm_90": [1, 2]}}], r"report\[0\].taken.sm_90 has 2 numbers instead of 4"),
        ([{**KERNEL, "values": [1]}], r"report\[0\].values\[0\] is not text"),
    ],
)
def test_what_is_wrong_in_it_is_said(note: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        told(note)


CALL = {
    "entry": "train",
    "launches": 1,
    "steps": 5,
    "round_steps": 0,
    "feeds": ["$B", 4, "*"],
    "results": [4],
    "moved": ["$B", 12, "*", 8, "+"],
    "round_moved": [0],
}


def told_of_calls(note: object) -> object:
    return call_reports(replace(program().manifest(), notes={CALLS: note}))


def test_a_call_says_what_it_launches_and_moves() -> None:
    rounds = {"entry": "sum", "launches": 3, "steps": 1, "round_steps": 2, "round_moved": [64]}
    found = told_of_calls([CALL, {**CALL, **rounds}])
    assert str(found["train"]) == (
        "1 launch, 5 kernels and copies, at least B * 12 + 8 bytes moved; feeds B * 4 bytes, results 4"
    )
    assert str(found["sum"]).startswith("3 launches, 1 kernel or copy, at least B * 12 + 8 bytes moved; 2 and 64 bytes")
    assert call_reports(program().manifest()) == {}


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ({}, "calls is not a list"),
        ([{**CALL, "launches": -1}], r"calls\[0\].launches is not a whole number"),
        ([{**CALL, "moved": ["+"]}], r"calls\[0\]"),
        ([{**CALL, "more": 0}], r"calls\[0\] has an unknown key more"),
    ],
)
def test_what_is_wrong_in_calls_is_said(note: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        told_of_calls(note)
