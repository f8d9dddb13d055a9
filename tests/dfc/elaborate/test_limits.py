"""Large, deep and hostile programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build, check
from dfc.elaborate.context import Context
from dfc.elaborate.expressions import routines
from dfc.elaborate.statements import statements
from dfc.syntax.tree import tree
from tests.support.building import codes, graph_of


def long_program(count: int) -> SourceFile:
    lines = "".join(f"  let v{i + 1} = relu(v{i})\n" for i in range(count))
    return SourceFile("long.dfg", f"entry f(x: f32) -> f32 {{\n  let v0 = x\n{lines}  return v{count}\n}}\n")


def test_statements_are_no_recursion() -> None:
    """More than Python has room for calls; `tests.gate.texts` has three hundred times as many."""
    graph = build(long_program(1_200))
    assert len(graph.entries["f"].block.nodes) == 1_200


def calls_of(work: Callable[[], object]) -> int:
    """How many calls of functions it makes, those of the interpreter included: the same on any machine."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


def test_twice_as_many_statements_take_twice_as_many_steps() -> None:
    build(long_program(1))  # what is read once is there now
    some, twice = (calls_of(lambda n=n: build(long_program(n))) for n in (200, 400))
    assert twice < 2.5 * some, (some, twice)  # 4 times as many if each looked at all others


class Copied(tuple[tree.Node, ...]):
    """A tuple that counts the members of slices that are taken of it."""

    members = 0

    def __getitem__(self, place: object) -> object:
        found = super().__getitem__(place)  # type: ignore[index]
        Copied.members += len(found) if isinstance(place, slice) else 0
        return found


def test_no_statement_copies_those_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = statements.run_suite
    monkeypatch.setattr(Copied, "members", 0)

    def counted(context: Context, suite: tree.Suite) -> None:
        run(context, replace(suite, statements=Copied(suite.statements)))

    monkeypatch.setattr(statements, "run_suite", counted)
    build(long_program(200))
    assert Copied.members <= 200


def test_a_chain_of_operands() -> None:
    graph = graph_of(f"entry f(x: f32) -> f32 {{ return x{' + x' * 3_000} }}")
    assert len(graph.entries["f"].block.nodes) == 3_000


@pytest.mark.parametrize("opening", ["(", "relu(", "-(", "if x > 0 then x else ("])
def test_deep_nesting(opening: str) -> None:
    depth = 90
    text = f"entry f(x: f32) -> f32 {{ return {opening * depth}x{')' * (opening.count('(') * depth)} }}"
    graph_of(text)


