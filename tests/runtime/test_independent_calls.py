"""Calls that share no state run at the same time, told by what has begun before any has ended; others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import dfc
from dfc_runtime.calls.hosts import HostRequest

APART = """
dfg 1
var u: i64 = 0
var v: i64 = 0
entry add_u(k: i64) -> i64 {
  let z: i64 = graph.recv(key = "u", source = "b:0", type_ = i64)
  u += z * k
  return u
}
entry add_v(k: i64) -> i64 {
  let z: i64 = graph.recv(key = "v", source = "b:0", type_ = i64)
  v += z * k
  return v
}
entry set_u(k: i64) { u := k }
entry twice(k: i64) -> i64 { return 2 * k }
"""


def test_calls_that_share_no_state_run_at_the_same_time_and_others_wait(tmp_path: Path) -> None:
    inside = {"u": threading.Event(), "v": threading.Event()}
    go = threading.Event()

    def answer(request: HostRequest) -> None:
        inside[str(request.site.attributes["key"])].set()
        assert go.wait(30)
        request.outputs[0][...] = 1

    model = dfc.loads(dfc.compile(text=APART).to_bytes(), handlers={"recv": answer})
    model.save(tmp_path)
    calls = [model.add_u.start(2), model.add_v.start(3)]
    assert all(each.wait(30) for each in inside.values())  # neither has ended
    assert model.twice(4) == 8
    others: list[str] = []

    def other(name: str, action: Callable[..., object], *feeds: object) -> threading.Thread:
        thread = threading.Thread(target=lambda: (action(*feeds), others.append(name)))
        thread.start()
        return thread

    waiting = [other("same state", model.set_u, 7), other("python", model.restore, tmp_path)]
    for thread in waiting:
        thread.join(0.05)
    assert others == []
    go.set()
    assert [call.result(30) for call in calls] == [2, 3]
    for thread in waiting:
        thread.join(30)
    assert sorted(others) == ["python", "same state"]
    assert model.state["u"] in (0, 7) and model.state["v"] == 0
