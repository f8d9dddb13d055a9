"""Numbers without an element type take the one they meet, and must fit it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.building import codes, graph_of, messages, result

ADAPTING = [
    ("x + 1", "f16", "f16"),
    ("x + 0.5", "bf16", "bf16"),
    ("2 * x", "u8", "u8"),
    ("x // 3", "i16", "i16"),
    ("maximum(x, 0)", "i32", "i32"),
    ("select(x > 0, x, 0)", "f64", "f64"),
    ("clamp(x, -1, 1)", "f32", "f32"),
    ("x * K", "f32", "f32"),
    ("x * K", "i8", "i8"),
    ("x * HALF", "f64", "f64"),
    ("concat([x[new], [1]], axis = 0)[0]", "i32", "i32"),
    ("stack([x, 0])[0]", "f32", "f32"),
]


@pytest.mark.parametrize(("text", "given", "expected"), ADAPTING)
def test_a_number_takes_the_type_of_the_other_operand(text: str, given: str, expected: str) -> None:
    program = f"const K = 3\nconst HALF = 0.5\nentry f(x: {given}) -> {expected} {{ return {text} }}"
    assert str(graph_of(program).entries["f"].block.outputs[0].type) == expected


@pytest.mark.parametrize(("text", "expected"), [("7", "i64"), ("0.5", "f32"), ("[1, 2]", "i64[2]"), ("1 < 2", "bool")])
def test_a_number_alone_has_a_default_type(text: str, expected: str) -> None:
    program = f"entry f() -> {expected} {{ let x = {text}\n return x }}"
    assert str(graph_of(program).entries["f"].block.outputs[0].type) == expected


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("x + 256", "u8"),
        ("x - -1", "u8"),
        ("x * 128", "i8"),
        ("x + 0.5", "i32"),
        ("x + 1e5", "f16"),
        ("x + 2147483648", "i32"),
        ("x // 0.0", "i64"),
        ("x ** -1", "i32"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(text: str, given: str) -> None:
    assert codes(f"entry f(x: {given}) -> {given} {{ return {text} }}") == ["E0311"]


def test_a_negative_power_of_a_whole_number_offers_a_fraction() -> None:
    text = messages("entry f(x: i32[3]) -> i32[3] { return x ** -1 }")
    assert "help: write `(x as f32) ** -1`" in text
    assert not codes("entry f(x: i32[3]) -> f32[3] { return (x as f32) ** -1 }")


def test_the_message_names_the_limits() -> None:
    text = messages("entry f(x: u8) -> u8 { return x + 256 }")
    assert "error[E0311]: `256` does not fit u8" in text
    assert "u8 goes from 0 to 255" in text


CONSTANTS = [
    ("28 * 28", 784),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("-7 % 3", 2),
    ("2 ** 10", 1024),
    ("min(3, 4) + max(3, 4)", 7),
    ("ceil_div(7, 2)", 4),
    ("if 3 > 2 then 10 else 20", 10),
]


@pytest.mark.parametrize(("text", "value"), CONSTANTS)
def test_constants_are_computed_at_compile_time(text: str, value: int) -> None:
    graph = graph_of(f"const C = {text}\nentry f() -> i64 {{ return C }}")
    (node,) = graph.entries["f"].block.nodes
    assert node.op == "constant"
    assert result(f"const C = {text}\nentry f() -> i64 {{ return C }}") == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1 / 2", "E0303"),
        ("1 // 0", "E0311"),
        ("1.0 / 0.0", "E0311"),
        ("2 ** 100", "E0311"),
        ('"a" + 1', "E0302"),
        ("true and 1", "E0302"),
        ("-true", "E0302"),
    ],
)
def test_wrong_constants_are_refused(text: str, code: str) -> None:
    assert codes(f"const C = {text}\nentry f() -> i64 {{ let x = C\n return 1 }}")[0] == code


LISTS = [
    ("[sqrt(2.0), 1.0]", [np.sqrt(2.0), 1.0]),
    ("-[sqrt(2.0), 1]", [-np.sqrt(2.0), -1.0]),
    ("sqrt([sqrt(2.0), 1.0])", [np.sqrt(np.sqrt(2.0)), 1.0]),
    ("C", [np.sqrt(3.0), np.exp(-1.0)]),
    ("[ROOT, ROOT + 1]", [np.sqrt(5.0), np.sqrt(5.0) + 1]),
    ("both(2.0)", [2.0, np.sqrt(2.0)]),
]


@pytest.mark.parametrize(("text", "expected"), LISTS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_list_may_hold_what_is_computed_from_numbers_alone(text: str, expected: list[float], dtype: str) -> None:
    items = "const C = [sqrt(3.0), exp(-1)]\nconst ROOT = sqrt(5.0)\n"
    items += f"fn both(const a: float) -> {dtype}[2] {{ return [a, sqrt(a)] }}\n"
    element = np.float64 if dtype == "f64" else np.float32
    found = result(f"{items}entry f(x: {dtype}[2]) -> {dtype}[2] {{ return x * {text} }}", x=np.ones(2, element))
    np.testing.assert_allclose(found, np.array(expected, element), rtol=2e-16 if dtype == "f64" else 2e-7)


def test_rows_may_be_computed_from_numbers_alone() -> None:
    program = "entry f() -> f64[2, 2] { return [sqrt([4.0, 9.0]), [1, sqrt(2.0)]] }"
    np.testing.assert_allclose(result(program), [[2, 3], [1, np.sqrt(2.0)]], rtol=2e-16)


REMEDIES = [
    ('entry f() -> f32 { let a = sqrt(3)\n debug.print("{}", sqrt(3))\n return a }', "write `3.0`"),
    ("entry f(x: i32[2]) -> i32[2] { return x * [exp(-1_0), 1] }", "write `-1_0.0`"),
    ("entry f(x: f32[4]) -> f32 { return cross_entropy(x, 1.5) }", "write `1.5 as i64`"),
]


@pytest.mark.parametrize(("program", "remedy"), REMEDIES)
def test_a_number_of_the_wrong_kind_is_offered_as_one_of_the_right_kind(program: str, remedy: str) -> None:
    assert f"help: {remedy}" in messages(program)


def test_a_list_of_numbers_is_a_tensor() -> None:
    program = "entry f() -> f64[2, 2] { return [[1, 2.5], [3, 4]] }"
    np.testing.assert_array_equal(result(program), [[1, 2.5], [3, 4]])


def test_a_size_is_an_i64_in_an_expression() -> None:
    program = "entry f[N](x: f32[N]) -> (y: f32) { return sum(x) / (N as f32) }"
    np.testing.assert_allclose(result(program, x=np.array([1, 2, 6], np.float32)), 3)


def test_a_size_meets_no_other_type() -> None:
    assert codes("entry f[N](x: f32[N]) -> (y: f32[N]) { return x / N }") == ["E0302"]


CASTS = [("2.9 as i32", 2), ("-2.9 as i32", -2), ("3 as f64", 3.0), ("true as f32", 1.0), ("0.5 as bool", True)]


@pytest.mark.parametrize(("text", "value"), CASTS)
def test_a_constant_is_converted_as_written(text: str, value: object) -> None:
    type_ = text.split()[-1]
    assert result(f"entry f() -> {type_} {{ return {text} }}") == value


def test_settings_replace_their_default() -> None:
    program = 'const N: int = setting("N", 3)\nentry f() -> f32[N] { return zeros(f32[N]) }'
    assert str(graph_of(program).entries["f"].block.outputs[0].type) == "f32[3]"
    graph = graph_of(program, {"N": 5})
    assert str(graph.entries["f"].block.outputs[0].type) == "f32[5]"
    assert graph.settings == {"N": 5}


# --------------------------------------------- functions of numbers alone --

X = 1.2345678901234567
COMPUTED = [
    ("x * sqrt(2.0)", X * np.sqrt(2.0)),
    ("sqrt(2.0) * x", X * np.sqrt(2.0)),
    ("x * sqrt(2)", X * np.sqrt(2.0)),
    ("x - -exp(0.1)", X + np.exp(0.1)),
    ("x * (log(3.0) / 7 + 1)", X * (np.log(3.0) / 7 + 1)),
    ("x * exp(sin(0.1) * sin(0.1))", X * np.exp(np.sin(0.1) ** 2)),
    ("maximum(x, sqrt(2.0))", np.sqrt(2.0)),
    ("select(x > 2, x, exp(1.0))", np.exp(1.0)),
    ("x * ROOT", X * np.sqrt(2.0)),
    ("x * TYPED", X * np.sqrt(3.0)),
    ("x * DECLARED", X * np.sqrt(5.0)),
    ("scaled(x, sqrt(2.0))", X * np.sqrt(2.0)),
    ("damped(x, sqrt(2.0))", X * np.exp(-np.sqrt(2.0))),
    ("x + mean([0.1, 0.2])", X + (0.1 + 0.2) / 2),
    ("x * (sqrt(2.0) as f64)", X * np.sqrt(2.0)),
    ("if x > 0 then x * sqrt(2.0) else exp(1.0)", X * np.sqrt(2.0)),
]
CONTEXT = """
    const ROOT = sqrt(2.0)
    const TYPED: f64 = sqrt(3.0)
    const DECLARED: float = sqrt(5.0)
    fn scaled[T: float](x: T, by: T) -> T = x * by
    fn damped[T: float](x: T, const rate: float) -> T = x * exp(-rate)
