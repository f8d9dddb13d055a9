"""Conversions that are offered: typed where the message stands, they convert what was meant and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import applied
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.elaborate.statements.inserting import conversion
from tests.support.building import graph_of, run
from tests.support.sweeping import few

AROUND = "dfg 1\n\nreadonly entry f(x: f64, n: i32, a: i32[3], m: bool) -> (y: f64) {{ return {} }}\n"
ALL_F64 = AROUND.replace("i32", "f64").replace("bool", "f64")
VALUES: dict[str, Any] = {
    "x": np.float64(1.5),
    "n": np.int32(2),
    "a": np.array([3, 1, 2], np.int32),
    "m": np.bool_(True),
}
NARROW = ("n", "-n", "(n)", "n ** 2", "a[0]", "abs(n)", "(n + 1)", "sum(a)")
OPERATORS = ("+", "-", "*", "/", "%", "**")
WRITTEN = [
    *(f"x {op} {part}" for op in OPERATORS for part in NARROW),
    *(f"{part} {op} x" for op in OPERATORS for part in NARROW if op != "**" or part not in ("-n", "n ** 2")),
    *("x * n ** 2 - n", "x ** n ** 2", "2 * x ** n * x", "-x ** n", "x ** -n", "x ** a[0] - n"),
    *("x * f64(n) ** 2", "x * -f64(n)", "f64(a)[0] * x", "f64(n + 1) ** x", "x - f64(n)", "x / f64(n) / x"),
    *("x * m", "x ** m", "m * x", "-m * x", "x * -m"),
]


def errors(text: str) -> list[Diagnostic]:
    return [each for each in api.check(SourceFile("model.dfg", text), {}) if each.is_error]


@pytest.mark.parametrize("written", few(WRITTEN, 40))
def test_a_program_with_the_conversions_offered_computes_what_was_meant(written: str) -> None:
    text = AROUND.format(written)
    assert errors(text)
    for _ in range(4):
        left = errors(text)
        if left:
            (fix,) = left[0].fixes
            text = applied(text, fix.edits)
    assert errors(text) == []
    meant = ALL_F64.format(written.replace("f64(", "("))
    wide = {name: value.astype(np.float64) for name, value in VALUES.items()}
    found, expected = (run(graph_of(text), "f", **values).result for text, values in ((text, VALUES), (meant, wide)))
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-12, err_msg=text)


@pytest.mark.parametrize(
    ("before", "behind", "wanted"),
    [
        ("", "", "n as f64"),
        ("exp(", ")", "n as f64"),
        ("x * ", " * x", "n as f64"),
        ("x - ", "", "(n as f64)"),
        ("x ** ", "", "(n as f64)"),
        ("", " ** x", "(n as f64)"),
        ("", "[0]", "(n as f64)"),
        ("", ".shape", "(n as f64)"),
        ("", "..3", "n as f64"),
        ("-", "", "(n as f64)"),
    ],
)
def test_parentheses_stand_where_a_neighbour_binds_more_tightly(before: str, behind: str, wanted: str) -> None:
    file = SourceFile("a.dfg", f"  return {before}n{behind}\n")
    start = len("  return ") + len(before)
    assert conversion(file.span(start, start + 1), "f64") == wanted
