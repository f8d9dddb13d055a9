"""What the compiler cannot see of gradients the first call finds out: a wrong word is an error, before anything is
trained."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_runtime.errors import RunError
from dfc_runtime.formats import bundle as bundles
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of
from tests.support.losses import VECTOR, text_of

SEED = 23
LINES = "let h = x @ w\nlet e = square(h - (logsumexp(h) - log(B as f32)) - y)"
"""The logarithm of a sum has no degree, but that of a mean does not grow."""
COUNT = 16


def deployment(combine: str) -> str:
    replicate = f'replicate f over worker with mode = "sync", split = "B", combine = "{combine}", blocks = 4'
    return f"job worker tasks 2\n{replicate}"


DEPLOYMENT = deployment("mean")


def data(lines: str, loss: str, combine: str) -> bytes:
    return cluster_bundle(text_of(VECTOR, lines, loss), deployment(combine))


def feeds() -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(SEED)
    x, y = numbers.normal(size=(COUNT, 5)).astype(np.float32), numbers.normal(size=COUNT).astype(np.float32)
    return {"x": x, "y": y, "i": np.zeros(COUNT, np.int32)}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_the_right_word_trains_and_the_wrong_one_is_an_error(loss: str, ranks: int) -> None:
    wrong = {"mean": "sum", "sum": "mean"}[loss]
    jobs = {"worker": ranks}
    trained = on_cluster(
        data(LINES, f"{loss}(e)", loss), ranks, lambda m: [m.f(**feeds()) for _ in range(2)], jobs=jobs
    )
    assert np.isfinite(trained).all()

    def refused(module: object) -> np.ndarray:
        with pytest.raises(
            RunError, match=f'`combine = "{wrong}"`, but the gradients of `f` are a {loss} over `B`'
        ) as told:
            module.f(**feeds())  # type: ignore[attr-defined]
        assert told.value.code == "E0831"
        assert f'write `combine = "{loss}"` at model.deploy:3' in str(told.value)
        return np.array(module.state["w"])  # type: ignore[attr-defined]

    state = on_cluster(data(LINES, f"{loss}(e)", wrong), ranks, refused, jobs=jobs)
    np.testing.assert_array_equal(state, np.float32([0.3, -0.2, 0.5, 0.1, -0.4]))  # nothing was trained


def test_ranks_that_call_along_get_the_same_error() -> None:
    def call(module: object) -> object:
        return module.f(**feeds())  # type: ignore[attr-defined]

    for outcome in outcomes_of(data(LINES, "mean(e)", "sum"), 2, call, call):
        assert isinstance(outcome, RunError)
        assert "are a mean over `B`" in str(outcome)
    first, second = outcomes_of(data(LINES, "mean(e)", "mean"), 2, call, call)
    assert first == second


def test_gradients_that_are_zero_tell_nothing_and_the_next_call_is_asked() -> None:
    silent = {**feeds(), "x": np.zeros((COUNT, 5), np.float32)}

    def work(module: object) -> None:
        module.f(**silent)  # type: ignore[attr-defined]
        with pytest.raises(RunError, match="are a mean over `B`"):
            module.f(**feeds())  # type: ignore[attr-defined]

    on_cluster(data(LINES, "mean(e)", "sum"), 2, work)


def test_a_batch_that_cannot_be_doubled_is_not_checked_with_a_warning() -> None:
    def work(module: object) -> None:
        with pytest.warns(UserWarning, match="cannot be checked"):
            module.f(**feeds())  # type: ignore[attr-defined]
        module.f(**feeds())  # type: ignore[attr-defined]

    text = text_of(VECTOR, LINES, "mean(e)").replace("where B >= 2", "where B >= 2, B <= 20")
    on_cluster(cluster_bundle(text, DEPLOYMENT), 2, work)


def test_the_first_call_has_the_bits_of_any_other() -> None:
    def state(module: object) -> np.ndarray:
        module.f(**feeds())  # type: ignore[attr-defined]
        return np.array(module.state["w"])  # type: ignore[attr-defined]

    def later(module: object) -> np.ndarray:
        module.f(**feeds())  # type: ignore[attr-defined]
        module.init()  # type: ignore[attr-defined]
        return state(module)

    program = data(LINES, "mean(e)", "mean")
    assert on_cluster(program, 2, state).tobytes() == on_cluster(program, 2, later).tobytes()  # type: ignore[attr-defined]


def checks(text: str) -> list[bool]:
    with bundles.opened(cluster_bundle(text, DEPLOYMENT)) as bundle:
        assert bundle.manifest.cluster is not None
        return [each.check is not None for each in bundle.manifest.cluster.entries if each.name == "f"]


def test_only_what_is_not_seen_and_changes_nothing_is_checked() -> None:
    assert checks(text_of(VECTOR, LINES, "mean(e)")) == [True]
    assert checks(text_of(VECTOR, "let e = square(x @ w - y)", "mean(e)")) == [False]
    noisy = "let a = dice.normal(f32[B, 5])\n" + LINES.replace("x @ w", "(x + a) @ w")
    assert checks(text_of(f"var dice: rng = philox(seed = 1)\n{VECTOR}", noisy, "mean(e)")) == [False]
