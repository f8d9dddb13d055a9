"""Room in queues for what runners have in their hands."""

from __future__ import annotations

import pytest

from dfc.lower.reserves import with_reserves
from tests.support.building import graph_of

PROGRAM = """
queue raw: i64 = fifo(capacity = 4)
queue pool: i64 = fifo(capacity = 4)
entry feed(k: i64) { raw.put(k) }
runner work with copies = 3 {
  let k = raw.take()
  BODY
}
runner more { pool.put(0) }
entry next() -> i64 { return pool.take() }
"""


@pytest.mark.parametrize(
    ("body", "reserve"),
    [
        ("pool.put(k)", 3 + 1),
        ("pool.put(k)\n  if k > 3 { pool.put(k) }", 3 * 2 + 1),
        ("for i in 0..5 { for j in 2..4 { pool.put(i) } }", 3 * 10 + 1),
        ("for i in 0..k { pool.put(i) }", None),
        ("let x = loop x = k while x > 0 {\n pool.put(x)\n x = x - 1\n }", None),
        ("for i in 0..2_000_000 { pool.put(i) }", None),
    ],
)
def test_a_queue_has_room_for_what_all_copies_put_in_an_iteration(body: str, reserve: int | None) -> None:
    resources = with_reserves(graph_of(PROGRAM.replace("BODY", body)))
    form = resources["pool"].queue
    assert form is not None and form.reserve == reserve
    assert form.slots == 4 + (reserve or 0)
    assert resources["raw"].queue.reserve == 0  # calls do not end in a checkpoint
