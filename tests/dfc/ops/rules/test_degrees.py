"""Degrees that are seen are those of numbers: how far gradients get when the batch is there many times."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.replicate import replicate
from dfc.driver.pipeline import optimise
from dfc.elaborate.build import build
from dfc.ir.dims import Symbol, ceil_divide, dim, floor_divide, maximum, minimum, modulo
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate, initial_state
from dfc.ops.rules.degrees import ANY, FLAT, Degree, Sizes, more, same, times, to_the
from tests.support.losses import LINES, VECTOR, text_of
from tests.support.replicating import statement
from tests.support.sweeping import few

SEED = 3


def program(state: str, lines: str, loss: str) -> Graph:
    return optimise(build(SourceFile("program.dfg", text_of(state, lines, loss)), None))


def power(graph: Graph) -> float:
    """The k for which gradients are n^k times as long when the batch is there n times, from 64 to 128 times."""
    numbers = np.random.default_rng(SEED)
    x, y = numbers.normal(size=(6, 5)).astype(np.float32), numbers.normal(size=6).astype(np.float32)
    i = numbers.integers(0, 7, 6).astype(np.int32)
    state = initial_state(graph)
    lengths: list[float] = []
    for times_ in (64, 128):
        feeds = {"x": np.tile(x, (times_, 1)), "y": np.tile(y, times_), "i": np.tile(i, times_)}
        after = evaluate(graph, graph.entries["f"], feeds, state).state["w"]
        lengths.append(float(np.linalg.norm(after.astype(np.float64) - state["w"])))
    return float(np.log2(lengths[1] / lengths[0]))


def accepts(graph: Graph, combine: str) -> bool:
    try:
        return not replicate(graph, statement("f", 4, combine=combine))[1].remarks
    except CompileError as failure:
        assert [each.code for each in failure.diagnostics] == ["E0831"]
        return False


@pytest.mark.parametrize("loss", ["mean", "sum"])
@pytest.mark.parametrize("name", few(LINES, 5))
def test_the_word_that_stands_is_the_one_that_the_numbers_say(name: str, loss: str) -> None:
    graph = program(*LINES[name], f"{loss}(e)")
    assert power(graph) == pytest.approx(float(loss == "sum"), abs=0.1), f"seed {SEED}"
    assert [word for word in ("mean", "sum") if accepts(graph, word)] == [loss]


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("let e = square((x @ w)[0:3] - 1.0)", "mean"),
        ("let h = x @ w\nlet e = reshape(h, [B, 1]) * reshape(y, [1, B])", "sum"),
    ],
)
def test_what_grows_in_another_way_has_a_word_too(lines: str, word: str) -> None:
    graph = program(VECTOR, lines, "sum(e)")
    assert [each for each in ("mean", "sum") if accepts(graph, each)] == [word]


UNSEEN = {
    "softmax over examples": "let e = square(softmax(x @ w, axis = 0) - y)",
    "running sums": "let e = square(cumsum(x @ w, axis = 0) - y)",
    "length": "let e = reshape(sqrt(sum(square(x @ w - y))), [1])",
}


@pytest.mark.parametrize("name", UNSEEN)
def test_where_nothing_is_seen_neither_word_is_refused(name: str) -> None:
    graph = program(VECTOR, UNSEEN[name], "mean(e)")
    for word in ("mean", "sum"):
        replicate(graph, statement("f", 4, combine=word))


def test_the_algebra() -> None:
    one, rare = Degree(1.0), Degree(-1.0, is_dense=False)
    assert same([FLAT, ANY, FLAT]) == FLAT
    assert same([ANY, ANY]) == ANY
    assert same([FLAT, one]) is None
    assert same([Degree(-1.0), rare]) == rare
    assert times(one, rare) == Degree(0.0, is_dense=False)
    assert times(rare, rare) is None
    assert times(None, ANY) == ANY
    assert to_the(one, -1) == Degree(-1.0)
    assert to_the(rare, 2) is None
    assert to_the(ANY, -1) is None
    assert more(rare, 1.0) == Degree(0.0, is_dense=False)
    assert more(one, None) is None


def test_degrees_of_sizes() -> None:
    b, n, m, k = (dim(Symbol(name)) for name in "BNMK")
    sizes = Sizes({Symbol("B"): 1.0, Symbol("N"): 1.0, Symbol("M"): None})
    assert [sizes.power(each) for each in (b, b - 1, 3 * b * b + b, k, dim(7), b + n)] == [1, 1, 2, 0, 0, 1]
    assert [sizes.power(floor_divide(b, each)) for each in (dim(2), b)] == [1, 0]
    assert [sizes.power(each) for each in (minimum(b, k), maximum(b, k), ceil_divide(b, k))] == [0, 1, 1]
    assert [sizes.power(each) for each in (modulo(b, dim(8)), modulo(b, k))] == [0, 0]
    assert [sizes.power(each) for each in (m, b - n, b * m)] == [None, None, None]
