"""The list of stages: its documentation, what each prints, who passes through it, and what is imported for whom."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver import api, pipeline, reproducer
from dfc.driver.many_ranks import deployed
from dfc.driver.pipeline import Context, Divided, Event, InternalError, OneRank, PartStage, Phase, PlugIn, Undivided
from dfc.driver.pipeline import stages as listed
from dfc.driver.watching import watcher
from dfc.elaborate.build import build
from dfc.ir.equality import equal
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc_runtime.errors import UnsupportedError
from tests.support.command_line import environment
from tests.support.corpus import ROOT

OPTIONS = {"check_finite": "--check-finite", "timed": "--timed"}
TEXT = """dfg 1

param w: f32[4] = uniform(0, 1)

entry train[B](x: f32[B, 4]) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w -= 0.1 * grad(loss, w)
  return loss
}

readonly entry predict(x: f32[4]) -> f32 {
  return x @ w
}
"""
DEPLOYMENT = """deploy 1 for "program.dfg"

job ps tasks 1
job worker tasks 2

place "w" on ps task 0
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
PROGRAM, DEPLOY = SourceFile("program.dfg", TEXT), SourceFile("program.deploy", DEPLOYMENT)


def rows() -> list[str]:
    """What the table in the documentation has to say."""
    found: list[str] = []
    for stage in pipeline.STAGES:
        module, _, function = stage.entry.partition(":")
        when = f" (with `{OPTIONS[stage.option]}`)" if stage.option else ""
        found.append(f"| `{stage.name}`{when} | `{module}` | `{function}` | {stage.invariant} |")
    return found


def on_ranks(watch: pipeline.Watch = pipeline.ignore, options: CompileOptions | None = None) -> Divided[Graph]:
    """The program up to its parts."""
    context = Context(options or CompileOptions(), watch=watch)
    built: Graph = pipeline.run(PROGRAM, context, last="elaborate")
    context.distribution = deployed(built, DEPLOY)
    return pipeline.run(built, context, "prune", "partition")


def test_the_documentation_opens_with_the_list() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("| stage | module | entry function |") :]
    assert table[: table.index("\n\n")].splitlines()[2:] == rows()
    assert re.findall(r"^## (.*)$", text, re.M)[0] == "The stages"


@pytest.mark.parametrize("stage", pipeline.STAGES, ids=lambda stage: stage.name)
def test_what_a_stage_names_as_its_entry_is_there_and_has_a_reason(stage: pipeline.Stage[object, object]) -> None:
    module, _, function = stage.entry.partition(":")
    found: object = importlib.import_module(module)
    for name in function.split("."):
        found = getattr(found, name)
    assert callable(found)
    assert stage.reason
    assert stage.invariant


def test_the_names_of_the_stages() -> None:
    assert " ".join(pipeline.stage_names()) == (
        "parse resolve elaborate separate prune split_inputs autodiff simplify fold cse dce hoist sparse "
        "finite_checks expand replicate shard place partition fuse schedule buffers legalise clocks generate link "
        "bundle"
    )


def test_graphs_of_one_rank_read_back_as_they_are_behind_every_stage_up_to_partition() -> None:
    seen: list[Event] = []
    options = CompileOptions(verify_each=True)
    pipeline.run(PROGRAM, Context(options, watch=seen.append), last="partition")
    read = 0
    for event in seen:
        graph = _graph(event.form)
        if graph is not None:
            assert equal(build(SourceFile("program.dfg", event.show())), graph), event.name
            read += 1
    assert read == len(seen) - 2  # a tree and names are none
    assert equal(build(SourceFile("program.dfg", seen[0].show())), build(PROGRAM))


def test_graphs_of_many_ranks_read_back_and_there_is_one_for_each_role_in_the_end() -> None:
    seen: dict[str, Event] = {}
    divided = on_ranks(lambda event: seen.__setitem__(event.name, event), CompileOptions(verify_each=True))
    for name in ("replicate", "shard", "place"):
        graph = _graph(seen[name].form)
        assert graph is not None
        assert equal(build(SourceFile("program.dfg", seen[name].show())), graph), name
    assert "# w: ps" in seen["place"].show()
    assert [part.name for part in divided.parts] == ["ps-0", "worker"]
    texts = re.split(r"^# part (\S+)\n", seen["partition"].show(), flags=re.M)[1:]
    assert texts[::2] == ["ps-0", "worker"]
    for part, text in zip(divided.parts, texts[1::2], strict=True):
        assert equal(build(SourceFile("program.dfg", text)), part.form)


def _graph(form: object) -> Graph | None:
    if isinstance(form, Divided) and len(form.parts) == 1:
        form = form.parts[0].form
    if isinstance(form, Undivided):
        return form.graph
    return form if isinstance(form, Graph) else None


