"""Lines about queues and what runners use: one holds for all of a pipeline; what cannot be is said with the lines."""

from __future__ import annotations

from dfc.distribute.deployment.pipelines import line_of
from dfc.distribute.pipelines.connected import pipelines
from tests.support.building import graph_of
from tests.support.deploying import diagnosed, resolved

HEAD = 'deploy 1 for "program.dfg"\njob reader tasks 1\njob worker tasks 2\n'
PROGRAM = """
param w: f32[2] = 1
var count: i64 = 0
queue raw: f32[2] = fifo(capacity = 4)
queue ready: f32[2] = staging(depth = 2)

runner move {
  count += 1
  let x = raw.take()
  ready.put(x * READS)
}

entry feed(x: f32[2]) { raw.put(x) }

entry train[B](y: f32[B]) -> f32 {
  let x = ready.take()
  let loss = mean(y) * sum(x * w)
  w -= grad(loss, w)
  return loss
}
"""
GRAPH = graph_of(PROGRAM.replace("READS", "2"))


def test_the_most_specific_line_about_any_of_a_pipeline_holds_for_all() -> None:
    (pipeline,) = pipelines(GRAPH)
    for lines, expected in [
        ('place "**" on worker\nplace "ready" on reader\n', "reader"),
        ('place "**" on worker\nplace "r*" on worker task 1\nplace "raw" on worker task 1\n', "worker task 1"),
        ('place "**" on worker\n', "worker"),
    ]:
        line = line_of(resolved(HEAD + lines, GRAPH), pipeline)
        assert line is not None
        assert str(line.constraint) == expected
    assert line_of(resolved(HEAD, GRAPH), pipeline) is None


def test_lines_that_want_one_pipeline_in_two_places_are_both_shown() -> None:
    (problem,) = diagnosed(HEAD + 'place "raw" on reader\nplace "ready" on worker task 1\n', GRAPH)
    assert (problem.code, problem.span.line) == ("E0804", 5)
    assert problem.title == "`raw` and `ready` have to be on one task, but are placed apart"
    assert [(each.span.line, each.text) for each in problem.labels if not each.primary] == [
        (4, "`raw` is placed here"),
        (7, "this runner uses them"),
    ]


def test_a_line_about_what_is_joined_with_a_pipeline_does_not_contradict_another() -> None:
    lines = 'place "raw" on reader\ncolocate "ready" with "w"\nplace "w" on worker\n'
    (problem,) = diagnosed(HEAD + lines, GRAPH)
    assert problem.title == "`raw` and `w` have to be on one task, but are placed apart"
    assert (5, "joined by this line") in [(each.span.line, each.text) for each in problem.labels]
    assert not diagnosed(HEAD + lines.replace("worker", "reader"), GRAPH)
    assert len(diagnosed(HEAD + lines.replace("ready", "raw"), GRAPH)) == 1


def test_a_queue_without_a_runner_is_not_sharded() -> None:
    graph = graph_of("queue raw: f32[2] = fifo(capacity = 4)\nentry feed(x: f32[2]) { raw.put(x) }\n")
    titles = [each.title for each in diagnosed(HEAD + 'shard "raw" axis 0 over worker\n', graph)]
    assert "`raw` is on one task, and cannot be sharded" in titles


def test_state_of_a_pipeline_is_not_where_rows_of_something_are() -> None:
    lines = HEAD + 'place "**" on reader\nshard "w" axis 0 over worker\ncolocate "NAME" with "w"\n'
    for name in ("raw", "count"):
        (problem,) = diagnosed(lines.replace("NAME", name), GRAPH)
        assert (problem.code, problem.span.line) == ("E0804", 6)
        assert problem.title == f"`{name}` is on one task, and cannot be where the rows of `w` are"
        assert [each.span.line for each in problem.labels if not each.primary] == [5]
        assert list(problem.helps) == [f'name a task: `place "{name}" on worker task 0`']
    assert [each.code for each in diagnosed(lines.replace('"NAME" with "w"', '"w" with "raw"'), GRAPH)] == ["E0804"]
    assert not diagnosed(lines.replace("NAME", "train/loss"), GRAPH)


def test_what_a_runner_uses_is_not_sharded_and_has_no_copies_that_are_trained() -> None:
    graph = graph_of(PROGRAM.replace("READS", "w"))
    (problem,) = diagnosed(HEAD + 'shard "w" axis 0 over worker\n', graph)
    assert problem.title == "`w` is used by the runner `move`, so that it cannot be sharded yet"
    copied = 'replicate train over worker with mode = "sync", split = "B"\n'
    (problem,) = diagnosed(HEAD + copied, graph)
    assert problem.title == "`w` would be on one task, with the runner `move` that uses it"
    assert not diagnosed(HEAD + copied, GRAPH)
