"""State that had another name in the edition before: looked up, written and restored under either, with a warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime.errors import CheckpointError, FeedError
from dfc_runtime.module import Module

STATE = "running_mean: f32[3] = 0\n  var running_variance: f32[3] = 1"
FORMER = "usual_mean: f32[3] = 0\n  var usual_spread: f32[3] = 1"


def loaded(declared: str) -> Module:
    block = f"block Norm() {{\n  var {declared}\n}}\n"
    text = f"dfg 1\n\n{block}\nvar norm = Norm()\n\nentry init() {{ initialize(program) }}\n"
    return dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)


def test_a_checkpoint_of_before_is_restored_under_the_new_names(tmp_path: Path) -> None:
    old, new = loaded(FORMER), loaded(STATE)
    old.init()
    old.state["norm.usual_mean"] = np.float32([1, 2, 3])
    old.save(tmp_path)
    with (
        pytest.warns(FutureWarning, match=r"norm.usual_spread, which is now called norm.running_variance"),
        pytest.warns(FutureWarning, match=r"norm.usual_mean, which is now called norm.running_mean"),
    ):
        new.restore(tmp_path)
    assert new.state["norm.running_mean"].tolist() == [1, 2, 3]
    assert new.state["norm.running_variance"].tolist() == [1, 1, 1]


def test_a_program_that_has_the_former_name_itself_keeps_it(tmp_path: Path) -> None:
    old = loaded(FORMER)
    old.init()
    old.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded(FORMER).restore(tmp_path)


def test_another_shape_is_not_taken_for_the_former_one(tmp_path: Path) -> None:
    old = loaded(FORMER.replace("f32[3]", "f32[4]"))
    old.init()
    old.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"not in file *norm.running_mean"):
        loaded(STATE).restore(tmp_path)


def test_state_is_looked_up_and_written_by_its_former_name() -> None:
    model = loaded(STATE)
    model.init()
    with pytest.warns(FutureWarning, match=r"norm.usual_mean is now called norm.running_mean"):
        model.state["norm.usual_mean"] = np.float32([4, 5, 6])
    with pytest.warns(FutureWarning, match="is now called"):
        assert model.state["norm.usual_mean"].tolist() == [4, 5, 6]
    assert model.state["norm.running_mean"].tolist() == [4, 5, 6]


def test_a_name_that_never_was_is_still_an_error() -> None:
    with pytest.raises(FeedError, match=r"there is no state `norm.usual_size`"):
        loaded(STATE).state["norm.usual_size"]
