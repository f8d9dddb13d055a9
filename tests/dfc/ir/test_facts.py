"""What facts prove, refute and leave open; every proof is compared with brute force over small sizes."""

from __future__ import annotations

from itertools import product

import pytest

from dfc.ir.dims import Symbol, ceil_divide, dim, maximum, minimum
from dfc.ir.facts import NO_FACTS, OPPOSITE, RELATIONS, Facts

B, D, H, K, M, N, T = (dim(Symbol(name)) for name in "BDHKMNT")


def test_a_known_divisor_cancels() -> None:
    facts = NO_FACTS.assume(D % H, "==", 0)
    assert facts.canonical(B * T * H * (D // H)) == B * T * D
    assert facts.canonical(H * (D // H)) == D
    assert facts.canonical(D % H).constant == 0
    assert facts.canonical(ceil_divide(D, H)) == D // H


def test_without_the_fact_nothing_cancels() -> None:
    assert NO_FACTS.canonical(H * (D // H)) != D
    assert NO_FACTS.equal(H * (D // H), D) is None


def test_equal_symbols_share_one_form() -> None:
    facts = NO_FACTS.assume(N, "==", M).assume(M, "==", K)
    assert facts.canonical(N) == facts.canonical(M) == facts.canonical(K)
    assert facts.equal(N * 2 + 1, K + M + 1) is True


def test_a_size_known_to_be_a_number() -> None:
    facts = NO_FACTS.assume(N, "==", 784)
    assert facts.canonical(N - 1).constant == 783
    assert facts.holds(N, "<", 784) is False


def test_a_bound_proves_smaller_bounds_only() -> None:
    facts = NO_FACTS.assume(H, ">=", 2)
    assert facts.holds(H - 2, ">=", 0) is True
    assert facts.holds(H, ">", 1) is True
    assert facts.holds(H, ">=", 3) is None
    assert facts.holds(H, "<", 2) is False


def test_sizes_are_never_negative() -> None:
    assert NO_FACTS.holds(N * M + 3, ">=", 0) is True
    assert NO_FACTS.holds(N, "<", 0) is False
    assert NO_FACTS.holds(N - M, ">=", 0) is None


def test_extremes_and_quotients_bound_themselves() -> None:
    assert NO_FACTS.holds(minimum(N, M), "<=", N) is True
    assert NO_FACTS.holds(maximum(N, M), ">=", M) is True
    assert NO_FACTS.holds(N, ">=", N // 2 * 2) is True


def test_rounding_up_is_rounding_down_from_further() -> None:
    assert NO_FACTS.equal(ceil_divide(N - 1, dim(2)), N // 2) is True
    assert NO_FACTS.equal(ceil_divide(N, dim(2)), N // 2) is None


def test_two_different_numbers_are_refuted() -> None:
    assert NO_FACTS.equal(dim(10), 784) is False
    assert NO_FACTS.equal(N + 1, N) is False
    assert NO_FACTS.equal(N, M) is None


@pytest.mark.parametrize("assumed", [(N, "==", M), (N, ">=", M), (N * 2, "==", M + 1), (N % 3, "==", 0), (N, ">", 2)])
def test_no_proof_contradicts_brute_force(assumed: tuple[object, str, object]) -> None:
    left, relation, right = assumed
    facts: Facts = NO_FACTS.assume(left, relation, right)  # type: ignore[arg-type]
    questions = [N, M, N - M, N + M, N // 3 * 3, N % 3, 2 * N - M, minimum(N, M), ceil_divide(N, dim(3)) * 3]
    allowed = [
        {Symbol("N"): n, Symbol("M"): m}
        for n, m in product(range(9), repeat=2)
        if _compare(dim(left).evaluate({Symbol("N"): n, Symbol("M"): m}), relation, dim(right), n, m)  # type: ignore[arg-type]
    ]
    values = {question: [question.evaluate(sizes) for sizes in allowed] for question in questions}
    for a, b in product(questions, repeat=2):
        for asked in RELATIONS:
            answer = facts.holds(a, asked, b)
            truths = {_holds(one, asked, other) for one, other in zip(values[a], values[b], strict=True)}
            assert answer is None or truths <= {answer}, (a, asked, b, answer)


def test_opposites_are_each_others_opposite() -> None:
    assert all(OPPOSITE[OPPOSITE[relation]] == relation for relation in RELATIONS)


def _compare(value: int, relation: str, right: object, n: int, m: int) -> bool:
    return _holds(value, relation, dim(right).evaluate({Symbol("N"): n, Symbol("M"): m}))  # type: ignore[arg-type]


def _holds(a: int, relation: str, b: int) -> bool:
    return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[relation]
