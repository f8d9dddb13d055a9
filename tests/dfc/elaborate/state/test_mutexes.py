"""Mutexes: what is declared, and that what is acquired is released."""

from __future__ import annotations

import pytest

from dfc.ir import walk
from dfc.ops.effects.mutexes import MutexAttributes
from tests.support.building import codes, graph_of, messages

STATE = "var guard: mutex = mutex()\nvar n: i64 = 0\nvar other: f32[3] = 0\nqueue q: i64 = fifo(capacity = 2)\n"


def entry(*lines: str) -> str:
    return STATE + "entry f(c: bool) {\n" + "\n".join(lines) + "\n}\n"


def test_no_effect_on_any_state_passes_a_mutex() -> None:
    graph = graph_of(entry("guard.acquire()", "n += 1", "guard.release()"))
    nodes = [each for each in walk.nodes(graph.entries["f"].block) if isinstance(each.attributes, MutexAttributes)]
    acquired, released = nodes
    for node in nodes:
        assert [str(each.type) for each in node.operands] == [f"token({name})" for name in ("guard", "n", "other", "q")]
    passed = [str(each.type) for each in acquired.results if each in released.operands]
    assert passed == ["token(guard)", "token(other)", "token(q)"]  # and `n` is written in between


FINE = {
    "in a row": ("guard.acquire()", "guard.release()", "guard.acquire()", "guard.release()"),
    "in a branch": ("if c {", "guard.acquire()", "n += 1", "guard.release()", "}"),
    "around a loop": ("guard.acquire()", "for i in 0..3 {", "n += i", "}", "guard.release()"),
}


@pytest.mark.parametrize("case", FINE)
def test_what_is_acquired_and_released_in_a_block_is_fine(case: str) -> None:
    assert codes(entry(*FINE[case])) == []


WRONG = {
    "`guard` is never released": ("guard.acquire()", "n += 1"),
    "`guard` is not held here": ("n += 1", "guard.release()"),
    "`guard` is held here already": ("guard.acquire()", "guard.acquire()", "guard.release()"),
    "may be held behind this branch": ("guard.acquire()", "if c {", "guard.release()", "}", "guard.release()"),
    "held here already: this": ("guard.acquire()", "if c {", "guard.acquire()", "}", "guard.release()"),
    "released: the next": ("if c {", "guard.acquire()", "}"),
}


@pytest.mark.parametrize("title", WRONG)
def test_what_would_keep_others_out_is_one_mistake(title: str) -> None:
    text = entry(*WRONG[title])
    assert codes(text) == ["E0705"]
    assert title in messages(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("var guard: mutex = 3\n", "E0407"),
        ("var guard: mutex = mutex(1)\n", "E0407"),
        (entry("guard.take()"), "E0203"),
        (entry("guard.acquire(1)", "guard.release()"), "E0204"),
        (STATE + "readonly entry g() -> i64 {\nguard.acquire()\nguard.release()\nreturn n\n}\n", "E0402"),
        (STATE + "fn g() -> i64 {\nguard.acquire()\nguard.release()\nreturn n\n}\n", "E0401"),
    ],
)
def test_what_is_no_mutex_or_not_allowed_is_a_mistake(text: str, code: str) -> None:
    assert set(codes(text)) == {code}


@pytest.mark.parametrize("made", ["var guard: mutex = mutex()", "var dice: rng = philox(seed = 1)"])
def test_state_without_its_type_is_answered_with_a_declaration(made: str) -> None:
    type_ = made.split(": ")[1].split()[0]
    text = messages(f"var made = {type_}()\nentry f() {{ }}\n")
    assert f"`{type_}` is not a function" in text and f"declare it with its type: `{made}`" in text
    assert codes(f"{made}\n") == []
