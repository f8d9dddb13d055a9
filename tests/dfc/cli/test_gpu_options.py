"""What commands say of GPUs where the program is for the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Command


@pytest.mark.parametrize("words", [("run", "line.bundle", "add"), ("run", "line.dfg", "add"), ("test", "line.dfg")])
def test_a_device_is_for_programs_of_gpus(words: tuple[str, ...], folder: Path, dfc: Command) -> None:
    feeds = ("--feed", "a=1", "--feed", "b=2") if words[0] == "run" else ()
    ended = dfc(*words, *feeds, "--device", "1")
    assert ended.code == 2
    assert "E0901" in ended.err and "leave it out, or compile with --target cuda" in ended.err


def test_a_bundle_has_its_target(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "add", "--target", "cuda", "--feed", "a=1", "--feed", "b=2")
    assert ended.code == 2
    assert "a bundle runs on what it was compiled for; give --target when it is compiled" in ended.message


def test_tests_run_on_the_target_that_is_named(folder: Path, dfc: Command) -> None:
    assert dfc("test", "line.dfg", "--target", "cpu").code == 0
    assert "there is no target 'cpa'" in dfc("test", "line.dfg", "--target", "cpa").message


def test_without_tests_no_gpu_is_looked_for(folder: Path, dfc: Command) -> None:
    (folder / "one.dfg").write_text("dfg 1\n\nreadonly entry one(x: f32) -> f32 {\n  return x + 1\n}\n")
    ended = dfc("test", "one.dfg", "--target", "cuda", "--device", "64")
    assert (ended.code, ended.out, ended.err) == (0, "one.dfg: no tests\n0 tests passed\n", "")


def test_ranks_take_the_target_of_their_bundle(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "-n", "2", "line.bundle", "add", "--target", "cuda", "--feed", "a=1", "--feed", "b=2")
    assert ended.code == 2
    assert "a bundle runs on what it was compiled for; its deployment file says what is on GPUs" in ended.message
