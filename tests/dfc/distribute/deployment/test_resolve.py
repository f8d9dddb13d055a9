"""What holds for every state and value of a program, and after its optimisation."""

from __future__ import annotations

from random import Random

import pytest

from dfc.diagnostics.diagnostic import render
from dfc.distribute.deployment.globs import Glob
from dfc.distribute.deployment.model import Colocate
from dfc.distribute.deployment.resolution import Resolution
from dfc.driver import pipeline
from dfc.ir.options import CompileOptions
from dfc.ir.walk import nodes
from tests.support.building import graph_of
from tests.support.deploying import HEAD, diagnosed, resolved, skipgram

JOBS = HEAD + "job ps tasks 4 with cpu = 2\njob worker tasks 8\n"
GOOD = "train/sampled_softmax/good"


def where(resolution: Resolution, name: str) -> str:
    ruling = resolution.constraint_on(name)
    return "" if ruling is None else str(ruling.constraint)


def test_the_most_specific_line_holds() -> None:
    found = resolved(f'{JOBS}place "train/x" on ps task 2\nplace "**" on worker\nplace "train/**" on worker task 1\n')
    assert where(found, "train/x") == "ps task 2"
    assert where(found, "train/loss") == "worker task 1"
    assert where(found, "table") == "worker"
    assert where(found, "neighbours/likeness") == "worker"


def test_what_nobody_mentions_has_no_ruling() -> None:
    found = resolved(f'{JOBS}place "table" on ps\n')
    assert found.constraint_on("output") is None
    assert found.constraint_on("train/x") is None
    assert found.group("table") is None


def test_a_ruling_names_the_lines_behind_it() -> None:
    ruling = resolved(f'{JOBS}place "**" on worker\nplace "train/x" on ps\n').constraint_on("train/x")
    assert ruling is not None
    assert [cause.span.text for cause in ruling.causes] == ['place "train/x" on ps']


def test_equally_specific_lines_hold_together() -> None:
    ruling = resolved(f'{JOBS}place "table" on ps\nplace "table" on any cpu\n').constraint_on("table")
    assert ruling is not None
    assert str(ruling.constraint) == "ps any cpu"
    assert len(ruling.causes) == 2


def test_a_line_about_a_value_holds_for_what_its_statement_computes_on_the_way() -> None:
    found = resolved(f'{JOBS}place "**" on worker\nplace "{GOOD}" on ps\n')
    assert where(found, f"{GOOD}/gather") == "ps"
    assert where(found, "train/sampled_softmax/bad/gather") == "worker"


def test_a_line_may_name_a_step_on_the_way_itself() -> None:
    found = resolved(f'{JOBS}place "{GOOD}" on ps\nplace "{GOOD}/gather" on worker\n')
    assert (where(found, f"{GOOD}/gather"), where(found, f"{GOOD}/mul")) == ("worker", "ps")


def test_all_names_of_a_value_mean_the_same() -> None:
    found = resolved(f'{JOBS}place "train/doutput" on ps\n')
    assert where(found, "train/dx:1") == "ps"


def test_what_is_colocated_follows_over_several_lines() -> None:
    lines = f'place "table" on ps task 1\ncolocate "{GOOD}" with "train/x"\ncolocate "train/x" with "table"\n'
    found = resolved(JOBS + lines)
    assert {where(found, name) for name in ("table", "train/x", GOOD, f"{GOOD}/gather")} == {"ps task 1"}
    group = found.group("table")
    assert group is not None
    assert group is found.group(GOOD)
    assert {line.name for line in group.links} == {"table", "train/x"}
    assert "output" not in group.members


def test_a_follower_leaves_its_less_specific_place() -> None:
    found = resolved(f'{JOBS}place "**" on worker\nshard "output" axis 0 over ps\ncolocate "{GOOD}" with "output"\n')
    assert where(found, "output") == "ps"
    assert where(found, GOOD) == "ps"
    assert found.shards["output"].rule == "modulo"


def test_a_group_without_a_place_may_be_anywhere_together() -> None:
    found = resolved(f'{JOBS}colocate "train/*" with "bias"\n')
    group = found.group("train/loss")
    assert group is not None
    assert group.resolved is None
    assert {"bias", "train/x", "train/loss"} <= set(group.members)
    assert found.constraint_on("train/x") is None


def test_constraints_of_a_group_add_up() -> None:
    found = resolved(f'{JOBS}place "table" on ps\nplace "train/x" on cpu 1\ncolocate "train/x" with "table"\n')
    assert where(found, "table") == "ps cpu 1"
    ruling = found.constraint_on("table")
    assert ruling is not None
    assert [type(cause) for cause in ruling.causes].count(Colocate) == 1


def test_members_of_blocks_are_named_with_points() -> None:
    graph = graph_of(
        """
        dfg 1

        block Dense[I, O]() {
          param kernel: f32[I, O] = 0.5
          param bias: f32[O] = 0
          fn forward[B](x: f32[B, I]) -> f32[B, O] = x @ kernel + bias
        }

        var one = Dense[4, 3]()
        var two = Dense[3, 2]()

        readonly entry f[B](x: f32[B, 4]) -> (y: f32[B, 2]) {
          let hidden = one.forward(x)
          return two.forward(hidden)
        }
        """,
        name="net.dfg",
    )
    head = 'deploy 1 for "net.dfg"\njob ps tasks 2\njob worker tasks 2\n'
    found = resolved(
        f'{head}place "**.kernel" on ps\nplace "two.*" on worker\nplace "two.kernel" on ps task 1\n', graph
    )
    names = ("one.kernel", "one.bias", "two.kernel", "two.bias")
    assert [where(found, name) for name in names] == ["ps", "", "ps task 1", "worker"]
    text = render(diagnosed(f'{head}place "one" on ps\n', graph)[0])
    assert 'write `"one.**"`' in text


