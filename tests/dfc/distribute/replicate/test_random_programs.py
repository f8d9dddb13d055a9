"""Random programs in blocks: what the undivided program computes, with the same bits for any number of ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dfc.driver.pipeline import check
from dfc.ops.evaluate import evaluate
from tests.support.random_programs import Generator, Program
from tests.support.replicating import call, replicate, same_bits, statement
from tests.support.sweeping import examples

BLOCKS = 4
BOUND = 1e-9
"""Chains of random ops make rounding larger."""


def untrained(program: Program) -> Program:
    """Gradients are no part of these programs, so none are judged."""
    resources = {name: replace(each, trained=False) for name, each in program.graph.resources.items()}
    return replace(program, graph=replace(program.graph, resources=resources))


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**6), nodes=st.sampled_from([8, 16, 32]))
def test_random_programs_agree(seed: int, nodes: int) -> None:
    note(f"Generator({seed}, {nodes}, batches=(0, 4, 8))")
    program = untrained(Generator(seed, nodes, batches=(0, BLOCKS, 2 * BLOCKS)).program())
    (name,) = program.graph.entries
    graph, about = replicate(program.graph, statement(name, BLOCKS))
    check(graph, "replicate")
    expected = evaluate(program.graph, name, program.feeds, program.state)
    sizes = {"B": program.batch}
    one, three = (call(graph, about, program.feeds, program.state, ranks, sizes=sizes) for ranks in (1, 3))
    for key, array in zip(program.graph.entries[name].result_names, expected.results, strict=True):
        np.testing.assert_allclose(one.results[key], array, rtol=BOUND, atol=BOUND, err_msg=key)
        assert same_bits(one.results[key], three.results[key]), key
    for key, array in expected.state.items():
        np.testing.assert_allclose(one.states[0][key], array, rtol=BOUND, atol=BOUND, err_msg=key)
        assert all(same_bits(state[key], one.states[0][key]) for state in three.states), key
