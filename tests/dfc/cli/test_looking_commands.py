"""`dfc show`, `inspect`, `verify`, `test`, `ops` and `explain`: commands that only tell."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import llvmlite.binding
import pytest

import dfc_runtime
from dfc.cli.commands import inspect_command
from dfc.cli.commands.explain_command import codes
from dfc.driver import api
from dfc.ops import registry
from dfc_target_cpu.target import CpuTarget
from tests.support.command_line import Command
from tests.support.one_test_for_all import one_test_for_all


def test_show_prints_a_program_that_shows_the_same_again(folder: Path, dfc: Command) -> None:
    shown = dfc("show", "line.dfg")
    assert shown.code == 0
    assert shown.out.startswith("dfg 1\n")
    again = dfc("show", "-", stdin=shown.out.encode())
    assert (again.code, again.err) == (0, "")
    assert again.out == shown.out


ACCEPTED: set[str] = set()
"""Programs that have compiled already: most stages leave a small one as it is."""


def require_that_it_compiles(text: str, dfc: Command) -> None:
    if text not in ACCEPTED:
        assert dfc("compile", "-", "-o", "again.bundle", stdin=text.encode()).code == 0
        ACCEPTED.add(text)


@pytest.mark.parametrize("name", api.pass_names())
def test_show_after_a_pass_prints_a_program(name: str, folder: Path, dfc: Command) -> None:
    shown = dfc("show", "line.dfg", "--after", name)
    assert shown.code == 0
    require_that_it_compiles(shown.out, dfc)


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("resolve", "file line.dfg\n"),
        ("fuse", "fused program line\n\nkernel 0 "),
        ("schedule", "scheduled program line\n\nkernel 0 "),
        ("buffers", "program line\n\nkernel 0 "),
        ("generate", "; x86-64"),
        ("link", "driver cpu, "),
        ("bundle", "bundle line for the driver cpu\n"),
    ],
)
def test_show_after_prints_what_every_stage_has_made(name: str, start: str, folder: Path, dfc: Command) -> None:
    shown = dfc("show", "line.dfg", "--after", name)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(start)


@pytest.mark.parametrize("name", ["parse", "elaborate", "replicate", "shard", "place", "partition"])
def test_show_after_a_stage_over_graphs_prints_a_program(name: str, folder: Path, dfc: Command) -> None:
    shown = dfc("show", "line.dfg", "--after", name)
    assert (shown.code, shown.err) == (0, "")
    require_that_it_compiles(shown.out, dfc)


def test_show_after_takes_gradients_apart(folder: Path, dfc: Command) -> None:
    assert "grad(" in dfc("show", "line.dfg").out
    assert "grad(" not in dfc("show", "line.dfg", "--after", "autodiff").out


def test_show_prints_kernels_and_code(folder: Path, dfc: Command) -> None:
    assert "entry train" in dfc("show", "line.dfg", "--kernels").out
    code = dfc("show", "line.dfg", "--llvm").out
    assert "define " in code
    assert "target triple" in code


def test_show_uses_settings(folder: Path, dfc: Command) -> None:
    assert "f32[17]" in dfc("show", "line.dfg", "--set", "WIDTH=17").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--after", "autodif"), "there is no stage 'autodif'; did you mean 'autodiff'?; stages: "),
        (("--kernels", "--llvm"), "give one of --kernels, --llvm and --ptx"),
        (("--llvm", "--ptx"), "give one of --kernels, --llvm and --ptx"),
        (("--target", "cuda"), "--target chooses whose kernels are shown"),
        (("--llvm", "--target", "cuda"), "--target chooses whose kernels are shown"),
        (("--kernels", "--arch", "sm_90"), "--arch chooses the architecture of --ptx"),
        (("--after", "cse", "--kernels"), "--after names a stage"),
    ],
)
def test_show_refuses_what_does_not_go_together(words: tuple[str, ...], told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("show", "line.dfg", *words)
    assert ended.code == 2
    assert told in ended.message


def test_inspect_names_what_compiled_the_program(folder: Path, dfc: Command) -> None:
    version = ".".join(map(str, llvmlite.binding.llvm_version_info))
    head = dfc("inspect", "line.bundle").out.splitlines()[:2]
    assert head[0].endswith(f"written by dfc {metadata.version('dfc')}")
    assert head[1] == f"  compiled by LLVM {version}, llvmlite {metadata.version('llvmlite')}"


def test_inspect_tells_entries_state_memory_and_code(folder: Path, dfc: Command) -> None:
    ended = dfc("inspect", "line.bundle")
    assert (ended.code, ended.err) == (0, "")
    for told in (
        "setting WIDTH = 3",
        "  entry train[B](x: f32[B, 3], y: f32[B], rate: f32) -> (loss: f32)\n      One step of gradient descent.\n",
        "  readonly entry add(a: f32, b: f32) -> f32\n      memory: none beyond feeds and results\n",
        "state: 52 B, 3 trained numbers",
        "param w      f32[3]",
        "rng   dice   u64[4]",
        "\ncode\n",
    ):
        assert told in ended.out
    assert "test" not in ended.out


def test_inspect_gives_memory_for_the_sizes_of_a_call(folder: Path, dfc: Command) -> None:
    train = dfc_runtime.inspect("line.bundle").manifest.entries[0]
    expected = f"      memory: {train.arena.evaluate({'B': 1000})} bytes (no less than "
    assert expected in dfc("inspect", "line.bundle", "--size", "B=1000").out


def test_inspect_asks_for_the_sizes_of_long_sums(folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_command, "MOST_TOKENS", 0)
    assert (
        "      memory: a sum of many terms in B (--size B=64 adds it up) (no less than "
        in dfc("inspect", "line.bundle").out
    )


def test_inspect_refuses_a_size_that_no_entry_has(folder: Path, dfc: Command) -> None:
    ended = dfc("inspect", "line.bundle", "--size", "C=3")
    assert (ended.code, ended.err) == (2, "error: the bundle has no size C: those of its entries are B, N\n")


def test_inspect_lists_runners_and_who_is_at_which_end_of_a_queue(folder: Path, dfc: Command) -> None:
    text = """dfg 1

