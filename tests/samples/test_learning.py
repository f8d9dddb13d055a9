"""The samples that learn, compiled and run on small data: they equal NumPy or reach what they should."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime import FeedError, Module
from tests.support.sample_tests import SAMPLES, passing_bundle
from tests.support.sweeping import WHOLE


@cache
def bundle(program: str, **settings: int) -> bytes:
    path = SAMPLES / program
    return dfc.compile(path, settings=settings).to_bytes() if settings else passing_bundle(path)


def loaded(program: str, **settings: int) -> Module:
    return dfc_runtime.loads(bundle(program, **settings), threads=1)


@cache
def digits() -> dict[str, np.ndarray]:
    with np.load(SAMPLES / "data" / "digits.npz") as data:
        return {name: data[name] for name in data.files}


def epochs(model: Module, count: int, **feeds: object) -> None:
    """Trains on the digits in batches of 32."""
    images, labels, rng = digits()["train_images"], digits()["train_labels"], np.random.default_rng(0)
    for _ in range(count):
        order = rng.permutation(len(images))
        for k in range(0, len(images) - 31, 32):
            model.train(images=images[order[k : k + 32]], labels=labels[order[k : k + 32]], **feeds)


def held_out(model: Module) -> float:
    return model.evaluate(images=digits()["test_images"], labels=digits()["test_labels"]).accuracy


def test_the_convnet_reads_the_digits() -> None:
    model = loaded("convnet.dfg")
    count, share = (8, 0.97) if WHOLE else (3, 0.95)
    epochs(model, count, steps=count * 44)
    assert held_out(model) >= share
    assert model.state["adam.count"] == count * 44
    before = {name: value.copy() for name, value in model.state.items()}
    held_out(model)
    for name, value in before.items():
        np.testing.assert_array_equal(model.state[name], value)


def test_sign_sgd_moves_each_weight_by_the_rate_and_learns() -> None:
    model = loaded("sign_sgd.dfg")
    before = model.state["hidden.w"].copy()
    model.train(images=digits()["train_images"][:50], labels=digits()["train_labels"][:50], rate=0.01)
    way = np.abs(model.state["hidden.w"] - before)
    seen = digits()["train_images"][:50].any(0)
    np.testing.assert_allclose(way[way > 0], 0.01, rtol=1e-4)
    assert (way[seen] > 0).mean() > 0.5
    assert not way[~seen].any()
    epochs(model, 4, rate=0.002)
    assert held_out(model) >= 0.93


def test_a_line_is_fitted_as_by_numpy() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(40, 3))
    y = x @ [1.0, -2.0, 0.5] + 3 + rng.normal(size=40) / 10
    wanted = np.linalg.lstsq(np.c_[x, np.ones(40)], y, rcond=None)[0]
    model = loaded("linear_regression.dfg")
    found = model.train(x=x, y=y, steps=400)
    np.testing.assert_allclose([*found.slopes, found.offset], wanted, rtol=1e-9)
    np.testing.assert_allclose(found.loss, ((np.c_[x, np.ones(40)] @ wanted - y) ** 2).mean(), rtol=1e-9)
    model.init()
    found = model.solve_exactly(x=x, y=y)
    np.testing.assert_allclose([*found.slopes, found.offset], wanted, rtol=1e-12)
    tried = model.evaluate(x=x, y=y)
    np.testing.assert_allclose(tried.guesses, np.c_[x, np.ones(40)] @ wanted, rtol=1e-12)
    np.testing.assert_allclose(tried.r2, 1 - ((tried.guesses - y) ** 2).mean() / y.var(), rtol=1e-12)
    with pytest.raises(FeedError, match="N >= 1"):
        model.solve_exactly(x=x[:0], y=y[:0])


def farthest_first(x: np.ndarray, k: int) -> np.ndarray:
    centres = np.repeat(x[:1], k, axis=0)
    for place in range(1, k):
        far = ((x[:, None] - centres) ** 2).sum(-1).min(1)
        centres[place] = x[far.argmax()]
    return centres


def test_k_means_ends_where_numpy_ends() -> None:
    x = digits()["train_images"]
    model = loaded("kmeans.dfg")
    model.spread_out(x=x)
    centres = farthest_first(x, 10)
    np.testing.assert_array_equal(model.state["centres"], centres)
    found = model.fit(x=x, tolerance=0, most=100)
    centres = centres.astype(np.float64)
    for _ in range(found.iterations):
        nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
        before, centres = centres, np.stack([x[nearest == k].astype(np.float64).mean(0) for k in range(10)])
    assert 3 < found.iterations < 100
    np.testing.assert_array_equal(centres, before)
    np.testing.assert_allclose(model.state["centres"], centres, atol=1e-5)
    spread = ((x[:, None] - centres) ** 2).sum(-1).min(1)
    np.testing.assert_allclose(found.spread, spread.mean(), rtol=1e-5)
    cluster, distance = model.assign(x=x)
    assert (cluster == nearest).mean() > 0.999
    np.testing.assert_allclose(distance, np.sqrt(spread), atol=1e-3)


def test_words_that_stand_together_become_alike() -> None:
    """Two groups of words; neighbours always belong to the same group."""
    model = loaded("word_vectors.dfg", WORDS=12, WIDTH=6)
    rng = np.random.default_rng(9)
    losses = []
    for _ in range(300):
        centre = rng.integers(0, 12, 64, np.int32)
        near = (centre // 6 * 6 + rng.integers(0, 6, 64)).astype(np.int32)
        losses.append(model.train(centre=centre, near=near))
    assert np.mean(losses[-20:]) < 0.85 * np.mean(losses[:20])
    likeness = np.stack([model.likeness(word=k).cosine for k in range(12)])
    assert likeness[:6, :6].mean() > likeness[:6, 6:].mean() + 0.5
    np.testing.assert_allclose(np.diag(likeness), 1, rtol=1e-5)
    table = model.state["inner.table"].astype(np.float64)
    lengths = np.linalg.norm(table, axis=1)
    np.testing.assert_allclose(likeness, table @ table.T / np.outer(lengths, lengths), rtol=1e-4, atol=1e-5)


def test_the_valley_is_walked_down() -> None:
    found = loaded("rosenbrock.dfg", SIZE=6).minimise(enough=1e-18, most=200)
    assert found.steps < 100
    np.testing.assert_allclose(found.x, np.ones(6), rtol=1e-8)
    assert loaded("rosenbrock.dfg", SIZE=6).minimise(enough=1e-18, most=3).steps == 3


def test_a_wide_table_memorises_what_a_deep_network_does_not() -> None:
    """Also by a transcription of `evaluate` in NumPy, over all pairs."""
    model = loaded("wide_deep.dfg")
    model.train(steps=6000, rate=1.0)
    shares = model.evaluate()
    person, thing = np.divmod(np.arange(60 * 50), 50)
    exceptions = np.arange(60 * 50) % 11 == 0
    truth = (person % 4 == thing % 4) != exceptions
    weights = {name: value.astype(np.float64) for name, value in model.state.items() if value.dtype == np.float32}
    x = np.concatenate([weights["people"][person], weights["things"][thing]], axis=1)
    hidden = np.maximum(x @ weights["hidden.w"] + weights["hidden.b"], 0)
    deep = (hidden @ weights["output.w"] + weights["output.b"])[:, 0]
    expected = [
        np.mean((deep + weights["wide"] > 0) == truth),
        np.mean((deep > 0) == truth),
        np.mean(((deep > 0) == truth)[exceptions]),
    ]
    np.testing.assert_allclose([shares.both, shares.deep, shares.exceptions], expected, atol=2 / 3000)
    assert shares.both > 0.95
    assert shares.both > shares.deep + 0.015
    assert shares.exceptions < 0.7
