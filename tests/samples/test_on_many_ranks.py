"""Every sample on many ranks: wherever its state lies it gives the bits of the undivided program, and cut into blocks
the same bits for every number of tasks."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import read
from dfc.driver.many_ranks import distribute
from dfc.driver.pipeline import optimise
from dfc.elaborate import build
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.distributed_samples import (
    ALL,
    DIVIDED,
    MISTAKEN,
    NOT_YET,
    PIPELINES,
    SAMPLES,
    SPLIT,
    UNSPLIT,
    Outcome,
    alone,
    on_ranks,
    state_names,
)
from tests.support.sweeping import few

PLACES = ("b task 0", "a", "b task 1")
ON_THREE = [*ALL]
ON_TWO = ["digits", "lstm", "kmeans", "06_newton_and_power", "08_heat_equation", "03_lstm_language_model"]


def apart(name: str) -> str:
    """The state of a sample, dealt to three tasks of two jobs."""
    lines = [f'place "{each}" on {PLACES[number % 3]}' for number, each in enumerate(state_names(name))]
    return "\n".join(["job a tasks 1", "job b tasks 2", *lines, ""])


def server(name: str, *more: str) -> str:
    """All state on one job, all that is computed on another one."""
    lines = [f'place "{each}" on ps' for each in state_names(name)]
    return "\n".join(["job ps tasks 1", "job worker tasks 2", 'place "**" on worker', *lines, *more, ""])


def replicated(name: str, blocks: int) -> list[str]:
    return [
        f'replicate {entry} over worker with mode = "sync", split = "{size}", blocks = {blocks}'
        for entry, size in ALL[name].split.items()
    ]


@pytest.mark.parametrize("name", few(ON_THREE, 2))
def test_state_in_three_tasks_changes_no_bit(name: str) -> None:
    assert on_ranks(name, apart(name), 3).bits() == alone(name).bits()


@pytest.mark.parametrize("name", few(ON_TWO, 1))
def test_a_parameter_server_changes_no_bit(name: str) -> None:
    assert on_ranks(name, server(name), 3).bits() == alone(name).bits()


@pytest.mark.parametrize("name", few(SPLIT, 2))
def test_blocks_give_the_same_bits_on_any_number_of_tasks(name: str) -> None:
    lines = "\n".join(["job worker tasks 2", *replicated(name, 8), ""])
    counts = few((1, 2, 3, 4), 2)
    first, *others = [on_ranks(name, lines, count, jobs={"worker": count}) for count in counts]
    assert [each.bits() for each in others] == [first.bits()] * (len(counts) - 1)
    near(name, first)


def shards(name: str, job: str) -> str:
    rules = ("modulo", "blocks", "hash")
    return "\n".join(f'shard "{each}" axis 0 over {job} by {rules[n % 3]}' for n, each in enumerate(ALL[name].tables))


def near(name: str, found: Outcome) -> None:
    """As near to the numbers of the undivided program as the sample says."""
    whole = alone(name)
    pairs = [*zip(found.results, whole.results, strict=True)]
    pairs += [(found.state[each], value) for each, value in whole.state.items()]
    for got, expected in pairs:
        largest = float(np.max(np.abs(expected), initial=0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=ALL[name].near * max(largest, 0.1))


@pytest.mark.parametrize("name", few(DIVIDED, 1))
def test_tables_in_rows_over_servers_give_the_numbers_of_the_whole(name: str) -> None:
    lines = f'job ps tasks 3\njob worker tasks 1\n{shards(name, "ps")}\nplace "**" on worker\n'
    near(name, on_ranks(name, lines, 4))


@pytest.mark.parametrize(
    "name", few([name for name in reversed(DIVIDED) if name in SPLIT and name != "05_sharded_embedding"], 1)
)
def test_workers_share_out_tables_and_examples(name: str) -> None:
    lines = "\n".join(["job worker tasks 2", shards(name, "worker"), *replicated(name, 4), ""])
    near(name, on_ranks(name, lines, 2))


def test_every_sample_is_here() -> None:
    """Or it is refused; and what has no entry in blocks says why. Those of the zoo run on ranks in the tests
    of `dfc bench cnn`."""
    paths = (path for path in SAMPLES.rglob("*.dfg") if path.stem != "helpers" and path.parent.name != "zoo")
    files = {path.stem: path for path in paths}
    assert files.keys() == {*ALL, *NOT_YET, *PIPELINES, *MISTAKEN}
    assert {*ALL} - {*SPLIT} == {*UNSPLIT}
    for name, reason in {**NOT_YET, **MISTAKEN}.items():
        with pytest.raises(CompileError, match=reason):
            build.build(SourceFile(str(files[name]), files[name].read_text()), {})


@pytest.mark.parametrize("name", few(PIPELINES, 2))
def test_the_pipeline_of_a_sample_is_on_the_first_task_that_runs_it_and_training_elsewhere(name: str) -> None:
    source = read(next(SAMPLES.rglob(f"{name}.dfg")))
    built = build.build(source, {})
    lines = 'job reader tasks 1\njob worker tasks 1\nplace "**" on worker\n'
    lines += "".join(f'place "{each}" on reader\n' for each in built.resources if built.resources[each].queue)
    program = distribute(built, optimise(built), SourceFile("x.deploy", f'deploy 1 for "{name}.dfg"\n{lines}'))
    graphs = {role.name: graph for role, graph in program.parts.graphs.items()}
    assert {each for each in graphs["reader-0"].entries if built.entries[each].is_runner} == {
        each for each, entry in built.entries.items() if entry.is_runner
    }
    assert not any(each.queue or built.entries.get(each.name) for each in graphs["worker-0"].resources.values())
    assert any(each.trained for each in graphs["worker-0"].resources.values())


@pytest.mark.parametrize("name", few(["digits", "word_vectors", "kmeans", "01_mlp_digits"], 1))
def test_blocks_with_state_on_a_server_are_the_blocks_with_a_copy_each(name: str) -> None:
    copies = on_ranks(name, "\n".join(["job worker tasks 2", *replicated(name, 4), ""]), 2)
    for count in (1, 3):
        served = on_ranks(name, server(name, *replicated(name, 4)), count + 1, jobs={"worker": count})
        assert served.bits() == copies.bits()


DROPOUT = """dfg 1