queue jobs: f32[3] = fifo(capacity = 2)
var n: i64 = 0

runner fill with copies = 2 {
  n += 1
  jobs.put(broadcast(n as f32, [3]))
}
entry next() -> f32[3] {
  return jobs.take()
}
"""
    (folder / "queues.dfg").write_text(text)
    assert dfc("compile", "queues.dfg", "-o", "queues.bundle").code == 0
    shown = dfc("inspect", "queues.bundle").out
    assert "\n  runner fill with copies = 2\n" in shown
    assert "\nstate: 8 B, 0 trained numbers\n" in shown
    assert "\nqueues: 448 B\n  jobs  448 B, filled by fill, emptied by next\n" in shown
    assert "\n      a checkpoint has its elements, up to 48 B: the runner `fill` reads no records\n" in shown
    assert dfc("run", "queues.bundle", "next").code == 0
    refused = dfc("run", "queues.bundle", "fill")
    assert refused.code == 2 and "fill" in refused.err


def test_inspect_gives_the_source_back(folder: Path, dfc: Command) -> None:
    assert dfc("inspect", "line.bundle", "--source").out == (folder / "line.dfg").read_text()


def test_verify_names_every_bundle(folder: Path, dfc: Command) -> None:
    (folder / "copy.bundle").write_bytes((folder / "line.bundle").read_bytes())
    ended = dfc("verify", "line.bundle", "copy.bundle")
    assert ended.code == 0
    assert [line.split(";")[0] for line in ended.out.splitlines()] == ["line.bundle: whole", "copy.bundle: whole"]


@pytest.mark.parametrize("name", ["inspect", "verify"])
def test_no_bundle_is_refused(name: str, folder: Path, dfc: Command) -> None:
    assert dfc(name, "missing.bundle").code == 2
    for other in ("line.dfg", "x.npy"):
        ended = dfc(name, other)
        assert ended.code == 4
        assert "error[E0906]" in ended.message


def test_test_runs_every_test_on_fresh_state(folder: Path, dfc: Command) -> None:
    ended = dfc("test", "line.dfg")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "ok      line.dfg: nothing in gives nothing out\n"
        "ok      line.dfg: a test may change state\n"
        "ok      line.dfg: every test starts with fresh state\n"
        "3 tests passed\n"
    )


def test_test_chooses_by_a_word_of_the_name(folder: Path, dfc: Command) -> None:
    assert dfc("test", "line.dfg", "-k", "fresh").out.endswith("fresh state\n1 test passed\n")
    told = "line.dfg: no tests with 'nowhere' in their names\n0 tests passed\n"
    assert dfc("test", "line.dfg", "-k", "nowhere").out == told


def test_a_test_that_fails_is_told_with_its_line(folder: Path, dfc: Command) -> None:
    text = 'dfg 1\n\ntest "no" {\n  assert 1 + 1 == 3, "arithmetic"\n}\n\ntest "yes" {\n  assert 1 + 1 == 2\n}\n'
    (folder / "sums.dfg").write_text(text)
    ended = dfc("test", "sums.dfg", "line.dfg")
    assert ended.code == 2
    assert ended.out.startswith("FAILED  sums.dfg: no\n  [E0903] arithmetic at sums.dfg:4:3\n")
    assert ended.out.endswith("4 tests passed, 1 failed\n")


def test_test_uses_settings(folder: Path, dfc: Command) -> None:
    ended = dfc("test", "line.dfg", "--set", "WIDTH=2")
    assert ended.code == 2
    assert "FAILED  line.dfg: a test may change state" in ended.out


def test_ops_lists_every_op_under_its_family(dfc: Command) -> None:
    told = dfc("ops").out
    for record in registry.all_records():
        assert f" {record.name} " in told
        assert record.family in told
    assert dfc("ops", "--count").out == f"{len(registry.all_records())}\n"


@one_test_for_all([record.name for record in registry.all_records()])
def test_ops_describes_each_op(name: str, dfc: Command) -> None:
    ended = dfc("ops", name)
    assert (ended.code, ended.err) == (0, "")
    record = registry.find(name)
    assert record is not None
    assert ended.out.startswith(f"{record.signature}\n\n{record.summary.strip()}\n")
    assert "  gradient: " in ended.out
    assert "  cpu: yes\n" in ended.out and "  gpu: yes\n" in ended.out


def test_ops_says_what_a_target_lacks(dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuTarget, "lacks", {"abs": "no sign bit"}, raising=False)
    assert "  d abs                    gpu  The absolute value" in dfc("ops").out
    assert "  cpu: no: no sign bit\n  gpu: yes\n" in dfc("ops", "abs").out


def test_an_op_that_is_not_there_is_told(dfc: Command) -> None:
    assert dfc("ops", "rellu").err == "error: there is no op 'rellu'; did you mean 'relu'?\n"


def test_what_the_library_declares_is_described(dfc: Command) -> None:
    told = dfc("ops", "one_hot").out
    assert told.startswith("fn one_hot[I: int, ..S](labels: I[..S], const classes: int) -> f32[..S, classes]\n\n1 at")
    assert told.endswith("\n\n  part of the language\n")
    adam = dfc("ops", "Adam").out
    assert adam.startswith("block Adam(\n  ref weights: vars,\n  const rate: float = 1e-3,\n")
    assert ")\n\nAdam (Kingma and Ba 2015): m = " in adam and adam.endswith("\n\n  from std.optim import Adam\n")


def test_explain_lists_all_codes_with_their_titles(dfc: Command) -> None:
    lines = dfc("explain").out.splitlines()
    assert [line.split(":")[0] for line in lines] == codes()
    assert all(line.split(": ")[1] for line in lines)


@pytest.mark.parametrize("word", ["E0304", "e0304", "[E0304]"])
def test_explain_prints_the_page(word: str, dfc: Command) -> None:
    told = dfc("explain", word).out
    assert told.startswith("# E0304: ")
    assert "## Fails" in told


def test_a_code_that_is_not_there_is_told(dfc: Command) -> None:
    told = dfc("explain", "E0394").message
    assert "there is no code 'E0394'; did you mean " in told


FIGURE_6 = """dfg 1

