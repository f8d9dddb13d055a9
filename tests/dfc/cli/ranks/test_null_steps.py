"""Steps that compute next to nothing: what they fetch and update, and the figures that are made of them."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.cli.ranks.null_steps import ROWS, WIDTH, Measured, Sizes, percentiles, steps_measured
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.quick_code import quick_code

SIZES = Sizes(2, 2, 8, 6)


def test_servers_share_what_a_worker_fetches() -> None:
    scalar, dense, sparse, larger = Sizes(3, 2, 12, 6).steps()
    assert (scalar.numbers, scalar.fetched) == (1, [1, 0, 0])
    assert (dense.numbers, dense.fetched) == (12, [4, 4, 4])
    assert (sparse.entry, sparse.numbers, sparse.fetched) == ("sparse", 6 * WIDTH, [2731, 2731, 2730])
    assert (larger.entry, larger.numbers, sum(larger.fetched)) == ("sparse_16", 96 * WIDTH, ROWS * WIDTH)
    ids = sparse.feed(0)
    assert (len(ids), min(ids), max(ids)) == (2 * ROWS, 0, 5)
    assert not np.array_equal(ids, sparse.feed(1))


def test_steps_update_what_lies_in_the_servers() -> None:
    with quick_code():
        data = cluster_bundle(SIZES.program(), SIZES.deployment().partition("\n")[2])

    def work(model):
        times = [steps_measured(model, step, 1, 2) for step in SIZES.steps()]
        names = ("number", "dense1", "sparse_table", "sparse_16_table")
        return [len(each) for each in times], [np.array(model.state[name]) for name in names]

    counts, (number, dense, table, larger) = on_cluster(data, SIZES.ranks, work)
    assert counts == [2] * 4  # of three, each with a gradient of mean(square(x * w))
    assert number == pytest.approx((1 - 2 * 0.1**2) ** 3, rel=1e-6)
    np.testing.assert_allclose(dense, np.full(4, (1 - 2 * 0.1**2 / 4) ** 3), rtol=1e-6)
    for step, found in zip(SIZES.steps()[2:], (table, larger), strict=True):
        expected = np.ones(len(found))
        for ids in map(step.feed, range(3)):  # a row is updated once for each time that it is looked up
            expected -= np.bincount(ids, minlength=len(found)) * expected * 2 / (2 * ROWS * WIDTH)
        np.testing.assert_allclose(found, np.repeat(expected[:, None], WIDTH, axis=1), rtol=1e-5)


def test_figures_are_percentiles_and_the_ratio_of_medians() -> None:
    assert percentiles([float(each) for each in range(11)]) == (1, 5, 9)
    assert Measured(SIZES.steps()[0], [2.0, 4.0, 9.0], [1.0, 2.0, 2.0]).ratio == 2