from std.nn import dropout

param w: f32[6, 5] = uniform(-1.0, 1.0)
param v: f32[5] = uniform(-1.0, 1.0)
var dice: rng = philox(seed = 3)

entry train[B](x: f32[B, 6], rate: f32) -> (loss: f32, kept: f32[B, 5]) {
  let kept = dropout(tanh(x @ w), 0.4, dice, training = true)
  let loss = mean(square(kept @ v - 1))
  each p in params(program), g in grad(loss, params(program)) {
    p -= rate * g
  }
  return loss, kept
}
"""


@pytest.mark.parametrize("blocks", few([4, 12], 1))
def test_dropout_drops_what_it_drops_undivided(blocks: int) -> None:
    lines = f'replicate train over worker with mode = "sync", split = "B", blocks = {blocks}\n'
    x = np.random.default_rng(1).normal(size=(24, 6)).astype(np.float32)

    def work(module):
        kept = [module.train(x, 0.1).kept for _ in range(3)]
        return [each.tobytes() for each in kept], np.stack(kept), module.state["w"].tobytes()

    data = cluster_bundle(DROPOUT, f"job worker tasks 2\n{lines}")
    found = [on_cluster(data, count, work, jobs={"worker": count}) for count in few((1, 3, 2, 4), 2)]
    assert {(*bits, w) for bits, _, w in found} == {(*found[0][0], found[0][2])}
    dropped = found[0][1] == 0
    assert 0.2 < dropped.mean() < 0.6
    whole = on_cluster(cluster_bundle(DROPOUT, 'job a tasks 1\njob b tasks 1\nplace "v" on b\n'), 2, work)[1]
    np.testing.assert_array_equal(whole == 0, dropped)
    np.testing.assert_allclose(found[0][1], whole, rtol=1e-4, atol=1e-6)


TASKS = ("a", "b task 0", "b task 1")
SCATTERED = ["digits", "kmeans", "linear_regression", "lstm", "word_vectors", "08_heat_equation", "rosenbrock"]
SEEDS = [3, *range(3), *range(4, 14)]
"""That of a sample with a gradient through a loop in front."""


@pytest.mark.parametrize("seed", few(SEEDS, 2))
def test_values_scattered_over_tasks_change_no_bit(seed: int) -> None:
    """Parts of a program on tasks of their own, inside of loops and of their gradients, too."""
    name = SCATTERED[seed % len(SCATTERED)]
    chance = Random(seed)
    graph = build.build(ALL[name].source, dict(ALL[name].settings))
    values = [each for each in graph.bound if each.partition("/")[0] in graph.entries and "/" in each]
    chosen = [*state_names(name), *chance.sample(values, min(len(values), 8))]
    lines = [f'place "{each}" on {chance.choice(TASKS)}' for each in chosen]
    found = on_ranks(name, "\n".join(["job a tasks 1", "job b tasks 2", *lines, ""]), 3)
    assert found.bits() == alone(name).bits()
