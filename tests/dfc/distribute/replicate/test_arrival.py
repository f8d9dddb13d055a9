"""Sums of gradients set out while the backward pass goes on, and are waited for in the order in which they come."""

from __future__ import annotations

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.replicate.small import MOST_BYTES
from dfc.driver.many_ranks import distribute
from dfc.driver.pipeline import optimise, scheduled
from dfc.kernels.program import HostCall, Launch, walk
from tests.support.building import graph_of

SIZE = 400
PROGRAM = f"""
param a: f32[{SIZE}, {SIZE}] = 0.1
param b: f32[{SIZE}, {SIZE}] = 0.1
param c: f32[{SIZE}, {SIZE}] = 0.1
var steps: i64 = 0

entry train[B](x: f32[B, {SIZE}], rate: f32) -> (loss: f32, norm: f32) {{
  let loss = mean(square(tanh(tanh(x @ a) @ b) @ c))
  let da, db, dc = grad(loss, [a, b, c])
  a -= rate * da
  b -= rate * db
  steps += 1
  c -= rate * dc
  return loss, sum(a) * sum(c)
}}
"""
BESIDE = """deploy 1 for "program.dfg"
job worker tasks 2
job ps tasks 1
replicate train over worker with mode = "sync", split = "B", blocks = 2
"""
GRADIENTS = ("train/da:2", "train/da:1", "train/da:0")
"""Of `c`, `b` and `a`: the backward pass makes them in this order."""
AT_SERVER = "".join(f'place "{name}" on ps\n' for name in "abc")


def steps_of_worker(lines: str) -> list[str]:
    """What a worker does, in its order: `make NAME`, `contribute KEY`, `await KEY`, `send KEY`."""
    built = graph_of(PROGRAM)
    parts = distribute(built, optimise(built), SourceFile("program.deploy", lines)).parts.graphs
    (graph,) = (graph for role, graph in parts.items() if role.name == "worker")
    program = scheduled(graph)
    (entry,) = (each for each in program.entries if each.name == "train")
    found: list[str] = []
    for step in walk(entry.steps):
        if isinstance(step, Launch):
            found += [f"make {name}" for name in step.names]
        elif isinstance(step, HostCall):
            site = program.sites[step.site]
            found.append(f"{site.kind} {site.attributes[0][1]}")
    return found


@pytest.fixture(scope="module")
def at_server() -> list[str]:
    return steps_of_worker(BESIDE + AT_SERVER)


def test_a_gradient_sets_out_before_the_one_of_the_layer_before_is_computed(at_server: list[str]) -> None:
    assert 4 * SIZE**2 * 2 > MOST_BYTES, "small ones are kept until the loop over the blocks is over"
    order = [f"{what} {key}" for key in GRADIENTS for what in ("make", "contribute")]
    assert [each for each in at_server if each in order] == order


def test_updates_leave_for_their_server_in_the_order_in_which_sums_come(at_server: list[str]) -> None:
    talk = [each for each in at_server if each.startswith(("combined train/da", "send "))]
    assert talk[::2] == [f"combined {key}" for key in GRADIENTS]
    assert talk[1::2] == ["send train/mul_2", "send train/mul_1", "send train/mul"]


def test_what_needs_several_sums_comes_behind_the_last_of_them_and_what_needs_none_before() -> None:
    found = steps_of_worker(BESIDE)
    awaited = [found.index(f"combined {key}") for key in GRADIENTS]
    assert awaited == sorted(awaited)
    updated = [found.index(f"make {name}") for name in ("c", "b", "a")]
    assert awaited[0] < updated[0] < awaited[1] < updated[1] < awaited[2] < updated[2]
    assert found.index("make steps") < awaited[0]
    assert updated[2] < max(number for number, each in enumerate(found) if each == "make train/norm")
