"""Variables: order of effects, first values, instances of blocks, random numbers, checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.graph import ResourceKind
from dfc.ops.attributes import HostAttributes
from dfc.ops.evaluate import evaluate, initial_state
from tests.support.building import codes, graph_of, messages, run


def test_a_read_sees_the_latest_write_above_it() -> None:
    graph = graph_of(
        """
        var v: i64 = 1
        entry f() -> (a: i64, b: i64, c: i64) {
          let a = v
          v += 1
          let b = v
          v := 10 * v
          return a, b, v
        }
        """
    )
    assert [int(r) for r in run(graph, "f").results] == [1, 2, 20]


def test_a_variable_is_read_once_between_two_writes() -> None:
    graph = graph_of("var v: i64 = 1\nentry f() -> i64 { return v * v + v }")
    assert [n.op for n in graph.entries["f"].block.nodes].count("read") == 1


def test_several_targets_are_written_together() -> None:
    graph = graph_of("var a: i64 = 1\nvar b: i64 = 2\nentry f() { a, b := (b, a) }")
    state = run(graph, "f").state
    assert (state["a"], state["b"]) == (2, 1)


def test_a_proc_changes_what_is_passed_by_reference() -> None:
    graph = graph_of(
        """
        var v: f32[3] = 1
        proc scale[N](ref w: f32[N], by: f32) { w *= by }
        entry f(by: f32) { scale(v, by) }
        """
    )
    np.testing.assert_array_equal(run(graph, "f", by=np.float32(4)).state["v"], [4, 4, 4])


def test_a_value_parameter_is_a_snapshot() -> None:
    graph = graph_of(
        """
        var v: i64 = 1
        proc both(x: i64) -> i64 {
          v := 5
          return x + v
        }
        entry f() -> i64 {
          let y = both(v)
          return y
        }
        """
    )
    assert int(run(graph, "f").result) == 6


# ------------------------------------------------------------- first values --


def test_first_values_may_read_other_variables_in_any_order() -> None:
    graph = graph_of("var a: f32[2] = b * 2\nvar b: f32[2] = 3\nentry init() { initialize(program) }")
    assert list(graph.resources) == ["a", "b"]
    state = initial_state(graph)
    np.testing.assert_array_equal(state["a"], [6, 6])


def test_a_circle_of_first_values_is_refused() -> None:
    text = messages("var a: f32 = b\nvar b: f32 = a\n")
    assert "error[E0408]: the first value of `a` depends on itself" in text
    assert "a -> b -> a" in text


def test_a_program_with_state_gets_an_init() -> None:
    graph = graph_of("var a: f32 = 2\nentry f() -> f32 { return a }")
    assert run(graph, "init").state["a"] == 2


def test_reset_starts_one_container_over() -> None:
    graph = graph_of(
        """
        var a: i64 = 1
        var b: i64 = 1 with container = "statistics", saved = false
        entry f() {
          a += 1
          b += 1
          reset("statistics")
        }
        """
    )
    assert graph.resources["b"].container == "statistics" and not graph.resources["b"].saved
    state = run(graph, "f").state
    assert (state["a"], state["b"]) == (2, 1)
    assert codes('var a: i64 = 1\nentry f() { reset("statistic") }') == ["E0201"]


def test_a_tuple_of_variables() -> None:
    graph = graph_of(
        """
        type Memory[B] = (h: f32[B], c: f32[B, 2])
        var memory: Memory[3] = 0
        fn next[B](m: Memory[B]) -> Memory[B] = (h = m.h + 1, c = m.c + 2)
        entry f() -> f32 {
          memory := next(memory)
          memory.h += 1
          return sum(memory.h)
        }
        entry clear() { memory := 5 }
        """
    )
    assert list(graph.resources) == ["memory.h", "memory.c"]
    outcome = run(graph, "f")
    assert outcome.result == 6
    np.testing.assert_array_equal(outcome.state["memory.c"], np.full((3, 2), 2))
    np.testing.assert_array_equal(run(graph, "clear").state["memory.h"], [5, 5, 5])


INITIALISERS = [
    ("uniform(-0.5, 0.5)", lambda x: abs(x.mean()) < 0.02 and -0.5 <= x.min() < -0.49 and 0.49 < x.max() < 0.5),
    ("normal(mean = 3, deviation = 2)", lambda x: abs(x.mean() - 3) < 0.1 and abs(x.std() - 2) < 0.05),
    ("glorot_uniform()", lambda x: np.sqrt(6 / 200) * 0.98 < np.abs(x).max() <= np.sqrt(6 / 200)),
    ("he_normal()", lambda x: abs(x.std() - np.sqrt(2 / 150)) < 0.003),
]


@pytest.mark.parametrize(("text", "holds"), INITIALISERS, ids=[t for t, _ in INITIALISERS])
def test_random_first_values_have_the_stated_distribution(text: str, holds: object) -> None:
    graph = graph_of(f"param w: f64[150, 50] = {text}\n")
    assert holds(initial_state(graph)["w"])  # type: ignore[operator]


def test_the_receptive_field_counts_as_inputs() -> None:
    graph = graph_of("param w: f64[3, 3, 20, 40] = he_normal()\n")
    assert abs(initial_state(graph)["w"].std() - np.sqrt(2 / (9 * 20))) < 0.003


def test_random_first_values_depend_on_seed_and_name_only() -> None:
    one = initial_state(graph_of("param w: f32[4] = normal()\nparam other: f32[4] = normal()\n"))
    moved = initial_state(
        graph_of("param more: f32 = 0\n\n\nparam other: f32[4] = normal()\nparam w: f32[4] = normal()\n")
    )
    seeded = initial_state(graph_of("param w: f32[4] = normal()\n", {"SEED": 7}))
    np.testing.assert_array_equal(one["w"], moved["w"])
    assert not np.array_equal(one["w"], one["other"])
    assert not np.array_equal(one["w"], seeded["w"])


def test_two_random_parts_of_a_first_value_differ() -> None:
    state = initial_state(graph_of("param w: f32[50] = normal() - normal()\n"))
    assert np.all(state["w"] != 0)


# ---------------------------------------------------------------------- rng --

DRAWS = """
    var dice: rng = philox(seed = 3)
    entry f() -> (a: f64[400], b: f64[400], c: bool[4000]) {
      let a = dice.uniform(f64[400], low = 2, high = 4)
      let b = dice.normal(f64[400], mean = 1, deviation = 0.5)
      let c = dice.bernoulli(bool[4000], chance = 0.25)
      return a, b, c
    }
    entry one() -> f32 {
      let x = dice.uniform(f32)
      return x
    }
