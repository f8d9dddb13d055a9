"""Functions of kernel text in fewer statements: which are written how, which stay, and that both say the same."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dfc_target_cuda.kernels.prelude.text_functions import functions, parse
from tests.support.cuda_simulator.primitives import primitives
from tests.support.warm_compiler import needs_numba

pytestmark = needs_numba


def source(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"def kernel(a, b, d0, error):\n{lines}"


def written(definition: ast.FunctionDef) -> tuple[ast.FunctionDef, dict[str, Any]]:
    from dfc_target_cuda.code.condense import condensed  # which loads numba: not with all that is collected

    return condensed(definition)


def condensed(body: str) -> str:
    """What the body becomes, without what is looked up first."""
    (definition,) = parse(source(body))
    made, _ = written(definition)
    lines = ast.unparse(made).splitlines()[1:]
    return "\n".join(line.removeprefix("    ") for line in lines)


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("a[0] = f32(a[1] + a[2])", "a[0] = _add_f32(a[1], a[2])"),
        ("a[0] = i64(a[1] >> d0)", "a[0] = _shift_right_i64(a[1], d0)"),
        ("a[0] = f32(0.5)", "a[0] = _f32_0"),
        ("a[0] = f32(d0)", "a[0] = f32(d0)"),
        ("a[0] = i64(d0 // 4)", "a[0] = i64(d0 // 4)"),
        ("x = d0 if d0 > 1 else 7", "x = _choose(d0 > 1, d0, 7)"),
        ("x = d0 > 1 and d0 < 5", "x = _both(d0 > 1, d0 < 5)"),
        ("x = d0\nif d0 > 1:\n    x = a[3]", "x = _load_if(a, 3, d0 > 1, d0)"),
        ("if d0 > 1:\n    a[d0] = 5", "_store_if(a, d0, 5, d0 > 1)"),
        ("x = 1\nif d0 > 5:\n    x = d0", "x_1 = 1\nx = _choose(d0 > 5, d0, x_1)"),
        ("if 0 < 64:\n    x = d0", "x = d0"),
        ("if 64 < 0:\n    x = d0\ny = 2", "y = 2"),
        ("x = d0\ny = x\nx = y", "x_1 = d0\ny = x_1\nx = y"),
    ],
)
def test_what_numba_sees_is_short(body: str, made: str) -> None:
    assert condensed(body) == made


@pytest.mark.parametrize(
    "body",
    [
        "x = a[0] if d0 > 1 else 7",
        "x = d0 > 1 and a[d0] > 5",
        "x = 5\nif a[d0] > 1:\n    x = d0",
        "x = d0\nif d0 > 1:\n    x = a[a[3]]",
        "if d0 > 1:\n    a[d0] = b[3]",
        "x = 1\nif d0 > 5:\n    x = quotient(7, d0)",
        "if d0 > 5:\n    x = d0\na[x] = 7",
        "if d0 > 5:\n    x = 7\nelse:\n    x = 9",
    ],
)
def test_what_may_fail_or_be_seen_is_done_only_where_it_is_asked_for(body: str) -> None:
    assert condensed(body) == body


def test_a_load_under_two_conditions_stays_under_both() -> None:
    made = condensed("x = 7\nif d0 > 9:\n    x = d0\n    if d0 > 1:\n        x = a[5]")
    assert made.count("_load_if(") == 1 and "if d0 > 9:" in made


def test_what_is_named_twice_is_looked_up_once() -> None:
    made = condensed("a[0] = fence(a[1], 7)\na[2] = fence(a[3], 7)")
    assert made.splitlines()[:2] == ["_f0 = fence", "_n1 = 7"] and made.count("fence") == 1


def run(definition: ast.FunctionDef, more: dict[str, Any], sizes: tuple[int, ...], memory: np.ndarray) -> np.ndarray:
    """As Python."""
    names = primitives(1) | more | HELPERS
    other = memory[::-1].copy()
    function: Callable[..., None] = functions([definition], "<a text>", names)["kernel"]
    function(memory, other, *sizes, np.zeros(3, np.int64))
    return np.concatenate([memory, other])


def load_if(memory: np.ndarray, index: int, test: bool, otherwise: Any) -> Any:
    return memory[index] if test else otherwise


def store_if(memory: np.ndarray, index: int, value: Any, test: bool) -> None:
    if test:
        memory[index] = value


HELPERS: dict[str, Any] = {
    "_choose": lambda test, x, y: x if test else y,
    "_both": lambda x, y: x and y,
    "_either": lambda x, y: x or y,
    "_load_if": load_if,
    "_store_if": store_if,
    **{
        f"_{name}_i64": lambda x, y, step=step: np.int64(step(x, y))
        for name, step in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("and", operator.and_))
    },
}


NAMES = ["w", "x", "y", "z"]


def statements(random: np.random.Generator, depth: int, names: list[str]) -> list[str]:
    """Any statements whose names all have a value before, and whose loops end."""
    made: list[str] = []

    def value() -> str:
        kind = random.integers(9)
        x, y = random.choice(names, 2)
        if kind == 0:
            return f"i64({random.integers(-9, 9)})"
        if kind == 1:
            return f"a[({x}) & 7]"
        if kind == 2:
            return f"({x} if {y} > {random.integers(-5, 5)} else {random.choice(names)})"
        sign = random.choice(["+", "-", "*", "&"])
        return f"i64({x} {sign} {y})" if kind < 6 else f"i64({x} & 1023)"

    for _ in range(int(random.integers(2, 7))):
        kind, name = random.integers(10), str(random.choice(NAMES))
        test = f"{random.choice(names)} {random.choice(['<', '>', '=='])} {random.choice([*names, '3'])}"
        if random.integers(3) == 0:
            test = f"{test} {random.choice(['and', 'or'])} {random.choice(names)} != 2"
        if kind < 4 or depth == 0:
            made.append(f"{name} = {value()}")
        elif kind < 5:
            made.append(f"{random.choice(['a', 'b'])}[{name} & 7] = {value()}")
        elif kind < 6:
            made += [f"{name} = {value()}", f"if {test}:", f"    {name} = b[{random.choice(names)} & 7]"]
        elif kind < 9:
            made += [f"if {test}:", *(f"    {line}" for line in statements(random, depth - 1, names))]
            if random.integers(2):
                made += ["else:", *(f"    {line}" for line in statements(random, depth - 1, names))]
        else:
            turn = f"turn{depth}"
            inner = statements(random, depth - 1, [*names, turn])
            made += [f"for {turn} in range({random.integers(4)}):", *(f"    {line}" for line in inner)]
    return made


@pytest.mark.parametrize("seed", range(60))
def test_both_forms_do_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    body = ["w = i64(d0)", "x = a[0]", "y = b[1]", "z = i64(5)", *statements(random, 3, NAMES)]
    body += [f"a[{number}] = {name}" for number, name in enumerate(NAMES)]
    text = source("\n".join(body))
    memory = random.integers(-9, 9, 8)
    (plain,), (definition,) = parse(text), parse(text)
    made, more = written(definition)
    with np.errstate(all="ignore"):
        expected = run(plain, {}, (3,), memory.copy())
        found = run(made, more, (3,), memory.copy())
    np.testing.assert_array_equal(found, expected, err_msg=f"{text}\n{ast.unparse(made)}")
