"""Ratios, verdicts, the table and the chart, from a stored record of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.report.arithmetic import (
    Verdict,
    best_peer,
    compile_verdict,
    family_verdicts,
    geometric_mean,
    memory_verdict,
    ratio_of_pairs,
    share_of_limit,
    verdicts,
)
from bench.report.chart import WIDTH, draw, position
from bench.report.table import duration, render

STORED = Path(__file__).with_name("stored_run.json")
TITLES = {"torch": "PyTorch", "torch_compile": "torch.compile", "jax": "JAX"}


@pytest.fixture
def run() -> dict[str, Any]:
    return json.loads(STORED.read_text(encoding="utf-8"))


def case(run: dict[str, Any], name: str) -> dict[str, Any]:
    return next(record for record in run["cases"] if record["case"] == name)


def test_a_ratio_is_the_median_of_the_ratios_of_pairs() -> None:
    """Not the ratio of the medians, nor their mean."""
    assert ratio_of_pairs([1, 10, 30], [3, 9, 60]) == pytest.approx(2.0)


def test_the_best_peer_has_the_least_ratio(run: dict[str, Any]) -> None:
    assert best_peer(case(run, "softmax")) == ("jax", pytest.approx(1.5))


def test_a_peer_that_computes_something_else_does_not_count(run: dict[str, Any]) -> None:
    record = case(run, "softmax")
    record["systems"]["jax"]["agrees"] = False
    assert best_peer(record) == ("torch_compile", pytest.approx(1.7))


def test_another_checkout_of_dfc_is_no_peer(run: dict[str, Any]) -> None:
    record = case(run, "softmax")
    record["systems"] = {name: x | {"is_checkout": True} for name, x in record["systems"].items()}
    assert best_peer(record) is None


def test_a_share_compares_the_work_of_the_case_with_the_loop_of_the_limit(run: dict[str, Any]) -> None:
    """2 GFLOP a call, a limit of 1 GFLOP in 5 ms, and dfc needs 12.5 ms: 10 ms would have done."""
    assert share_of_limit(case(run, "matmul")) == pytest.approx(0.8)
    assert share_of_limit(case(run, "null")) is None


def test_a_target_is_met_or_missed_by_a_share_of_itself() -> None:
    assert Verdict("ratio", 1.5, 1.5).text == "ratio: met"
    assert Verdict("ratio", 1.5, 1.2).text == "ratio: missed by 20%"
    assert Verdict("compile", 2.0, 3.0, is_least=False).text == "compile: missed by 50%"
    assert Verdict("memory", 2.0, 1.0, is_least=False).text == "memory: met"
    assert Verdict("share", 0.9, None).text == "share: not measured"


def test_compiling_is_held_against_a_tenth_of_torch_compile(run: dict[str, Any]) -> None:
    verdict = compile_verdict(case(run, "softmax"))
    assert verdict is not None
    assert (verdict.target, verdict.is_met) == (pytest.approx(0.5), False)


def test_compiling_is_held_against_seconds_where_the_case_has_some(run: dict[str, Any]) -> None:
    record = case(run, "softmax")
    record["target"]["compile_seconds"] = 5.0
    verdict = compile_verdict(record)
    assert verdict is not None
    assert (verdict.target, verdict.value, verdict.is_met) == (5.0, 0.7, True)


def test_memory_is_held_against_the_peer_that_needs_least(run: dict[str, Any]) -> None:
    verdict = memory_verdict(case(run, "softmax"))
    assert verdict is not None
    assert (verdict.target, verdict.value, verdict.is_met) == (40.0, 35.0, True)
    assert memory_verdict(case(run, "null")) is None


def test_a_case_without_peers_has_not_been_measured(run: dict[str, Any]) -> None:
    assert [verdict.text for verdict in verdicts(case(run, "null"))] == ["ratio: not measured"]


def test_a_family_is_judged_by_its_geometric_mean(run: dict[str, Any]) -> None:
    [(family, verdict)] = family_verdicts(run["cases"], {"products": 1.1})
    assert family == "products"
    assert verdict.value == pytest.approx(math.sqrt(1.44 * 0.9))
    assert geometric_mean([2, 8]) == pytest.approx(4)


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0.5, "500 ns"), (4.567, "4.57 µs"), (45.67, "45.7 µs"), (456.7, "457 µs"), (1234, "1.23 ms"), (2.5e6, "2.50 s")],
)
def test_durations_have_three_digits(microseconds: float, text: str) -> None:
    assert duration(microseconds) == text


def test_the_table_has_a_row_a_case_and_says_who_is_missing(run: dict[str, Any]) -> None:
    text = render(run, TITLES, {"products": 1.1})
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert set(rows) == {"case", "---", "null", "softmax", "matmul", "odd", "flat"}
    assert "instruction set x86-64-v3 (restricted)" in text
    assert "| 1.00 ms | 2.00 ms (2.00) | **1.50 ms (1.50)** |" in text
    assert "80% of 200 GF/s" in text
    assert "ratio: met" in text and "ratio: missed by" in text
    assert "- JAX, null: No module named 'jax'" in text
    assert "- JAX, odd: disagrees: off by 3.0e-01" in text
    assert "~~" in next(line for line in text.splitlines() if line.startswith("| odd"))


def test_the_chart_has_a_bar_a_case_that_has_a_peer(run: dict[str, Any]) -> None:
    root = ElementTree.fromstring(draw(run, TITLES))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"softmax", "matmul", "odd", "flat"} < set(texts)
    assert "null" not in texts
    assert "1.50 of JAX" in texts
    widths = [float(element.attrib["width"]) for element in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths[0] == pytest.approx(position(1.5) - position(1), abs=0.1)


def test_the_axis_of_the_chart_ends_at_its_sides() -> None:
    assert (position(0.01), position(100)) == (0, WIDTH)
    assert position(2) - position(1) == pytest.approx(position(1) - position(0.5))
