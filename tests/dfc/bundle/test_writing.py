from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc.bundle import writing as bundle
from dfc.bundle.target import CodeImage, Lowered
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import NOWHERE, SourceFile
from dfc.driver import api
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.graph import Resource, ResourceKind
from dfc.ir.types import tensor
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc_runtime.errors import FeedError, FileError
from tests.support.compiled import compiled, graph


def test_a_program_runs_from_its_bundle(tmp_path: Path) -> None:
    path = compiled().save(tmp_path / "model.bundle")
    model = dfc_runtime.load(path, threads=2)
    assert model.add(1.5, 2.0) == (3.5,)
    for rows in (1, 7, 0, 1000):
        x = np.random.default_rng(rows).random((rows, 4), "f4")
        np.testing.assert_array_equal(model.scale(x, 3).r0, x * np.float32(3))
    assert [model.tick().r0 for _ in range(3)] == [42, 44, 46]
    model.save(tmp_path / "there")
    model.init()
    assert model.tick().r0 == 42
    model.restore(tmp_path / "there")
    assert model.tick().r0 == 48
    with pytest.raises(FeedError, match=r"wants x: f32\[B, 4\]"):
        model.scale(np.zeros((1, 5), "f4"), 1)


def test_the_manifest_says_what_a_caller_and_a_reader_need() -> None:
    found = dfc_runtime.inspect(compiled().to_bytes())
    assert found.source == "source text\n"
    assert dict(found.manifest.settings) == {"WIDTH": 4, "RATE": 0.5}
    assert [str(e) for e in found.manifest.entries][:3] == [
        "entry init()",
        "entry add(x: f32, y: f32) -> (r0: f32)",
        "entry scale[B](x: f32[B, 4], rate: f32) -> (r0: f32[B, 4])",
    ]
    assert compiled().entries == ("init", "add", "scale", "tick")
    assert [str(s) for s in found.manifest.state] == ["i64"]


def test_state_travels_inside_a_bundle() -> None:
    model = dfc_runtime.loads(compiled().to_bytes())
    model.tick()
    carried = dfc_runtime.loads(compiled().with_state(model.state).with_state(model.state).to_bytes())
    assert carried.state["count"] == 42
    assert carried.tick().r0 == 44
    with pytest.raises(FeedError, match="no value is given for the state count"):
        compiled().with_state({})
    with pytest.raises(FeedError, match="count is i64, not float64"):
        compiled().with_state({"count": np.float64(1)})


SCRIPT = "import sys; from tests.support.compiled import compiled; compiled().save(sys.argv[1])"


def test_bytes_do_not_depend_on_the_folder_or_the_hash_seed(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",  # here it is random as a rule
        "PYTHONPATH": os.pathsep.join(str(root / part) for part in (".", "runtime", "targets")),
    }
    subprocess.run([sys.executable, "-c", SCRIPT, "x.bundle"], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "x.bundle").read_bytes() == compiled().to_bytes()


def test_saving_replaces_the_file_and_spares_its_users(tmp_path: Path) -> None:
    path = tmp_path / "model.bundle"
    made = compiled()
    made.save(path)
    with path.open("rb") as before:
        made.save(path)
        assert before.read() == path.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["model.bundle"]
    with pytest.raises(FileError, match="cannot write"):
        made.save(tmp_path / "absent" / "model.bundle")


def empty_lowered() -> Lowered:
    return Lowered("cpu", (CodeImage("fake", b"code", {}, ()),), b"", (), {})


def test_what_an_entry_asks_of_the_run_side_is_written_with_its_entry() -> None:
    text = """dfg 1
var w: f32[2] = 0
entry a[N](x: f32[N, 3], p: string) {
  debug.print("{} {}", x, w)
  if N > 2 { checkpoint.save(p, program) }
}
entry b() { debug.print("b") }
"""
    printed, saved, other = api.compile(text=text).manifest.sites
    assert [(site.entry, site.kind) for site in (printed, saved, other)] == [
        ("a", "debug_print"), ("a", "checkpoint_save"), ("b", "debug_print"),
    ]  # fmt: skip
    assert [str(each) for each in printed.inputs] == ["f32[N, 3]", "f32[2]"]
    assert saved.attributes == {"path": 1, "resources": ("w",)}
    assert [site.location.line for site in (printed, saved, other)] == [4, 5, 7]


def test_state_without_a_constant_size_is_refused() -> None:
    span = SourceFile("model.dfg", "param w: f32[N]\n").span(6, 7)
    odd = Resource("w", ResourceKind.VARIABLE, tensor(F32, dim(Symbol("N"))), True, None, span)
    with pytest.raises(CompileError, match="`w` has a size that is not a constant"):
        bundle.write(Program("model", resources={"w": odd}), empty_lowered(), "", {})


def test_places_carry_their_line() -> None:
    program = lower_graph(graph())
    file = SourceFile("model.dfg", "first\n  let x = y / z\n")
    program.fault("division", "", file.span(16, 21))
    program.fault("assert", "no", NOWHERE)
    first, second = bundle.write(program, empty_lowered(), "", {}).manifest.faults[-2:]
    assert (str(first.location), first.location.text) == ("model.dfg:2:11", "  let x = y / z")
    assert second.location.text == ""


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "model.bundle"
    link.symlink_to("there/real.bundle")
    for _ in range(2):
        compiled().save(link)
        assert link.is_symlink()
        assert dfc_runtime.load(tmp_path / "there/real.bundle", threads=1).add(1, 2) == (3,)
    assert [each.name for each in (tmp_path / "there").iterdir()] == ["real.bundle"]