"""


def test_draws_have_the_stated_distribution() -> None:
    a, b, c = run(graph_of(DRAWS), "f").results
    assert a.min() >= 2 and a.max() < 4 and abs(a.mean() - 3) < 0.15
    assert abs(b.mean() - 1) < 0.1 and abs(b.std() - 0.5) < 0.06
    assert abs(c.mean() - 0.25) < 0.03


def test_each_draw_gives_new_numbers() -> None:
    graph = graph_of(DRAWS)
    assert graph.resources["dice"].kind is ResourceKind.RNG
    first = run(graph, "one")
    second = evaluate(graph, "one", {}, first.state)
    assert first.result != second.result
    assert run(graph, "one").result == first.result


# ------------------------------------------------------------------- blocks --

NET = """
    from std.nn import Dense
    block Net[I](const width: int = 5) {
      var one = Dense[I, width]()
      var two = Dense[width, 2]()
      const TWICE = 2 * width
      fn apply[B](x: f32[B, I]) -> f32[B, 2] = two(relu(one(x)))
      fn size() -> i64 = TWICE
    }
    var net = Net[3](width = 4)
    param alone: f32 = 1
    entry f[B](x: f32[B, 3]) -> (y: f32[B, 2], n: i64) { return net(x), net.size() }
    entry g() { each w in params(net) { w := 7 } }
