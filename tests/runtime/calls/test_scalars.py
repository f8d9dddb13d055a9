from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.scalars import adapt, slot_format
from dfc_runtime.formats.element_types import SIZES


@pytest.mark.parametrize("dtype", [name for name in SIZES if name != "c128"])
@pytest.mark.parametrize("number", [0, 1, 100])
def test_a_slot_holds_the_bytes_of_the_number(dtype: str, number: int) -> None:
    value: object = bool(number) if dtype == "bool" else number
    slot = struct.pack("<" + slot_format(dtype), adapt(value, dtype))
    assert slot == np.array(value, numpy_dtype(dtype)).tobytes().ljust(8, b"\0")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "u8"), (-1, "u8"), (128, "i8"), (2**63, "i64"), (-1, "u64"), (np.int64(2**40), "i32"),
        (0.5, "i32"), (3.0, "i32"), (np.float32(3), "i64"),
        (True, "f32"), (True, "i32"), (np.True_, "i64"), (1, "bool"), (1.0, "bool"),
        (1e39, "f32"), (70000.0, "f16"), (1e39, "bf16"), (3.4e38, "bf16"), (10**400, "f64"), (2**1000, "f32"),
        (1j, "f32"), ("1", "f32"), (None, "f32"), ([1], "f32"), (np.datetime64("2020"), "i64"),
        (np.array([1], "f4"), "f32"), (np.array(1.0), "f32"), (np.str_("1"), "i32"),
    ],
)  # fmt: skip
def test_a_number_that_does_not_fit_is_refused(value: object, dtype: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        adapt(value, dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (255, "u8", 255), (-128, "i8", -128), (2**64 - 1, "u64", 2**64 - 1), (np.uint8(7), "i32", 7),
        (1, "f32", 1.0), (np.float64(0.1), "f32", 0.1), (np.float16(0.5), "f64", 0.5), (np.int8(3), "f32", 3.0),
        (float("inf"), "f32", float("inf")), (True, "bool", True), (np.False_, "bool", False),
        (np.array(2.5, "f4"), "f32", 2.5), (3.4028235e38, "f32", 3.4028235e38),
    ],
)  # fmt: skip
def test_python_and_numpy_numbers_adapt(value: object, dtype: str, expected: object) -> None:
    found = adapt(value, dtype)
    assert found == expected
    assert type(found) is type(expected)


def test_bfloat16_rounds_like_numpy() -> None:
    assert adapt(0.1, "bf16") == np.array(0.1, ml_dtypes.bfloat16).tobytes()
    assert np.isnan(np.frombuffer(adapt(float("nan"), "bf16"), ml_dtypes.bfloat16)[0])
