"""Gradients through picks, sorts, scatters and loops have the same bits on any number of ranks, and so have sums that
are so large that they travel in chunks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime import loads
from dfc_runtime.distributed.reduce.reduction_plan import CHUNK_BYTES
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.losses import LINES, text_of
from tests.support.replicating import same_bits
from tests.support.sweeping import few

SEED = 17
BLOCKS = 8
COUNTS = tuple(few((1, 3, 2, 4), 2))
State = list[np.ndarray]


DEPLOYMENT = f"""
job worker tasks 4
replicate f over worker with mode = "sync", split = "B", combine = "mean", blocks = {BLOCKS}
"""


def feeds(count: int) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(SEED)
    x, y = numbers.normal(size=(count, 5)).astype(np.float32), numbers.normal(size=count).astype(np.float32)
    return {"x": x, "y": y, "i": numbers.integers(0, 7, count).astype(np.int32)}


def trained(module: object, given: dict[str, np.ndarray]) -> State:
    losses = [np.asarray(module.f(**given)) for _ in range(2)]  # type: ignore[attr-defined]
    return [*losses, np.array(module.state["w"])]  # type: ignore[attr-defined]


@cache
def alone(text: str, count: int) -> State:
    data = compile_source(SourceFile("model.dfg", text), CompileOptions()).to_bytes()
    return trained(loads(data, threads=1), feeds(count))


def agree(text: str, count: int, ranks: tuple[int, ...], near: float) -> None:
    """The same bits on these numbers of ranks, and nearly the numbers of the program as it is."""
    data = cluster_bundle(text, DEPLOYMENT)
    found = {
        tasks: on_cluster(data, tasks, lambda module: trained(module, feeds(count)), jobs={"worker": tasks})
        for tasks in ranks
    }
    first = found[ranks[0]]
    for tasks, other in found.items():
        assert all(same_bits(a, b) for a, b in zip(first, other, strict=True)), f"{tasks} ranks, seed {SEED}"
    for a, b in zip(first, alone(text, count), strict=True):
        np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=f"seed {SEED}")


@pytest.mark.parametrize("name", few(LINES, 6))
def test_gradients_have_the_same_bits_on_any_number_of_ranks(name: str) -> None:
    agree(text_of(*LINES[name], "mean(e)"), 32, COUNTS, 1e-4)


@pytest.mark.parametrize("rows", few([131_077, 60_000], 1))
def test_sums_in_chunks_have_the_same_bits_on_any_number_of_ranks(rows: int) -> None:
    state = f"param w: f32[5, {rows}] = normal(0, 0.5)"
    assert 5 * rows * 4 > CHUNK_BYTES
    lines = "let e = square(mean(tanh(x @ w), axis = 1) - y)"
    agree(text_of(state, lines, "mean(e)"), 16, COUNTS, 1e-4)
