"""Where native code asks whether to stop, and what is copied before calls."""

from __future__ import annotations

import pytest

import dfc
from dfc_driver_cpu.driver import ImageNotes, Undo
from tests.support.programs import Runner

HEAD = """
dfg 1
param w: f32[100, 100] = glorot_uniform()
var table: f32[10_000, 100] = 0
var small: f32[10, 100] = 0
var n: i64 = 0
var dice: rng = philox(7)
queue q: f32 = fifo(capacity = 2)
entry fill(x: f32) { q.put(x) }
"""
ENTRIES = {
    "a step of training": ("entry e(x: f32[8, 100]) { w -= 0.1 * grad(mean(square(x @ w)), w) }", [], []),
    "a draw and no loop": ("entry e() -> f32 { return dice.uniform(f32) }", [], []),
    "a draw before a loop": (
        "entry e(to: i64) -> f32 { let u = dice.uniform(f32)\n return loop y = u for i in 0..to { y = y * y } }",
        ["dice"],
        [],
    ),
    "all of a variable in a loop": ("entry e(to: i64) { for i in 0..to { table *= 2 } }", ["table"], []),
    "rows of a large variable in a loop": (
        "entry e(to: i64) { for i in 0..to { table[i] += 1\n small[i % 10] += 1 } }",
        ["small"],
        ["table"],
    ),
    "a write behind a loop": (
        "entry e(to: i64) { let k = loop k: i64 = 0 for i in 0..to { k = k + i }\n n := k }",
        [],
        [],
    ),
    "a write before a loop, another behind it": (
        "entry e(to: i64) { small *= 2\n let k = loop k: i64 = 0 for i in 0..to { k = k + i % 5 }\n n := k }",
        ["small"],
        [],
    ),
    "a write before a take, another behind it": (
        "entry e() { table *= 2\n n += 1\n let k = q.take()\n small *= k }",
        ["n", "table"],
        [],
    ),
    "a concurrent entry": ("entry e(to: i64) with concurrent = true { for i in 0..to { n += 1 } }", [], ["n"]),
    "a readonly entry": (
        "readonly entry e(to: i64) -> i64 { let k = loop k: i64 = n for i in 0..to { k = k * k }\n return k }",
        [],
        [],
    ),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_what_is_copied_is_written_before_the_last_question(kind: str) -> None:
    text, copied, kept = ENTRIES[kind]
    module = dfc.loads(dfc.compile(text=HEAD + text).to_bytes())
    number = [entry.name for entry in module.manifest.entries].index("e")
    notes = module.manifest.notes
    assert (list(notes["undo"][number]), list(notes["kept"][number])) == (copied, kept)


@pytest.mark.parametrize("notes", [{"undo": 3}, {"undo": [3]}, {"kept": [[3]]}, {"undo": [["nowhere"]]}])
def test_damaged_notes_are_refused(notes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="damaged"):
        Undo(ImageNotes.of(notes), {})


def test_code_of_earlier_versions_has_nothing_to_put_back() -> None:
    assert Undo(ImageNotes.of({}), {}).of(0) == ((), ())


def test_programs_without_signatures_can_be_lowered() -> None:
    assert Runner([]).lowered.notes["undo"] == []
