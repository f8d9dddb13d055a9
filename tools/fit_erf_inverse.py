"""Polynomial coefficients of the inverse error function.

    python tools/fit_erf_inverse.py > dfc/ops/elementwise/erf_inverse_coefficients.py

erf_inverse(y) = y P(w) with w = -log(1 - y^2). P is fitted as a function of w where that is small, and of its root
beyond, where it is nearly a line. As in `fit_math`: at Chebyshev nodes, with many digits, rounded once at the end.
"""

import math
from decimal import Decimal

from fit_math import PI, D, chebyshev_fit, error_function

PIECES = {
    # name -> (whether of the root, low, high, degree)
    "NEAR_F64": (False, D(0), D("6.25"), 24),
    "FAR_F64": (True, D("2.5"), D(4), 19),
    "FARTHEST_F64": (True, D(4), D("6.1"), 19),
    "NEAR_F32": (False, D(0), D("6.25"), 11),
    "FAR_F32": (True, D("2.5"), D("4.1"), 9),
}


def factor(w: Decimal) -> Decimal:
    """erf_inverse(y) / y."""
    y = (1 - (-w).exp()).sqrt()
    return solved(y) / y


def solved(y: Decimal) -> Decimal:
    """The x with erf(x) = y: bisection in double precision, then Newton's steps."""
    rest, low, high = float(1 - y), 0.0, 7.0
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle) > rest else (low, middle)
    x = D((low + high) / 2)
    for _ in range(5):
        x -= (error_function(x) - y) * PI.sqrt() / 2 * (x * x).exp()
    return x


def main() -> None:
    print('"""Of `erf_inverse`, constant term first, around the middle: written by `tools/fit_erf_inverse.py`."""')
    for name, (of_root, low, high, degree) in PIECES.items():
        middle, half = (low + high) / 2, (high - low) / 2

        def shifted(t: Decimal, middle: Decimal = middle, of_root: bool = of_root) -> Decimal:
            target = middle + t
            return factor(max(target * target if of_root else target, D(10) ** -30))

        coefficients = chebyshev_fit(shifted, -half, half, degree)
        print(f"\n{name} = [  # from {low} to {high}")
        for coefficient in coefficients:
            print(f"    {float(coefficient)!r},")
        print("]")


if __name__ == "__main__":
    main()
