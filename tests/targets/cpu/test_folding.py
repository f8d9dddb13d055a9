"""What is folded has the bits of what runs. The wide version is `tests/gate/op_samples.py`."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import I32
from dfc.kernels.body import FUNCTIONS
from dfc.lower.legalise.elementary import ELEMENTARY
from dfc.ops import registry
from dfc.ops.attributes import PermutationAttributes, ReduceAttributes, SearchAttributes
from dfc.ops.exactness import APPROXIMATE, ROUNDED, is_exact
from dfc.ops.record import OpRecord, Sample
from tests.gate.op_samples import Case, cases, chunks, differences, first_difference, records
from tests.support.ops import Scratch
from tests.support.sweeping import few


def _some(record: OpRecord) -> list[Case]:
    """Of each op the samples that differ most: single and double precision, and the last edge."""
    every = list(cases(record, 0, np.random.default_rng(0)))
    return [every[number] for number in sorted({0, min(1, len(every) - 1), len(every) - 1})]


CHUNKS = list(chunks([case for record in records() for case in _some(record)]))


@pytest.mark.parametrize("number", few(range(len(CHUNKS)), 3))
def test_folding_changes_no_bit(number: int) -> None:
    assert differences(few(CHUNKS[number], 30)) == []


def test_awkward_operands_are_folded_as_they_run() -> None:
    drawn = [case for name in ("add", "clamp", "sqrt", "exp", "sum") for case in cases(registry.record(name), 1, RNG)]
    assert differences(drawn[:60]) == []


SHARED = (("transpose", PermutationAttributes((1, 0))), ("sum", ReduceAttributes((0, 1))))
RNG = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["max", "min"])
def test_of_zeros_of_both_signs_the_one_that_runs_is_taken(name: str, dtype: type) -> None:
    zeros = np.array([[-0.0 if number >> place & 1 else 0.0 for place in range(4)] for number in range(16)], dtype)
    record = registry.record(name)
    sample = Sample((zeros,), ReduceAttributes((1,)))
    assert differences([Case(record, sample, (zeros,))]) == []


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_vector_that_is_not_sorted_is_searched_alike(right: bool, dtype: type) -> None:
    row = np.array([5, 1, 4, 2, 9, 0, 7], dtype)
    values = np.arange(10).astype(dtype)
    sample = Sample((row, values), SearchAttributes(right, I32))
    assert differences([Case(registry.record("search"), sample, (row, values))]) == []


def test_an_array_is_fed_once_however_many_ops_take_it() -> None:
    """As constants are kept once; a sum that is fused with another op has an order of its own."""
    x = np.array([[0.6572177, 0.16823201, -0.98572093], [1.2712955, -0.62755024, -0.34522927]], np.float32)
    every = [Case(registry.record(name), Sample((x,), a), (x,)) for name, a in SHARED]
    assert differences(every) == []


@pytest.mark.parametrize(
    ("name", "operand", "exact"),
    [
        ("sqrt", np.float32(2), True),
        ("exp", np.float32(2), False),
        ("sigmoid", np.float32(2), False),
        ("asin", np.float32(0.5), False),
        ("sum", np.ones(3, np.float32), False),
        ("sum", np.ones(3, np.int32), True),
        ("max", np.ones(3, np.float32), False),
        ("max", np.ones(3, np.int32), True),
        ("softmax", np.ones(3, np.float32), False),
        ("argsort", np.ones(3, np.float32), True),
        ("cumsum", np.ones(3, np.float64), False),
    ],
)
def test_only_what_is_rounded_alike_everywhere_is_folded(name: str, operand: np.ndarray, exact: bool) -> None:
    record, scratch = registry.record(name), Scratch()
    attributes = next(s.attributes for s in record.samples() if s.kind == "regular" and len(s.operands) == 1)
    if operand.ndim == 1:
        attributes = next(s.attributes for s in record.samples() if s.operands[0].ndim == 1 and s.kind != "invalid")
    node = scratch.builder.node(name, [scratch.feed(np.asarray(operand))], attributes)
    assert is_exact(node) is exact


def test_no_function_that_targets_expand_is_taken_for_exact() -> None:
    assert (FUNCTIONS & {*ELEMENTARY}) - ROUNDED <= APPROXIMATE


def test_differences_are_told_by_their_bits() -> None:
    zero, nan = np.zeros(2, np.float32), np.array([np.nan], np.float32)
    assert first_difference(zero, zero) == ""
    assert first_difference(zero, -zero).startswith("element 0: ran")
    assert first_difference(nan, -nan) == ""
