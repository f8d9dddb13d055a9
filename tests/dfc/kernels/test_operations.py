"""Operations of launches: what is counted by hand for small programs."""

from __future__ import annotations

from dfc.ir.dims import ZERO, Dim
from dfc.ir.dtypes import F32
from dfc.kernels.operations import function_operations, launch_operations
from dfc.kernels.program import Launch, walk
from dfc.lower.legalise.meaning import meaning
from tests.support.simulated_programs import program_of


def operations(text: str) -> Dim:
    """Of all launches of the first entry, each once."""
    program = program_of(text)
    launches = (step for step in walk(program.entries[0].steps) if isinstance(step, Launch))
    return sum((launch_operations(program.kernels[each.kernel], each, meaning) for each in launches), ZERO)


def returning(head: str, value: str) -> str:
    return f"readonly entry {head.strip()} {{\n  return {value}\n}}\n"


def test_each_point_of_a_map_counts() -> None:
    assert str(operations(returning("f[N](x: f32[N], y: f32[N]) -> f32[N] ", "(x + y) * y - x"))) == "3 * N"


def test_signs_comparisons_choices_and_whole_numbers_are_free() -> None:
    text = returning("f[N](x: f32[N], n: i32[N]) -> (a: f32[N], b: i32[N]) ", "select(x > 0.0, -x, x), n * n + 1")
    assert operations(text).constant == 0


def test_a_sum_adds_each_value_it_is_given() -> None:
    assert str(operations(returning("f[N](x: f32[N, 10]) -> f32[N] ", "sum(x * x, axis=1)"))) == "20 * N"


def test_a_maximum_adds_nothing() -> None:
    assert operations(returning("f[N](x: f32[N, 10]) -> f32[N] ", "max(x, axis=1)")).constant == 0


def test_a_product_multiplies_and_adds_and_has_an_epilogue() -> None:
    text = returning("f(x: f32[8, 16], w: f32[16, 4], b: f32[4]) -> f32[8, 4] ", "x @ w + b")
    assert operations(text).constant == 8 * 4 * (2 * 16 + 1)


def test_an_elementary_function_counts_as_what_it_is_made_of() -> None:
    exponential = function_operations(meaning("exp", (F32,), F32))
    assert exponential > 10
    assert operations(returning("f(x: f32[7]) -> f32[7] ", "exp(x)")).constant == 7 * exponential
