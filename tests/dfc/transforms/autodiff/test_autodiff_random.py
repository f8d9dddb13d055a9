"""Gradients of composed graphs against differences, in f64; and laws that gradients obey."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.dtypes import F64
from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.names import name_nodes
from dfc.ops.builder import Builder
from dfc.ops.evaluate import evaluate
from dfc.transforms.autodiff.autodiff import autodiff
from tests.support.agreeing import assert_same, reference, verified
from tests.support.random_graphs import Case, random_case
from tests.support.sweeping import few

STEP = 1e-6


def with_results(graph: Graph, make) -> Graph:
    """The graph with more results: `make(builder, entry)` appends nodes and returns them."""
    entry = graph.entries["e"]
    block = Block(entry.block.parameters, entry.block.nodes)
    extra = make(Builder(block, name="e/added"), entry)
    tokens = [v for v in entry.block.outputs if v.is_token]
    plain = [v for v in entry.block.outputs if not v.is_token]
    block.outputs = (*plain, *extra, *tokens)
    name_nodes(block, entry.block)
    names = (*entry.result_names, *(f"g{i}" for i in range(len(extra))))
    return replace(graph, entries={**graph.entries, "e": replace(entry, block=block, result_names=names)})


def targets_of(entry: Entry) -> list[Value]:
    return [v for v in entry.block.parameters if not v.is_token and v.tensor.dtype == F64]


def with_gradients(case: Case) -> Graph:
    """Gradients of the first result with respect to all feeds of f64."""

    def make(builder: Builder, entry: Entry) -> list[Value]:
        loss = entry.block.outputs[0]
        return list(builder.node("grad", [loss, *targets_of(entry)]).results)

    return with_results(case.graph, make)


def is_finite(case: Case) -> bool:
    """Loops may take a loss out of all bounds, where differences say nothing; few graphs have one."""
    return bool(np.isfinite(reference(case).results[0]))


def differences(case: Case, name: str, direction: np.ndarray) -> float:
    feeds = case.feeds()
    losses = [
        evaluate(case.graph, "e", {**feeds, name: feeds[name] + sign * STEP * direction}, case.state()).results[0]
        for sign in (1, -1)
    ]
    return float((losses[0] - losses[1]) / (2 * STEP))


@pytest.mark.parametrize("block", few(range(12), 3))
def test_gradients_equal_differences(block: int) -> None:
    cases = [(seed, random_case(seed, smooth=True, size=8)) for seed in range(block * 10, block * 10 + 10)]
    finite = [(seed, case) for seed, case in cases if is_finite(case)]
    assert len(finite) >= 8
    for seed, case in finite:
        expanded = verified(autodiff(with_gradients(case)), f"autodiff of seed {seed}")
        assert not any(node.op == "grad" for node in walk.nodes(expanded.entries["e"].block))
        outcome = reference(case, expanded)
        assert_same(reference(case), replace(outcome, results=outcome.results[: len(reference(case).results)]))
        targets = targets_of(case.graph.entries["e"])
        rng = np.random.default_rng(seed)
        for target, gradient in zip(targets, outcome.results[-len(targets) :], strict=True):
            direction = rng.normal(size=gradient.shape)
            expected = differences(case, target.name, direction)
            assert float(np.sum(gradient * direction)) == pytest.approx(expected, rel=1e-5, abs=1e-7), seed


def test_gradients_survive_all_passes() -> None:
    for seed in few(range(60), 7):
        case = random_case(1000 + seed, smooth=True, size=8)
        if not is_finite(case):
            continue
        graph = with_gradients(case)
        plain, after = autodiff(graph), graph
        for phase in pipeline.PHASES:
            after = verified(phase.run(after), f"{phase.name} of seed {seed}")
        assert_same(reference(case, plain), reference(case, after), rtol=1e-8)


def test_gradients_of_gradients_equal_differences() -> None:
    """d/dx of sum(grad * fixed) against differences of grad."""
    for seed in few(range(40), 9):
        case = random_case(2000 + seed, smooth=True, size=5)
        first = with_gradients(case)

        def make(builder: Builder, entry: Entry) -> list[Value]:
            plain = [v for v in entry.block.outputs if not v.is_token]
            gradient = plain[-len(targets_of(entry))]
            total = builder.sum(builder.apply("sin", gradient), range(gradient.tensor.rank))
            return [total, builder.node("grad", [total, targets_of(entry)[0]]).result]

        second = verified(autodiff(with_results(first, make)), f"autodiff of seed {seed}")
        target = targets_of(case.graph.entries["e"])[0]
        feeds, state = case.feeds(), case.state()
        direction = np.random.default_rng(seed).normal(size=feeds[target.name].shape)
        totals = [
            evaluate(second, "e", {**feeds, target.name: feeds[target.name] + s * STEP * direction}, state).results[-2]
            for s in (1, -1)
        ]
        got = float(np.sum(evaluate(second, "e", feeds, state).results[-1] * direction))
        assert got == pytest.approx(float((totals[0] - totals[1]) / (2 * STEP)), rel=1e-4, abs=1e-6), seed


def test_a_scaled_loss_scales_the_gradient() -> None:
    for seed in few(range(40), 8):
        case = random_case(3000 + seed, smooth=True, size=6)

        def make(builder: Builder, entry: Entry) -> list[Value]:
            loss = entry.block.outputs[0]
            triple = builder.apply("mul", loss, builder.constant(3, F64))
            return [builder.node("grad", [v, targets_of(entry)[0]]).result for v in (loss, triple)]

        one, three = reference(case, autodiff(with_results(case.graph, make))).results[-2:]
        np.testing.assert_allclose(three, 3 * one, rtol=1e-9, atol=1e-12)


def test_the_gradient_of_a_sum_is_the_sum_of_gradients() -> None:
    for seed in few(range(40), 8):
        case = random_case(4000 + seed, smooth=True, size=6)

        def make(builder: Builder, entry: Entry) -> list[Value]:
            loss, target = entry.block.outputs[0], targets_of(entry)[0]
            every = range(target.tensor.rank)
            other = builder.sum(builder.apply("square", target), every)
            both = builder.apply("add", loss, other)
            return [builder.node("grad", [v, target]).result for v in (loss, other, both)]

        a, b, both = reference(case, autodiff(with_results(case.graph, make))).results[-3:]
        np.testing.assert_allclose(both, a + b, rtol=1e-9, atol=1e-12)
