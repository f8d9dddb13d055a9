"""Numbers in cells are those that Python reads."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.records.text.cells import numbers_of

NUMBERS = [
    "0", "-0", "+7", "007", "255", "256", "-128", "-129", "65535", "2147483648", "999999999", "1000000000",
    "999999999999999", "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "99999999999999999999", " 12 ", "\t-3", "1.5", ".5", "5.", "-0.0", "0.1", "1e3", "-2.5E-7",
    "123456789.012345", "0.000000000000001", "3.141592653589793238", "1e-400", "1e39", "-1e400", "inf", "-INF", "nan",
]  # fmt: skip
NONE = [
    "",
    " ",
    "-",
    "+",
    ".",
    "1_000",
    "0x10",
    "1e",
    "e5",
    "--1",
    "1.2.3",
    "1 2",
    "1-",
    "nano",
    "\u0663",
    "1,5",
    "12a",
]


def read(texts: list[str], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    pieces = [each.encode() for each in texts]
    sizes = np.array([len(each) for each in pieces])
    ends = np.cumsum(sizes)
    return numbers_of(np.frombuffer(b"".join(pieces), np.uint8), ends - sizes, ends, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_are_rounded_as_python_rounds_them(dtype: str) -> None:
    values, valid = read(NUMBERS, dtype)
    with np.errstate(over="ignore"):
        wanted = np.array([float(each) for each in NUMBERS]).astype(dtype)
    overflows = np.isinf(wanted) & ["inf" not in each.lower() for each in NUMBERS]
    np.testing.assert_array_equal(valid, ~overflows)
    np.testing.assert_array_equal(values[valid], wanted[valid])
    np.testing.assert_array_equal(np.signbit(values[valid]), np.signbit(wanted[valid]))


def test_short_decimals_are_rounded_once() -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(-(10**15) + 1, 10**15, 2000)
    texts = [f"{number / 10 ** int(point):.{int(point)}f}" for number, point in zip(whole, whole % 14, strict=True)]
    values, valid = read(texts, "f8")
    assert valid.all() and values.tolist() == list(map(float, texts))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
def test_whole_numbers_are_those_that_the_type_has(dtype: str) -> None:
    values, valid = read(NUMBERS, dtype)
    for text, value, is_valid in zip(NUMBERS, values.tolist(), valid.tolist(), strict=True):
        is_whole = text.strip().lstrip("+-").isdigit() and len(text.strip().lstrip("+-")) < 20
        bounds = np.iinfo(dtype)
        assert is_valid == (is_whole and bounds.min <= int(text) <= bounds.max), text
        assert not is_valid or value == int(text)


@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_what_is_no_number_is_none(dtype: str) -> None:
    assert not read(NONE, dtype)[1].any()
    assert read([], dtype)[1].tolist() == []
