"""What the device cannot do by itself: calls of the run side, sizes that are measured, loops on older drivers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.errors import RunError
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, program_of
from tests.support.simulated_runtime import simulated, simulated_devices

SEND = 'key = "{0}", source = "a:0", destinations = ["b", "c"]'
RECV = 'key = "{0}", source = "b:0", type_ = {1}'


def send(value: str, key: str) -> str:
    return f"graph.send({value}, {SEND.format(key)})"


def recv(type_: str, key: str) -> str:
    return f"graph.recv({RECV.format(key, type_)})"


@pytest.fixture(params=[True, False], ids=["nodes", "host"])
def devices(request: pytest.FixtureRequest) -> Iterator[list[list[SimulatedDevice]]]:
    """With conditional nodes and without."""
    with simulated_devices(conditional_nodes=request.param) as opened:
        yield opened


class Network:
    """Keeps what is sent, and answers with what it was given, made larger each time."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.sent: list[np.ndarray] = []
        self.times = 0

    def send(self, request: HostRequest) -> None:
        self.sent.append(request.inputs[0].copy())

    def recv(self, request: HostRequest) -> None:
        self.times += 1
        request.outputs[0][...] = np.asarray(self.answers[str(request.site.attributes["key"])]) * self.times

    @property
    def handlers(self) -> dict[str, object]:
        return {"send": self.send, "recv": self.recv}


def test_a_host_call_cuts_the_call_in_two(devices: list[list[SimulatedDevice]]) -> None:
    network = Network(row=[1.5, -2.0, 4.0])
    model = simulated(
        f"""
entry f(x: f32[3], k: i16) -> (row: f32[3], more: i16) {{
  {send("x * 2", "x")}
  {send("k", "k")}
  let row: f32[3] = {recv("f32[3]", "row")}
  return row * x, k + 1
}}""",
        handlers=network.handlers,
    )
    x = np.array([1, 2, 3], np.float32)
    row, more = model.f(x, 5)
    np.testing.assert_array_equal(row, [1.5, -4, 12])
    assert more == 6
    np.testing.assert_array_equal(network.sent[0], 2 * x)
    assert network.sent[1] == 5 and network.sent[1].dtype == np.int16
    before = devices[0][-1].counts.graphs
    row, _ = model.f(x, 5)
    np.testing.assert_array_equal(row, [3, -8, 24])
    assert devices[0][-1].counts.graphs == before, "the second call builds nothing"


def test_host_calls_in_loops_and_branches(devices: list[list[SimulatedDevice]]) -> None:
    network = Network(step=1)
    model = simulated(
        f"""
var total: i64 = 0
entry f(n: i64) -> (last: i64) {{
  let last = loop k: i64 = 0 for i in 0..n {{
    {send("k", "k")}
    let more = if i % 2 == 0 {{
      let step: i64 = {recv("i64", "step")}
      yield step
    }} else {{
      yield 10
    }}
    total += more
    k = k + more + i
  }}
  return last
}}""",
        handlers=network.handlers,
    )
    assert model.f(4) == (29,)
    assert [int(each) for each in network.sent] == [0, 1, 12, 16]
    assert model.state["total"] == 23
    assert model.f(0) == (0,)


def test_what_a_handler_raises_reaches_the_caller(devices: list[list[SimulatedDevice]]) -> None:
    class Broken(Exception):
        pass

    def refuse(request: HostRequest) -> None:
        raise Broken("no network")

    text = f"""
var w: f32 = 1
entry f(x: f32) -> (y: f32) {{
  {send("x", "x")}
  w += x
  return w
}}"""
    model = simulated(text, handlers={"send": refuse})
    with pytest.raises(Broken, match="no network"):
        model.f(2.0)
    assert model.state["w"] == 1


def test_no_host_call_after_a_fault(devices: list[list[SimulatedDevice]]) -> None:
    network = Network()
    text = f"""
entry f(x: f32) -> (y: f32) {{
  assert x > 0.0, "positive"
  {send("x", "x")}
  return x
}}"""
    model = simulated(text, handlers=network.handlers)
    with pytest.raises(RunError, match="positive"):
        model.f(-1.0)
    assert network.sent == []
    assert model.f(1.0) == (1,)


SIZED = """
readonly entry f[B](x: i64[B]) -> (values: i64[?], twice: i64[?], total: i64) {
  let y = x[x > 0]
  let z = unique(y).values
  return z, y * 2, sum(z)
}"""