"""


@pytest.mark.parametrize(("text", "expected"), COMPUTED)
def test_what_is_computed_from_numbers_alone_has_the_precision_of_its_use(text: str, expected: float) -> None:
    program = f"{CONTEXT}\nentry f(x: f64) -> f64 {{\n  let r = {text}\n  return r\n}}"
    np.testing.assert_allclose(result(program, x=np.float64(X)), expected, rtol=1e-15)


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64"])
def test_one_name_serves_several_types(type_: str) -> None:
    program = f"entry f(x: {type_}, y: f64) -> (a: {type_}, b: f64) {{\n  let r = sqrt(2.0)\n  return x * r, y * r\n}}"
    nodes = [node for node in graph_of(program).entries["f"].block.nodes if node.op == "sqrt"]
    assert {str(node.result.type) for node in nodes} == {type_, "f64"}


@pytest.mark.parametrize(
    ("text", "expected"), [("sqrt(2.0)", "f32"), ("abs(-3)", "i64"), ("-exp(1.0)", "f32"), ("abs(-3) * 2", "i64")]
)
def test_alone_it_has_the_type_of_its_numbers(text: str, expected: str) -> None:
    program = f"entry f() -> {expected} {{ let x = {text}\n return x }}"
    assert str(graph_of(program).entries["f"].block.outputs[0].type) == expected


def test_state_and_loops_begin_with_it_in_their_own_type() -> None:
    program = """
        param w: f64[2] = 1 / sqrt(2.0)
        entry f() -> f64 {
          let y = loop y: f64 = sqrt(2.0) for i in 0..3 { y = y * sqrt(0.5) }
          return y * sum(w)
        }
    """
    np.testing.assert_allclose(result(program), np.sqrt(2.0) * np.sqrt(0.5) ** 3 * np.sqrt(2.0), rtol=1e-15)


def test_what_is_doubled_again_and_again_is_made_once() -> None:
    lines = "\n".join(f"let a{n + 1} = a{n} * a{n}" for n in range(40))
    graph = graph_of(f"entry f(x: f64) -> f64 {{\nlet a0 = sqrt(1.0)\n{lines}\nreturn x * a40\n}}")
    assert len(graph.entries["f"].block.nodes) < 50


def test_a_constant_that_is_computed_may_be_an_argument() -> None:
    program = "param w: f32[500] = uniform(-sqrt(6.0), sqrt(6.0))\nentry f() -> f32 { return max(abs(w)) }"
    assert 2 < result(program) < np.sqrt(6.0)


def test_a_number_with_a_point_is_refused_where_whole_numbers_are_needed() -> None:
    text = messages("entry f(i: i32) -> i32 { return i + sqrt(2.0) }")
    assert "error[E0311]: `sqrt(2.0)` is a floating-point number, and i32 is needed" in text


@pytest.mark.parametrize(
    ("written", "offered", "value"),
    [
        ("-5 / 72", "-5.0 / 72", -5 / 72),
        ("K / 2", "K / 2.0", 3 / 2),
        ("K / M", "1.0 * K / M", 3 / 4),
        ("5 / K", "5.0 / K", 5 / 3),
    ],
)
def test_the_exact_quotient_that_is_offered_is_exact(written: str, offered: str, value: float) -> None:
    program = "const K = 3\nconst M = 4\nentry f(x: f64) -> f64 {{ return x * ({}) }}"
    assert f"write `{offered}` for the exact quotient" in messages(program.format(written))
    assert result(program.format(offered), x=np.float64(1)) == value


@pytest.mark.parametrize(("written", "helps"), [("sqrt(2.0) / i", 1), ("0.5 / i", 1), ("5 / i", 2)])
def test_a_whole_part_is_offered_for_whole_numbers_only(written: str, helps: int) -> None:
    text = messages(f"entry f(x: f64, i: i32) -> f64 {{ return x * ({written}) }}")
    assert text.count("= help: ") == helps


def test_a_number_that_is_the_target_of_a_gradient_wants_a_type() -> None:
    program = "entry f() -> f32 {{\n  let s{} = exp(1.0)\n  return grad(s * s, s)\n}}"
    assert "`let s: f32 = ...`" in messages(program.format(""))
    np.testing.assert_allclose(result(program.format(": f32")), 2 * np.e, rtol=1e-6)


@pytest.mark.parametrize(("by", "helps"), [("2", 2), ("0.5", 1), ("sqrt(2.0)", 1), ("i", 2)])
def test_a_whole_variable_is_not_divided(by: str, helps: int) -> None:
    text = messages(f"var n: i32 = 6\nentry f(i: i32) {{\n  n /= {by}\n}}")
    assert "error[E0303]" in text
    assert text.count("= help: ") == helps
