"""Brackets behind a tensor mean what they mean in NumPy, and stay inside the axis."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.building import codes, graph_of, messages, result, run

X = np.arange(5 * 4 * 3, dtype=np.float32).reshape(5, 4, 3)

STATIC = [
    "x[0]",
    "x[-1]",
    "x[2, 1, 0]",
    "x[1:3]",
    "x[1:]",
    "x[:2]",
    "x[:-1]",
    "x[-3:-1]",
    "x[::2]",
    "x[1::2]",
    "x[0:5:3]",
    "x[::-1]",
    "x[3:0:-1]",
    "x[4:0:-2]",
    "x[.., 0]",
    "x[0, .., 1]",
    "x[..]",
    "x[:, 1]",
    "x[:, 1:3, ::2]",
    "x[2:2]",
    "x[5:5]",
]
NEW = ["x[new]", "x[:, new]", "x[new, 0]", "x[.., new]", "x[0, new, 1:, new]"]


def python(text: str) -> str:
    return text.replace("..", "...").replace("new", "None")


@pytest.mark.parametrize("text", [*STATIC, *NEW])
def test_indices_known_at_compile_time_equal_numpy(text: str) -> None:
    expected = _numpy(text)
    shape = ", ".join(map(str, expected.shape))
    program = f"entry f(x: f32[5, 4, 3]) -> (y: f32[{shape}]) {{ return {text} }}"
    np.testing.assert_array_equal(result(program, x=X), expected)


def _numpy(text: str) -> np.ndarray:
    """The same expression in NumPy, item by item."""
    items: list[object] = []
    for part in python(text)[2:-1].split(","):
        word = part.strip()
        if word == "...":
            items.append(Ellipsis)
        elif word == "None":
            items.append(None)
        elif ":" in word:
            items.append(slice(*(int(n) if n else None for n in word.split(":"))))
        else:
            items.append(int(word))
    return X[tuple(items)]


def test_ids_pick_rows() -> None:
    ids = np.array([[4, 0], [2, 2]], np.int32)
    program = "entry f(x: f32[5, 4, 3], i: i32[2, 2]) -> (y: f32[2, 2, 4, 3]) { return x[i] }"
    np.testing.assert_array_equal(result(program, x=X, i=ids), X[ids])


def test_ids_on_an_inner_axis_stand_in_its_place() -> None:
    ids = np.array([3, 1], np.int64)
    program = "entry f(x: f32[5, 4, 3], i: i64[2]) -> (y: f32[2, 2, 2]) { return x[1:3, i, 1:] }"
    np.testing.assert_array_equal(result(program, x=X, i=ids), X[1:3][:, ids][:, :, 1:])


def test_a_number_known_at_run_time_drops_the_axis() -> None:
    program = "entry f(x: f32[5, 4, 3], i: i32, j: i32) -> (y: f32[3]) { return x[i, j] }"
    np.testing.assert_array_equal(result(program, x=X, i=np.int32(3), j=np.int32(2)), X[3, 2])


def test_a_point_beside_a_number_known_at_run_time() -> None:
    program = "entry f(x: f32[5, 4, 3], i: i32) -> (y: f32[4, 1]) { return x[i, :, 1][:, new] }"
    np.testing.assert_array_equal(result(program, x=X, i=np.int32(4)), X[4, :, 1][:, None])


def test_a_window_may_move() -> None:
    program = "entry f(x: f32[5, 4, 3], k: i32) -> (y: f32[2, 4, 3]) { return x[k:k + 2] }"
    np.testing.assert_array_equal(result(program, x=X, k=np.int32(2)), X[2:4])


def test_symbolic_axes_count_from_the_end() -> None:
    program = "entry f[N](x: f32[N]) -> (y: f32[N - 2]) where N >= 2 { return x[1:-1] + x[N - 1] }"
    np.testing.assert_array_equal(result(program, x=X[:, 0, 0]), X[1:-1, 0, 0] + X[-1, 0, 0])


@pytest.mark.parametrize("text", ["x[5]", "x[-6]", "x[:6]", "x[6:]", "x[3:2]", "x[0, 4]", "x[::-1][7]"])
def test_what_lies_outside_is_refused(text: str) -> None:
    program = f"entry f(x: f32[5, 4]) -> (y: f32) {{ return sum({text}) }}"
    assert codes(program) == ["E0317"]


def test_more_indices_than_axes_are_refused() -> None:
    text = messages("entry f(x: f32[5]) -> (y: f32) { return x[0, 0] }")
    assert "error[E0313]: 2 indices for 1 axis" in text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x[0.5]", "E0316"),
        ("x[y]", "E0316"),
        ("x[::0]", "E0317"),
        ("x[.., ..]", "E0316"),
        ("x[m]", "E0305"),
        ("x[m[0]]", "E0316"),
        ("k2[0, m]", "E0316"),
        ("x[:k]", "E0309"),
        ("k[0]", "E0313"),
    ],
)
def test_wrong_indices_are_explained(text: str, code: str) -> None:
    program = (
        f"entry f(x: f32[5], y: f32, m: bool[4], k: i32, k2: f32[2, 4]) -> (r: f32) {{ return sum({text}) as f32 }}"
    )
    assert codes(program) == [code]


def test_bounds_that_cannot_be_proved_become_checks_of_the_entry() -> None:
    graph = graph_of("entry f[N](x: f32[N]) -> (y: f32[16]) { return x[:16] }")
    checks = [(str(c.left), c.relation, str(c.right)) for c in graph.entries["f"].checks]
    assert checks == [("N", ">=", "16")]


def test_bounds_that_follow_from_a_where_are_not_checked_twice() -> None:
    graph = graph_of("entry f[N](x: f32[N]) -> (y: f32[16]) where N >= 20 { return x[2:18] }")
    assert [(str(c.left), c.relation, str(c.right)) for c in graph.entries["f"].checks] == [("N", ">=", "20")]


def test_a_slice_of_a_slice_of_zero_size() -> None:
    graph = graph_of("entry f[N](x: f32[N]) -> (y: f32[0]) { return x[0:0] }")
    assert run(graph, "f", x=np.zeros(0, np.float32)).result.shape == (0,)


WRITES = [
    ("v[0] := 7", lambda v: v.__setitem__(0, 7)),
    ("v[-1, :] += x", lambda v: v.__setitem__(-1, v[-1] + np.arange(3))),
    ("v[:, 1] := y", lambda v: v.__setitem__((slice(None), 1), np.arange(4))),
    ("v[1:3, 2] -= 1", lambda v: v.__setitem__((slice(1, 3), 2), v[1:3, 2] - 1)),
    ("v[::2] *= 2", lambda v: v.__setitem__(slice(None, None, 2), v[::2] * 2)),
    ("v[i] := x", lambda v: v.__setitem__(2, np.arange(3))),
    ("v[ids] := x", lambda v: v.__setitem__([3, 1], np.arange(3))),
    ("v[i, 1] += 5", lambda v: v.__setitem__((2, 1), v[2, 1] + 5)),
    ("v := x", lambda v: v.__setitem__(slice(None), np.arange(3))),
    ("v /= 2", lambda v: v.__setitem__(slice(None), v / 2)),
]


@pytest.mark.parametrize(("statement", "change"), WRITES, ids=[w[0] for w in WRITES])
def test_writing_a_part_changes_exactly_that_part(statement: str, change: object) -> None:
    graph = graph_of(
        f"""
        var v: f64[4, 3] = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
        entry f(x: f64[3], y: f64[4], i: i32, ids: i32[2]) {{ {statement} }}
        """
    )
    feeds = {"x": np.arange(3.0), "y": np.arange(4.0), "i": np.int32(2), "ids": np.array([3, 1], np.int32)}
    expected = np.arange(1.0, 13.0).reshape(4, 3)
    change(expected)  # type: ignore[operator]
    np.testing.assert_array_equal(run(graph, "f", **feeds).state["v"], expected)


def test_a_target_is_never_broadcast() -> None:
    text = messages("var v: f32[3] = 0\nentry f(x: f32[2, 3]) { v := x }")
    assert "error[E0305]: `v` is f32[3], but this is f32[2, 3]" in text


def test_empty_brackets_take_everything() -> None:
    assert codes("entry f(x: f32[3]) -> f32[3] { return x[] }") == codes(
        "entry f(x: f32[3]) -> f32[3] { return x[..] }"
    )
