"""What a task of a job needs: state, constants, working memory and messages, against the limit of the job."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.place import Costs
from dfc.driver import api
from dfc.driver import many_ranks as cluster
from dfc.driver.pipeline import optimise
from dfc.driver.role_memory import needed
from dfc.elaborate.build import build
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.lower import lowering_cache
from dfc.lower.lowering_cache import LoweringCache

TRAINING = """
dfg 1
param w: f32[512, 512] = 0
entry train[B](x: f32[B, 512]) -> (loss: f32) where B >= 1 {
  let loss = mean(square(tanh(x @ w) @ w))
  w -= grad(loss, w)
  return loss
}
"""
STATE = 4 * 512 * 512
SYNC = 'replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4'


def spread(deployment: str, program: str = TRAINING) -> cluster.DistributedProgram:
    built = build(SourceFile("model.dfg", dedent(program)))
    return cluster.distribute(
        built, optimise(built), SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{deployment}\n')
    )


@pytest.mark.parametrize("lines", ["", SYNC])
def test_a_limit_that_holds_the_state_alone_is_refused(lines: str) -> None:
    with pytest.raises(CompileError, match=r"needs at least .* of state, .* for `train` to work in") as caught:
        spread(f'job worker tasks 2 with memory = "1.2 MB"\n{lines}')
    assert [each.code for each in caught.value.diagnostics] == ["E0813"]


@pytest.mark.parametrize("lines", ["", SYNC])
def test_what_the_message_counts_is_enough(lines: str) -> None:
    found = spread(f"job worker tasks 2\n{lines}")
    most = max(
        needed(graph, found.deployment.jobs["worker"], found.replicated, Costs(), LoweringCache()).total
        for graph in found.parts.graphs.values()
    )
    spread(f'job worker tasks 2 with memory = "{most} B"\n{lines}')
    with pytest.raises(CompileError, match=f"{most:,} bytes"):
        spread(f'job worker tasks 2 with memory = "{most - 1} B"\n{lines}')


def test_roles_whose_memory_was_checked_are_not_made_into_kernels_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fused: list[Graph] = []
    fuse = lowering_cache.fuse
    monkeypatch.setattr(lowering_cache, "fuse", lambda graph, forms: fused.append(graph) or fuse(graph, forms=forms))
    deployment = SourceFile("model.deploy", 'deploy 1 for "model.dfg"\njob worker tasks 2 with memory = "1 GB"\n')
    api.stopped(SourceFile("model.dfg", dedent(TRAINING)), CompileOptions(stop_after="buffers"), deployment)
    assert len(fused) == 2


def test_sums_of_several_tasks_need_memory_for_their_messages() -> None:
    several, alone = (spread(f"job worker tasks {tasks}\n{SYNC}") for tasks in (2, 1))
    (graph,), (other,) = several.parts.graphs.values(), alone.parts.graphs.values()
    cache = LoweringCache()
    assert needed(graph, several.deployment.jobs["worker"], several.replicated, Costs(), cache).messages >= 2 * STATE
    assert needed(other, alone.deployment.jobs["worker"], alone.replicated, Costs(), cache).messages == 0


def test_a_table_counts_with_the_rows_that_its_owner_has() -> None:
    program = """
        dfg 1
        var table: f32[1000, 16] = 0
        readonly entry rows(n: i32[4]) -> (r: f32[4, 16]) { return table[n] }
        """
    deployment = 'job ps tasks 4\njob worker tasks 1\nshard "table" axis 0 over ps by modulo\nplace "rows/**" on worker'
    found, _ = api.place(
        SourceFile("model.dfg", dedent(program)),
        CompileOptions(),
        SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{deployment}\n'),
    )
    (owners,) = [load for load in found.loads if load.job == "ps"]
    assert [*owners.tasks.values()] == [4 * 16 * 250] * 4
    assert owners.least == 4 * 16 * 250
