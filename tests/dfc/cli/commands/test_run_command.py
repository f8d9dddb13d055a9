"""`dfc run`: calls, batches, epochs, steps, and what is printed and written."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from tests.support.command_line import Command, process

FEEDS = ("--feed", "x=data.npz:x", "--feed", "y=data.npz:y", "--feed", "rate=0.1")
PREDICT = ("run", "line.bundle", "predict", "--feed", "x=x.npy")


def counted(dfc: Command, *words: object) -> int:
    """How many steps a training run made, as the program itself counts them."""
    ended = dfc("run", "line.bundle", "train", *FEEDS, "--state", "state", *words)
    assert ended.code == 0, ended.err
    model = dfc_runtime.load("line.bundle")
    model.restore("state")
    return int(model.state["steps"])


def test_a_call_prints_its_results_in_one_line(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "add", "--feed", "a=1.5", "--feed", "b=2")
    assert (ended.code, ended.out, ended.err) == (0, "result 3.5\n", "")


def test_a_call_without_results_says_that_it_is_done(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "fill", "--feed", "value=2").out == "fill: done\n"


def test_a_program_is_compiled_on_the_way(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.dfg", "grid", "--feed", "N=2", "--feed", "first=0.5", "--set", "WIDTH=1", "--json")
    assert json.loads(ended.out)["results"] == {"x": [0.5, 1.5]}


def test_a_program_with_mistakes_is_told_as_by_check(folder: Path, dfc: Command) -> None:
    (folder / "half.dfg").write_text("dfg 1\n\nfn half(n: i32) -> i32 = n / 2\n")
    ended = dfc("run", "half.dfg", "x")
    assert ended.code == 2
    assert "error[E0303]" in ended.message


def test_settings_are_fixed_in_a_bundle(folder: Path, dfc: Command) -> None:
    assert "settings are fixed" in dfc("run", "line.bundle", "add", "--set", "WIDTH=4").message


def test_json_is_one_object_and_nothing_else(folder: Path, dfc: Command) -> None:
    ended = dfc(*PREDICT, "--json")
    told = json.loads(ended.out)
    assert (told["entry"], told["steps"], told["stopped"]) == ("predict", 1, False)
    y, total = dfc_runtime.load("line.bundle").predict(np.load("x.npy"))
    np.testing.assert_array_equal(np.float32(told["results"]["y"]), y)
    assert np.float32(told["results"]["total"]) == total


def test_json_describes_large_results(folder: Path, dfc: Command) -> None:
    np.save("large.npy", np.zeros((1001, 3), np.float32))
    told = json.loads(dfc("run", "line.bundle", "predict", "--feed", "x=large.npy", "--json").out)
    assert told["results"] == {"y": {"dtype": "float32", "shape": [1001]}, "total": 0.0}


def test_json_holds_no_numbers_that_json_lacks(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "add", "--feed", "a=inf", "--feed", "b=-inf", "--json")
    assert json.loads(ended.out, parse_constant=pytest.fail)["results"] == {"result": "nan"}


@pytest.mark.parametrize(("yes", "no", "one"), [("true", "false", "True"), ("false", "false", "False")])
def test_bools_are_fed_as_words(yes: str, no: str, one: str, folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "either", "--feed", f"yes={yes}", "--feed", f"no={no}").out == f"one {one}\n"


def test_a_text_is_fed_as_it_is(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "save", "--feed", "path=2024").code == 0
    dfc_runtime.load("line.bundle").restore("2024")


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ([], 1),
        (["--epochs", 3], 3),
        (["--steps", 4], 4),
        (["--batch", 4], 3),
        (["--batch", 4, "--epochs", 2], 6),
        (["--batch", 4, "--steps", 5], 5),
        (["--batch", 4, "--last", "drop"], 2),
        (["--batch", 4, "--last", "drop", "--epochs", 2], 4),
        (["--batch", 5, "--last", "drop"], 2),
        (["--batch", 4, "--last", "run"], 3),
        (["--batch", 4, "--last", "pad"], 3),
        (["--batch", 10], 1),
        (["--batch", 100], 1),
        (["--batch", 1, "--steps", 3], 3),
    ],
)
def test_the_schedule_decides_the_number_of_steps(words: list[object], steps: int, folder: Path, dfc: Command) -> None:
    assert counted(dfc, *words) == steps


def test_no_batch_at_all_is_an_error(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "train", *FEEDS, "--batch", 100, "--last", "drop")
    assert ended.code == 2
    assert "there is no whole batch of 100 in 10 rows, and --last drop leaves out shorter ones" in ended.message
    assert "give a smaller --batch: 10 or less" in ended.message
    for last in ("drop", "pad"):
        ended = dfc("run", "line.bundle", "train", *FEEDS, "--last", last)
        assert ended.code == 2
        assert f"--last {last} is about batches: add --batch N" in ended.message


def test_batches_are_the_pieces_in_order_with_the_remainder(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "train", *FEEDS, "--batch", 4, "--epochs", 2, "--state", "state").code == 0
    model = dfc_runtime.load("line.bundle")
    data = np.load("data.npz")
    for _ in range(2):
        for first in (0, 4, 8):
            piece = slice(first, first + 4)
            model.train(data["x"][piece], data["y"][piece], 0.1)
    again = dfc_runtime.load("line.bundle")
    again.restore("state")
    assert {n: again.state[n].tobytes() for n in again.state} == {n: model.state[n].tobytes() for n in model.state}


def test_many_steps_are_told_in_a_line(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "train", *FEEDS, "--batch", 4, "--epochs", 2)
    assert re.fullmatch(r"train: 6 steps in [\d.]+ s \(\d+ steps/s\)  of 10 examples: loss [\d.e-]+\n", ended.out)


def test_out_joins_the_batches_of_the_last_epoch(folder: Path, dfc: Command) -> None:
    assert dfc(*PREDICT, "--batch", 4, "--epochs", 2, "--out", "out.npz").code == 0
    y, _ = dfc_runtime.load("line.bundle").predict(np.load("x.npy"))
    with np.load("out.npz", allow_pickle=False) as written:
        assert sorted(written.files) == ["total", "y"]
        np.testing.assert_array_equal(written["y"], y)
        assert written["total"].shape == (3,)


def test_out_stacks_the_results_of_steps(folder: Path, dfc: Command) -> None:
    words = ("run", "line.bundle", "train", *FEEDS, "--batch", 5, "--out", "losses.npz")
    assert dfc(*words).code == 0
    with np.load("losses.npz", allow_pickle=False) as written:
        assert written["loss"].shape == (2,)


def test_a_folder_in_place_of_results_is_told_before_anything_runs(folder: Path, dfc: Command) -> None:
    (folder / "taken").mkdir()
    ended = dfc("run", "line.bundle", "train", *FEEDS, "--state", "state", "--out", "taken")
    assert ended.code == 6
    assert "cannot write taken: it is a folder; name a file" in ended.message
    assert not (folder / "state").exists()


@pytest.mark.parametrize("option", ["--out", "--trace", "--profile"])
@pytest.mark.parametrize("name", ["there", "absent"])
def test_a_file_that_may_not_be_written_is_told_before_anything_runs(
    option: str, name: str, folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "there").touch()
    asked: list[str] = []
    monkeypatch.setattr(os, "access", lambda path, _mode: asked.append(str(path)))  # root may write everywhere
    ended = dfc("run", "line.bundle", "train", *FEEDS, "--state", "state", option, name)
    assert (ended.code, ended.err) == (6, f"error[E0909]: cannot write {name}: Permission denied\n")
    assert asked == ["there" if name == "there" else "."] and not (folder / "state").exists()


def test_out_writes_the_results_of_one_call_as_they_are(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "grid", "--feed", "N=3", "--feed", "first=1", "--out", "grid").code == 0
    with np.load("grid", allow_pickle=False) as written:
        np.testing.assert_array_equal(written["x"], [1, 2, 3])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_changes_no_bit(threads: int, folder: Path, dfc: Command, compiled: bytes) -> None:
    assert counted(dfc, "--batch", 3, "--threads", threads) == 4
    model = dfc_runtime.loads(compiled, threads=3 - threads)
    data = np.load("data.npz")
    for first in (0, 3, 6, 9):
        model.train(data["x"][first : first + 3], data["y"][first : first + 3], 0.1)
    again = dfc_runtime.load("line.bundle")
    again.restore("state")
    assert again.state["w"].tobytes() == model.state["w"].tobytes()


@pytest.mark.parametrize("words", [("--out", "/proc/out.npz"), ("--out", "nowhere/out.npz")])
def test_what_cannot_be_written_is_told(words: tuple[str, str], folder: Path, dfc: Command) -> None:
    ended = dfc(*PREDICT, *words)
    assert ended.code == 6
    assert words[1].split("/out")[0] in ended.message
    assert len(ended.err.splitlines()) == 1


def test_a_program_that_stops_itself_is_told_with_its_line(folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "share", "--feed", "part=1", "--feed", "whole=0")
    assert ended.code == 2
    assert ended.err == (
        "error[E0903]: integer division by zero at line.dfg:31:10\n  31 | return 100 * part // whole\n"
    )


def test_a_damaged_bundle_is_refused(folder: Path, dfc: Command, compiled: bytes) -> None:
    (folder / "short.bundle").write_bytes(compiled[:-1])
    for words in (("run", "short.bundle", "add"), ("verify", "short.bundle"), ("inspect", "short.bundle")):
        ended = dfc(*words)
        assert ended.code == 4
        assert ended.message.startswith("error[E0906]: short.bundle")
        assert len(ended.err.splitlines()) == 1


def test_a_bundle_that_is_not_there_is_told(folder: Path, dfc: Command) -> None:
    assert dfc("run", "no.bundle", "add").err == "error: there is no file no.bundle\n"
    assert dfc("run", "no.dfg", "add").err == "error: there is no file no.dfg\n"
    assert dfc("run", ".", "add").err == "error: . is a folder, not a bundle\n"


def test_an_entry_that_is_not_there_is_told_with_those_that_are(folder: Path, dfc: Command) -> None:
    told = dfc("run", "line.bundle", "trian").message
    assert "there is no entry 'trian'; did you mean 'train'?; entries: add, " in told


def test_a_limit_of_memory_has_its_own_code(folder: Path) -> None:
    ended = process("run", "line.bundle", "add", folder=folder, DFC_MEMORY_LIMIT="40")
    assert ended.code == 7
    assert "error[E0905]" in ended.message


@pytest.mark.parametrize("size", [10**12, 2**62, 2**63 - 1, 2**63, 10**20])
def test_a_size_beyond_all_memory_is_refused(size: int, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "line.bundle", "grid", "--feed", f"N={size}", "--feed", "first=0")
    assert ended.code == 7
    assert "error[E0905]: `grid`" in ended.message
    assert len(ended.err.splitlines()) == 1


def test_a_full_disk_is_told(folder: Path, dfc: Command) -> None:
    assert dfc(*PREDICT, "--out", "/dev/full").err.endswith("No space left on device\n")


def test_results_do_not_depend_on_the_process(folder: Path, dfc: Command) -> None:
    words = (*PREDICT, "--json")
    alone = json.loads(process(*words, folder=folder).out)
    assert alone["results"] == json.loads(dfc(*words).out)["results"]


TELLING = """dfg 1
entry train(x: f32) -> (y: f32) {
  let y = x * 2.0
  summary.scalar("y", y)
  debug.print("y is {}", y)
  return y
}
"""


def test_summaries_go_to_lines_of_json(folder: Path, dfc: Command) -> None:
    (folder / "telling.dfg").write_text(TELLING)
    words = ("run", "telling.dfg", "train", "--feed", "x=1.5", "--steps", "2", "--json")
    ended = dfc(*words, "--summaries", "run.jsonl")
    assert (ended.code, ended.err) == (0, "y is 3.0\ny is 3.0\n")
    assert json.loads(ended.out)["results"] == {"y": 3.0}
    told = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
    assert [(line["step"], line["tag"], line["value"]) for line in told] == [(0, "y", 3.0), (1, "y", 3.0)]


def test_summaries_go_to_a_folder_for_tensorboard(folder: Path, dfc: Command) -> None:
    pytest.importorskip("tensorboard")
    (folder / "telling.dfg").write_text(TELLING)
    assert dfc("run", "telling.dfg", "train", "--feed", "x=1", "--summaries", "runs/one").code == 0
    assert [path.name.startswith("events.out.tfevents") for path in (folder / "runs" / "one").iterdir()] == [True]


def test_summaries_that_cannot_be_written_are_one_message(folder: Path, dfc: Command) -> None:
    (folder / "telling.dfg").write_text(TELLING)
    ended = dfc("run", "telling.dfg", "train", "--feed", "x=1", "--summaries", "absent/run.jsonl")
    assert ended.code == 6
    assert "cannot write absent/run.jsonl: No such file or directory" in ended.message


def test_a_deployment_of_one_task_runs_without_a_launcher(folder: Path, dfc: Command) -> None:
    deploy = 'deploy 1 for "line.dfg"\n\njob ps tasks {tasks}\n'
    (folder / "one.deploy").write_text(deploy.format(tasks=1))
    (folder / "two.deploy").write_text(deploy.format(tasks=2))
    for name in ("one", "two"):
        assert dfc("compile", "line.dfg", "--deploy", f"{name}.deploy", "-o", f"{name}.bundle").code == 0
    assert dfc("run", "one.bundle", "add", "--feed", "a=1", "--feed", "b=2").out == "result 3\n"
    for _ in range(2):
        assert dfc("run", "one.bundle", "fill", "--feed", "value=2", "--state", "saved", "--trace", "t.json").code == 0
    assert len(list((folder / "saved").glob("step-*"))) == 2
    assert (folder / "t.json").stat().st_size
    refused = dfc("run", "two.bundle", "add", "--feed", "a=1", "--feed", "b=2")
    assert (refused.code, "two.bundle is for 2 ranks: start them with -n 2" in refused.message) == (2, True)
    refused = dfc("run", "one.bundle", "add", "--feed", "a=1", "--feed", "b=2", "--set", "WIDTH=4")
    assert (refused.code, "settings are fixed in a bundle" in refused.message) == (2, True)


@pytest.mark.parametrize("wrong", ["worker", "worker=0", "worker=two", "=2"])
def test_a_wrong_number_of_tasks_is_told_once_before_ranks_start(wrong: str, folder: Path, dfc: Command) -> None:
    ended = dfc("run", "-n", "2", "line.bundle", "add", "--job", wrong, "--feed", "a=1", "--feed", "b=2")
    assert ended.code == 2
    assert ended.err.count("--job wants NAME=TASKS") == 1
    assert "the ranks ended" not in ended.err


@pytest.mark.parametrize("words", [("--job", "worker=2"), ("--deadline", "3"), ("--silence", "9")])
def test_what_only_ranks_understand_is_refused_where_there_are_none(
    words: tuple[str, str], folder: Path, dfc: Command
) -> None:
    ended = dfc("run", "line.bundle", "add", *words, "--feed", "a=1", "--feed", "b=2")
    assert ended.code == 2
    assert f"{words[0]} is for ranks that are started here, with -n" in ended.err


@pytest.mark.parametrize("name", ["state", "entries", "close", "_machinery"])
def test_an_entry_may_be_called_as_what_a_program_has(name: str, folder: Path, dfc: Command) -> None:
    Path("named.dfg").write_text(f"dfg 1\n\nreadonly entry {name}(x: f32) -> (y: f32) {{ return x }}\n")
    done = dfc("run", "named.dfg", name, "--feed", "x=2", "--trace", "named.json")
    assert (done.code, done.out, done.err) == (0, "y 2\n", "")
    assert f'"{name}"' in Path("named.json").read_text()
