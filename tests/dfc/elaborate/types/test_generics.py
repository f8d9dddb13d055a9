"""Functions generic over sizes, element types and shapes; what `where` promises; what an entry checks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.building import codes, graph_of, messages, result, run


def checks(text: str, entry: str = "f") -> list[str]:
    return [f"{c.left} {c.relation} {c.right}" for c in graph_of(text).entries[entry].checks]


# ------------------------------------------------------------------- sizes --


def test_a_function_is_used_at_several_sizes_and_types() -> None:
    program = """
        fn scaled[T: float, ..S](x: T[..S], by: T) -> T[..S] = x * by
        entry f(a: f32[2, 3], b: f64) -> (a: f32[2, 3], b: f64) { return scaled(a, 2), scaled(b, 0.5) }
    """
    a, b = run(graph_of(program), "f", a=np.ones((2, 3), np.float32), b=3.0).results
    assert a.dtype == np.float32 and np.all(a == 2)
    assert b.dtype == np.float64 and b == 1.5


def test_sizes_are_solved_from_sums() -> None:
    program = """
        fn tail[N](x: f32[N + 1]) -> f32[N] = x[1:]
        fn half[N](x: f32[2 * N]) -> f32[N] = x[:N]
        entry f(x: f32[6]) -> (a: f32[5], b: f32[3]) { return tail(x), half(x) }
    """
    a, b = run(graph_of(program), "f", x=np.arange(6, dtype=np.float32)).results
    np.testing.assert_array_equal(a, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(b, [0, 1, 2])


def test_sizes_given_explicitly_or_by_the_expected_type() -> None:
    program = """
        fn ramp[N]() -> f32[N] = iota(f32[N])
        entry f() -> (a: f32[3], b: f32[4]) {
          let b: f32[4] = ramp()
          return ramp[3](), b
        }
    """
    a, b = run(graph_of(program), "f").results
    assert a.shape == (3,) and b.shape == (4,)


def test_a_size_nobody_decides_is_refused() -> None:
    assert "nothing decides `N`" in messages("fn r[N]() -> f32[N] = iota(f32[N])\nentry f() -> f32 { return sum(r()) }")


def test_what_the_arguments_decide_is_filled_in_and_the_rest_is_not_guessed() -> None:
    program = """
        fn pick[N, K, T: float](x: T[N]) -> T[N] = x * (K as T)
        readonly entry f[M](x: f64[M + 1]) -> (y: f64[M + 1]) { return pick(x) }
    """
    text = messages(program)
    assert "nothing decides `K` in this call of `pick`" in text
    assert "give it in brackets: `pick[M + 1, ..., f64](...)`, with its value in place of `...`" in text
    typed = program.replace("pick(x) }", "pick[M + 1, 3, f64](x) }")
    np.testing.assert_array_equal(result(typed, x=np.array([1.0, 2.0])), [3, 6])


def test_a_shape_that_nothing_decides_has_no_place_in_brackets() -> None:
    text = messages("fn r[..S, K](const n: int) -> f32 = n as f32\nentry f() -> f32 { return r(3) }")
    assert "nothing decides" in text and "help" not in text


@pytest.mark.parametrize("call", ["c(x)", "conv(x, c.w)", "pooled[B, 2](x)"])
def test_the_size_of_a_window_is_generic(call: str) -> None:
    program = f"""
        fn conv[B, K, C](x: f32[B, 4, 4, C], w: f32[K, K, C, C]) -> f32[B, 4, 4, C] = conv2d(x, w, pad = "same")
        fn pooled[B, P](x: f32[B, 4, 4, 1]) -> f32[B, 4 // P, 4 // P, 1] where P >= 1 = max_pool(x, P)
        block Conv[K, C] {{
          param w: f32[K, K, C, C] = 1
          fn apply[B](x: f32[B, 4, 4, C]) -> f32[B, 4, 4, C] = conv2d(x, w, pad = "same")
        }}
        var c = Conv[3, 1]()
        readonly entry f[B](x: f32[B, 4, 4, 1]) -> (largest: f32) {{ return max({call}) }}
    """
    assert result(program, x=np.ones((1, 4, 4, 1), np.float32)) == (1 if "pooled" in call else 9)


def test_a_window_whose_size_only_the_run_knows_is_refused_at_the_call() -> None:
    program = """
        fn conv[B, K](x: f32[B, 4, 4, 1], w: f32[K, K, 1, 1]) -> f32[B, 4, 4, 1] = conv2d(x, w, pad = "same")
        readonly entry f[B, K](x: f32[B, 4, 4, 1], w: f32[K, K, 1, 1]) -> (y: f32[B, 4, 4, 1]) { return conv(x, w) }
    """
    assert codes(program) == ["E0309"]


def test_functions_as_constants() -> None:
    program = """
        fn twice[N](x: f32[N], const g: fn(f32[N]) -> f32[N], const times: int) -> f32[N] {
          let y = loop y = x for i in 0..times { y = g(y) }
          return y
        }
        fn add_one[N](x: f32[N]) -> f32[N] = x + 1
        entry f(x: f32[2]) -> (a: f32[2], b: f32[2]) { return twice(x, add_one, 3), twice(x, square, 2) }
    """
    a, b = run(graph_of(program), "f", x=np.array([1, 2], np.float32)).results
    np.testing.assert_array_equal(a, [4, 5])
    np.testing.assert_array_equal(b, [1, 16])


def test_a_pack_stands_for_any_shape() -> None:
    program = """
        fn total[..S, C](x: f32[..S, C]) -> f32[..S] = sum(x, axis = -1)
        entry f(a: f32[3], b: f32[2, 3], c: f32[4, 2, 3]) -> (a: f32, b: f32[2], c: f32[4, 2]) {
          return total(a), total(b), total(c)
        }
    """
    results = run(graph_of(program), "f", **{n: np.ones(s, np.float32) for n, s in _SHAPES.items()}).results
    assert [r.shape for r in results] == [(), (2,), (4, 2)]


def test_a_pack_in_a_list_of_sizes_stands_for_all_of_them() -> None:
    program = """
        fn halves[..S, C](x: f32[..S, C]) -> f32[..S, 2, C // 2] where C % 2 == 0 {
          return reshape(reshape(x, [-1, 2, C // 2]), [S, 2, C // 2])
        }
        entry f(a: f32[4], b: f32[3, 5, 4]) -> (a: f32[2, 2], b: f32[3, 5, 2, 2]) { return halves(a), halves(b) }
    """
    a, b = np.arange(4, dtype=np.float32), np.arange(60, dtype=np.float32).reshape(3, 5, 4)
    results = run(graph_of(program), "f", a=a, b=b).results
    np.testing.assert_array_equal(results[0], a.reshape(2, 2))
    np.testing.assert_array_equal(results[1], b.reshape(3, 5, 2, 2))


_SHAPES = {"a": (3,), "b": (2, 3), "c": (4, 2, 3)}


def test_a_size_no_feed_decides_is_fed_by_name() -> None:
    graph = graph_of("entry f[N, M](x: f32[N]) -> (y: f32[M]) { return iota(f32[M]) + sum(x) }")
    entry = graph.entries["f"]
    assert [str(s) for s in entry.dims] == ["N", "M"] and [str(s) for s in entry.dim_feeds] == ["M"]
    np.testing.assert_array_equal(run(graph, "f", {"M": 3}, x=np.ones(2, np.float32)).result, [2, 3, 4])


def test_aliases_with_sizes() -> None:
    program = """
        type Pair[N] = (a: f32[N], b: f32[N, 2])
        type Vector = f64
        fn swap[N](p: Pair[N]) -> f32[N] = p.a + p.b[:, 0]
        entry f(x: f32[3], v: Vector[4]) -> (y: f32[3], w: f64[4]) {
          return swap((a = x, b = stack([x, x], axis = 1))), v
        }
    """
    y = run(graph_of(program), "f", x=np.ones(3, np.float32), v=np.ones(4)).result
    np.testing.assert_array_equal(y, [2, 2, 2])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("g(x)", "E0204"),
        ("g(x, y, y)", "E0204"),
        ("g(x, b = y, b = y)", "E0204"),
        ("g(a = x, y)", "E0204"),
        ("g(x, c = y)", "E0204"),
        ("g(x, z)", "E0302"),
        ("g(x, w)", "E0305"),
        ("g(x, m)", "E0305"),
        ("g(x, s)", "E0316"),
        ("g(x, true)", "E0316"),
        ("g(x, sum)", "E0316"),
        ("g[2, 3](x, y)", "E0316"),
        ("h(x, n)", "E0309"),
        ("h(x, 0.5)", "E0316"),
        ("h(x, true)", "E0316"),
        ('h(x, "a")', "E0316"),
        ("nothing(x)", "E0201"),
        ("x(y)", "E0207"),
        ("f32(x)", "E0207"),
        ("sum(x, axis = 3)", "E0312"),
        ("sum(x, axis = 0.5)", "E0315"),
        ("reshape(x, [2, -1])", "E0306"),
        ("x as g", "E0316"),
        ("x as f31", "E0201"),
        ("x @ x @ x", "E0301"),
        ("x.shape", "E0203"),
        ("(x, y).a", "E0203"),
        ("not x", "E0302"),
        ("x and x", "E0302"),
        ("-b", "E0302"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call: str, code: str) -> None:
    program = f"""
        fn g[N](a: f32[N], b: f32[N]) -> f32[N] = a + b
        fn h[N](a: f32[N], const n: int) -> f32[N] = a
        entry f[K, M](x: f32[K], y: f32[K], z: f64[K], w: f32[7], m: f32[M], s: f32, n: i32, b: bool) {{
          let r = {call}
        }}
    """
    assert codes(program) == [code]


# -------------------------------------------------------------------- where --


def test_a_where_lets_sizes_cancel() -> None:
    program = """
        fn heads[B, D, H](x: f32[B, D], const unused: int, h: f32[H]) -> f32[B, H, D // H] where D % H == 0 {
          return reshape(x, [B, H, D // H])
        }
        entry f(x: f32[2, 12], h: f32[3]) -> (y: f32[2, 3, 4]) { return heads(x, 1, h) }
    """
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    np.testing.assert_array_equal(result(program, x=x, h=np.zeros(3, np.float32)), x.reshape(2, 3, 4))
    without = program.replace(" where D % H == 0", "")
    assert "E0306" in codes(without)


def test_a_where_of_an_entry_is_checked_and_known() -> None:
    program = "entry f[N, M](a: f32[N], b: f32[M]) -> (c: f32[N]) where N == M { return a + b }"
    assert checks(program) == ["N == M"]
    np.testing.assert_array_equal(result(program, a=np.ones(2, np.float32), b=np.ones(2, np.float32)), [2, 2])


def test_a_where_of_a_function_is_left_to_the_entry_if_open() -> None:
    program = """
        fn join[N, M](a: f32[N], b: f32[M]) -> f32[N] where N == M = a + b
        entry f[N, M](a: f32[N], b: f32[M]) -> (c: f32[N]) { return join(a, b) }
        entry g[N](a: f32[N]) -> (c: f32[N]) { return join(a, a) }
    """
    assert checks(program) == ["N == M"]
    assert checks(program, "g") == []


def test_a_where_that_cannot_hold_is_refused() -> None:
    program = """
        fn inner[H](x: f32[H]) -> f32[H - 2] where H >= 2 = x[1:-1]
        entry f(x: f32[1]) -> f32 { return sum(inner(x)) }
    """
    assert codes(program) == ["E0305"]
    assert "`inner` needs H >= 2" in messages(program)


def test_an_assert_about_sizes_is_a_check_and_a_fact() -> None:
    program = """
        entry f[N, M](a: f32[N], b: f32[M]) -> (c: f32[N]) {
          assert N == M, "as many"
          return a + b
        }
    """
    assert checks(program) == ["N == M"]


def test_equality_that_is_only_possible_is_refused() -> None:
    assert codes("entry f[N, M](a: f32[N], b: f32[M]) -> (c: f32[N]) { return a + b }") == ["E0305"]


def test_a_function_is_checked_before_it_is_called() -> None:
    text = messages("fn join[N, M](a: f32[N], b: f32[M]) -> f32[N] = a + b\n")
    assert "`N` and `M` are not known to be equal" in text


def test_a_mistake_in_a_function_is_reported_once_however_often_it_is_called() -> None:
    program = """
        fn bad[N](a: f32[N]) -> f32[N] = a + nothing
        entry f(a: f32[2]) -> (x: f32[2], y: f32[2]) { return bad(a), bad(a) + bad(a) }
        entry g(a: f32[3]) -> f32[3] { return bad(a) * nowhere }
    """
    assert codes(program) == ["E0201", "E0201"]


def test_a_mistake_that_depends_on_the_call_is_found_there() -> None:
    program = """
        fn pick[..S](x: f32[..S], const n: int) -> f32 = sum(x[n])
        entry f(a: f32[2]) -> f32 { return pick(a, 2) }
    """
    assert codes(program) == ["E0317"]


def test_recursion_is_refused() -> None:
    text = messages("fn f(x: f32) -> f32 = g(x)\nfn g(x: f32) -> f32 = f(x)\n")
    assert "error[E0208]" in text and "f -> g -> f" in text


# ------------------------------------------------------------- broadcasting --


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        ("[B, 10]", "[10]", "f32[B, 10]"),
        ("[B, T, D]", "[]", "f32[B, T, D]"),
        ("[B, 1]", "[1, K]", "f32[B, K]"),
        ("[B]", "[B, 1]", "E0304"),
        ("[B, K]", "[B]", "E0305"),
        ("[N]", "[M]", "E0305"),
        ("[B, 1]", "[B, K]", "f32[B, K]"),
        ("[1]", "[B, K]", "f32[B, K]"),
        ("[3]", "[4]", "E0305"),
    ],
)
def test_broadcasting_follows_the_table(left: str, right: str, outcome: str) -> None:
    generics = "B, T, D, K, N, M"
    program = f"entry f[{generics}](a: f32{left}, b: f32{right}) {{ let c = a + b }}"
    if outcome.startswith("E"):
        assert codes(program) == [outcome]
        return
    (node,) = graph_of(program).entries["f"].block.nodes
    assert str(node.result.type) == outcome
