"""A predicted step: over a free network it is computing, and without computing it is the network."""

from __future__ import annotations

from functools import cache

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.simulate import Network, StepPrediction
from dfc.driver import many_ranks, pipeline
from dfc.driver.many_ranks import DistributedProgram
from dfc.driver.scaling import Scenario, predictions
from dfc.elaborate.build import build
from dfc_runtime.errors import FeedError

PROGRAM = """dfg 1

param w: f32[300, 200] = 0.1

entry train[B](x: f32[B, 300], rate: f32) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w -= rate * grad(loss, w)
  return loss
}
"""
DEPLOY = """deploy 1 for "p.dfg"

job worker tasks 2

replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 8
"""
LAYERS = """dfg 1

param a: f32[400, 400] = 0.1
param b: f32[400, 400] = 0.1

entry train[B](x: f32[B, 400], rate: f32) {
  let loss = mean(square(relu(x @ a) @ b))
  a -= rate * grad(loss, a)
  b -= rate * grad(loss, b)
}
"""
FREE = Network(latency=0, message=0, bandwidth=1e30)
WEIGHTS = 4 * 300 * 200


@cache
def distributed(deploy: str = DEPLOY, program: str = PROGRAM) -> DistributedProgram:
    graph = build(SourceFile("p.dfg", program))
    return many_ranks.distribute(graph, pipeline.optimise(graph), SourceFile("p.deploy", deploy))


def predicted(ranks: int, network: Network, deploy: str = DEPLOY, program: str = PROGRAM) -> StepPrediction:
    (one,) = predictions(distributed(deploy, program), [Scenario(ranks, network)])
    return one


def test_over_a_free_network_a_step_is_its_computing() -> None:
    for ranks in (2, 8, 64):
        one = predicted(ranks, FREE)
        assert one.seconds == pytest.approx(one.busy[one.bottleneck[0]])
        name, share = one.bottleneck
        assert name.endswith(", computing") and share == pytest.approx(1.0)


def test_ranks_share_the_blocks_and_have_one_each_when_they_are_more() -> None:
    alone, two, eight, many = (predicted(ranks, FREE) for ranks in (1, 2, 8, 64))
    assert [each.blocks for each in (alone, two, eight, many)] == [8, 8, 8, 64]
    assert 1.6 < alone.computing / two.computing <= 2
    assert 4 < alone.computing / eight.computing <= 8
    assert many.computing == pytest.approx(eight.computing, rel=0.1)


def test_the_slowest_rank_holds_up_all_others() -> None:
    even, uneven = predicted(8, FREE), predicted(8, Network(0, 0, 1e30, imbalance=0.5, seed=1))
    (slowest,) = (busy for name, busy in uneven.busy.items() if name.endswith(", computing"))
    assert uneven.seconds >= slowest > 1.5 * even.seconds
    assert uneven.computing < 0.8 * uneven.seconds


def test_calling_many_ranks_takes_the_processor_of_rank_0() -> None:
    """Each rank is called and answers: two messages, and one more for what is fed; sums go by all ranks alike."""
    few, many = (predicted(ranks, Network(0, 1e-3, 1e30)) for ranks in (100, 200))
    assert many.seconds - few.seconds >= 3 * 100 * 1e-3
    name, share = many.bottleneck
    assert name == "the processor of rank 0 with messages"
    assert share > 0.9


def test_feeds_that_fit_travel_in_the_call() -> None:
    """768 bytes of a block do, 76,800 are a message of their own; there are as many weights."""
    small, large = (PROGRAM.replace("300, 200", f"{n}, {600 // n}").replace("300", str(n)) for n in (3, 300))
    messages = [
        predicted(3, Network(0, 1.0, 1e30), program=program).busy["the processor of rank 0 with messages"]
        for program in (small, large)
    ]
    assert messages[1] - messages[0] == 2


def test_of_several_ranks_each_sum_costs_two_requests_and_a_call_each_end() -> None:
    """The gradient and the loss; the call at rank 0, which goes on when the others are done, and at those."""
    for ranks, sums in ((1, 0), (8, 2)):
        free = predicted(ranks, FREE).seconds
        assert predicted(ranks, Network(0, 0, 1e30, request=1e-3)).seconds - free == pytest.approx(
            2e-3 * sums, rel=0.01
        )
        assert predicted(ranks, Network(0, 0, 1e30, call=1e-3)).seconds - free == pytest.approx(1e-3 * (sums > 0))


def test_the_sum_of_a_gradient_is_hidden_behind_the_computing_of_the_next_one_and_the_update_by_it() -> None:
    """The parts of the second layer travel while the gradient of the first one is computed, and the sums of the first
    one, half of a gradient, while the second layer is updated. If both set out behind the loop, the parts would be
    waited for; if the first layer were updated first, as the program has it, these sums."""
    one_block = DEPLOY.replace("blocks = 8", "blocks = 2")
    computing = predicted(2, FREE, one_block, LAYERS).seconds
    feed, gradient = 4 * 64 * 400, 4 * 400 * 400
    for share in (0.01, 0.05):
        bandwidth = gradient / (share * computing)
        network = Network(latency=0, message=0, bandwidth=bandwidth)
        waits = predicted(2, network, one_block, LAYERS).seconds - computing - feed / bandwidth
        assert abs(waits) < 0.01 * gradient / bandwidth


def test_bytes_are_those_of_feeds_and_gradients() -> None:
    """Each rank sends its part of the gradient to three others, and its sum of a quarter to three; rank 0 feeds."""
    one = predicted(4, FREE)
    gradient = one.sums[0]
    assert (gradient.key, gradient.size, gradient.how) == ("train/grad", WEIGHTS, "in chunks, by all")
    exchanged = 2 * WEIGHTS * 3 / 4
    feed = 2 * 64 * 300 * 4  # two blocks of 64 rows
    assert one.most_received == pytest.approx(exchanged + feed, rel=1e-3)
    assert one.most_sent == pytest.approx(exchanged + 3 * feed, rel=1e-3)


def test_a_file_without_replicated_entries_cannot_be_predicted() -> None:
    with pytest.raises(FeedError, match="replicates no entry"):
        predicted(4, FREE, 'deploy 1 for "p.dfg"\n\njob worker tasks 2\n')


def test_other_jobs_keep_their_ranks() -> None:
    deploy = DEPLOY.replace(
        "job worker tasks 2", 'job ps tasks 2\njob worker tasks 2\n\nplace "**" on worker\nplace "w" on ps task 0'
    )
    assert predicted(5, FREE, deploy).ranks == 5
    with pytest.raises(FeedError, match="ranks=2 is no number of ranks from 3 to 100,000"):
        predicted(2, FREE, deploy)
