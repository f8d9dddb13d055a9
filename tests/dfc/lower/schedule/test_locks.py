"""Where locks are: around single effects of concurrent entries, from the first write to the last of exclusive ones."""

from __future__ import annotations

import re

import numpy as np

from dfc.driver import pipeline
from dfc.kernels.printer import entry_lines
from dfc.kernels.program import Locked, Program, lock_order, walk
from dfc.lower.schedule.locks import MOST_OWN_LOCKS
from dfc.ops.evaluate import evaluate
from tests.support.building import graph_of
from tests.support.native_run import NativeRun

STATE = """
dfg 1
var n: i64 = 0
var m: i64 = 0
var v: f32[4] = 0
var dice: rng = philox(3)
var visits: i64 = 0 with container = "statistics"
var clicks: i64 = 0 with container = "clicks"
"""


def program(text: str) -> Program:
    return pipeline.scheduled(pipeline.optimise(graph_of(STATE + text)))


def outline(made: Program, name: str) -> list[str]:
    """The steps of an entry without numbers of kernels and buffers."""
    entry = next(each for each in made.entries if each.name == name)
    lines = [line for line in entry_lines(entry)[1:] if not line.startswith("  buffer")]
    return [re.sub(r" \d+( to \d+)?(\(.*)?$", "", line[2:]) for line in lines]


READER = "readonly entry look() -> (n: i64) { return n }\n"
WRITER = """
entry step(x: i64) -> (y: i64) {
  let before = m * x
  n += 1
  let y, k = loop y = before, k: i64 = 0 while k < x {
    y = y + k
    k = k + 1
  }
  n *= 2
  return y
}
"""


def test_a_program_without_readonly_entries_has_no_locks_on_its_own_state() -> None:
    made = program(WRITER)
    locks = [step for entry in made.entries for step in walk(entry.steps) if isinstance(step, Locked)]
    assert not [step for step in locks if "default" in step.containers]


def test_writes_that_nobody_reads_meanwhile_are_not_locked() -> None:
    made = program(READER + "entry other() { m += 1 }\n")
    assert outline(made, "other") == ["launch"]


def test_an_exclusive_entry_holds_the_lock_from_its_first_write_to_its_last() -> None:
    lines = outline(program(READER + WRITER), "step")
    start = lines.index("locked default alone:")
    assert not any("locked" in line for line in lines[start + 1 :])
    assert any("while" in line for line in lines)
    assert all(line.startswith("  ") for line in lines[start + 1 :]) or lines[-1] == "launch"


TWO = """
readonly entry both() -> (n: i64, m: i64) { return n, m }
entry add_n() { n += 1 }
entry add_m() { m += 1 }
entry draw() -> f32[2] {
  let u = dice.uniform(f32[2])
  return u
}
"""


def test_variables_that_no_entry_changes_together_have_locks_of_their_own() -> None:
    made = program(TWO)
    assert outline(made, "both")[0] == "locked default, @state 1 shared:"
    assert outline(made, "add_m") == ["locked default alone:", "  launch"]
    assert outline(made, "add_n") == ["locked @state 1 alone:", "  launch"]
    assert outline(made, "init")[0] == "locked default, @state 1 alone:"
    assert outline(program(TWO + "entry add() { n += 1\n m += 1 }\n"), "both")[0] == "locked default shared:"


def test_what_is_changed_by_one_effect_at_a_time_has_the_lock_of_its_variable() -> None:
    made = program(TWO + "entry more() with concurrent = true {\n n += 1\n m += 1 }\n")
    assert outline(made, "more") == ["locked @state 1 alone:", "  launch", "locked default alone:", "  launch"]


