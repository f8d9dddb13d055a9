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
