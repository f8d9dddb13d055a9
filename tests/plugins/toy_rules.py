"""Called where the package of the op is installed (`toy_process`): what becomes of `sum_squares`, which has own rules.

Each function raises if something is not so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from unittest import mock

import numpy as np

import dfc
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import NOWHERE, SourceFile
from dfc.distribute.deployment.model import Constraint, TaskSite
from dfc.distribute.place import PlacementConstraints, place
from dfc.distribute.replicate import replicate
from dfc.driver import many_ranks, pipeline
from dfc.driver.api import _built, compile_source
from dfc.elaborate.build import build
from dfc.ir import walk
from dfc.ir.graph import Graph, Node
from dfc.ir.options import CompileOptions
from dfc.ops import registry, table
from dfc.ops.rules.costs import Cost
from dfc.ops.rules.lookup import cost_of
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.quick_code import quick_code
from tests.support.replicating import replicated as in_blocks
from tests.support.replicating import statement

SEED = 5
TRAINING = """dfg 1

param table: f32[10_000, 8] = normal(0, 0.5)
param w: f32[8, 3] = normal(0, 0.5)

entry train[B](ids: i32[B], y: f32[B, 3], rate: f32) -> (loss: f32, size: f32) where B >= 1 {
  let loss = sum_squares(table[ids] @ w - y) / (B as f32)
  let d, e = grad(loss, [table, w])
  let step = rate / maximum(sqrt(sum_squares(d)), 1.0)
  table -= step * d
  w -= step * e
  return loss, sum_squares(table)
}
"""
REPLICATED = """
job worker tasks 3
place "**" on worker
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 6
"""
SHARDED = """
job ps tasks 2
job worker tasks 1
shard "table" axis 0 over ps by modulo
place "**" on worker
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 6
"""


def optimised(text: str) -> Graph:
    return pipeline.optimise(build(SourceFile("toy.dfg", text), {}))


def the_op(graph: Graph) -> list[Node]:
    return [node for entry in graph.entries.values() for node in walk.nodes(entry.block) if node.op == "sum_squares"]


def spread(program: str, places: str) -> dict[str, Graph]:
    """What each role of a job has."""
    built, _ = _built(SourceFile("model.dfg", program), CompileOptions())
    deployment = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{places}')
    parts = many_ranks.distribute(built, pipeline.optimise(built), deployment).parts
    return {role.name: graph for role, graph in parts.graphs.items()}


def trained(module: object) -> list[bytes]:
    """The bits of three steps, and of what they leave."""
    random = np.random.default_rng(SEED)
    found: list[bytes] = []
    for _ in range(3):
        ids = random.integers(0, 10_000, 24).astype(np.int32)
        results = module.train(ids, random.standard_normal((24, 3)).astype(np.float32), 0.1)  # type: ignore[attr-defined]
        found += [np.asarray(results.loss).tobytes(), np.asarray(results.size).tobytes()]
    return [*found, *(np.asarray(module.state[name]).tobytes() for name in ("table", "w"))]  # type: ignore[attr-defined]


def replicated() -> None:
    """In blocks on one, two and three ranks: the same bits. `combine = "mean"` holds, by the rule of degree."""
    graph, _ = in_blocks(TRAINING, "train", blocks=6)
    loops = [node for node in graph.entries["train"].block.nodes if node.op == "for"]
    assert any(inner.op == "sum_squares" for loop in loops for inner in walk.nodes(loop.regions[0]))
    ranks = [on_ranks(n) for n in (1, 2, 3)]
    assert ranks[0] == ranks[1] == ranks[2]


def on_ranks(count: int) -> object:
    """What `trained` gives on so many."""
    return on_cluster(cluster_bundle(TRAINING, REPLICATED), count, trained, jobs={"worker": count})


JUDGED = """dfg 1

param w: f32 = 0

entry train[B](x: f32[B, 3]) -> (size: f32) where B >= 1 {
  let size = sum_squares(x)
  w -= size
  return size
}
"""


def judged() -> None:
    """By its rule of degree a change is known to be a sum over the batch, so that to take it for a mean is refused."""
    graph = optimised(JUDGED)
    replicate(graph, statement("train", 6, combine="sum"))
    try:
        replicate(graph, statement("train", 6, combine="mean"))
    except CompileError:
        return
    raise AssertionError("nobody saw that the change is a sum")


def sharded() -> None:
    """The owners add up what they have; whole rows of the table travel nowhere."""
    owners = spread(TRAINING, SHARDED)["ps"].entries["train"]
    assert [node.op for node in walk.nodes(owners.block)].count("sum_squares") == 1
    whole = on_ranks(1)
    found = on_cluster(cluster_bundle(TRAINING, SHARDED), 3, trained)
    for one, other in zip(whole, found, strict=True):
        np.testing.assert_allclose(np.frombuffer(one, np.float32), np.frombuffer(other, np.float32), rtol=1e-5)


def sparse() -> None:
    """Neither the gradient of the table nor its norm is as large as the table: nothing adds to all of its rows."""
    graph = optimised(TRAINING)
    block = graph.entries["train"].block
    table = graph.resources["table"].type.shape
    large = [n.op for n in walk.nodes(block) for v in n.results if not v.is_token and v.tensor.shape == table]
    assert set(large) == {"read"}, large
    assert len(the_op(graph)) == 2  # the loss, and the size of the table; the norm is made of rows


PLACED = """dfg 1

var a: f32[30_000] = 0
var b: f32[8] = 0

entry f() -> (s: f32, t: f32[8]) {
  let twice = b * 2.0
  return sum_squares(a), sin(twice)
}
"""


def placed() -> None:
    """What comes after it waits for it, or goes to another task: by the cost that it states, or that of its memory."""
    assert _where_the_sine_is() == TaskSite("ps", 0)
    (node,) = the_op(optimised(PLACED))
    assert cost_of(node, lambda size: size.evaluate({})) == Cost(operations=60_000)
    known = registry.record("sum_squares")
    without = replace(known, rules=replace(known.rules, cost=None))
    with mock.patch.dict(table.RECORDS, {"sum_squares": without}):
        assert _where_the_sine_is() == TaskSite("worker", 0)


def _where_the_sine_is() -> TaskSite:
    on_ps = Constraint("ps", 0, None, None, NOWHERE)
    found = place(optimised(PLACED), PlacementConstraints({"ps": 1, "worker": 1}, state={"a": on_ps, "b": on_ps}))
    return next(each.site for each in found.entries["f"] if each.node is not None and each.node.op == "sin")


SCANNED = """dfg 1

readonly entry f(x: f32[3, 5]) -> (y: f32[3, 5]) {
  return running_min(2.0 * x, axis = 0)
}
"""


def scanned() -> None:
    """A running fold under another name is fused by its lowering, and by nothing else that it is."""
    registry.register(replace(registry.record("cummin"), name="running_min"))
    x = np.random.default_rng(SEED).standard_normal((3, 5)).astype(np.float32)
    found = dfc.loads(compile_source(SourceFile("model.dfg", SCANNED), CompileOptions()).to_bytes()).f(x)
    assert np.asarray(found.y).tobytes() == np.minimum.accumulate(2 * x, 0).tobytes()


def fault_of(claim: Callable[[], None]) -> str:
    """Why it is not so; "" if it is."""
    try:
        claim()
    except Exception:
        return traceback.format_exc()
    return ""


CLAIMS = (replicated, judged, sharded, sparse, placed, scanned)


def faults(claims: Iterable[Callable[[], None]]) -> dict[str, str]:
    """What is wrong with each claim."""
    with quick_code():
        return {each.__name__: fault_of(each) for each in claims}
