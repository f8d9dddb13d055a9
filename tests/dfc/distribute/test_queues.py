"""What belongs to a program on one processor is refused where it would run elsewhere."""

from __future__ import annotations

from dfc.distribute.queues import refused_queues, refused_readers
from tests.support.building import graph_of

READER = """
var files = record_files("a")
entry one() { let record = files.next() }
entry two() { let record = files.next() }
"""


def test_a_reader_is_refused_once_with_the_first_line_that_reads() -> None:
    (refused,) = refused_readers(graph_of(READER))
    assert (refused.code, refused.span.line) == ("E1001", 3)
    assert refused.title == "readers of records are not supported on many ranks yet"
    assert not list(refused_readers(graph_of("entry one() -> i64 { return 1 }")))


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
