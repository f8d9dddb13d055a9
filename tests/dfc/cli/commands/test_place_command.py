"""`dfc place`: decisions, the lines behind them, and the simulated run beside its bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.driver.profiles import KernelTime, Profile
from tests.support.command_line import Command

PROGRAM = """dfg 1

param near: f32[8, 8] = 0
param far: f32[100, 8] = 0

entry step(x: f32[8, 8]) -> (p: f32, q: f32) {
  let p = sum(x @ near)
  let q = sum(exp(x) * 2)
  return p, q
}

readonly entry rows(n: i32[4]) -> (r: f32[4, 8]) { return far[n] }
"""
HALVES = """dfg 1

entry step(x: f32[8, 8]) -> (p: f32, q: f32) {
  let p = sum(exp(x))
  let q = sum(sin(x))
  return p, q
}
"""
DEPLOYMENT = """deploy 1 for "two.dfg"

job ps     tasks 2 with memory = "1 MB"
job worker tasks 2
place "far" on ps
place "near" on worker task 1
colocate "step/p" with "near"
"""


@pytest.fixture
def placed(folder: Path) -> Path:
    (folder / "two.dfg").write_text(PROGRAM)
    (folder / "two.deploy").write_text(DEPLOYMENT)
    return folder


def told(dfc: Command, *arguments: str) -> dict[str, list[dict[str, object]]]:
    ended = dfc("place", "two.dfg", "--deploy", "two.deploy", "--format", "json", *arguments)
    assert ended.code == 0, ended.message
    return json.loads(ended.out)


@pytest.mark.usefixtures("placed")
def test_state_and_nodes_name_their_lines(dfc: Command) -> None:
    report = told(dfc)
    assert {row["name"]: (row["site"], row["lines"]) for row in report["state"]} == {
        "near": ("worker:1", [6, 7]),
        "far": ("ps:0", [5]),
    }
    nodes = {row["name"]: row for entry in report["entries"] for row in entry["nodes"]}
    assert (nodes["step/p/read"]["site"], nodes["step/p/read"]["lines"]) == ("worker:1", [6, 7])
    assert nodes["step/p"]["site"] == "worker:1"


@pytest.mark.usefixtures("placed")
def test_alternatives_have_the_times_that_were_compared(dfc: Command) -> None:
    (step,) = [entry for entry in told(dfc)["entries"] if entry["name"] == "step"]
    chosen = [row for row in step["nodes"] if len(row["alternatives"]) > 1]
    assert chosen
    for row in chosen:
        ends = {each["site"]: each["finish"] for each in row["alternatives"]}
        assert ends[row["site"]] == min(ends.values()) == row["finish"]
    assert step["lower_bound"] == max(step["critical_path"], step["work"] / 4)


@pytest.mark.usefixtures("placed")
def test_the_table_has_no_colours_and_the_glob_filters_it(dfc: Command) -> None:
    ended = dfc("place", "two.dfg", "--deploy", "two.deploy", "--only", "step/p/**")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "step/p/read" in ended.out
    assert "step/q" not in ended.out
    assert "ps: the fullest task holds 3.1 KB; no placement gets below 3.1 KB" in ended.out
    assert "two.deploy:6,7" in ended.out


@pytest.mark.usefixtures("placed")
def test_a_glob_that_matches_nothing_is_a_mistake(dfc: Command) -> None:
    ended = dfc("place", "two.dfg", "--deploy", "two.deploy", "--only", "stop/**")
    assert ended.code == 2
    assert "nothing here matches --only 'stop/**'" in ended.message
    assert not ended.out


def test_what_was_measured_moves_work(placed: Path, dfc: Command) -> None:
    """The table takes both halves for quick, and leaves them on one task; found to be slow, they run on two."""
    (placed / "two.dfg").write_text(HALVES)
    (placed / "two.deploy").write_text('deploy 1 for "two.dfg"\n\njob worker tasks 2\n')

    def sites(*arguments: str) -> dict[object, object]:
        (step,) = told(dfc, *arguments)["entries"]
        return {row["name"]: row["site"] for row in step["nodes"]}

    before = sites()
    assert set(before.values()) == {"worker:0"}
    slow = [KernelTime("step", (str(name),), 0.5, 3, "two.dfg:4") for name in before]
    Profile("two", 0.0, tuple(slow)).write(placed / "p.json")
    after = sites("--profile", "p.json")
    assert after["step/p"] != after["step/q"]


SIZED = """dfg 1

entry step[N](x: f32[N]) -> (p: f32, q: f32) {
  let p = sum(exp(x))
  let q = sum(sin(x))
  return p, q
}

