"""Polynomial coefficients of the CPU target's elementary functions.

    python tools/fit_math.py > dfc/kernels/math_coefficients.py

Each table is the polynomial that agrees with a function at the Chebyshev nodes of an interval, which is within a small
factor of the best possible. Everything is computed with 110 decimal digits and rounded once at the end.
"""

import math
import struct
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal, getcontext

getcontext().prec = 110
D = Decimal
TINY = D(10) ** -35

Function = Callable[[Decimal], Decimal]


def cosine(x: Decimal) -> Decimal:
    return taylor(D(1), lambda n: -x * x / (2 * n - 1) / (2 * n))


def sine(x: Decimal) -> Decimal:
    return taylor(x, lambda n: -x * x / (2 * n) / (2 * n + 1))


def arctangent_inverse(n: int, digits: int = 115) -> Decimal:
    """atan(1 / n)."""
    x = D(1) / n
    total, power, k = D(0), x, 0
    while abs(power) > D(10) ** -digits:
        total += (-1) ** k * power / (2 * k + 1)
        power, k = power * x * x, k + 1
    return total


PI = 4 * (4 * arctangent_inverse(5) - arctangent_inverse(239))


def error_function(x: Decimal) -> Decimal:
    total, term, n = D(0), x, 0
    while abs(term) > D(10) ** -115:
        total += term / (2 * n + 1)
        n += 1
        term = -term * x * x / n
    return 2 / PI.sqrt() * total


