"""`dfc compile`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import dfc_runtime
from dfc.driver import api
from tests.support.command_line import Command
from tests.support.quick_code import quick_code


def test_the_bundle_stands_beside_the_program(folder: Path, dfc: Command) -> None:
    (folder / "line.bundle").unlink()
    ended = dfc("compile", "line.dfg")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"line\.bundle: [\d.]+ KB, entries train, predict, add, [a-z, ]+\n", ended.out)
    assert dfc_runtime.load(folder / "line.bundle").add(a=1, b=2) == 3


def test_the_bundle_goes_where_it_is_told(folder: Path, dfc: Command, compiled: bytes) -> None:
    assert dfc("compile", "line.dfg", "-o", "other.bundle").code == 0
    assert (folder / "other.bundle").read_bytes() == compiled, "the same program gives the same bytes"


def test_entries_that_are_not_asked_for_are_left_out(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--entry", "predict", "--entry", "add", "-o", "part.bundle")
    assert re.fullmatch(r"part\.bundle: [\d.]+ KB, entries predict, add, init\n", ended.out)
    assert "  without state of entries that were left out: " in dfc("inspect", "part.bundle").out
    ended = dfc("compile", "line.dfg", "--entry", "predct", "-o", "part.bundle")
    assert (ended.code, ended.message.count("did you mean predict?")) == (2, 1)


def test_a_setting_changes_the_program(folder: Path, dfc: Command) -> None:
    assert dfc("compile", "line.dfg", "-o", "wide.bundle", "--set", "WIDTH=5", "--set", "SEED=9").code == 0
    model = dfc_runtime.load(folder / "wide.bundle")
    assert model.state["w"].shape == (5,)
    other = dfc_runtime.load(folder / "line.bundle")
    assert set(other.state["w"]).isdisjoint(set(model.state["w"]))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--target", "cpuu"), "there is no target 'cpuu': did you mean `cpu`?; installed targets: "),
        (("--isa", "x86_64_v3"), "there is no instruction-set variant 'x86_64_v3': did you mean `x86-64-v3`?; known: "),
        (("--arch", "sm_90"), "--arch names GPU architectures: give --target cuda, too"),
        (("--target", "cuda", "--isa", "sm_90"), "GPU architectures are given by --arch sm_80,sm_90"),
    ],
)
def test_an_unknown_machine_is_told_with_what_may_be_meant(
    words: tuple[str, ...], told: str, folder: Path, dfc: Command
) -> None:
    ended = dfc("compile", "line.dfg", *words)
    assert ended.code in (2, 3)
    assert told in ended.message


def test_a_program_from_standard_input_needs_a_place(folder: Path, dfc: Command) -> None:
    text = (folder / "line.dfg").read_bytes()
    assert dfc("compile", "-", "-o", "from.bundle", stdin=text).code == 0
    assert dfc_runtime.load(folder / "from.bundle").add(a=1, b=2) == 3
    assert "needs -o OUT" in dfc("compile", "-", stdin=text).message


OPTIONAL = {"finite_checks", "clocks"}


def test_time_passes_tells_every_stage_in_order(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--time-passes", "--verify-each")
    told = re.findall(r"^ +[\d.]+ ms +(\w+)$", ended.err, re.M)
    assert tuple(dict.fromkeys(told)) == tuple(name for name in api.stage_names() if name not in OPTIONAL)


def test_optional_stages_run_where_they_are_asked_for(folder: Path, dfc: Command) -> None:
    with quick_code():
        ended = dfc("compile", "line.dfg", "--time-passes", "--check-finite", "--timed")
    told = re.findall(r"^ +[\d.]+ ms +(\w+)$", ended.err, re.M)
    assert tuple(dict.fromkeys(told)) == api.stage_names()


@pytest.mark.parametrize("name", ["parse", "cse", "replicate", "partition", "fuse", "buffers", "link", "bundle"])
def test_stop_after_ends_behind_the_stage(name: str, folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "-o", "never.bundle", "--stop-after", name, "--time-passes")
    told = re.findall(r"^ +[\d.]+ ms +(\w+)$", ended.err, re.M)
    assert (ended.code, told[-1]) == (0, name)
    assert ended.out == f"stopped after {name}; no bundle is written\n"
    assert not (folder / "never.bundle").exists()


@pytest.mark.parametrize(
    ("former", "shown"),
    [
        ("memory", "# ---- after buffers ----\nprogram line\n"),
        ("guard", "# ---- after finite_checks (pass 10) ----\ndfg 1\n"),
    ],
)
def test_former_names_of_stages_still_do(former: str, shown: str, folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--print-after", former, "--stop-after", former)
    assert ended.err.startswith(shown)


def test_print_after_shows_a_graph_that_compiles_again(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--print-after", "prune")
    head, _, text = ended.err.partition("\n")
    assert re.fullmatch(r"# ---- after prune \(pass \d+\) ----", head)
    again = dfc("compile", "-", "-o", "again.bundle", stdin=text.encode())
    assert (again.code, again.err) == (0, "")


def test_print_after_all_shows_every_pass(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--print-after-all")
    numbers = [int(n) for n in re.findall(r"^# ---- after \w+ \(pass (\d+)\) ----$", ended.err, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= len(api.pass_names())
    shown = dict.fromkeys(re.findall(r"^# ---- after (\w+)", ended.err, re.M))
    assert tuple(shown) == tuple(name for name in api.stage_names() if name not in OPTIONAL)


def test_pass_limit_stops_before_later_passes(folder: Path, dfc: Command) -> None:
    shown = dfc("compile", "line.dfg", "--pass-limit", 2, "--print-after-all")
    found = re.findall(r"after (\w+) \(pass (\d+)\)", shown.err)
    assert found == [("prune", "1"), ("split_inputs", "2"), ("autodiff", "3"), ("expand", "10")]


def test_an_unknown_stage_is_refused(folder: Path, dfc: Command) -> None:
    assert (
        "there is no stage 'fuze'; did you mean 'fuse'?; stages: parse, "
        in dfc("compile", "line.dfg", "--print-after", "fuze").message
    )


@pytest.mark.parametrize(("stage", "option"), [("finite_checks", "--check-finite"), ("clocks", "--timed")])
def test_a_stage_that_does_not_run_cannot_be_printed(stage: str, option: str, folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--print-after", stage)
    assert (ended.code, f"the stage {stage} runs with {option} only" in ended.message) == (2, True)
    assert dfc("compile", "line.dfg", "--print-after", stage, "--stop-after", stage).err.startswith("# ---- after")


@pytest.mark.parametrize(("option", "word"), [("--target", "abacus"), ("--isa", "mmx")])
def test_a_target_that_is_not_there_is_not_supported(option: str, word: str, folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", option, word)
    assert ended.code == 3
    assert "error[E1002]: there is no" in ended.message
    assert repr(word) in ended.err


def test_several_variants_share_a_bundle(folder: Path, dfc: Command) -> None:
    with quick_code():
        assert dfc("compile", "line.dfg", "--isa", "x86-64-v3", "--isa", "aarch64", "-o", "both.bundle").code == 0
    images = dfc_runtime.inspect(folder / "both.bundle").manifest.images
    assert [image.isa for image in images] == ["x86-64-v3", "aarch64"]


@pytest.mark.parametrize("path", ["nowhere/x.bundle", "/proc/x.bundle", ".", "pipe"])
def test_a_place_that_cannot_be_written_is_told(path: str, folder: Path, dfc: Command) -> None:
    os.mkfifo("pipe")
    ended = dfc("compile", "line.dfg", "-o", path)
    assert ended.code == 6
    assert ended.err.startswith("error[E0909]: cannot write ")
    assert len(ended.err.splitlines()) == 1


def test_a_program_with_mistakes_leaves_no_bundle(folder: Path, dfc: Command) -> None:
    (folder / "half.dfg").write_text("dfg 1\n\nfn half(n: i32) -> i32 = n / 2\n")
    ended = dfc("compile", "half.dfg")
    assert ended.code == 2
    assert "error[E0303]" in ended.message
    assert not (folder / "half.bundle").exists()
