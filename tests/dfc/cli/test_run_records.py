"""`dfc run` of a program that reads records: which files, and how a run goes on behind another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.command_line import Command
from tests.support.record_files import write_records

PROGRAM = """dfg 1

var files = record_files("data/*.rec", passes = 2, shuffle = "records", seed = 4, longest = 32)
var seen: i64 = 0

entry step() -> (first: i64, seen: i64) {
  let record = files.next()
  let [N] bytes: u8[N] = decode_raw(record, u8)
  let first = sum(bytes as i64)
  seen := seen * 31 + first
  return first, seen
}
"""
RUN = ("run", "read/program.bundle", "step", "--json")


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return api.compile(text=PROGRAM).to_bytes()


@pytest.fixture
def program(folder: Path, bundle: bytes) -> Path:
    """A program in a folder of its own, with its bundle and its records."""
    (folder / "read" / "data").mkdir(parents=True)
    (folder / "read" / "program.dfg").write_text(PROGRAM)
    (folder / "read" / "program.bundle").write_bytes(bundle)
    write_records(folder / "read" / "data" / "a.rec", [bytes([number]) for number in range(1, 8)])
    write_records(folder / "other.rec", [b"\x63"])
    return folder


@pytest.mark.usefixtures("program")
def test_patterns_are_relative_to_the_program_and_those_of_the_command_to_where_it_runs(dfc: Command) -> None:
    for form in ("dfg", "bundle"):
        ended = dfc("run", f"read/program.{form}", "step", "--json")
        assert json.loads(ended.out)["results"]["first"] in range(1, 8)
    assert json.loads(dfc(*RUN, "--data", "files=*.rec").out)["results"]["first"] == 0x63
    ended = dfc(*RUN, "--data", "file=*.rec")
    assert (ended.code, "the program has no reader file; did you mean files?" in ended.err) == (2, True)
    ended = dfc(*RUN, "--data", "files=no-*.rec")
    assert ended.code == 6
    assert "no file is called no-*.rec in" in ended.err and "Traceback" not in ended.err


@pytest.mark.usefixtures("program")
def test_a_run_that_goes_on_reads_what_a_single_one_would(dfc: Command) -> None:
    whole = json.loads(dfc(*RUN, "--steps", 9).out)["results"]
    for steps in (2, 7):
        ended = dfc(*RUN, "--steps", steps, "--state", "kept", "--again")
    assert json.loads(ended.out)["results"]["seen"] == whole["seen"]


@pytest.mark.usefixtures("program")
def test_the_end_of_the_data_ends_a_run_well_and_its_state_is_saved(dfc: Command) -> None:
    whole = json.loads(dfc(*RUN, "--steps", 14).out)
    assert (whole["steps"], whole["end_of_data"]) == (14, False)
    ended = dfc(*RUN, "--steps", 20, "--state", "kept")
    assert (ended.code, json.loads(ended.out)["end_of_data"], json.loads(ended.out)["steps"]) == (0, True, 14)
    assert json.loads(ended.out)["results"] == whole["results"]
    again = dfc(*RUN, "--steps", 20, "--state", "kept")
    assert (again.code, json.loads(again.out)) == (0, {**json.loads(ended.out), "seconds": 0.0, "done_before": True})
    again = dfc(*RUN[:-1], "--steps", 20, "--state", "kept")
    assert "done before, 14 steps, then the data ended" in again.out
    assert "14 steps" in dfc(*RUN[:-1], "--steps", 20).out


@pytest.mark.usefixtures("program")
def test_a_run_for_which_there_is_no_data_at_all_says_so(dfc: Command) -> None:
    dfc(*RUN, "--steps", 14, "--state", "kept")
    ended = dfc(*RUN, "--steps", 3, "--state", "kept")
    assert (ended.code, "E0918" in ended.err, ended.out) == (2, True, "")


POOL = """dfg 1

var files = record_files("data/*.rec", passes = 2, longest = 32)
queue pool: i64 = shuffle_queue(capacity = 10, ready = 6)

runner read {
  let record = files.next()
  let [N] bytes: u8[N] = decode_raw(record, u8)
  if N == 1 { pool.put(sum(bytes as i64)) }
}

entry step() -> (first: i64) { return pool.take() }
"""


def test_a_run_says_what_it_reads_again_for_its_pool_and_inspect_what_a_checkpoint_has(
    program: Path, dfc: Command
) -> None:
    api.compile(text=POOL).save(program / "read" / "pool.bundle")
    has = "a checkpoint has positions: the runner `read` reads its elements again from `files`"
    assert f"      {has}, as long as each record became one\n" in dfc("inspect", "read/pool.bundle").out
    words = ("run", "read/pool.bundle", "step", "--json", "--state", "kept", "--steps")
    assert dfc(*words, 2).code == 0
    ended = dfc(*words, 3)
    assert ended.code == 0 and re.search(r"^pool: \d+ elements were read again in \d+\.\d s$", ended.err, re.MULTILINE)
