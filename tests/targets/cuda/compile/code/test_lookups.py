"""Functions of kernel text whose names and numbers are looked up once."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from dfc_target_cuda.code.lookups import looked_up_once
from dfc_target_cuda.kernels.prelude.text_functions import parse


def shortened(body: str) -> tuple[str, dict[str, object]]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (definition,) = parse(f"def kernel(a, b, d0, error):\n{lines}")
    made, constants = looked_up_once(definition)
    return "\n".join(line.removeprefix("    ") for line in ast.unparse(made).splitlines()[1:]), constants


def test_what_stands_twice_is_looked_up_once() -> None:
    made, _ = shortened("a[0] = fence(a[1], 7)\na[2] = fence(barrier(), 7)")
    assert made == "_f0 = fence\n_n1 = 7\na[0] = _f0(a[1], _n1)\na[2] = _f0(barrier(), _n1)"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f32(0.5)", np.float32(0.5)),
        ("f64(-inf)", np.float64("-inf")),
        ("f32(1e300)", np.float32("inf")),
        ("i8(-1)", np.int8(-1)),
        ("u8(-1)", np.uint8(255)),
        ("u64(18446744073709551615)", np.uint64(2**64 - 1)),
        ("i64(18446744073709551615)", np.int64(-1)),
    ],
)
def test_a_number_of_a_type_is_a_constant(text: str, value: np.generic) -> None:
    made, constants = shortened(f"f(a[0], {text}, {text})")
    ((name, constant),) = constants.items()
    assert made == f"f(a[0], {name}, {name})" and type(constant) is type(value)
    assert np.asarray(constant).tobytes() == value.tobytes()


def test_zeros_of_both_signs_are_different_constants() -> None:
    _, constants = shortened("f(f32(0.0), f32(-0.0), f64(0.0))")
    assert len(constants) == 3


@pytest.mark.parametrize("text", ["f32(a[0])", "f32(2)", "i64(d0)", "f32_exp(0.5)", "boolean(1)", "i32(0.5)"])
def test_other_calls_stay(text: str) -> None:
    made, constants = shortened(f"a[d0] = {text}")
    assert made == f"a[d0] = {text}" and not constants
