"""What of a program is a pipeline, and what belongs to a program on one processor and is refused elsewhere."""

from __future__ import annotations

from dfc.distribute.pipelines.connected import Pipeline, pipelines
from dfc.distribute.pipelines.refused import refused_queues
from tests.support.building import graph_of

CHAIN = """
var files = record_files("a")
var broken: i64 = 0
var other: i64 = 0
queue pool: i64 = shuffle_queue(capacity = 8, ready = 2, seed = 1)
queue staged: i64[2] = staging(depth = 2)
queue alone: i64 = fifo(capacity = 2)

runner read {
  let record = files.next()
  let example = parse_example(record, (label = i64))
  if example.label > 0 { pool.put(example.label) } else { broken += 1 }
}

runner collect {
  let two = pool.take(2)
  staged.put(two)
}

entry one() -> i64[2] {
  other += 1
  return staged.take()
}

entry put() -> i64 {
  alone.put(other)
  return alone.take()
}
"""


def test_what_runners_connect_is_one_pipeline_with_all_state_that_they_use() -> None:
    first, second = pipelines(graph_of(CHAIN))
    assert first == Pipeline(("files", "broken", "pool", "pool.order", "staged"), ("read", "collect"))
    assert second == Pipeline(("alone",), ())


def test_queues_and_mutexes_are_refused_by_their_names() -> None:
    text = """
    var guard: mutex = mutex()
    queue found: i64 = fifo(capacity = 2)
    entry one() -> i64 { guard.acquire()
      guard.release()
      found.put(1)
      return found.take() }
    """
    titles = [each.title for each in refused_queues(graph_of(text), "on GPUs")]
    assert sorted(titles) == [f"{what} are not supported on GPUs yet" for what in ("mutexes", "queues")]
