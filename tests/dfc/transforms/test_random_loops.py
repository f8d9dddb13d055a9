"""Random loops: gradients against differences, compiled code against the reference, `recompute` bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc_runtime import loads
from tests.support.building import graph_of, run
from tests.support.random_loops import RandomLoop, random_loop
from tests.support.sweeping import few

STEP = 1e-6


def differences(case: RandomLoop, direction: dict[str, np.ndarray]) -> float:
    graph = graph_of(case.with_setting(""))
    ends = [
        run(graph, "value", **{name: at + s * STEP * direction.get(name, 0) for name, at in case.feeds.items()}).result
        for s in (1, -1)
    ]
    return float(ends[0] - ends[1]) / (2 * STEP)


def compiled(text: str, case: RandomLoop, threads: int) -> list[np.ndarray]:
    module = loads(dfc.compile(text=text).to_bytes(), threads=threads)
    return [np.asarray(v) for v in module.entries["f"](**case.feeds)]


@pytest.mark.parametrize("seed", few(range(30), 2))
def test_gradients_of_random_loops(seed: int) -> None:
    case = random_loop(seed)
    found = run(graph_of(case.with_setting("")), "f", **case.feeds).results
    rng = np.random.default_rng(seed)
    direction = {name: rng.normal(size=np.shape(case.feeds[name])) for name in ("xs", "start", "w", "u", "s")}
    slope = sum(float(np.sum(g * d)) for g, d in zip(found[1:], direction.values(), strict=True))
    assert slope == pytest.approx(differences(case, direction), rel=1e-5, abs=1e-7), f"seed {seed}"
    plain = compiled(case.with_setting(""), case, 1)
    for got, wanted in zip(plain, found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12, err_msg=f"seed {seed}")
    if case.over_sizes:
        again = compiled(case.with_setting(f" with recompute = {rng.integers(1, 20)}"), case, 2)
        for got, wanted in zip(again, plain, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13, err_msg=f"seed {seed}")
        if "level :=" not in case.text:  # else the copy without effects may be fused, and rounded, in another way
            assert [a.tobytes() for a in again] == [p.tobytes() for p in plain], f"seed {seed}"
