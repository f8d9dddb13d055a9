"""The sample programs on the device: results and state as on the processor, but for the order of sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dfc
from dfc.driver.api import compile_source
from dfc.ir.options import TargetOptions
from tests.support.distributed_samples import ALL, Sample

LEAST_NEAR = 1e-4
pytestmark = pytest.mark.timeout(900)  # a sample has up to a hundred kernels to compile


def flat(results: list[object]) -> list[np.ndarray]:
    """All arrays and numbers among results, in their order."""
    found: list[np.ndarray] = []
    for each in results:
        found += flat(list(each)) if isinstance(each, tuple | list) else [np.asarray(each)]
    return found


def run(sample: Sample, target: str, architecture: str) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    variants = TargetOptions((architecture,) if target == "cuda" else ())
    options = replace(sample.options, target=target, target_options=variants)
    model = dfc.loads(compile_source(sample.source, options).to_bytes())
    try:
        results = flat(sample.run(model))
        return results, {name: np.asarray(model.state[name]) for name in model.state}
    finally:
        model.close()


def check(found: np.ndarray, expected: np.ndarray, near: float) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.dtype.kind in "fV" and expected.size:
        largest = float(np.abs(expected.astype(np.float64)).max())
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=0, atol=near * largest)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sample", [pytest.param(each, id=name) for name, each in ALL.items()])
def test_a_sample_runs_as_on_the_processor(sample: Sample, architecture: str) -> None:
    results, state = run(sample, "cuda", architecture)
    expected_results, expected_state = run(sample, "cpu", architecture)
    near = max(sample.near, LEAST_NEAR)
    for found, expected in zip(results, expected_results, strict=True):
        check(found, expected, near)
    for name, expected in expected_state.items():
        check(state[name], expected, near)


def test_the_same_call_gives_the_same_bits(architecture: str) -> None:
    first, second = (run(ALL["transformer"], "cuda", architecture) for _ in range(2))
    assert [array.tobytes() for array in first[0]] == [array.tobytes() for array in second[0]]
    assert {n: a.tobytes() for n, a in first[1].items()} == {n: a.tobytes() for n, a in second[1].items()}
