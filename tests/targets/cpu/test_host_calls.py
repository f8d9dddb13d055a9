"""Calls of the run side from native code: operands, results, control flow, failures. Messages stand for all of them."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import dfc
from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.hosts import Handler, HostRequest
from dfc_runtime.errors import RunError, UnsupportedError
from dfc_runtime.module import Module

SEND = 'key = "{0}", source = "a:0", destinations = ["b", "c"]'
RECV = 'key = "{0}", source = "b:0", type_ = {1}'


def send(value: str, key: str) -> str:
    return f"graph.send({value}, {SEND.format(key)})"


def recv(type_: str, key: str) -> str:
    return f"graph.recv({RECV.format(key, type_)})"


class Network:
    """Keeps what is sent, and answers with what it was given."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.sent: list[tuple[str, np.ndarray]] = []
        self.requests: list[HostRequest] = []

    def send(self, request: HostRequest) -> None:
        self.requests.append(request)
        self.sent.append((str(request.site.attributes["key"]), request.inputs[0].copy()))

    def recv(self, request: HostRequest) -> None:
        self.requests.append(request)
        request.outputs[0][...] = self.answers[str(request.site.attributes["key"])]

    def keys(self) -> list[str]:
        return [key for key, _ in self.sent]


def module(text: str, network: Network | None = None, **handlers: Handler) -> Module:
    found = {"send": network.send, "recv": network.recv} if network is not None else {}
    return dfc.loads(dfc.compile(text=f"dfg 1\n{text}\n").to_bytes(), threads=1, handlers={**found, **handlers})


def test_scalars_and_arrays_go_out_and_come_in() -> None:
    network = Network(row=[1.5, -2.0, 4.0], number=7, flag=True)
    model = module(
        f"""
entry f(x: f32[3], k: i16) -> (row: f32[3], number: i64, flag: bool, more: i64) {{
  {send("x", "x")}
  {send("k", "k")}
  {send("exp(x) + 1.0", "inner")}
  let row: f32[3] = {recv("f32[3]", "row")}
  let number: i64 = {recv("i64", "number")}
  let flag: bool = {recv("bool", "flag")}
  return row * 2.0, number, flag, number * 6
}}""",
        network,
    )
    x = np.array([1, 2, 3], np.float32)
    row, number, flag, more = model.f(x, 5)
    np.testing.assert_array_equal(row, [3.0, -4.0, 8.0])
    assert (number, flag, more) == (7, True, 42)
    assert [(key, value.dtype.name, value.shape) for key, value in network.sent] == [
        ("x", "float32", (3,)), ("k", "int16", ()), ("inner", "float32", (3,)),
    ]  # fmt: skip
    np.testing.assert_array_equal(network.sent[0][1], x)
    assert network.sent[1][1] == 5
    np.testing.assert_allclose(network.sent[2][1], np.exp(x) + 1, rtol=1e-6)


def test_a_request_says_where_it_comes_from_and_its_inputs_are_read_only() -> None:
    network = Network(t=0)
    lines = [send("x", "x"), f"let got: f32 = {recv('f32', 't')}", "return got"]
    model = module("entry f(x: f32) -> f32 {\n  " + "\n  ".join(lines) + "\n}", network)
    model.f(1.0)
    sent, received = network.requests
    assert (sent.entry, sent.module, sent.site.kind, sent.site.location.line) == ("f", "<text>", "send", 3)
    assert sent.site.attributes == {"key": "x", "source": "a:0", "destinations": ("b", "c")}
    assert received.site.attributes == {"key": "t", "source": "b:0"}
    assert received.site.names == ("f/got",)
    assert not sent.inputs[0].flags.writeable
    assert received.outputs[0].flags.writeable


