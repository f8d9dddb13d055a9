"""`dfc run --profile` and `--trace`: the same numbers as without, and files that say where the time went."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.cli.tracing import traces
from dfc.diagnostics.source import SourceFile
from dfc.driver import api, profiles
from dfc.ir.options import CompileOptions
from dfc_runtime.observe.kernel_times import TICK
from tests.support.command_line import Command

PROGRAM = """dfg 1

var total: f64 = 0

entry train(x: f64[40]) -> (y: f64) {
  let y = loop y: f64 = 0.0 for i in 0..5 {
    y = y + sum(sin(x + y))
  }
  if y > 0.0 { total += y } else { total -= y }
  return y
}
"""


def run(dfc: Command, *arguments: str) -> str:
    ended = dfc("run", "m.dfg", "train", "--feed", "x=x.npy", "--steps", "7", *arguments)
    assert ended.code == 0, ended.err
    return ended.out.split("  ")[-1]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.linspace(0, 1, 40))
    (tmp_path / "m.dfg").write_text(PROGRAM)
    return tmp_path


@pytest.mark.usefixtures("program")
def test_a_profile_has_every_kernel_with_its_line_and_names(dfc: Command) -> None:
    assert run(dfc, "--profile", "p.json") == run(dfc)
    profile = profiles.read("p.json")
    assert profile.program == "m"
    assert 0 < profile.overhead < 1
    launches = {each.location: each.launches for each in profile.kernels if each.entry == "train"}
    assert launches["m.dfg:7"] == 7 * 5
    assert all(each.names and 0 <= each.seconds < 10 for each in profile.kernels)


@pytest.mark.usefixtures("program")
def test_a_trace_has_calls_and_kernels(dfc: Command) -> None:
    assert run(dfc, "--trace", "t.json") == run(dfc)
    trace = traces.read(Path("t.json"))
    assert [each.name for each in trace.events if each.category == "call"] == ["train"] * 7
    inside = [each for each in trace.events if each.category == "kernel" and each.location == "m.dfg:7"]
    assert len(inside) == 7 * 5


@pytest.mark.usefixtures("program")
def test_what_cannot_be_measured_is_refused(dfc: Command) -> None:
    assert dfc("compile", "m.dfg").code == 0
    ended = dfc("run", "m.bundle", "train", "--feed", "x=x.npy", "--profile", "p.json")
    assert ended.code == 2
    assert "has no clocks: compile it with --timed" in ended.message
    assert "not both" in dfc("run", "m.dfg", "train", "--trace", "t", "--profile", "p").message


def test_only_a_timed_build_has_ticks_and_it_runs_where_nobody_measures() -> None:
    plain, timed = (
        dfc_runtime.loads(api.compile_source(SourceFile("m.dfg", PROGRAM), CompileOptions(timed=on)).to_bytes())
        for on in (False, True)
    )
    assert not any(site.kind == TICK for site in plain.manifest.sites)
    assert any(site.kind == TICK for site in timed.manifest.sites)
    x = np.linspace(0, 1, 40)
    assert plain.train(x) == timed.train(x)


@pytest.mark.parametrize("option", ["--trace", "--profile"])
def test_a_folder_that_is_not_there_is_said_before_the_run(dfc: Command, program: Path, option: str) -> None:
    ended = dfc("run", "m.dfg", "train", "--feed", "x=x.npy", "--state", "kept", option, "absent/x.json")
    assert (ended.code, ended.out) == (6, "")
    assert "cannot write absent/x.json: there is no folder absent" in ended.err
    assert not (program / "kept").exists()
