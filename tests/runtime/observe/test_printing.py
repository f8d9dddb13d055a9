"""Formats of `debug.print`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from dfc_runtime.observe.printing import escaped, formatted, placeholders

VALUES = [
    np.array(1.5, np.float32), np.array(0.1, np.float32), np.array(0.1), np.array(-7, np.int8), np.array(True),
    np.array([1.0, 2.5]), np.arange(6).reshape(2, 3), np.zeros((0, 3)), np.array(1.5, ml_dtypes.bfloat16),
    np.arange(3000, dtype=np.float32),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
def test_values_are_written_as_numpy_writes_them(value: np.ndarray) -> None:
    assert formatted("<{}>", [value]) == "<" + str(value) + ">"


def test_values_go_to_their_places_and_braces_stay() -> None:
    values = [np.array(1), np.array(2)]
    assert formatted("{{{}}} {}{{}}", values) == "{1} 2{}"
    assert formatted("none", []) == "none"


def test_a_value_that_looks_like_a_format_is_none() -> None:
    assert formatted("{}", [np.array("{}")]) == "{}"
    assert formatted(escaped("{x} {} {{"), []) == "{x} {} {{"


@pytest.mark.parametrize(("format_", "count"), [("", 0), ("{}", 1), ("{{}}", 0), ("{{{}}}", 1), ("{}{}{{", 2)])
def test_places_are_counted(format_: str, count: int) -> None:
    assert placeholders(format_) == count


@pytest.mark.parametrize("format_", ["{", "}", "{x}", "{0}", "{:d}", "{{}", "{}}"])
def test_a_brace_alone_is_refused(format_: str) -> None:
    with pytest.raises(ValueError, match="a brace in a format"):
        placeholders(format_)