entry g(x: f32) -> (out: f32, other: f32) {
  let a = x * 2
  let b = exp(x)
  let c = a + b
  let d = sqrt(x)
  let e = d + a
  let f = c * 3
  return f, e
}
"""
"""Figure 6 of the white paper of TensorFlow: `b` is fed, `f` is fetched, `d` and `e` do not run."""


def test_a_step_is_shown_without_what_it_does_not_need(tmp_path: Path, dfc: Command) -> None:
    (tmp_path / "g.dfg").write_text(FIGURE_6)
    shown = dfc("show", str(tmp_path / "g.dfg"), "--fetch", "g/f", "--feed", "g/b", "--feed", "x")
    assert (shown.code, shown.err) == (0, "")
    bound = [line.split()[1].rstrip(":") for line in shown.out.splitlines() if line.startswith("  let ")]
    assert {"a", "c", "f"} <= set(bound)
    assert not {"b", "d", "e"} & set(bound)
    assert "exp" not in shown.out
    again = dfc("show", "-", stdin=shown.out.encode())
    assert again.code == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--fetch", "g/f"), "`g/f` needs the feed x: f32"),
        (("--fetch", "g/z", "--feed", "x"), "g/z"),
        (("--feed", "x"), "say what is fetched with --fetch"),
        (("--fetch", "g/f", "--feed", "x", "--kernels"), "give it with --feed and --set alone"),
    ],
)
def test_a_step_that_cannot_be_is_refused(words: tuple[str, ...], complaint: str, tmp_path: Path, dfc: Command) -> None:
    (tmp_path / "g.dfg").write_text(FIGURE_6)
    ended = dfc("show", str(tmp_path / "g.dfg"), *words)
    assert ended.code != 0
    assert complaint in ended.message
