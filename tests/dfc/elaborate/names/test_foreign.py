"""Names that are known elsewhere: what is told about them is true."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dfc.diagnostics.fixes import applied
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import check
from dfc.elaborate.expressions.prelude import COMPOSITE, SPECIAL
from dfc.elaborate.names.foreign import ELSEWHERE_IN_STD, FOREIGN_NAMES, MISSING, RENAMED, known_elsewhere
from dfc.ops import registry
from tests.support.building import codes, graph_of, messages, run
from tests.support.one_test_for_all import one_test_for_all
from tests.support.sweeping import few

PRELUDE = {record.name for record in registry.all_records() if record.in_prelude} | set(COMPOSITE) | set(SPECIAL)
METHODS = {"uniform", "normal", "bernoulli", "categorical", "permutation"}
GENERATOR = np.random.default_rng(19)
DATA = {
    "x": GENERATOR.uniform(0.1, 0.9, (4, 4)).astype(np.float32),
    "a": GENERATOR.uniform(0.5, 2, 4).astype(np.float32),
    "b": GENERATOR.uniform(0.5, 2, 4).astype(np.float32),
    "c": GENERATOR.uniform(0, 1, 4) > 0.5,
    "d": GENERATOR.uniform(0, 1, 4) > 0.5,
}
HEAD = "readonly entry f(x: f32[4, 4], a: f32[4], b: f32[4], c: bool[4], d: bool[4]) -> (y: f64) {\n  return "


@one_test_for_all(few([*FOREIGN_NAMES, *RENAMED, *ELSEWHERE_IN_STD], 90))
def test_a_foreign_name_has_a_remedy(name: str) -> None:
    told = messages(f"entry f(x: f32[3]) -> f32 {{\n  let y = {name}(x)\n  return x[0]\n}}\n")
    assert "error[E0201]" in told
    assert f"= help: {known_elsewhere(name)}" in told


@one_test_for_all(FOREIGN_NAMES)
def test_the_functions_of_a_remedy_exist(name: str) -> None:
    written = re.findall(r"(?<![.\w])(\w+)\(", "".join(re.findall(r"`[^`]*`", FOREIGN_NAMES[name])))
    assert set(written) <= PRELUDE | {"debug", "f", "name"}
    assert set(re.findall(r"dice\.(\w+)", FOREIGN_NAMES[name])) <= METHODS


@one_test_for_all(RENAMED)
def test_a_renamed_function_exists_and_its_foreign_name_does_not(name: str) -> None:
    assert RENAMED[name] in PRELUDE
    assert name not in PRELUDE


@one_test_for_all(ELSEWHERE_IN_STD)
def test_what_std_offers_is_there(name: str) -> None:
    module, own = ELSEWHERE_IN_STD[name]
    assert codes(f"from {module} import {own}\n") == []


def numbers(expression: str) -> float:
    graph = graph_of(f"{HEAD}sum(({expression}) as f64)\n}}\n")
    return float(run(graph, "f", **DATA).result)


UNARY = [
    *("absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "average", "fabs"),
    *("fix", "isfinite", "isinf", "isnan", "rint", "signbit", "std"),
]
BINARY = ["arctan2"]


@pytest.mark.parametrize("name", UNARY)
def test_a_renamed_function_computes_what_numpy_does(name: str) -> None:
    text, x = f"{name}(x)", DATA["x"]
    if name == "arccosh":
        text, x = f"{name}(1 + x)", 1 + x
    fixed = followed(text)
    assert f"{RENAMED[name]}(" in fixed
    np.testing.assert_allclose(numbers(fixed), np.sum(getattr(np, name)(x), dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("name", BINARY)
def test_a_renamed_function_of_two_operands_too(name: str) -> None:
    expected = np.sum(getattr(np, name)(DATA["a"], DATA["b"]), dtype=np.float64)
    np.testing.assert_allclose(numbers(followed(f"{name}(a, b)")), expected, rtol=1e-5)


def followed(expression: str) -> str:
    """The expression after its help has been applied."""
    text = f"{HEAD}sum(({expression}) as f64)\n}}\n"
    message = next(each for each in check(SourceFile("program.dfg", text)) if each.is_error)
    after = applied(text, message.fixes[0].edits)
    return after.removeprefix(f"{HEAD}sum((").removesuffix(") as f64)\n}\n")


A, B, C, D, X = (DATA[name] for name in "abcdx")
EXPRESSIONS = {
    "add": A + B, "subtract": A - B, "multiply": A * B, "divide": A / B, "true_divide": A / B,
    "floor_divide": A // B, "power": A**B, "pow": A**B, "mod": A % B, "remainder": A % B, "negative": -X,
    "reciprocal": 1 / X, "equal": A == B, "greater": A > B, "less": A < B, "greater_equal": A >= B,
    "less_equal": A <= B, "not_equal": A != B, "array_equal": np.array_equal(A, B), "isclose": np.isclose(A, B),
    "allclose": np.allclose(A, B), "fmax": np.fmax(A, B), "fmin": np.fmin(A, B), "cbrt": np.cbrt(X),
    "deg2rad": np.deg2rad(X), "radians": np.radians(X), "rad2deg": np.rad2deg(X), "degrees": np.degrees(X),
    "logit": np.log(X / (1 - X)), "tanhshrink": X - np.tanh(X), "sinc": np.sinc(X), "nan_to_num": X,
    "copysign": np.copysign(A, B), "count_nonzero": np.count_nonzero(X), "nansum": np.nansum(X),
    "vdot": np.vdot(A, B), "inner": np.inner(A, B), "empty_like": np.zeros_like(X), "heaviside": np.heaviside(X, 0.5),
    "flip": np.flip(X, 0), "flipud": np.flipud(X), "fliplr": np.fliplr(X), "column_stack": np.column_stack([A, B]),
    "repeat_interleave": np.repeat(X, 2, 0), "cast": X, "double": X.astype(np.float64),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_stands_in_a_remedy_computes_what_numpy_does(name: str) -> None:
    written = re.search(r"write `([^`]*)`", FOREIGN_NAMES[name])
    assert written is not None
    expected = np.sum(EXPRESSIONS[name], dtype=np.float64)
    np.testing.assert_allclose(numbers(written[1]), expected, rtol=1e-4, atol=1e-5)


def test_the_complement_of_the_error_function() -> None:
    erf = [0.11246292, 0.22270259]  # of 0.1 and 0.2, from tables
    text = f"{HEAD}sum((1 - erf([0.1, 0.2])) as f64)\n}}\n"
    np.testing.assert_allclose(float(run(graph_of(text), "f", **DATA).result), 2 - sum(erf), rtol=1e-5)


@pytest.mark.parametrize(("use", "module"), [("softplus(x)", "std.activations"), ("mse(x, x)", "std.losses")])
def test_a_name_of_the_library_says_where_it_is(use: str, module: str) -> None:
    text = f"entry f(x: f32[3]) -> f32 {{\n  let y = {use}\n  return sum(y)\n}}\n"
    name = use.split("(")[0]
    assert f"= help: write `from {module} import {name}` at the top of the file" in messages(text)
    assert codes(f"from {module} import {name}\n{text}") == []
    fixed = applied(text, check(SourceFile("program.dfg", text))[0].fixes[0].edits)
    assert codes(fixed) == []


@pytest.mark.parametrize("name", ["frobnicate", *MISSING])
def test_what_does_not_exist_is_not_replaced(name: str) -> None:
    assert "write" not in known_elsewhere(name)


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("avg_pool", "max_pool"),
        ("conv_transpose", "change"),
        ("erfc", "`erf`"),
        ("rand", "grad"),
        ("binary_cross_entropy", "`cross_entropy`"),
        ("cond", "conv1d"),
        ("map", "max"),
        ("conv3d", "change"),
        ("long", "log("),
        ("prelu", "change"),
        ("glu", "gelu"),
        ("eig", "change"),
        ("Adagrad", "`grad`"),
    ],
)
def test_another_function_is_never_offered_for_its_spelling(name: str, never: str) -> None:
    told = messages(f"entry f(x: f32[3]) -> f32 {{\n  let y = {name}(x)\n  return x[0]\n}}\n")
    assert never not in told


def test_a_constant_is_not_explained_by_itself() -> None:
    told = messages("const PI = 2 * pi\n")
    assert "change `pi` to `PI`" not in told
    assert "3.141592653589793" in told


def test_a_constant_in_scope_is_offered_for_another_case() -> None:
    told = messages("const PI = 3.14159\n\nfn f(x: f32) -> f32 = pi * x\n")
    assert "= help: change `pi` to `PI`" in told


def test_where_of_numpy_is_select() -> None:
    told = messages("fn f(x: f32[3]) -> f32[3] = where(x > 0, x, 0)\n")
    assert "`where` is a keyword" in told
    assert "= help: to choose element by element, write `select(mask, a, b)`" in told


def test_var_of_numpy_is_variance() -> None:
    assert "= help: for the variance, write `variance(x)`" in messages("fn f(x: f32[3]) -> f32 = var(x)\n")


@pytest.mark.parametrize(("name", "dtype"), [("float", "f32"), ("int", "i64"), ("f64", "f64")])
def test_a_conversion_names_a_type_that_exists(name: str, dtype: str) -> None:
    text = f"fn f(x: i32) -> {dtype} = {name}(x)\n"
    assert f"= help: to convert, write `x as {dtype}`" in messages(text)
    assert codes(applied(text, check(SourceFile("program.dfg", text))[0].fixes[0].edits)) == []


def test_a_class_of_types_is_told_in_words() -> None:
    text = "fn half[T: float](x: T) -> T = x / 2\n\nfn f(x: bool) -> f32 = half(x)\n"
    told = messages(text)
    assert "the argument `x` of `half` must be floating-point numbers, not bool" in told
    assert "must be bool, not bool" not in told
    fixed = applied(text, check(SourceFile("program.dfg", text))[0].fixes[0].edits)
    assert codes(fixed) == []