"""


def test_an_instance_brings_its_state_under_its_name() -> None:
    graph = graph_of(NET)
    assert list(graph.resources) == ["net.one.w", "net.one.b", "net.two.w", "net.two.b", "alone"]
    assert str(graph.resources["net.one.w"].type) == "f32[3, 4]"
    state = run(graph, "g").state
    assert state["alone"] == 1 and all(np.all(state[n] == 7) for n in graph.resources if n != "alone")


def test_an_instance_is_called_through_apply() -> None:
    graph = graph_of(NET)
    state = initial_state(graph)
    x = np.random.default_rng(1).random((6, 3)).astype(np.float32)
    y, n = evaluate(graph, "f", {"x": x}, state).results
    expected = np.maximum(x @ state["net.one.w"] + state["net.one.b"], 0) @ state["net.two.w"] + state["net.two.b"]
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert n == 8


def test_names_of_values_are_paths() -> None:
    graph = graph_of(NET)
    names = [node.name for node in graph.entries["f"].block.nodes]
    assert "f/y" in names and any(name.startswith("f/y/") for name in names)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("block B { var v: f32 = 0 }\nentry f() -> f32 { return B().v }", "E0210"),
        ("block B { var b = B() }\nvar b = B()\n", "E0208"),
        ("block B { var v: f32 = 0 }\nvar b = B()\nentry f() -> f32 { return b.w }", "E0203"),
        ("block B { var v: f32 = 0 }\nvar b = B()\nentry f() -> f32 { return b(1) }", "E0207"),
        ("block B[N] { var v: f32[N] = 0 }\nvar b = B()\n", "E0316"),
        ("block B[N] where N % 2 == 0 { var v: f32[N] = 0 }\nvar b = B[3]()\n", "E0305"),
        ("param n: i32 = 0\n", "E0316"),
        ("var v: f32[N] = 0\n", "E0202"),
        ("var v: f32 = 0\nvar v: f32 = 1\n", "E0205"),
        ('var v: f32 = 0 with color = "red"\n', "E0204"),
        ("var v: f32[2] = [1, 2, 3]\n", "E0407"),
        ("entry f() -> f32[2] { return uniform(0, 1) }", "E0407"),
        ("var v: f32 = 0\nentry f() { let v = 1 }", "E0205"),
        ("var v: f32 = 0\nentry f(v: f32) -> f32 { return v }", "E0205"),
    ],
)
def test_wrong_state_is_refused(text: str, code: str) -> None:
    assert codes(text) == [code]


# ------------------------------------------------------------------ effects --


def test_what_is_decided_by_a_constant_has_no_effect() -> None:
    program = """
        var v: i64 = 0
        proc p(x: i64, const write: bool) -> i64 {
          if write { v += 1 }
          return x + v
        }
        readonly entry f(x: i64) -> i64 { return p(x, write = false) * 2 }
        entry g(x: i64) -> i64 {
          let y = p(x, write = true)
          return y
        }
    """
    graph = graph_of(program)
    assert graph.entries["f"].readonly and int(run(graph, "f", x=3).result) == 6
    assert codes(program.replace("readonly entry f(x: i64) -> i64 { return p(x, write = false) * 2 }", "")) == []
    assert codes(program.replace("return p(x, write = false) * 2", "return p(x, write = true)")) == ["E0402"]
    assert codes(program.replace("p(x, write = false) * 2", "p(x, write = true) * 2")) == ["E0403"]


def test_a_stage_of_a_chain_may_have_an_effect() -> None:
    program = """
        var v: i64 = 0
        proc count(x: i64) -> i64 {
          v += x
          return x * 2
        }
        entry f(x: i64) -> i64 {
          let y = x |> count |> count
          return y
        }
    """
    outcome = run(graph_of(program), "f", x=1)
    assert outcome.result == 4 and outcome.state["v"] == 3


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("let y = 1 + count(x)", "E0403"),
        ("let y = abs(count(x))", "E0403"),
        ("let y = (count(x), 1)", "E0403"),
        ("let y = if c then count(x) else x", "E0403"),
        ("v[count(x)] := 1", "E0403"),
        ("assert count(x) > 0", "E0403"),
        ("x := 1", "E0406"),
        ("y = count(x)", "E0405"),
        ("v = count(x)", "E0404"),
        ("g(x)", "E0207"),
        ("count", "E0404"),
    ],
)
def test_effects_in_the_wrong_place_are_refused(body: str, code: str) -> None:
    program = f"""
        var v: i64[3] = 0
        proc count(x: i64) -> i64 {{
          v += 1
          return x
        }}
        entry g(x: i64) {{ v += x }}
        entry f(x: i64, c: bool) {{
          {body}
        }}
    """
    found = [found for found in codes(program) if not found.startswith("W")]
    assert found == [code] or (body == "count" and found and found[0].startswith("E01"))


def test_a_fn_may_not_call_what_writes() -> None:
    text = messages(
        """
        var v: i64 = 0
        proc count() { v += 1 }
        fn f(x: i64) -> i64 {
          count()
          return x
        }
        """
    )
    assert "error[E0401]: a `fn` cannot call something that has an effect" in text


# -------------------------------------------------------------- checkpoints --


def test_checkpoints_name_what_they_save() -> None:
    graph = graph_of(
        """
        param w: f32 = 0
        var n: i64 = 0 with saved = false
        var dice: rng = philox(seed = 1)
        entry save(path: string) { checkpoint.save(path, program) }
        readonly entry part(path: string) { checkpoint.save(path, [n, w]) }
        entry restore(path: string) -> f32 {
          checkpoint.restore(path, program)
          return w
        }
        """
    )
    saved = [n.attributes for n in graph.entries["save"].block.nodes]
    assert saved == [HostAttributes(("dice", "w"))]
    assert graph.entries["part"].block.nodes[0].attributes == HostAttributes(("n", "w"))
    assert [n.op for n in graph.entries["restore"].block.nodes] == ["checkpoint_restore", "read"]


def test_a_fixed_path_is_refused() -> None:
    assert codes('var w: f32 = 0\nentry save() { checkpoint.save("x", program) }') == ["E1001"]