entry train[B](x: f32[B, 8]) -> (m: f32) { return mean(exp(x)) }
"""


def sized(folder: Path) -> None:
    (folder / "two.dfg").write_text(SIZED)
    cut = 'replicate train over worker with mode = "sync", split = "B", blocks = 4'
    text = f"job ps tasks 2\njob worker tasks 2\n{cut}\n"
    (folder / "two.deploy").write_text(f'deploy 1 for "two.dfg"\n\n{text}')


def test_a_size_moves_work_too(placed: Path, dfc: Command) -> None:
    sized(placed)

    def tasks(*arguments: str) -> set[object]:
        (step,) = [each for each in told(dfc, *arguments)["entries"] if each["name"] == "step"]
        return {row["site"] for row in step["nodes"]}

    assert tasks() == tasks("--size", "N=64") == {"ps:0"}
    assert len(tasks("--size", "N=100000000")) == 2


def test_the_size_of_a_batch_is_shared_out_to_its_blocks(placed: Path, dfc: Command) -> None:
    sized(placed)

    def finish(*arguments: str) -> float:
        (train,) = [each for each in told(dfc, *arguments)["entries"] if each["name"] == "train"]
        return train["finish"]

    assert finish("--size", "B=256") == finish(), "64 is what a size counts as that nobody knows"
    assert finish("--size", "B=512") > finish()


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("N", "size 'N' is not of the form NAME=VALUE"),
        ("N=0", "the size 'N=0' is not a whole number from 1"),
        ("N=1e3", "the size 'N=1e3' is not a whole number from 1"),
        (f"N={'9' * 19}", "is not a whole number from 1"),
        ("M=3", "no entry has a dimension M; the dimensions are B, N"),
    ],
)
def test_a_size_that_means_nothing_is_refused(placed: Path, dfc: Command, size: str, words: str) -> None:
    sized(placed)
    ended = dfc("place", "two.dfg", "--deploy", "two.deploy", "--size", size)
    assert ended.code == 2
    assert words in ended.message


def test_what_is_no_profile_is_refused(placed: Path, dfc: Command) -> None:
    (placed / "p.json").write_text('{"format": "something else"}')
    ended = dfc("place", "two.dfg", "--deploy", "two.deploy", "--profile", "p.json")
    assert ended.code == 6
    assert "p.json is no profile" in ended.message


@pytest.mark.usefixtures("placed")
def test_a_profile_is_for_placement(dfc: Command) -> None:
    ended = dfc("compile", "two.dfg", "--profile", "p.json")
    assert ended.code == 2
    assert "--deploy" in ended.message


REPLICATED = """dfg 1

param w: f32[40] = 0

entry train[B](x: f32[B, 40]) -> (loss: f32) {
  let loss = mean(square(x @ w - 1))
  w -= 0.1 * grad(loss, w)
  return loss
}
"""
BLOCKS = """deploy 1 for "m.dfg"

job worker tasks 2

replicate train over worker with mode = "sync", split = "B", blocks = 8
"""
NETWORK = '{"format": "dfc network 1", "latency": 1e-3, "message": 1e-5, "bandwidth": 1e9}'


@pytest.fixture
def replicated(tmp_path: Path) -> list[str]:
    for name, text in (("m.dfg", REPLICATED), ("m.deploy", BLOCKS), ("net.json", NETWORK)):
        (tmp_path / name).write_text(text)
    return ["place", str(tmp_path / "m.dfg"), "--deploy", str(tmp_path / "m.deploy")]


def test_a_step_is_predicted_for_other_numbers_of_ranks(replicated: list[str], tmp_path: Path, dfc: Command) -> None:
    asked = ["--simulate", f"ranks=2,network={tmp_path / 'net.json'}", "--simulate", "ranks=64"]
    lines = dfc(*replicated, *asked).out.splitlines()
    assert lines[0] == f"entry train: a step, predicted; network: {tmp_path / 'net.json'}"
    assert [line.split()[:2] for line in lines[1:4]] == [["ranks", "blocks"], ["2", "8"], ["64", "64"]]
    assert lines[3].endswith("the processor of rank 0 with messages")
    assert [line.split()[0] for line in lines[5:9]] == ["sums", "name", "train/grad", "train/loss"]
    data = json.loads(dfc(*replicated, *asked, "--format", "json").out)["predictions"]
    assert [each["ranks"] for each in data] == [2, 64]
    assert 3e-3 < data[0]["seconds"] < 4e-3  # a call, a sum and an answer: each at least the latency
    assert data[1]["bottleneck"] == "the processor of rank 0 with messages"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("ranks=many", "--simulate takes ranks=N or ranks=N,network=FILE, not 'ranks=many'"),
        ("ranks=4,ranks=8", "--simulate takes ranks=N or ranks=N,network=FILE: ranks is given twice"),
        ("4", "--simulate takes ranks=N or ranks=N,network=FILE, not '4'"),
        ("ranks=4,net=x", "not 'ranks=4,net=x'"),
        ("ranks=0", "ranks=0 is no number of ranks from 1 to 100,000"),
        ("ranks=2000000000", "ranks=2000000000 is no number of ranks from 1 to 100,000"),
        ("ranks=4,network=absent.json", "absent.json"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_one_line(
    replicated: list[str], asked: str, complaint: str, dfc: Command
) -> None:
    ended = dfc(*replicated, "--simulate", asked)
    assert ended.code != 0
    assert complaint in ended.message
    assert ended.out == ""


def test_a_file_that_describes_no_network_is_refused(replicated: list[str], tmp_path: Path, dfc: Command) -> None:
    (tmp_path / "net.json").write_text('{"format": "dfc network 1", "latency": 1}')
    ended = dfc(*replicated, "--simulate", f"ranks=4,network={tmp_path / 'net.json'}")
    assert "net.json is no description of a network: it has no 'bandwidth'" in ended.message


def test_steps_of_their_own_and_their_updates_say_why_they_are_where_they_are(
    replicated: list[str], tmp_path: Path, dfc: Command
) -> None:
    async_blocks = BLOCKS.replace('"sync"', '"async"').replace("job worker", "job ps tasks 1\njob worker")
    (tmp_path / "m.deploy").write_text(async_blocks)
    lines = dfc(*replicated).out.splitlines()
    (gradient,) = (line for line in lines if line.split()[:1] == ["train/grad"])
    assert "each task takes its own steps" in gradient
    assert any("beside the state that it updates" in line for line in lines)
    assert not any("divided" in line for line in lines)
    ended = dfc(*replicated, "--simulate", "ranks=8")
    assert 'replicates no entry with `mode = "sync"`, `"staged"` or `"mirrored"`' in ended.message
