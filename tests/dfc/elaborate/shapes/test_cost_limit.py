"""Programs that would grow without bounds are refused before they do."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.elaborate.build import build, check
from dfc.elaborate.context import Program

LEVELS = 40
AFFORDABLE = 20_000  # steps: well below a second


def tower(level: str, bottom: str, *, upwards: bool = False) -> str:
    items = [level.replace("NEXT", f"g{n + 1}").replace("THIS", f"g{n}") for n in range(LEVELS)]
    items.append(bottom.replace("THIS", f"g{LEVELS}"))
    return "\n".join(reversed(items) if upwards else items) + "\n"


CALL = "fn THIS(x: f32) -> f32 = NEXT(NEXT(x))"
LEAF = "fn THIS(x: f32) -> f32 = x"
BLOCK = "block THIS() {\n  var v: f32 = 0\n  fn apply(x: f32) -> f32 = x + v\n}"
LISTS = "".join(f"  each a{n} in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] {{\n" for n in range(12))

BOMBS = {
    "calls": tower(CALL, LEAF),
    "calls, the smallest first": tower(CALL, LEAF, upwards=True),
    "pipes": tower("fn THIS(x: f32) -> f32 = x |> NEXT |> NEXT", LEAF),
    "calls with dimensions": tower(
        "fn THIS[N](x: f32[N]) -> f32[N] = NEXT[N](NEXT[N](x))", "fn THIS[N](x: f32[N]) -> f32[N] = x"
    ),
    "calls in loops": tower(
        "fn THIS(x: f32) -> f32 {\n  let y = loop a = x for i in 0..2 {\n    a = NEXT(NEXT(a))\n  }\n  return y\n}",
        LEAF,
    ),
    "calls on both sides": tower("fn THIS(x: f32) -> f32 = if x > 0 then NEXT(x) else NEXT(x + 1)", LEAF),
    "procedures": "var v: f32 = 0\n" + tower("proc THIS() {\n  NEXT()\n  NEXT()\n}", "proc THIS() {\n  v += 1\n}"),
    "calls in lists": tower(
        "fn THIS(x: f32) {\n  each n in [1, 2] {\n    NEXT(x)\n  }\n}", "fn THIS(x: f32) {\n  assert x > 0\n}"
    ),
    "instances": tower("block THIS() {\n  var a = NEXT()\n  var b = NEXT()\n}", BLOCK) + "var net = g0()\n",
    "methods": tower("block THIS() {\n  var a = NEXT()\n  fn apply(x: f32) -> f32 = a(a(x))\n}", BLOCK)
    + "var net = g0()\n",
    "lists in lists": f"entry f(x: f32) -> f32 {{\n{LISTS}  assert x > 0\n{'}' * 12}\n  return x\n}}\n",
    "lists of nothing": f"entry f(x: f32) -> f32 {{\n{LISTS}  let q = 1\n{'}' * 12}\n  return x\n}}\n",
    "nested constants": "const g0 = [1, 2]\n" + "".join(f"const g{n + 1} = [g{n}, g{n}]\n" for n in range(LEVELS)),
    "nested tuples": "entry f(x: f32) {\n  let g0 = (x, x)\n"
    + "".join(f"  let g{n + 1} = (g{n}, g{n})\n" for n in range(LEVELS))
    + "}\n",
    "nested types": tower("type THIS = (a: NEXT, b: NEXT)", "type THIS = f32"),
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What is expanded in a test."""
    taken: list[int] = []
    grow = Program.grow

    def counting(self: Program, count: int, span: Span) -> None:
        taken.append(count)
        grow(self, count, span)

    monkeypatch.setattr(Program, "grow", counting)
    return taken


def only_limit(text: str) -> Diagnostic:
    errors = [each for each in check(SourceFile("bomb.dfg", text)) if each.code.startswith("E")]
    assert [each.code for each in errors] == ["E1002"], errors
    return errors[0]


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_is_expanded(name: str, steps: list[int]) -> None:
    only_limit(BOMBS[name])
    assert sum(steps) < AFFORDABLE


def test_the_message_names_the_chain_of_calls_and_their_number() -> None:
    found = only_limit(
        "".join(f"fn g{n}(x: f32) -> f32 = g{n + 1}(g{n + 1}(x))\n" for n in range(19)) + "fn g19(x: f32) -> f32 = x\n"
    )
    assert [each.text for each in found.labels] == ["1,048,575 bodies when this is expanded"]
    chain = "g0 -> g1 -> g2 -> g3 -> g4 -> g5 -> ... -> g14 -> g15 -> g16 -> g17 -> g18 -> g19"
    assert found.notes == (f"every `g0` calls its parts anew: {chain}",)


def test_strings_do_not_grow_without_end() -> None:
    text = 'const s0 = "abcdefghij"\n' + "".join(f"const s{n + 1} = s{n} + s{n}\n" for n in range(LEVELS))
    assert [each.code for each in check(SourceFile("bomb.dfg", text))] == ["E0311"]


def test_what_is_expanded_often_but_not_too_often_is_built() -> None:
    levels = "".join(f"fn g{n}(x: f32) -> f32 = g{n + 1}(g{n + 1}(x))\n" for n in range(8))
    text = f"{levels}fn g8(x: f32) -> f32 = x + x\nentry f(x: f32) -> f32 {{ return g0(x) }}\n"
    graph = build(SourceFile("small.dfg", text))
    assert len(graph.entries["f"].block.nodes) == 256


def test_a_parameter_may_have_the_name_of_a_large_function() -> None:
    levels = "".join(f"fn g{n}(x: f32) -> f32 = g{n + 1}(x) + g{n + 1}(x)\n" for n in range(8))
    text = f"{levels}fn g8(x: f32) -> f32 = x\nfn h(const g0: fn(f32) -> f32, x: f32) -> f32 = g0(g0(x))\n"
    text += "entry f(x: f32) -> f32 { return h(g8, x) }\n"
    assert len(build(SourceFile("small.dfg", text)).entries["f"].block.nodes) == 0
