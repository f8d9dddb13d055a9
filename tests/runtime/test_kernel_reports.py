"""What a bundle says about its kernels, whoever wrote it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc_runtime.kernel_reports import NOTE, Taken, kernel_reports
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
