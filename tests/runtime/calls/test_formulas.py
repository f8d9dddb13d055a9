from __future__ import annotations

import pytest

from dfc_runtime.calls import formulas
from dfc_runtime.calls.formulas import Formula


def value(*tokens: int | str, **sizes: int) -> int:
    return formulas.from_json(list(tokens), "size").evaluate(sizes)


def test_functions_round_towards_minus_infinity() -> None:
    assert value(-7, 2, "//") == -4
    assert value(-7, 2, "%") == 1
    assert value(7, 2, "ceil_div") == 4
    assert value("$B", 3, "min", "$N", "max", B=5, N=9) == 9


def test_values_are_unbounded() -> None:
    assert value("$B", "$B", "*", "$B", "*", B=2**63) == 2**189


def test_values_beyond_all_reason_are_refused() -> None:
    tokens = [2**4000, 2**4000, "*"]
    with pytest.raises(OverflowError):
        value(*tokens)


def test_division_by_zero_is_an_arithmetic_error() -> None:
    for function in ("//", "%", "ceil_div"):
        with pytest.raises(ArithmeticError):
            value("$B", 0, function, B=1)


@pytest.mark.parametrize(
    "data",
    [[], [1, 2], ["+"], [1, "+"], [1, 2, "+", "+"], ["B"], ["$"], [1, 2, "**"], [1.5], [True], "B", None, {"a": 1}],
)
def test_what_is_no_formula_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="size is not a"):
        formulas.from_json(data, "size")


def test_text_has_the_brackets_it_needs_and_no_others() -> None:
    assert str(Formula(("$B", 1, "+", 2, "*"))) == "(B + 1) * 2"
    assert str(Formula(("$B", 2, "*", 1, "+"))) == "B * 2 + 1"
    assert str(Formula(("$A", "$B", "$C", "-", "-"))) == "A - (B - C)"
    assert str(Formula(("$A", "$B", "$C", "//", "*"))) == "A * (B // C)"
    assert str(Formula(("$A", "$B", "$C", "%", "*"))) == "A * (B % C)"
    assert str(Formula(("$A", "$B", "*", "$C", "//"))) == "A * B // C"
    assert str(Formula(("$A", "$B", "min", 4, "ceil_div"))) == "ceil_div(min(A, B), 4)"


def test_text_of_a_huge_formula_stays_short() -> None:
    tokens: list[int | str] = ["$B"]
    for _ in range(100_000):
        tokens += [1, "+"]
    assert len(str(Formula(tuple(tokens)))) < 2000