def test_a_program_for_one_rank_passes_through_distribution_unchanged() -> None:
    seen: dict[str, Event] = {}
    divided: Divided[Graph] = pipeline.run(
        PROGRAM, Context(watch=lambda e: seen.__setitem__(e.name, e)), last="partition"
    )
    before = seen["dce"].graph
    assert all(_graph(seen[name].form) is before for name in ("replicate", "shard", "place"))
    (part,) = divided.parts
    assert (part.name, part.form is before, part.graph is before) == ("", True, True)
    assert OneRank().shard(Undivided(before)).graph is before


CHILD = """
import json, sys
from dfc.cli.main import main
imported = []
for words in ([], ["--deploy", "program.deploy"]):
    try:
        main(["compile", "program.dfg", "-o", "out.bundle", *words])
    except SystemExit as end:
        assert not end.code
    imported.append(sorted(name for name in sys.modules if name.startswith("dfc")))
json.dump(imported, open("imported.json", "w"))
"""
SEVERAL = re.compile(
    r"dfc\.distribute|dfc\.driver\.(many_ranks|several_devices|cluster_parts|role_memory|placement)|dfc\.bundle\.cluster"
    r"|dfc_runtime\.(mixed|distributed)"
)


def test_a_plain_compile_imports_nothing_about_several_devices_or_ranks_and_one_for_ranks_does(tmp_path: Path) -> None:
    (tmp_path / "program.dfg").write_text(TEXT)
    (tmp_path / "program.deploy").write_text(DEPLOYMENT)
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain, for_ranks = json.loads((tmp_path / "imported.json").read_text())
    assert "dfc.driver.pipeline.stages" in plain
    assert [name for name in plain if SEVERAL.match(name)] == []
    assert "dfc.driver.many_ranks" in for_ranks


def test_stages_over_parts_tell_whose_they_are() -> None:
    out = io.StringIO()
    options = CompileOptions(time_passes=True, print_after=frozenset(["fuse"]), verify_each=True)
    context = Context(options, watch=watcher(options, out))
    pipeline.run(on_ranks(), context, "fuse", "link")
    assert re.findall(r"ms  (.*)$", out.getvalue(), re.M) == [
        f"{name} of {part}"
        for name in ("fuse", "schedule", "buffers", "legalise", "generate", "link")
        for part in ("ps-0", "worker")
    ]
    assert re.findall(r"^# ---- after (.*) ----$", out.getvalue(), re.M) == ["fuse of ps-0", "fuse of worker"]


def test_a_bundle_for_ranks_goes_through_all_stages() -> None:
    bundle = api.compile_source(PROGRAM, CompileOptions(verify_each=True), DEPLOY)
    assert bundle.entries == ("train", "predict", "init")
    cluster = bundle.manifest.cluster
    assert cluster is not None
    assert [role.name for role in cluster.roles] == ["ps-0", "worker"]
    shown = api.show_after(PROGRAM, CompileOptions(stop_after="memory"), DEPLOY)
    assert list(shown) == ["ps-0", "worker"]
    assert all("arena" in each.text for each in shown.values())


def test_a_bug_in_a_stage_over_parts_names_stage_and_part_and_keeps_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducer.tempfile, "gettempdir", lambda: str(tmp_path))

    def fail(*_: object) -> object:
        raise KeyError("lost")

    broken = tuple(
        PartStage(s.name, fail, s.reason, s.entry, s.invariant, s.verify, s.show) if s.name == "schedule" else s
        for s in pipeline.all_stages()
        if isinstance(s, PartStage) or s.name != "schedule"
    )
    monkeypatch.setattr("dfc.driver.pipeline.running.all_stages", lambda: broken)
    divided = on_ranks()
    with pytest.raises(InternalError, match="schedule of ps-0 failed: KeyError: 'lost'") as caught:
        pipeline.run(divided, Context(), "fuse")
    kept = Path(caught.value.reproducer)
    assert kept.parent == tmp_path
    assert equal(build(SourceFile("kept.dfg", kept.read_text())), divided.parts[0].form)


def test_a_pass_that_leaves_what_it_was_to_take_away_is_found() -> None:
    phase = next(each for each in pipeline.PHASES if each.name == "autodiff")
    idle = Phase("autodiff", lambda graph: graph, "does nothing", holds=phase.holds, gone=phase.gone)
    with pytest.raises(InternalError, match="no gradient is left"):
        pipeline.run_phase(idle, 1, build(PROGRAM), pipeline.ignore, must_verify=True)


def test_a_pass_of_another_package_may_name_a_stage_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name, value, dist = "still", "still:PLUG_IN", None

        @staticmethod
        def load() -> PlugIn:
            return PlugIn(Phase("still", lambda graph: graph, "for a test"), after="hoist_inputs")

    monkeypatch.setattr(listed, "entry_points", lambda group: [Point()] if group == "dfc.passes" else [])
    found = [stage.name for stage in listed.all_stages.__wrapped__()]
    assert found[found.index("hoist") + 1] == "still"


def test_an_unknown_stage_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        UnsupportedError, match=r"there is no stage 'fuze'; did you mean fuse.*; stages: parse, resolve"
    ):
        pipeline.run(PROGRAM, Context(CompileOptions(stop_after="fuze")))
