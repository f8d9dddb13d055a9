from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dfc.bundle.formulas import formula, name_symbols
from dfc.ir.dims import ZERO, Compound, Dim, Symbol, ceil_divide, dim, maximum, minimum
from dfc_runtime.calls import formulas

B, N = Symbol("B"), Symbol("N")
NAMES = {B: "B", N: "N"}


def combine(function: str, a: Dim, b: Dim) -> Dim:
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: a // (b * b + 1),
        "%": lambda: a % (b * b + 1),
        "ceil_div": lambda: ceil_divide(a, b * b + 1),
        "min": lambda: minimum(a, b),
        "max": lambda: maximum(a, b),
    }[function]()


FUNCTIONS = ("+", "-", "*", "//", "%", "ceil_div", "min", "max")
ATOMS = st.sampled_from([dim(B), dim(N)]) | st.integers(-7, 7).map(dim)
DIMS = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        combine, st.sampled_from(["+", "-", "*", "//", "%", "ceil_div", "min", "max"]), inner, inner
    ),
    max_leaves=6,
)


@given(DIMS, st.integers(0, 50), st.integers(0, 50))
def test_a_formula_has_the_value_of_its_dimension(d: Dim, b: int, n: int) -> None:
    made = formula(d, NAMES)
    assert made.evaluate({"B": b, "N": n}) == d.evaluate({B: b, N: n})
    assert formulas.from_json(made.to_json(), "size") == made


def test_a_formula_reads_like_the_dimension() -> None:
    assert str(formula(2 * dim(B) * dim(N) - 3, NAMES)) == "2 * B * N - 3"
    assert str(formula((dim(B) + 1) // dim(N), NAMES)) == "(B + 1) // N"
    assert str(formula(ZERO, NAMES)) == "0"


def test_nested_memory_plans_need_no_recursion() -> None:
    deep = dim(B)
    for _ in range(5000):
        deep = Dim((((Compound("max", deep, dim(N)),), 1), ((), 1)))
    assert formula(deep, NAMES).evaluate({"B": 2, "N": 1}) == 5002


def test_symbols_that_print_alike_get_different_names() -> None:
    names = name_symbols([Symbol("N", 1), Symbol("N_1"), Symbol("N")])
    assert names[Symbol("N_1")] == "N_1"
    assert len(set(names.values())) == 3