def test_measured_sizes_shape_results(devices: list[list[SimulatedDevice]]) -> None:
    model = simulated(SIZED)
    rng = np.random.default_rng(3)
    for _ in range(3):
        x = rng.integers(-4, 5, 12)
        values, twice, total = model.f(x)
        np.testing.assert_array_equal(values, np.unique(x[x > 0]))
        np.testing.assert_array_equal(twice, 2 * x[x > 0])
        assert total == np.unique(x[x > 0]).sum()
    values, twice, total = model.f(np.full(12, -1))
    assert (values.size, twice.size, total) == (0, 0, 0)


def test_measured_sizes_in_loops(devices: list[list[SimulatedDevice]]) -> None:
    text = """
readonly entry f[B](x: i64[B], n: i64) -> (total: i64) {
  return loop t: i64 = 0 for k in 0..n { t = t + sum(unique(x[x > k]).values) }
}"""
    x = np.array([5, 1, 5, 3, 2, 9, 2])
    wanted = sum(int(np.unique(x[x > k]).sum()) for k in range(5))
    assert simulated(text).f(x, 5) == (wanted,)


CONTROL = """
var seen: i64 = 0
readonly entry nested(n: i32, m: i32) -> (total: i64) {
  return loop t: i64 = 0 for i in 0..n {
    t = loop s: i64 = t for j in 0..m {
      s = if (i + j) % 2 == 0 { yield s + 1 } else { yield s + 10 }
    }
  }
}
entry collatz(n: i64) -> (steps: i64) {
  let k, steps = loop k: i64 = n, steps: i64 = 0 while k != 1 {
    k = if k % 2 == 0 { yield k // 2 } else {
      seen += 1
      yield 3 * k + 1
    }
    steps = steps + 1
  }
  return steps
}
readonly entry rows[B](x: f32[B, 3], flag: bool) -> (y: f32[3], all: f32[B, 3]) {
  let h, all = loop h: f32[3] = zeros(f32[3]) for row in x {
    h = h * 0.5 + row
    emit h
  }
  let y = if flag { yield h } else { yield -h }
  return y, all
}"""


def test_loops_and_branches_mean_the_same_on_either_driver() -> None:
    program = program_of(CONTROL)
    for conditional_nodes in (True, False):
        device = SimulatedDevice(conditional_nodes=conditional_nodes)
        run = SimulatedRun(program, {"seen": np.int64(0)}, device)
        for n, m in ((3, 4), (0, 5), (5, 0), (-2, 3)):
            wanted = sum(1 if (i + j) % 2 == 0 else 10 for i in range(n) for j in range(m))
            assert run.call("nested", [np.int32(n), np.int32(m)]) == [wanted]
        assert run.call("collatz", [np.int64(27)]) == [111]
        assert run.call("collatz", [np.int64(1)]) == [0]
        assert run.state["seen"] == 41
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        wanted = [x[0]]
        for row in x[1:]:
            wanted.append(wanted[-1] * np.float32(0.5) + row)
        for flag in (True, False):
            y, every = run.call("rows", [x, np.bool_(flag)], {"B": 4})
            np.testing.assert_array_equal(every, wanted)
            np.testing.assert_array_equal(y, wanted[-1] if flag else -wanted[-1])
        if conditional_nodes:
            device.counts.clear()
            run.call("collatz", [np.int64(27)])
            assert (device.counts.launches, device.counts.waits) == (1, 2), "the call, and what pulls the state"


def test_loops_of_older_drivers_build_no_graph_twice() -> None:
    device = SimulatedDevice(conditional_nodes=False)
    run = SimulatedRun(program_of(CONTROL), {"seen": np.int64(0)}, device)
    run.call("nested", [np.int32(2), np.int32(2)])
    built = device.counts.graphs
    run.call("nested", [np.int32(7), np.int32(5)])
    assert device.counts.graphs == built and device.counts.launches > 60


def test_no_iteration_begins_after_a_fault(devices: list[list[SimulatedDevice]]) -> None:
    text = """
var seen: i64 = 0
entry f(n: i64) -> (last: i64) {
  let last = loop k: i64 = 0 for i in 0..n {
    assert i < 3, "too far"
    seen += 1
    k = k + i
  }
  return last
}"""
    model = simulated(text)
    with pytest.raises(RunError, match="too far"):
        model.f(2**50)
    assert model.state["seen"] == 3
    assert model.f(3) == (3,)