def taylor(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    total, term, n = D(0), first, 0
    while abs(term) > D(10) ** -115:
        total += term
        n += 1
        term *= ratio(n)
    return total


def chebyshev_fit(function: Function, low: Decimal, high: Decimal, degree: int) -> list[Decimal]:
    """Monomial coefficients, constant term first, of the interpolant at the Chebyshev nodes."""
    count = degree + 1
    nodes: list[Decimal] = []
    for i in range(count):
        node = (low + high) / 2 + (high - low) / 2 * cosine(PI * (2 * i + 1) / (2 * count))
        nodes.append(node if abs(node) > TINY else TINY)
    return monomials(nodes, divided_differences(nodes, [function(x) for x in nodes]))


def divided_differences(nodes: list[Decimal], values: list[Decimal]) -> list[Decimal]:
    table = list(values)
    for level in range(1, len(nodes)):
        for i in range(len(nodes) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (nodes[i] - nodes[i - level])
    return table


def monomials(nodes: list[Decimal], differences: list[Decimal]) -> list[Decimal]:
    """From Newton's form: multiply out from the innermost factor."""
    result = [differences[-1]]
    for node, difference in zip(reversed(nodes[:-1]), reversed(differences[:-1]), strict=True):
        shifted = [D(0), *result]
        for i, value in enumerate(result):
            shifted[i] -= node * value
        shifted[0] += difference
        result = shifted
    return result


def exp_tail(r: Decimal) -> Decimal:
    return (r.exp() - 1 - r) / (r * r)


def log_tail(f: Decimal) -> Decimal:
    return ((1 + f).ln() - f + f * f / 2) / f**3


def log_ratio_tail(z: Decimal) -> Decimal:
    """z = s * s, for log((1 + s) / (1 - s)) = 2 s + s^3 * tail."""
    s = z.sqrt()
    return (((1 + s) / (1 - s)).ln() - 2 * s) / (s * z)


def log_ratio_second_tail(z: Decimal) -> Decimal:
    """The same with the cubic term taken out: 2 s + 2/3 s^3 + s^5 * tail."""
    return (log_ratio_tail(z) - D(2) / 3) / z


def sin_tail(z: Decimal) -> Decimal:
    r = z.sqrt()
    return (sine(r) - r) / (r * z)


def cos_tail(z: Decimal) -> Decimal:
    return (cosine(z.sqrt()) - 1 + z / 2) / (z * z)


def erf_small(z: Decimal) -> Decimal:
    """erf(x) / x - 1 as a function of z = x * x."""
    x = z.sqrt()
    return error_function(x) / x - 1


def erf_log(x: Decimal) -> Decimal:
    """-log(erfc(x))."""
    return -(1 - error_function(x)).ln()


def erf_scaled(t: Decimal) -> Decimal:
    """exp(x^2) erfc(x) with t = (x - 2) / (x + 2)."""
    x = 2 * (1 + t) / (1 - t)
    return (x * x).exp() * (1 - error_function(x))


HALF_LN2 = D(2).ln() / 2 * D("1.0001")
LOG_LOW, LOG_HIGH = D("0.5").sqrt() - 1, D(2).sqrt() - 1
RATIO_SQUARED = (LOG_HIGH / (2 + LOG_HIGH)) ** 2 * D("1.001")
QUARTER_PI_SQUARED = (PI / 4) ** 2 * D("1.001")

TABLES: dict[str, tuple[str, Function, Decimal, Decimal, int]] = {
    "EXP_F32": ("(exp(r) - 1 - r) / r^2, |r| <= ln(2)/2", exp_tail, -HALF_LN2, HALF_LN2, 4),
    "EXP_F64": ("(exp(r) - 1 - r) / r^2, |r| <= ln(2)/2", exp_tail, -HALF_LN2, HALF_LN2, 9),
    "LOG_F32": ("(log(1+f) - f + f^2/2) / f^3, 1+f in [sqrt(1/2), sqrt(2)]", log_tail, LOG_LOW, LOG_HIGH, 8),
    "LOG_F64": ("(2 atanh(s) - 2 s) / s^3 in z = s^2", log_ratio_tail, D(0), RATIO_SQUARED, 6),
    "POW_F64": ("(2 atanh(s) - 2 s - 2/3 s^3) / s^5 in z = s^2", log_ratio_second_tail, D(0), RATIO_SQUARED, 7),
    "SIN_F32": ("(sin(r) - r) / r^3 in z = r^2, |r| <= pi/4", sin_tail, D(0), QUARTER_PI_SQUARED, 3),
    "COS_F32": ("(cos(r) - 1 + r^2/2) / r^4 in z = r^2", cos_tail, D(0), QUARTER_PI_SQUARED, 2),
    "SIN_F64": ("(sin(r) - r) / r^3 in z = r^2, |r| <= pi/4", sin_tail, D(0), QUARTER_PI_SQUARED, 5),
    "COS_F64": ("(cos(r) - 1 + r^2/2) / r^4 in z = r^2", cos_tail, D(0), QUARTER_PI_SQUARED, 5),
    "ERF_SMALL_F32": ("erf(x)/x - 1 in z = x^2, |x| <= 1", erf_small, D(0), D("1.001"), 6),
    "ERF_LARGE_F32": ("-log(erfc(x)), 1 <= x <= 4", erf_log, D("0.99"), D("4.01"), 8),
    "ERF_SMALL_F64": ("erf(x)/x - 1 in z = x^2, |x| <= 1", erf_small, D(0), D("1.001"), 11),
    "ERF_LARGE_F64": ("exp(x^2) erfc(x) in t = (x-2)/(x+2), 1 <= x <= 6", erf_scaled, D(-1) / 3, D("0.5"), 15),
}


def split(value: Decimal, bits: list[int]) -> list[float]:
    """Leading parts of so many bits each (exact), then the rest rounded."""
    parts: list[float] = []
    for count in bits:
        unit = D(2) ** (math.frexp(float(value))[1] - count)
        part = (value / unit).to_integral_value(rounding=ROUND_FLOOR) * unit
        parts.append(float(part))
        value -= part
    return [*parts, float(value)]


def two_over_pi_words(count: int) -> list[int]:
    """The fraction bits of 2/pi, 32 to a word, most significant first."""
    getcontext().prec = 400
    pi = 4 * (4 * arctangent_inverse(5, 400) - arctangent_inverse(239, 400))
    whole = int(2 / pi * D(2) ** (32 * count))
    getcontext().prec = 110
    return [whole >> 32 * (count - 1 - i) & 0xFFFFFFFF for i in range(count)]


def rounded(value: Decimal, single: bool) -> float:
    return float(value) if not single else struct.unpack("<f", struct.pack("<f", float(value)))[0]


def constants() -> list[str]:
    return [
        f"LOG2_E = {float(1 / D(2).ln())!r}  # 1 / log(2)",
        f"TWO_OVER_PI = {float(2 / PI)!r}",
        f"LN2_F32 = {split(D(2).ln(), [12])!r}  # log(2): 12 bits (exact times any exponent), rest",
        f"LN2_F64 = {split(D(2).ln(), [32])!r}  # log(2): 32 bits, rest",
        f"HALF_PI = {split(PI / 2, [31, 31, 31])!r}  # 31 bits each, rest",
        f"LN2_EXACT = {split(D(2).ln(), [53])!r}  # log(2) as a sum of two doubles",
        f"LOG2_E_EXACT = {split(1 / D(2).ln(), [53])!r}",
        f"TWO_THIRDS = {split(D(2) / 3, [53])!r}",
    ]


def main() -> None:
    print('"""Coefficients of the elementary functions, constant term first: written by `tools/fit_math.py`."""\n')
    print("\n".join(constants()))
    for name, (comment, function, low, high, degree) in TABLES.items():
        print(f"\n# {comment}\n{name} = [")
        for value in chebyshev_fit(function, low, high, degree):
            print(f"    {rounded(value, name.endswith('F32'))!r},")
        print("]")
    print("\n# bits of 2 / pi behind the point, 32 to a word\nTWO_OVER_PI_WORDS = [")
    for word in two_over_pi_words(38):
        print(f"    0x{word:08X},")
    print("]")


if __name__ == "__main__":
    main()