def test_replications_and_compressions_are_by_name() -> None:
    lines = 'replicate train over worker with mode = "sync", split = "B"\n'
    lines += 'replicate neighbours over worker with mode = "independent"\ncompress worker to ps with format = "bf16"\n'
    found = resolved(JOBS + lines)
    assert {name: each.mode for name, each in found.replications.items()} == {
        "train": "sync",
        "neighbours": "independent",
    }
    assert found.compressions["worker", "ps"].format == "bf16"


def test_all_mistakes_are_reported_together() -> None:
    lines = 'place "tabel" on ps\nshard "seen" axis 0 over ps\nreplicate tran over ps with mode = "sync", split = "B"\n'
    assert [each.code for each in diagnosed(JOBS + lines)] == ["E0801", "E0807", "E0808"]


def test_one_line_that_nobody_can_satisfy_is_one_message() -> None:
    found = diagnosed(f'{JOBS}place "**" on any gpu\n')
    assert [each.code for each in found] == ["E0802"]


# ------------------------------------------------------- after optimisation --


@pytest.fixture(scope="module")
def optimised() -> list[str]:
    graph = pipeline.optimise(skipgram(), CompileOptions())
    return [node.name for node in nodes(graph.entries["train"].block)]


def test_every_node_of_the_optimised_graph_has_its_ruling(optimised: list[str]) -> None:
    found = resolved(f'{JOBS}place "**" on worker\nplace "{GOOD}" on ps\nplace "train/loss" on ps task 1\n')
    assert len(optimised) > 60
    for name in optimised:
        expected = "worker"
        if name == GOOD or name.startswith(f"{GOOD}/"):
            expected = "ps"
        elif name == "train/loss" or name.startswith("train/loss/"):
            expected = "ps task 1"
        assert where(found, name) == expected, name


def test_nodes_that_passes_make_stay_with_the_node_they_are_made_of(optimised: list[str]) -> None:
    found = resolved(f'{JOBS}colocate "{GOOD}" with "table"\nplace "table" on ps\nplace "train/loss" on worker\n')
    known = {name for thing in found.lines.names.things.values() for name in thing.names}
    made = [name for name in optimised if name not in known]
    backwards = [name for name in made if name.startswith(f"{GOOD}/mul/grad")]
    expanded = [name for name in made if name.startswith("train/loss/cross_entropy_")]
    assert backwards
    assert expanded
    for name in backwards:
        assert found.group(name) is found.group("table")
        assert where(found, name) == "ps"
    for name in expanded:
        assert where(found, name) == "worker"


def test_where_equal_values_are_merged_the_name_that_is_left_counts(optimised: list[str]) -> None:
    good, bad = f"{GOOD}/log_1", "train/sampled_softmax/bad/log_1"
    assert good in optimised
    assert bad not in optimised
    found = resolved(f'{JOBS}place "train/sampled_softmax/bad" on ps\n')
    assert (where(found, good), where(found, bad)) == ("", "ps")


def test_a_glob_holds_also_for_what_passes_make() -> None:
    found = resolved(f'{JOBS}place "train/**" on worker\nplace "**/good/**/mul*" on ps\nplace "**" on ps task 1\n')
    assert where(found, f"{GOOD}/mul/grad") == "ps"
    assert where(found, f"{GOOD}/other/mul_7") == "ps"
    assert where(found, f"{GOOD}/sum/grad") == "worker"
    assert where(found, "elsewhere/grad") == "ps task 1"


# --------------------------------------------------------------- references --


@pytest.mark.parametrize("seed", range(20))
def test_random_lines_hold_where_a_plain_search_says(seed: int) -> None:
    random = Random(seed)
    names = ["table", "output", "bias", "seen", *skipgram().bound]
    globs = random.sample([*names, "**", "*", "train/*", "train/**", "**/likeness", "*/sampled_softmax/**"], 6)
    lines = [f'place "{glob}" on worker task {number}' for number, glob in enumerate(globs)]
    found = diagnosed(JOBS + "\n".join(lines))
    ties = {each.code for each in found}
    assert ties <= {"E0804"}
    if ties:
        return
    resolution = resolved(JOBS + "\n".join(lines))
    for name in names:
        thing = resolution.lines.names.by_name[name]
        best = max(
            (Glob(glob).specificity for glob in globs if any(Glob(glob).matches(each) for each in thing.names)),
            default=None,
        )
        numbers = [n for n, glob in enumerate(globs) if Glob(glob).specificity == best]
        expected = {f"worker task {n}" for n in numbers if any(Glob(globs[n]).matches(each) for each in thing.names)}
        if best is not None:
            assert {where(resolution, name)} == expected


@pytest.mark.parametrize("seed", range(20))
def test_random_groups_are_those_of_a_plain_closure(seed: int) -> None:
    random = Random(seed)
    names = ["table", "output", "bias", "seen", "train/x", "train/noise", "train/dx", "neighbours/direction"]
    pairs = [tuple(random.sample(names, 2)) for _ in range(random.randrange(1, 6))]
    found = resolved(JOBS + "".join(f'colocate "{one}" with "{other}"\n' for one, other in pairs))
    together = {name: {name} for name in names}
    for _ in names:
        for one, other in pairs:
            both = together[one] | together[other]
            for name in both:
                together[name] = both
    for one in names:
        group = found.group(one)
        said = {one} if group is None else {name for name in names if name in group.members}
        assert said == together[one]
