"""Compares programs made from graphs with the reference evaluator, fused and unfused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dfc.ir.graph import Graph
from dfc.kernels.program import Program
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.buffers.verify import verify_program
from dfc.lower.fuse.fuse import fuse
from dfc.lower.schedule.schedule import schedule
from dfc.lower.verify import verify_fused, verify_scheduled
from dfc.ops.evaluate import evaluate
from dfc.transforms.expand import expand
from tests.support.kernel_interpreter import Ran, run

State = dict[str, Any]


def agree(
    graph: Graph,
    feeds: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    entry: str = "e",
) -> tuple[Program, Ran]:
    """Checks results and state of one call; returns the fused program and its run."""
    arguments = {name: np.asarray(value) for name, value in (feeds or {}).items()}
    before: State = {name: np.array(value) for name, value in (state or {}).items()}
    expected = evaluate(graph, entry, arguments, before)
    order = [arguments[name] for name in graph.entries[entry].parameter_names]
    expanded = expand(graph)
    for fusing in (False, True):
        program = verified(expanded, fusing=fusing)
        after = {name: np.array(value) for name, value in before.items()}
        ran = run(program, entry, order, after, sizes)
        close(ran.results, expected.results)
        for name, value in expected.state.items():
            close([after[name]], [value])
    return program, ran


def verified(graph: Graph, *, fusing: bool) -> Program:
    """The program of a graph, with what must hold behind each stage checked."""
    fused = fuse(graph, fusing=fusing)
    verify_fused(fused)
    steps = schedule(fused)
    verify_scheduled(steps)
    program = assign_buffers(steps, in_place=fusing)
    verify_program(program)
    return program


def close(actual: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if np.asarray(b).dtype.kind in "fV":
            eps = 1e-12 if b.dtype == np.float64 else 2e-5 if b.dtype == np.float32 else 2e-2
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=eps, atol=eps)
        else:
            np.testing.assert_array_equal(a, b)
