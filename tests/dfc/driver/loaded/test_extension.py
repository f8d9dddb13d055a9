"""Programs with further declarations: they go on from a copy of the state, and mistakes are told at their own lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc

PROGRAM = """dfg 1
var w: f32[3] = 0
var calls: i64 = 0 with saved = false
var dice: rng = philox(seed = 3)
queue waiting: f32 = fifo(capacity = 4)
entry train(x: f32[3]) -> (draw: f32) {
  w += 0.5 * (x - w)
  calls += 1
  return dice.uniform(f32)
}
entry put(x: f32) { waiting.put(x) }
entry take() -> f32 {
  let x = waiting.take()
  return x
}
"""
ONES = np.ones(3, "f4")


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def test_what_is_added_works_on_a_copy_of_all_state(bundle: bytes) -> None:
    model = dfc.loads(bundle)
    model.train(ONES)
    model.put(7.0)
    longer = model.extend("dfg 1\nvar bias: f32 = 2\nentry predict(x: f32[3]) -> f32 { return sum(x * w) + bias }\n")
    assert longer.predict(ONES) == 3.5
    assert longer.state["calls"] == 1
    assert longer.take() == model.take() == 7
    draw = longer.train(ONES)
    np.testing.assert_array_equal(model.state["w"], 0.5 * ONES)
    np.testing.assert_array_equal(longer.state["w"], 0.75 * ONES)
    assert model.train(ONES) == draw != longer.extend("").train(ONES)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("dfg 1\n\nentry bad() -> i64 { return nope }", "<extension>:3:29"),
        ("entry bad( {", "<extension>:1:12"),
        ("fn train(x: f32) -> f32 = x", "<text>:6:7"),
    ],
)
def test_mistakes_are_told_where_they_are_and_change_nothing(bundle: bytes, text: str, location: str) -> None:
    model = dfc.loads(bundle)
    with pytest.raises(dfc.CompileError, match=location):
        model.extend(text)
    assert model.train(ONES) is not None
    assert not hasattr(model, "bad")


def test_imports_and_the_way_a_program_was_loaded_are_kept(tmp_path: Path) -> None:
    (tmp_path / "helpers.dfg").write_text("dfg 1\nfn twice(x: f32) -> f32 = 2 * x\n")
    (tmp_path / "main.dfg").write_text(
        "dfg 1\nfrom .helpers import twice\nvar total: f32 = 1\nentry share(x: f32) -> f32 { return x / total }\n"
    )
    dfc.compile(tmp_path / "main.dfg", check_finite=True).save(tmp_path / "main.bundle")
    (tmp_path / "main.dfg").unlink()
    (tmp_path / "helpers.dfg").unlink()
    events: list[object] = []
    model = dfc.load(tmp_path / "main.bundle", threads=1, summaries=events.append)
    added = 'entry add(x: f32) {\n  total += 1 / twice(x)\n  summary.scalar("total", total)\n}\n'
    longer = model.extend(added)
    longer.add(0.25)
    assert longer.state["total"] == 3
    assert len(events) == 1
    with pytest.raises(dfc.RunError, match=r"is inf at main\.dfg:8"):
        longer.add(0.0)


def test_what_is_no_text_is_refused(bundle: bytes) -> None:
    with pytest.raises(dfc.FeedError, match="text of further declarations"):
        dfc.loads(bundle).extend(3)
