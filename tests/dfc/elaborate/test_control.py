"""`if`, `for` and `loop`: values, effects, and what the graph looks like."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import check
from dfc.ir import walk
from tests.support.building import codes, graph_of, messages, result, run


def ops(text: str, entry: str = "f") -> list[str]:
    return [node.op for node in walk.nodes(graph_of(text).entries[entry].block)]


# ----------------------------------------------------------------------- if --


@pytest.mark.parametrize(("x", "expected"), [(4.0, 2.0), (-4.0, -4.0)])
def test_only_the_chosen_side_counts(x: float, expected: float) -> None:
    program = "entry f(x: f32) -> f32 { return if x > 0 then sqrt(x) else x }"
    assert result(program, x=np.float32(x)) == expected


@pytest.mark.parametrize(("kind", "expected"), [(0, 9.0), (1, -3.0), (2, 3.0)])
def test_branches_yield_values(kind: int, expected: float) -> None:
    program = """
        entry f(kind: i32, x: f32) -> f32 {
          let y, z = if kind == 0 { yield square(x), 0 } else if kind == 1 { yield -x, 1 } else { yield x, 2 }
          return y
        }
    """
    assert result(program, kind=np.int32(kind), x=np.float32(3)) == expected


def test_a_number_in_one_branch_takes_the_type_of_the_other() -> None:
    graph = graph_of("entry f(c: bool, x: f64) -> f64 { return if c then x else 0 }")
    assert str(graph.entries["f"].block.outputs[0].type) == "f64"


def test_a_constant_condition_leaves_no_trace() -> None:
    assert ops("entry f(x: f32) -> f32 { return if 2 > 1 then x + 1 else sqrt(x) }") == ["constant", "add"]


def test_a_side_that_is_not_taken_is_not_elaborated() -> None:
    program = """
        fn g[N](x: f32[N], const n: int) -> f32 = if n == 0 then 0 else x[n]
        entry f(x: f32[3]) -> f32 { return g(x, 0) }
    """
    assert ops(program) == ["constant"]


def test_effects_in_branches_are_ordered_with_those_around() -> None:
    graph = graph_of(
        """
        var v: i64 = 1
        entry f(c: bool) -> (first: i64, last: i64) {
          v += 1
          let before = v
          if c { v *= 10 } else { v := 0 }
          return before, v
        }
        """
    )
    yes, no = run(graph, "f", c=True), run(graph, "f", c=False)
    assert [int(r) for r in yes.results] == [2, 20]
    assert [int(r) for r in no.results] == [2, 0]


def test_a_branch_may_leave_out_the_write() -> None:
    graph = graph_of("var v: i64 = 1\nentry f(c: bool) -> i64 { if c { v += 5 }\n return v }")
    assert int(run(graph, "f", c=True).result) == 6
    assert int(run(graph, "f", c=False).result) == 1


def test_a_read_in_a_branch_stands_before_it() -> None:
    graph = graph_of("var v: i64 = 1\nentry f(c: bool) -> i64 { return if c then v else 0 }")
    assert [node.op for node in graph.entries["f"].block.nodes] == ["read", "if"]


def test_a_read_behind_a_write_in_the_branch_stays_inside() -> None:
    program = "var v: i64 = 1\nentry f(c: bool) -> i64 { return 2 * w(c) }\nfn w(c: bool) -> i64 = v"
    assert "if" not in ops(program)
    graph = graph_of(
        """
        var v: i64 = 1
        entry f(c: bool) -> i64 {
          let x = if c {
            v += 1
            yield v
          } else { yield v }
          return x + v
        }
        """
    )
    assert int(run(graph, "f", c=True).result) == 4
    assert int(run(graph, "f", c=False).result) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("let y = if c { yield 1 } else { let z = 2 }\n return x", "E0307"),
        ("let y = if c { yield x } else { yield c }\n return x", "E0307"),
        ("let y = if c { yield x }\n return x", "E0307"),
        ("let y = if x { yield x } else { yield x }\n return x", "E0308"),
        ("if c { return x }\n return x", "E0604"),
        ("if c { yield x }\n return x", "E0604"),
        ("return if c then x else (x, x)", "E0307"),
    ],
)
def test_branches_that_do_not_fit_are_refused(body: str, code: str) -> None:
    assert codes(f"entry f(c: bool, x: f32) -> f32 {{ {body} }}") == [code]


def test_a_condition_on_sizes_is_a_fact_inside() -> None:
    graph = graph_of("entry f[N](x: f32[N]) -> f32 { return if N >= 3 then x[2] else 0 }")
    assert graph.entries["f"].checks == ()
    assert run(graph, "f", x=np.arange(4, dtype=np.float32)).result == 2
    assert run(graph, "f", x=np.arange(2, dtype=np.float32)).result == 0


# -------------------------------------------------------------------- loops --


def test_a_while_loop_returns_its_last_values() -> None:
    program = """
        entry f(n: i64) -> (a: i64, b: i64) {
          let a, b, _ = loop a: i64 = 0, b: i64 = 1, k: i64 = 0 while k < n {
            a, b = (b, a + b)
            k = k + 1
          }
          return a, b
        }
    """
    assert [int(r) for r in run(graph_of(program), "f", n=np.int64(10)).results] == [55, 89]


def test_a_new_value_is_seen_below() -> None:
    program = """
        entry f() -> i64 {
          let a, b, k = loop a: i64 = 0, b: i64 = 0, k: i64 = 0 while k < 3 {
            a = a + 1
            b = b + a
            k = k + 1
          }
          return b
        }
    """
    assert result(program) == 6


def test_a_scan_stacks_what_is_emitted() -> None:
    program = """
        entry f[N, D](xs: f32[N, D]) -> (last: f32[D], sums: f32[N, D], firsts: f32[N]) where D >= 1 {
          let last, sums, firsts = loop s = zeros(f32[D]) for x in xs {
            s = s + x
            emit s, x[0]
          }
          return last, sums, firsts
        }
    """
    xs = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    last, sums, firsts = run(graph_of(program), "f", xs=xs).results
    np.testing.assert_allclose(sums, np.cumsum(xs, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(last, sums[-1])
    np.testing.assert_array_equal(firsts, xs[:, 0])


def test_a_map_over_several_tensors() -> None:
    program = """
        entry f[N](xs: f32[N], ys: f32[N]) -> (z: f32[N]) {
          let z = for x in xs, y in ys { emit x * y + 1 }
          return z
        }
    """
    xs, ys = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    np.testing.assert_array_equal(result(program, xs=xs, ys=ys), xs * 3 + 1)


def test_a_range_beside_a_tensor_counts_from_its_start() -> None:
    program = """
        entry f[N](xs: f32[N]) -> (z: f32[N]) {
          let z = for i in 2..N + 2, x in xs { emit x * (i as f32) }
          return z
        }
    """
    xs = np.arange(1, 5, dtype=np.float32)
    np.testing.assert_array_equal(result(program, xs=xs), xs * np.arange(2, 6))


def test_tuples_are_carried_field_by_field() -> None:
    program = """
        type Pair[N] = (a: f32[N], n: i64)
        entry f[N](x: f32[N]) -> (y: f32[N], n: i64) {
          let p = loop p: Pair[N] = (a = x, n = 0) for i in 0..3 {
            p = (a = p.a * 2, n = p.n + i)
          }
          return p.a, p.n
        }
    """
    y, n = run(graph_of(program), "f", x=np.ones(2, np.float32)).results
    np.testing.assert_array_equal(y, [8, 8])
    assert n == 3


def test_a_loop_may_start_from_a_number_that_fills_a_shape() -> None:
    program = "entry f() -> f32[3] { let s = loop s: f32[3] = 1 for i in 0..2 { s = s + s }\n return s }"
    np.testing.assert_array_equal(result(program), [4, 4, 4])


def test_a_loop_variable_may_change_in_a_branch() -> None:
    program = """
        entry f(n: i32) -> i64 {
          let odd, _ = loop odd: i64 = 0, k: i32 = 0 while k < n {
            if k % 2 == 1 { odd = odd + 1 }
            k = k + 1
          }
          return odd
        }
    """
    assert result(program, n=np.int32(7)) == 3


def test_a_body_may_write_what_it_reads() -> None:
    program = """
        var v: f64 = 1
        entry f(n: i32) -> f64 {
          for i in 0..n { v := v * 2 + 1 }
          return v
        }
    """
    assert run(graph_of(program), "f", n=np.int32(3)).result == 15


def test_what_a_body_only_reads_is_read_before_the_loop() -> None:
    program = "var v: f64 = 2\nvar w: f64 = 0\nentry f(n: i32) { for i in 0..n { w += v } }"
    graph = graph_of(program)
    assert [node.op for node in graph.entries["f"].block.nodes if node.op in ("read", "for")] == ["read", "for"]
    assert run(graph, "f", n=np.int32(4)).state["w"] == 8


def test_a_condition_sees_what_the_body_writes() -> None:
    program = """
        var v: i64 = 0
        entry f() -> i64 {
          loop while v < 5 { v += 2 }
          return v
        }
    """
    assert run(graph_of(program), "f").result == 6


def test_nested_loops_with_state_between_them() -> None:
    program = """
        var v: i64 = 0
        var w: i64 = 1
        entry f() -> (v: i64, w: i64) {
          for i in 0..3 {
            for j in 0..2 { v += w }
            w += v
          }
          return v, w
        }
    """
    v, w = 0, 1
    for _ in range(3):
        for _ in range(2):
            v += w
        w += v
    assert [int(r) for r in run(graph_of(program), "f").results] == [v, w]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("let y = loop y = x for i in 0..3 { y = i }\n return x", "E0601"),
        ("for i in 0..3 { if c { emit x } }\n return x", "E0603"),
        ("let y = for i in 0..3 { if c { emit x } }\n return y[0]", "E0603"),
        ("let y = for i in 0..3 {\n emit x\n emit x\n }\n return x", "E0603"),
        ("let y = for i in 0..n { emit x }\n return x", "E1001"),
        ("let y, k = loop y = x, k: i64 = 0 while k < 3 { y = y + 1 }\n return y", "E0602"),
        ("loop while true { let z = x }\n return x", "E0602"),
        ("emit x\n return x", "E0603"),
        ("for y in x { let z = y }\n return x", "E0316"),
        ("for y in xs, z in zs { let w = y }\n return x", "E0305"),
        ("for i in 0..x { let w = i }\n return x", "E0316"),
        ("let y = loop y = x for i in 0..3 {\n for j in 0..2 { y = y + 1 }\n }\n return y", "E0405"),
    ],
)
def test_loops_that_do_not_fit_are_refused(body: str, code: str) -> None:
    program = f"entry f(c: bool, x: f32, n: i32, xs: f32[3], zs: f32[4]) -> f32 {{ {body} }}"
    assert codes(program) == [code]


def test_a_mistake_in_a_body_is_reported_once() -> None:
    program = """
        var v: f64 = 1
        entry f(n: i32) {
          for i in 0..n {
            let y = v + 1
            v := y + nothing
            v := y
          }
        }
    """
    assert messages(program).count("error[") == 1


# --------------------------------------------------------------------- each --


def test_each_unrolls_over_variables() -> None:
    program = """
        param a: f32[2] = 1
        param b: f32[3] = 2
        entry f() { each w in params(program), s in [10.0, 20.0] { w += s } }
    """
    state = run(graph_of(program), "f").state
    np.testing.assert_array_equal(state["a"], [11, 11])
    np.testing.assert_array_equal(state["b"], [22, 22, 22])


def test_each_gives_a_list() -> None:
    program = """
        entry f(a: f32[2], b: f32[3]) -> f32 {
          let sums = each x in [a, b] => sum(x)
          return sum(stack(sums))
        }
    """
    assert result(program, a=np.ones(2, np.float32), b=np.ones(3, np.float32)) == 5


@pytest.mark.parametrize("text", ["each x in xs { let y = x }", "each x in [1, 2], y in [1] { let z = x }"])
def test_each_needs_lists_of_one_length(text: str) -> None:
    assert codes(f"entry f(xs: f32[3]) {{ {text} }}") == ["E0316"]


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("for x in xs { let y = x }", "this loop gives no value"),
        ("loop while s > 0 { s -= 1 }", "this loop gives no value"),
        ("count()", "this gives no value"),
    ],
)
def test_what_gives_no_value_is_noticed_where_it_stands(value: str, title: str) -> None:
    text = f"""
        var s: f32 = 0
        proc count() {{ s += 1 }}
        entry f(xs: f32[3]) -> f32 {{
          let z = {value}
          return sum(z)
        }}
    """
    (found,) = [each for each in check(SourceFile("a.dfg", dedent(text))) if each.is_error]
    assert (found.code, found.title, found.span.line) == ("E0316", title, 5)
