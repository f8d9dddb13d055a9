"""The pipeline: order, stopping, watching, and what becomes of bugs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from dfc.diagnostics.diagnostic import CompileError, error
from dfc.diagnostics.source import NOWHERE, SourceFile
from dfc.driver import api, internal_errors, pipeline, reproducer
from dfc.driver.pipeline import Event, InternalError, Phase
from dfc.driver.watching import watcher
from dfc.elaborate.build import build
from dfc.ir.equality import equal
from dfc.ir.graph import Block, Graph
from dfc.ir.options import CompileOptions
from dfc.ir.rewrite import map_blocks
from dfc.ir.walk import nodes

PROGRAM = """dfg 1
param w: f32 = 1

entry e(x: f32) -> f32 {
  let unused = exp(x)
  let loss = square(x * w * 1)
  w -= grad(loss, w)
  return loss + loss * 1
}
"""


def graph() -> Graph:
    return build(SourceFile("p.dfg", PROGRAM))


def events(options: CompileOptions) -> list[Event]:
    seen: list[Event] = []
    pipeline.optimise(graph(), options, seen.append)
    return seen


def test_every_phase_is_reported_in_order() -> None:
    seen = events(CompileOptions())
    assert [e.name for e in seen] == [p.name for p in pipeline.all_phases()]
    assert [e.number for e in seen] == list(range(1, len(seen) + 1))


def test_every_phase_has_a_reason_and_a_name_of_one_word() -> None:
    for phase in pipeline.PHASES:
        assert phase.reason
        assert phase.name.isidentifier()


def test_gradients_are_gone_and_the_rest_is_smaller() -> None:
    after = pipeline.optimise(graph(), CompileOptions(verify_each=True))
    ops = [node.op for node in nodes(after.entries["e"].block)]
    assert "grad" not in ops
    assert "exp" not in ops


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_only_the_first_passes_run(limit: int) -> None:
    assert len(events(CompileOptions(pass_limit=limit))) == limit


def test_no_pass_leaves_the_graph_as_it_was() -> None:
    before = graph()
    assert pipeline.optimise(before, CompileOptions(pass_limit=0)) is before


def test_stopping_after_a_pass_means_its_last_run() -> None:
    names = [e.name for e in events(CompileOptions(stop_after="fold"))]
    assert names[-1] == "fold"
    assert names.count("fold") == [p.name for p in pipeline.PHASES].count("fold")


def test_a_dump_after_each_pass_can_be_compiled_and_gives_the_same_end() -> None:
    end = pipeline.optimise(graph())
    for event in events(CompileOptions()):
        again = build(SourceFile("p.dfg", pipeline.show(event.graph)))
        assert equal(again, event.graph), event.name
    assert not equal(end, graph())


def test_printing_and_timing_go_where_they_are_asked_to() -> None:
    out = io.StringIO()
    pipeline.optimise(graph(), watch=watcher(CompileOptions(print_after=frozenset(["cse"]), time_passes=True), out))
    text = out.getvalue()
    assert text.count("# ---- after cse (pass ") == [p.name for p in pipeline.PHASES].count("cse")
    assert "after fold" not in text
    assert text.count(" ms  ") == len(pipeline.PHASES)


def phase(run, name: str = "shake") -> Phase:
    return Phase(name, run, "for a test")


def broken(graph: Graph) -> Graph:
    """Drops every node: whatever used them now uses nothing."""
    return map_blocks(graph, lambda block: Block(block.parameters, (), block.outputs))


def test_a_pass_that_fails_is_an_internal_error_with_a_reproducer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducer.tempfile, "gettempdir", lambda: str(tmp_path))
    before = graph()

    def fail(_: Graph) -> Graph:
        raise KeyError("lost")

    with pytest.raises(InternalError) as caught:
        pipeline.run_phase(phase(fail), 7, before, pipeline.ignore, must_verify=False)
    failure = caught.value
    assert failure.exit_code == 1
    assert "shake failed: KeyError: 'lost'" in failure.message
    assert "please report" in failure.message
    assert "--pass-limit 6" in failure.message
    kept = Path(failure.reproducer)
    assert kept.parent == tmp_path
    assert equal(build(SourceFile("kept.dfg", kept.read_text())), before)


def test_a_pass_that_breaks_the_graph_is_found_when_every_pass_is_verified() -> None:
    with pytest.raises(InternalError, match="shake failed: VerifyError"):
        pipeline.run_phase(phase(broken), 1, graph(), pipeline.ignore, must_verify=True)
    pipeline.run_phase(phase(broken), 1, graph(), pipeline.ignore, must_verify=False)


def test_a_graph_is_verified_once_however_many_stages_hand_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[Graph] = []
    whole = internal_errors.verify

    def noted(graph: Graph, *others: Any) -> None:
        verified.append(graph)
        whole(graph, *others)

    monkeypatch.setattr(internal_errors, "verify", noted)
    api.compile(text="dfg 1\n\nentry double(x: f32) -> f32 {\n  return 1 * x\n}\n")
    assert len(verified) == len({id(graph) for graph in verified}) == 2  # of the elaborated one, and behind all passes


def test_a_graph_that_is_broken_from_the_start_is_found() -> None:
    with pytest.raises(InternalError, match="elaborate failed"):
        pipeline.optimise(broken(graph()))


def test_a_mistake_of_the_author_stays_one() -> None:
    def refuse(_: Graph) -> Graph:
        raise CompileError([error("E1001", "not yet", NOWHERE)])

    with pytest.raises(CompileError):
        pipeline.run_phase(phase(refuse), 1, graph(), pipeline.ignore, must_verify=False)


def test_a_reproducer_that_cannot_be_written_hides_nothing() -> None:
    assert reproducer.keep(graph(), "shake", pipeline.show, folder="/nowhere/at/all") == ""


def test_one_bug_leaves_one_file(tmp_path: Path) -> None:
    names = {reproducer.keep(graph(), "shake", pipeline.show, folder=str(tmp_path)) for _ in range(2)}
    assert len(names) == 1
    assert len(list(tmp_path.iterdir())) == 1
