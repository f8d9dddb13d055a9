"""Calls that share no state run at the same time, told by what has begun before any has ended; others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_driver_cpu.pool import shared_pool
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import RunError
from tests.support.pipelines import eventually, loaded

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


def test_a_call_that_waits_for_a_queue_lets_in_who_shares_no_variable_with_it() -> None:
    model = loaded("""
queue a: i64 = fifo(capacity = 2)
var sum: i64 = 0
var given: i64 = 0
entry give(k: i64) -> i64 {
  a.put(k)
  given += 1
  return given
}
entry add() -> i64 {
  let k = a.take()
  sum += k
  return sum
}
""")
    waiting = model.add.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    assert [model.give(k) for k in (5, 6)] == [1, 2]
    assert waiting.result(30) == 5 and model.add() == 11


@pytest.mark.parametrize("setting", ["", " with concurrent = true"])
def test_who_looks_at_state_does_not_keep_out_what_a_call_waits_for(setting: str) -> None:
    model = loaded(f"""
queue a: i64 = fifo(capacity = 2)
var given: i64 = 0
var sum: i64 = 0
entry give(k: i64) -> i64{setting} {{
  given += 1
  a.put(k)
  return given
}}
entry add() -> i64{setting} {{
  let k = a.take()
  sum += k
  return sum
}}
""")
    waiting = model.add.start()
    eventually(lambda: any(each is not None for each in model._machinery.driver.queues.calls()))
    seen: list[int] = []
    look = threading.Thread(target=lambda: seen.append(int(model.state["given"])), daemon=True)
    look.start()
    look.join(0.1)
    assert seen == []  # it looks between calls
    feeding = threading.Thread(target=model.give, args=(5,), daemon=True)
    feeding.start()
    for thread in (feeding, look):
        thread.join(30)
    assert waiting.result(30) == 5 and seen == [1]


def test_a_call_is_among_the_users_of_the_pool_while_it_computes() -> None:
    """Not any more when Python is asked, when it fails, and when it has ended."""
    seen: list[int] = []
    pool = shared_pool().shared

    def answer(request: HostRequest) -> None:
        seen.append(pool.users)
        request.outputs[0][...] = 1

    model = loaded(
        """
param w: f32[512, 512] = uniform(-1, 1)
entry f(x: f32[64, 512], most: f32) -> f32[64, 512] {
  let y = tanh(x @ w)
  let k: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  let z = tanh(y @ w) * (k as f32)
  assert max(z) < most, "too much"
  return z
}
""",
        threads=2,
        recv=answer,
    )
    x = np.ones((64, 512), "f4")
    before = pool.claims >> 32
    model.f(x, 9.0)
    assert pool.users == 0 and seen == [0] and pool.claims >> 32 > before
    with pytest.raises(RunError, match="too much"):
        model.f(x, -9.0)
    assert pool.users == 0 and seen == [0, 0]
