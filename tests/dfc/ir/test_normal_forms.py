"""Sizes in normal form under equations: what is proved inside of products, quotients and extremes, and what is not."""

from __future__ import annotations

import pytest

from dfc.ir.dims import Dim, Symbol, ceil_divide, dim, maximum, minimum
from dfc.ir.facts import NO_FACTS, Facts
from dfc.ir.normal_forms import basis, divided
from tests.gate import sizes

A, B, C, D, K, M, N = (dim(Symbol(name)) for name in "ABCDKMN")


def given(*equations: tuple[Dim, Dim]) -> Facts:
    facts = NO_FACTS
    for left, right in equations:
        facts = facts.assume(left, "==", right)
    return facts


@pytest.mark.parametrize(
    ("facts", "left", "right"),
    [
        (given((N, 2 * M)), N * K, 2 * M * K),
        (given((A * B, C * D)), A * B * K, C * D * K),
        (given((A * B, 2 * D)), A * B * C, 2 * C * D),
        (given((2 * A, 3 * B)), 2 * A * C, 3 * B * C),
        (given((2 * A, 2 * B)), A, B),
        (given((A * B, dim(24))), A * B * K, 24 * K),
        (given((A * B, C), (B * K, D)), C * K, A * D),
        (given((A, B * B), (B, C + 1)), A, C * C + 2 * C + 1),
        (given((M, N // K), (N % K, dim(0))), M * K, N),
        (given((N % K, dim(0)), (M, ceil_divide(N, K))), M * K, N),
        (given((N, K * M)), N // K, M),
    ],
)
def test_an_equation_is_known_inside_of_products(facts: Facts, left: Dim, right: Dim) -> None:
    assert facts.equal(left, right) is True
    assert NO_FACTS.equal(left, right) is None
    assert facts.equal(left, right + 1) is False


POSITIVE = NO_FACTS.assume(K, ">=", 1).assume(M, ">=", 1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (ceil_divide(N + K, K), ceil_divide(N, K) + 1),
        (ceil_divide(N + 4, dim(4)), ceil_divide(N, dim(4)) + 1),
        ((N + 2 * K) // K, N // K + 2),
        ((N + K - 1) // K, ceil_divide(N, K)),
        ((N - 1) // 2 + 1, ceil_divide(N, dim(2))),
        ((N - K + M) // M, (N - K) // M + 1),
        (N - N % K, N // K * K),
        ((N + K) % K, N % K),
        (N // K // M, N // (K * M)),
        (2 * N // 4, N // 2),
        (ceil_divide(ceil_divide(N, dim(2)), dim(2)), ceil_divide(N, dim(4))),
        (M // 2 + ceil_divide(M, dim(2)), M),
        (N + (K - N % K) % K, ceil_divide(N, K) * K),
        ((K - 1) // K, dim(0)),
        (N // (N + 1), dim(0)),
        (maximum(N + 1, M + 1), maximum(N, M) + 1),
        (maximum(2 * N, 2 * M), 2 * maximum(N, M)),
        (minimum(N, M) + maximum(N, M), N + M),
    ],
)
def test_quotients_and_extremes_have_one_form(left: Dim, right: Dim) -> None:
    assert POSITIVE.equal(left, right) is True
    assert POSITIVE.equal(left, right + 1) is False


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (N * K, 2 * M * K),
        (ceil_divide(N + 1, K), ceil_divide(N, K) + 1),
        (N // 2 * 2, N),
        ((N + 1) // 2, N // 2),
        (maximum(N, M), N),
        (N // K // M, N // K),
    ],
)
def test_what_does_not_follow_stays_open(left: Dim, right: Dim) -> None:
    assert POSITIVE.equal(left, right) is None


def test_bounds_choose_an_extreme() -> None:
    facts = NO_FACTS.assume(N, ">=", M)
    assert facts.equal(maximum(N, M), N) is True
    assert facts.equal(minimum(M, N) * K, M * K) is True


def test_bounds_are_compared_under_equations() -> None:
    facts = given((N * M, K)).assume(K, ">=", 5)
    assert facts.holds(N * M, ">", 4) is True
    assert facts.holds(N * M, "<", 5) is False
    assert facts.holds(N, ">", 4) is None


def test_a_quotient_and_its_rest_make_the_dividend() -> None:
    for a, b in [(N + 5, dim(2)), (3 * N * K - M, K + 1), (N * N - 1, N + 1), (-N, dim(3))]:
        quotient, rest = divided(a, b)
        assert quotient * b + rest == a
    assert divided(N * N - 1, N + 1) == (N - 1, dim(0))


def test_equations_that_contradict_each_other_prove_nothing_else() -> None:
    assert basis([dim(1)], NO_FACTS.proved) == ()
    assert given((N, N + 1)).equal(A, B) is None


def test_forms_that_grow_too_large_are_given_up() -> None:
    sums = A + B + C + D + K + M + N + 1
    size = sums * sums * sums // 2
    assert given((A * B, C)).equal(size, size * K) is None


def test_random_sizes_under_random_facts() -> None:
    """The gate's rounds, a few of them; `python -m tests.gate.sizes` makes many."""
    seed = 20
    found = sizes.check(60, seed)
    assert not found.wrong, (seed, found.wrong[:3])
    assert found.decided > found.asked // 2
    assert found.compared > 1000