def test_a_readonly_entry_takes_few_locks() -> None:
    names = [f"v{number}" for number in range(MOST_OWN_LOCKS + 3)]
    text = "".join(f"var {name}: i64 = 0\nentry add_{name}() {{ {name} += 1 }}\n" for name in names)
    made = program(f"{text}readonly entry all() -> i64 {{ return {' + '.join(names)} }}\n")
    locks = outline(made, "all")[0]
    assert locks.count("@state") + 1 == MOST_OWN_LOCKS == len(set(made.own_locks.values())) + 1


def test_a_readonly_entry_shares_the_locks_of_what_it_reads() -> None:
    made = program("readonly entry all() -> (a: i64, b: i64, c: i64) { return visits, n, clicks }\n")
    assert outline(made, "all")[0] == "locked default, clicks, statistics shared:"
    assert outline(program("readonly entry none(x: f32) -> f32 { return x * 2.0 }\n"), "none") == ["launch"]


def test_effects_of_a_concurrent_entry_are_locked_one_by_one() -> None:
    made = program(
        """
        entry step(x: f32) -> (seen: i64) with concurrent = true {
          n += 1
          v[1] := x
          let u = dice.uniform(f32[3])
          v[1:] -= u
          let seen = n
          return seen
        }
        """
    )
    assert outline(made, "step") == [
        *["locked default alone:", "  launch"] * 2,
        "locked default alone:",
        "  copy",
        "  launch",
        "launch",
        *["locked default alone:", "  launch"],
        *["locked default shared:", "  copy"],
        "launch",
    ]


def test_state_that_programs_share_is_locked_in_every_entry() -> None:
    made = program("entry visit() -> (y: i64) {\n visits += 1\n n += 1\n let seen = visits\n return seen }\n")
    assert outline(made, "visit").count("locked statistics alone:") == 1
    assert outline(made, "visit").count("locked statistics shared:") == 1
    assert "locked default alone:" not in outline(made, "visit")


def test_a_checkpoint_between_writes_is_saved_under_their_lock() -> None:
    """The run side lets nothing run beside such an entry, so nobody waits for it."""
    made = program(READER + "entry e(p: string) {\n n += 1\n checkpoint.save(p, program)\n n += 1 }\n")
    assert outline(made, "e") == ["locked default alone:", "  launch", "  call host site", "  launch"]


def test_locks_are_taken_in_one_order() -> None:
    assert lock_order(["b", "@state 2", "default", "A", "@background", "b"]) == (
        *("default", "@state 2"),
        *("@background", "A", "b"),
    )


def test_locked_effects_mean_what_they_meant() -> None:
    """The same program, exclusive and concurrent, against the reference evaluator."""
    text = """
        entry step(x: f32, i: i32[2]) -> (seen: i64, w: f32[4], u: f32[3], k: i64)@ {
          n += 3
          let old = v
          v -= x * 2.0
          v[i] += x
          v[1] := x
          let u = dice.uniform(f32[3])
          let k = loop k: i64 = 0 while k < 3 {
            n *= 2
            visits += n
            k = k + 1
          }
          if x > 0.0 { v *= old }
          let seen = n
          n := seen + 1
          let more = dice.normal(f32[3])
          return seen, v, u + more, k + n + visits
        }
        """
    state = {
        "n": np.int64(2),
        "m": np.int64(0),
        "v": np.arange(4, dtype="f4"),
        "dice": np.array([3, 4, 5, 0], "u8"),
        "visits": np.int64(1),
        "clicks": np.int64(0),
    }
    feeds = {"x": np.float32(1.5), "i": np.array([0, 0], "i4")}
    for setting in ("", " with concurrent = true"):
        graph = graph_of(STATE + text.replace("@", setting))
        expected = evaluate(graph, "step", feeds, {name: np.asarray(value) for name, value in state.items()})
        run = NativeRun(pipeline.scheduled(pipeline.optimise(graph)), state)
        got = run.call("step", list(feeds.values()), {})
        for mine, theirs in zip(got, expected.results, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)
        for name, value in expected.state.items():
            np.testing.assert_allclose(run.state[name], value, rtol=1e-6, err_msg=name)