def test_views_and_reshapes_arrive_as_whole_arrays() -> None:
    network = Network()
    sends = [send("transpose(x)", "t"), send("x[1:, 0]", "s"), send("reshape(x, [6])", "r"), send("zeros(i8[2])", "z")]
    model = module("entry f(x: f32[2, 3]) {\n" + "\n".join(sends) + "\n}", network)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    model.f(x)
    for (_, got), wanted in zip(network.sent, [x.T, x[1:, 0], x.reshape(6), np.zeros(2, np.int8)], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_sizes_are_those_of_the_call() -> None:
    network = Network(t=2)
    model = module(
        f"""
entry f[N, M](x: f32[N, M]) -> f32[2 * N] where N >= 1 {{
  {send("x", "x")}
  {send("x[1:]", "rest")}
  return {recv("f32[2 * N]", "t")}
}}""",
        network,
    )
    for shape in [(1, 3), (4, 2), (2, 0)]:
        network.sent.clear()
        result = model.f(np.ones(shape, np.float32))
        np.testing.assert_array_equal(result, np.full(2 * shape[0], 2))
        assert [value.shape for _, value in network.sent] == [shape, (shape[0] - 1, shape[1])]


def test_a_conditional_calls_in_the_branch_that_runs() -> None:
    network = Network(t=10.0)
    model = module(
        f"""
entry f(x: f32) -> f32 {{
  let y = if x > 0.0 {{
    {send("x * 3.0", "positive")}
    let t: f32 = {recv("f32", "t")}
    yield t + x
  }} else {{
    {send("x", "negative")}
    yield x
  }}
  return y
}}""",
        network,
    )
    assert model.f(2.0) == 12.0
    assert model.f(-1.0) == -1.0
    assert network.sent == [("positive", 6.0), ("negative", -1.0)]


def test_loops_call_in_every_iteration_and_carry_what_they_get() -> None:
    network = Network(t=[1.0, 2.0])
    model = module(
        f"""
entry f(x: f32[2], n: i64) -> (sum: f32[2], rounds: f32) {{
  let sum, rounds = loop sum = x, rounds = 0.0 for i in 0..n {{
    let t: f32[2] = {recv("f32[2]", "t")}
    {send("rounds", "rounds")}
    sum = sum + t
    rounds = rounds + 1.0
    {send("sum", "sum")}
  }}
  return sum, rounds
}}""",
        network,
    )
    total, rounds = model.f(np.zeros(2, np.float32), 3)
    np.testing.assert_array_equal(total, [3.0, 6.0])
    assert rounds == 3
    assert network.keys() == ["rounds", "sum"] * 3
    assert [value.tolist() for key, value in network.sent if key == "sum"] == [[1, 2], [2, 4], [3, 6]]
    assert [value.item() for key, value in network.sent if key == "rounds"] == [0, 1, 2]


def test_what_is_sent_is_the_value_at_that_line_though_the_variable_changes() -> None:
    network = Network()
    model = module(
        f"""
var v: f32[2] = zeros(f32[2])
entry f() -> f32[2] {{
  let before = v
  v += 1.0
  {send("v", "after")}
  {send("before", "before")}
  v *= 3.0
  return v
}}""",
        network,
    )
    np.testing.assert_array_equal(model.f(), [3, 3])
    assert [(key, value.tolist()) for key, value in network.sent] == [("after", [1, 1]), ("before", [0, 0])]


def test_long_entries_of_several_functions_keep_their_scalars() -> None:
    lines = [f"let a{i + 1}: f32 = {recv('f32', 't')}" for i in range(150)]
    sends = [send(f"a{i} + a{i + 1}", f"k{i}") for i in range(1, 150)]
    network = Network(t=2.0)
    body = "\n  ".join([*lines, *sends])
    model = module(f"entry f(a0: f32) -> f32 {{\n  {body}\n  return a1 + a150 + a0\n}}", network)
    assert model.f(1.0) == 5.0
    assert network.keys() == [f"k{i}" for i in range(1, 150)]
    assert {value.item() for _, value in network.sent} == {4.0}


def test_what_a_handler_raises_reaches_the_caller_with_its_place() -> None:
    def fail(request: HostRequest) -> None:
        raise KeyError(float(request.inputs[0]))

    model = module(
        f"var n: i64 = 0\nentry f(x: f32) -> i64 {{\n  n += 1\n  {send('x', 'x')}\n  n += 10\n  return n\n}}", send=fail
    )
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            model.f(2.5)
        assert caught.value.args == (2.5,)
        assert caught.value.__notes__ == ["in `send` at <text>:5:3"]
    assert model.state["n"] == 2  # what was written before stays, what comes after does not run


def test_faults_before_and_after_a_call_are_told_from_those_inside() -> None:
    network = Network()
    model = module(
        f"entry f(x: f32[3], i: i64) -> f32 {{\n  {send('i', 'i')}\n  assert i != 9\n  return x[i]\n}}", network
    )
    x = np.arange(3, dtype=np.float32)
    with pytest.raises(RunError, match="index 7 is out of range"):
        model.f(x, 7)
    with pytest.raises(RunError, match="<text>:4"):
        model.f(x, 9)
    assert model.f(x, 2) == 2.0
    assert [value.item() for _, value in network.sent] == [7, 9, 2]


@pytest.mark.parametrize("readonly", [False, True])
def test_locks_are_given_back_when_a_call_fails(readonly: bool) -> None:
    def fail(request: HostRequest) -> None:
        raise LookupError

    word, write = ("readonly ", "") if readonly else ("", "v += 1.0")
    text = f"""
var v: f32[2] = zeros(f32[2])
readonly entry look() -> f32[2] {{ return v }}
entry change() {{ v += 1.0 }}
{word}entry f() -> f32[2] {{
  let before = v
  {write}
  {send("before", "v")}
  {write}
  return before
}}"""
    model = module(text, send=fail)
    with pytest.raises(LookupError):
        model.f()
    model.change()
    assert model.look()[0] == (1 if readonly else 2)


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises, even where these tests were started with it ignored, as in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_a_signal_before_the_handler_starts_stops_the_call() -> None:
    """The interpreter looks for signals when it enters the function that native code calls, before its first line."""
    after: list[float] = []

    def strike(request: HostRequest) -> None:
        if request.site.attributes["key"] == "first":
            signal.raise_signal(signal.SIGINT)  # to this thread: another one may be slow to take it
        else:
            after.append(1.0)

    model = module(f"entry f(x: f32) {{\n  {send('x', 'first')}\n  {send('x', 'second')}\n}}", send=strike)
    with pytest.raises(KeyboardInterrupt):
        model.f(1.0)
    assert after == []


def test_native_code_stops_when_not_even_the_first_line_of_a_request_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    network = Network()
    model = module(f"entry f(x: f32) {{\n  {send('x', 'first')}\n  {send('x', 'second')}\n}}", network)
    monkeypatch.setattr(model._machinery.hosts, "_sites", [None])
    with pytest.raises(KeyboardInterrupt):
        model.f(1.0)
    assert network.requests == [] and len(ignored) == 1


def test_concurrent_calls_each_have_their_own_requests_and_failures() -> None:
    meet = threading.Barrier(4, timeout=60)

    def answer(request: HostRequest) -> None:
        meet.wait()  # all calls are inside their handlers at once
        value = float(request.inputs[0])
        if value == 2:
            raise ValueError("two")
        meet_again.wait()

    meet_again = threading.Barrier(3, timeout=60)
    text = f"entry f(x: f32) -> f32 with concurrent = true {{\n  {send('x', 'x')}\n  return x * 2.0\n}}"
    model = module(text, send=answer)
    results: dict[int, object] = {}

    def run(number: int) -> None:
        try:
            results[number] = model.f(float(number))
        except ValueError as problem:
            results[number] = str(problem)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: 0.0, 1: 2.0, 2: "two", 3: 6.0}