def test_deep_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function expands all behind it: what is too deep is tried with a limit of fewer."""
    functions = "".join(f"fn g{i}(x: f32) -> f32 = g{i + 1}(x) + 1\n" for i in range(100))
    graph_of(f"{functions}fn g100(x: f32) -> f32 = x\nentry f(x: f32) -> f32 {{ return g0(x) }}\n")
    functions = "".join(f"fn g{i}(x: f32) -> f32 = g{i + 1}(x) + 1\n" for i in range(30))
    program = f"{functions}fn g30(x: f32) -> f32 = x\n"
    assert codes(program) == []
    monkeypatch.setattr(routines, "DEPTH_LIMIT", 25)
    assert set(codes(program)) == {"E1002"}


def test_a_program_that_doubles_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfc.elaborate.context.NODE_LIMIT", 5_000)
    functions = "".join(f"fn g{i}(x: f32) -> f32 = g{i + 1}(x) + g{i + 1}(x)\n" for i in range(60))
    with pytest.raises(CompileError) as caught:
        build(SourceFile("bomb.dfg", f"{functions}fn g60(x: f32) -> f32 = x\n"))
    assert "E1002" in {d.code for d in caught.value.diagnostics}


@pytest.mark.parametrize(
    "text",
    [
        "var v: f32[9223372036854775808] = 0\n",
        "var v: f32[4611686018427387905] = 0\n",
        "entry f(x: f32) -> f32[2 ** 63] { return broadcast(x, [2 ** 63]) }",
        "const N = 99999999999999999999999999\nvar v: f32[N] = 0\n",
        "var v: f32[4294967296, 4294967296] = 0\n",
        f"var v: f32[{', '.join('1' * 33)}] = 0\n",
    ],
)
def test_sizes_beyond_the_machine_are_refused(text: str) -> None:
    found = codes(text)
    assert found and all(code.startswith("E") for code in found)


HOSTILE = [
    "",
    "dfg 1",
    "entry f() { }",
    "entry f() -> (a: f32) { }",
    "entry f() -> f32 { return f }",
    "entry f() -> f32 { return program }",
    "entry f() { let x = f32 }",
    "entry f() { let x = graph }",
    "entry f() { let x = graph.nothing(1) }",
    "entry f() { let x = graph.add(1.0 as f32) }",
    "entry f() { let x = graph.slice(1.0 as f32, starts = [0]) }",
    'entry f() { graph.assign(1, resource = "nothing", mode = ":=") }',
    "entry f() { let x = checkpoint }",
    "entry f() { let x = [] }",
    "entry f() { let x = concat([]) }",
    "entry f() { let x = stack([]) }",
    "entry f() { let x = split([1, 2, 3], 0) }",
    "entry f() { let x = split([1, 2, 3], 2) }",
    "fn f[N](x: f32[N]) { let y = split(x, 99999999999999999999) }",
    "entry f() { let x = params(3) }",
    "entry f() { let x = grad(1, 2) }",
    "entry f() { let x = zeros() }",
    "entry f() { let x = zeros(3) }",
    "entry f() { let x = full(f32[2], [1, 2]) }",
    "entry f() { let x = zeros(f32[..S]) }",
    "entry f() { let x = setting(1, 2) }",
    "const A = B\nconst B = A\n",
    "const A = A\n",
    "type T = T\n",
    "type T[N] = (a: T[N])\n",
    "type T[N] = f32[M]\n",
    "var a = a\n",
    "var a = params(program)\n",
    "block B(ref x: vars) { var y = each v in x => B(x) }\nvar b = B(params(program))\n",
    "entry f[..S](x: f32[..S]) { }",
    "entry f[T: float](x: T) { }",
    "entry f[T: nothing](x: f32) { }",
    "entry f(ref x: f32) { }",
    "entry f(const n: int) { }",
    "entry f(x: f32 = 1) { }",
    "entry f(x: (a: f32, b: f32)) { }",
    "entry f(x: rng) { }",
    "entry f(x: int) { }",
    "entry f() -> rng { return 1 }",
    "entry f() { }\nentry f() { }\n",
    "entry f(x: f32, x: f32) { }",
    "fn f(x: f32) -> f32 { }\n",
    "fn f(x: f32) { return x }\n",
    "fn f[N, N](x: f32[N]) -> f32 = 1\n",
    'test "a" { }\ntest "a" { }\n',
    'test "a" { return 1 }\n',
    "from std.nn import Dense\nvar d = Dense[0, 0]()\n",
    "from std.nn import Dense\nvar d = Dense[-1, 2]()\n",
    "from std.nn import Dense\nvar d = Dense(1)\n",
    "from std.optim import Adam\nvar a = Adam(3)\n",
    "entry f(x: f32[2]) -> f32 { let a, b, c = x\n return a }",
    "entry f(x: f32) -> f32 { let a: f32[3] = x\n return sum(a) }",
    "entry f(x: c64) -> c64 { return x }",
    "entry f(x: string) -> f32 { return x }",
    "entry f(x: string) { checkpoint.save(x, 1) }",
    "entry f() with concurrent = 1 { }",
    "entry f() with concurent = true { }",
    "queue q: f32 = fifo(capacity = 3)\n",
    "runner r { }\n",
    "entry f(x: f32) -> f32 where x > 0 { return x }",
    "entry f[N](x: f32[N]) -> f32 where N > N { return 1 }",
    "entry f[N](x: f32[N % 0]) { }",
    "entry f[N](x: f32[N // 0]) { }",
    "entry f[N](x: f32[N ** 9]) { }",
    "entry f() { let x = iota(i32[1000000000000]) }",
    "entry f(x: f32) { loop while x > 0 { } }",
    "entry f(x: f32) -> f32 { return x after y }",
    "entry f(x: f32) { let y = x after nothing }",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_gives_a_graph_or_messages(text: str) -> None:
    for diagnostic in check(SourceFile("hostile.dfg", text)):
        assert str(diagnostic)
