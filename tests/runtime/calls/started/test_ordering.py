"""Calls that were started wait for exactly those before them that they share something with, unless both only look."""

from __future__ import annotations

from random import Random

import dfc
from dfc_runtime.calls.started.ordering import Access, Order, Uses, uses_of
from tests.support.sweeping import few

READ, CONCURRENT, ALONE = Access.READ, Access.CONCURRENT, Access.ALONE

PROGRAM = """dfg 1
var a: i64 = 0
var b: i64 = 0
var guard: mutex = mutex()
queue q: i64 = fifo(capacity = 2)
entry add() -> i64 {
  a += b
  return a
}
entry push() with concurrent = true { a += 1 }
entry peek() -> (a: i64, b: i64) with concurrent = true { return a, b }
readonly entry look() -> i64 { return a }
entry give(k: i64) { q.put(k) }
entry next() -> i64 { return q.take() }
entry turn() {
  let k = q.take()
  q.put(k)
}
entry next_beside() -> i64 with concurrent = true { return q.take() }
entry inside() {
  guard.acquire()
  let k = q.take()
  guard.release()
}
entry save(path: string) { checkpoint.save(path, program) }
"""


def test_what_an_entry_uses() -> None:
    manifest = dfc.loads(dfc.compile(text=PROGRAM).to_bytes()).manifest
    uses = {entry.name: dict(uses_of(manifest, entry)) for entry in manifest.entries}
    assert uses["add"] == {"@entry add": ALONE, "a": ALONE, "b": READ}
    assert uses["push"] == {"@entry push": CONCURRENT, "a": CONCURRENT}
    assert uses["peek"] == {"@entry peek": CONCURRENT, "a": CONCURRENT, "b": READ}
    assert uses["look"] == {"a": READ}
    assert uses["give"] == {"@put q": ALONE}
    assert uses["next"] == {"@take q": ALONE}
    assert uses["turn"] == uses["next_beside"] == {}
    assert "@take q" not in uses["inside"]
    assert {"a": ALONE, "b": ALONE}.items() <= uses["save"].items()


def is_behind(later: Uses, earlier: Uses) -> bool:
    """Said as the module says it, one pair at a time."""
    shared = later.keys() & earlier.keys()
    return any(later[name] is ALONE or later[name] is not earlier[name] for name in shared)


def test_calls_begin_when_all_that_they_are_behind_have_ended() -> None:
    for seed in few(range(40), 8):
        random, order = Random(seed), Order[int]()
        started: dict[int, Uses] = {}
        begun: set[int] = set()
        for number in range(60):
            if random.random() < 0.6 or not begun:
                names = random.sample("abcd", random.randrange(4))
                uses = {name: random.choice([READ, CONCURRENT, ALONE]) for name in names}
                started[number] = uses
                if order.add(number, uses):
                    begun.add(number)
            else:
                ended = random.choice(sorted(begun))
                begun.discard(ended)
                del started[ended]
                begun |= {*order.remove(ended)}
            expected = {
                call
                for call, uses in started.items()
                if not any(is_behind(uses, started[each]) for each in started if each < call)
            }
            assert begun == expected and [*order] == [*started], seed
        while begun:
            call = min(begun)
            begun = (begun - {call}) | {*order.remove(call)}
        assert len(order) == 0 and order._shared == order._behind == order._missing == {}


def test_ten_thousand_calls_that_follow_each_other_know_one_of_them_each() -> None:
    order = Order[int]()
    for number in range(10_000):
        order.add(number, {"": ALONE, "w": ALONE})
    assert sum(len(behind) for behind in order._behind.values()) == 9_999