def test_a_program_that_asks_for_what_nobody_answers_is_not_loaded() -> None:
    text = f"entry f(x: f32) {{ {send('x', 'x')} }}"
    with pytest.raises(UnsupportedError, match="`f` asks for `send` at <text>:2") as caught:
        module(text, recv=lambda request: None)
    assert caught.value.exit_code == 3


def test_parts_of_entries_run_their_calls_only_where_their_results_are_fetched() -> None:
    network = Network(t=5.0)
    text = f"""
entry f(x: f32) -> f32 {{
  let a = x + 1.0
  {send("a", "a")}
  let t: f32 = {recv("f32", "t")}
  let b = a * t
  {send("b", "b")}
  return b
}}"""
    model = module(text, network)
    assert model.run("f/a", {"x": 2.0}) == 3.0
    assert network.requests == []
    assert model.run("f/b", {"x": 2.0}) == 15.0
    assert [request.site.kind for request in network.requests] == ["recv"]
    assert model.run("f/b", {"f/t": 10.0, "x": 2.0}) == 30.0
    assert len(network.requests) == 1


@pytest.mark.parametrize("kind", ["f64", "i8", "u64", "bf16", "f16", "bool"])
def test_every_element_type_passes_unchanged(kind: str) -> None:
    seen: list[np.ndarray] = []

    def answer(request: HostRequest) -> None:
        request.outputs[0][...] = seen[-1][::-1]

    text = f"entry f(x: {kind}[3]) -> {kind}[3] {{\n  {send('x', 'x')}\n  return {recv(f'{kind}[3]', 't')}\n}}"
    model = module(text, send=lambda request: seen.append(request.inputs[0].copy()), recv=answer)
    x = np.array([0, 1, 1], numpy_dtype(kind))
    result = model.f(x)
    assert seen[0].dtype == result.dtype == x.dtype
    np.testing.assert_array_equal(seen[0], x)
    np.testing.assert_array_equal(result, x[::-1])
