"""The check of a body by itself elaborates what it calls once for each types, and finds the same mistakes."""

from __future__ import annotations

import pytest

from bench.alone.compiling import doubling_calls
from dfc.diagnostics.diagnostic import CompileError
from dfc.elaborate.expressions import routines
from tests.support.building import graph_of

LEVELS = 6
NESTED = """dfg 1
fn scaled[N](x: f32[N]) -> f32[N] = x * 2.0
fn {name}(x: f32[3], y: f32[3]) -> f32[3] {{
  let a = scaled(x)
  let b = scaled(y)
  return grad(sum(b), {with_respect_to})
}}
entry same(x: f32) -> f32 {{ return x }}
"""


def test_a_tower_of_calls_is_elaborated_floor_by_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[str] = []
    run = routines._run_body
    monkeypatch.setattr(routines, "_run_body", lambda *all_: bodies.append(all_[2].name) or run(*all_))
    tower, _, _ = doubling_calls(LEVELS).partition("readonly entry")
    graph_of(f"{tower}\nentry same(x: f32) -> f32 {{ return x }}\n")
    assert [bodies.count(f"level{n}") for n in range(LEVELS)] == list(range(LEVELS, 0, -1))


def test_what_the_second_call_gives_depends_on_its_own_arguments() -> None:
    graph_of(NESTED.format(name="right", with_respect_to="y"))
    with pytest.raises(CompileError) as caught:
        graph_of(NESTED.format(name="wrong", with_respect_to="x"))
    assert [each.code for each in caught.value.diagnostics] == ["E0501"]


def test_other_types_are_elaborated_anew() -> None:
    with pytest.raises(CompileError) as caught:
        graph_of(
            """dfg 1
            fn pair[N](x: f32[N]) -> f32[2] = x[0:2]
            fn both(x: f32[3], y: f32[1]) -> f32[2] = pair(x) + pair(x * 2.0) + pair(y)
            entry same(x: f32) -> f32 { return x }
            """
        )
    assert [each.code for each in caught.value.diagnostics] == ["E0317"]
