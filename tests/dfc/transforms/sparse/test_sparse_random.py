"""Random programs that update variables by sparse gradients leave the state that dense gradients leave."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ops.attributes import AssignAttributes
from dfc.ops.builder import Builder
from dfc.ops.elementwise import rules as elementwise
from dfc.ops.evaluate import Outcome, evaluate
from dfc.ops.record import OpError
from dfc.ops.rules import row_factors, row_sparsity
from dfc.ops.rules.row_sparsity import Sparse
from dfc.ops.spelling import show
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.sparse import row_regions, sparse
from tests.support.agreeing import verified
from tests.support.building import graph_of
from tests.support.sparse_programs import feeds, program, state
from tests.support.sweeping import few

BATCHES = (5, 1, 40)


@pytest.fixture(autouse=True)
def sort_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables here are small, and the ways of large ones are to be tested."""
    monkeypatch.setattr(row_sparsity, "MANY", 0)
    monkeypatch.setattr(row_sparsity, "FEW", 0)


def dense(graph: Graph, seed: int) -> Outcome:
    """What the program means, with every gradient in full."""
    return evaluate(autodiff(graph), "e", feeds(seed, BATCHES[seed % 3]), state(seed))


def assert_close(name: str, got: np.ndarray, expected: np.ndarray) -> None:
    tolerance = 1e-5 if name == "narrow" else 1e-11
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("block", few(range(15), 1))
def test_the_passes_change_nothing(block: int) -> None:
    for seed in range(block * 7, block * 7 + 7):
        graph = graph_of(program(seed))
        before = dense(graph, seed)
        for phase in pipeline.PHASES:
            graph = verified(phase.run(graph), f"{phase.name} of seed {seed}")
        after = evaluate(graph, "e", feeds(seed, BATCHES[seed % 3]), state(seed))
        for name, expected in before.state.items():
            assert_close(name, after.state[name], expected)
        np.testing.assert_allclose(after.results, before.results, rtol=1e-6)


@pytest.mark.parametrize("seed", few(range(1000, 1012), 2))
def test_compiled_programs_leave_the_same_state(seed: int) -> None:
    text = program(seed)
    expected = dense(graph_of(text), seed)
    module = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=2)
    for name, value in state(seed).items():
        module.state[name] = value
    results = module.e(**feeds(seed, BATCHES[seed % 3]))
    for name, value in expected.state.items():
        assert_close(name, module.state[name], value)
    np.testing.assert_allclose([results.a, results.b], expected.results, rtol=1e-6)


def differs() -> bool:
    """Whether some of the programs find a planted bug: first those that find one of these."""
    for seed in (0, 3, 11, 13, 51, *range(60)):
        graph = graph_of(program(seed))
        before = dense(graph, seed)
        try:
            after = evaluate(until_sparse(graph), "e", feeds(seed, BATCHES[seed % 3]), state(seed))
            for name, expected in before.state.items():
                assert_close(name, after.state[name], expected)
        except (AssertionError, KeyError, OpError):
            return True
    return False


def _same_sign(b: Builder, x: Sparse, y: Sparse, *, negative: bool) -> Sparse | None:
    del b, negative
    return None if y.base is not None else Sparse((*x.terms, *y.terms), x.base)


BUGS: dict[str, tuple[ModuleType, str, object]] = {
    "differences that are sums": (elementwise, "total", _same_sign),
    "squares of rows that are not added up": (row_factors, "combined", lambda b, x, shape: x),
    "dense factors of the first rows": (row_factors, "restricted", lambda b, factor, term: b.scalar_like(1, factor)),
    "negative numbers that are other rows": (row_sparsity, "_from_the_start", lambda b, ids, size: ids),
    "stacked rows in the order of another axis": (row_regions, "_stacked", lambda b, stacks, inside: inside),
    "any read for the present value": (sparse, "_is_present_value", lambda base, resource, token: base is not None),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, replacement = BUGS[bug]
    monkeypatch.setattr(module, name, replacement)
    assert differs()


def test_the_printed_graph_is_a_program_that_does_the_same() -> None:
    for seed in few(range(2000, 2010), 2):
        graph = graph_of(program(seed))
        expected = dense(graph, seed)
        printed = graph_of(show(until_sparse(graph)))
        after = evaluate(printed, "e", feeds(seed, BATCHES[seed % 3]), state(seed))
        for name, value in expected.state.items():
            assert_close(name, after.state[name], value)


def until_sparse(graph: Graph) -> Graph:
    for phase in pipeline.PHASES:
        graph = phase.run(graph)
        if phase.name == "sparse":
            break
    return graph


def test_most_of_these_updates_become_sparse() -> None:
    parts = wholes = 0
    for seed in few(range(40), 8):
        graph = until_sparse(graph_of(program(seed, dense=0)))
        for node in walk.nodes(graph.entries["e"].block):
            if isinstance(node.attributes, AssignAttributes):
                parts += bool(node.attributes.index)
                wholes += not node.attributes.index
    assert parts > 4 * wholes
