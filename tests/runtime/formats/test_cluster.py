"""The cluster section of a manifest: read as it was written, and refused when it speaks of what is not there."""

from __future__ import annotations

import copy

import pytest

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import cluster_reading, cluster_writing, strict_json
from dfc_runtime.formats.cluster import (
    CheckpointPolicy,
    Cluster,
    ClusterEdge,
    ClusterEntry,
    ClusterJob,
    ClusterMemory,
    ClusterRole,
    ClusterState,
    ClusterUpdate,
    FeedPart,
    PartFeed,
    PrecompiledPart,
    ResultPart,
    site,
)
from tests.support.sweeping import WHOLE

CLUSTER = Cluster(
    jobs=(ClusterJob("ps", 2, elastic=False), ClusterJob("worker", 4, elastic=True)),
    roles=(ClusterRole("ps0", "ps", (1,)), ClusterRole("ps", "ps", ()), ClusterRole("worker", "worker", ())),
    edges=(
        ClusterEdge("train/h", "value", "ps:0", ("worker",), "train/h", "model.dfg:3:1"),
        ClusterEdge("train/g", "combination", "worker", ("worker",), "train/g", "model.dfg:4:1"),
        ClusterEdge("step/updates", "updates", "worker", ("ps:0",), "step", "model.dfg:5:1"),
    ),
    entries=(
        ClusterEntry(
            "train",
            ("ps0", "worker"),
            "worker",
            "B",
            8,
            (FeedPart("x", ("worker",), 0), FeedPart("rate", ("ps0", "worker"), -1)),
            (ResultPart("loss", "worker:0", -1), ResultPart("p", "worker", 1, Formula(("$T", 2, "*")))),
            "NB_",
        ),
        ClusterEntry(
            "look",
            ("ps0",),
            "",
            "",
            0,
            (),
            (ResultPart("result", "ps:0", -1), ResultPart("rows", "ps", 0, rule="hash")),
        ),
        ClusterEntry(
            "step",
            ("ps", "worker"),
            "worker",
            "B",
            8,
            (FeedPart("x", ("worker",), 0),),
            (ResultPart("loss", "worker", -1),),
            update=ClusterUpdate("backup", "step_update", "ps:0", ("b",), "mean", -1, 2, ("first", "mean")),
        ),
    ),
    state=(ClusterState("w", "worker"), ClusterState("t", "ps", "modulo", 0), ClusterState("b", "ps:0")),
    compressed=(("ps", "worker"),),
    checkpoint=CheckpointPolicy(600.0, 0, "saved", 5),
    parts=(
        PrecompiledPart((("train/loss",), ("train/p", "train/p:0")), (PartFeed(("x", "train/x"), "x"),)),
        PrecompiledPart((("look/y",),), ()),
    ),
    deployment="model.deploy",
    memory=(
        ClusterMemory("worker", "train", Formula(("$B", 8, "*")), Formula(("$B", 16, "*"))),
        ClusterMemory("ps0", "look", Formula((64,))),
    ),
)
ENTRIES = {
    "train": (["x", "rate"], ["loss", "p"], ["B", "T"]),
    "look": ([], ["result", "rows"], []),
    "step": (["x"], ["loss"], ["B"]),
}
STATE = ["w", "t", "b"]


UPDATE = cluster_writing.to_json(CLUSTER)["entries"][2]["update"]


def read(data):
    return cluster_reading.from_json(data, "cluster", ENTRIES, STATE)


def written():
    return strict_json.parse(strict_json.dump(cluster_writing.to_json(CLUSTER)))


def test_it_is_read_as_it_was_written():
    assert read(written()) == CLUSTER


def test_a_bundle_that_knows_nothing_of_parts_has_none():
    data = written()
    del data["parts"], data["deployment"], data["memory"]
    found = read(data)
    assert (found.parts, found.deployment, found.memory) == ((), "", ())
    assert cluster_writing.to_json(found).keys() == data.keys()


def test_a_site_is_a_job_or_one_of_its_tasks():
    assert site("ps") == ("ps", None)
    assert site("ps:12") == ("ps", 12)
    for text in ("ps:", "ps:x", "ps:-1", "ps:1:2", "ps:²"):
        with pytest.raises(ValueError, match="is no task"):
            site(text)


def changed(path, value):
    data = copy.deepcopy(written())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["jobs"], [], "is empty"),
        (["jobs", 0, "tasks"], 0, "whole number"),
        (["jobs", 0, "tasks"], 2**40, "whole number"),
        (["jobs", 1, "name"], "ps", "twice"),
        (["jobs", 0, "name"], "a:b", "cannot be named"),
        (["jobs", 0, "elastic"], True, "elastic, and"),
        (["roles", 0, "tasks"], [2], "do not fit its tasks"),
        (["roles", 1, "tasks"], [1], "do not fit its tasks"),
        (["roles", 0, "tasks"], [], "do not fit its tasks"),
        (["roles", 0, "job"], "nobody", "unknown job"),
        (["roles", 2, "name"], "ps", "twice"),
        (["edges", 0, "kind"], "carrier pigeon", "unknown kind"),
        (["edges", 0, "source"], "ps", "no task"),
        (["edges", 0, "source"], "ps:2", "no task"),
        (["edges", 0, "destinations"], ["nobody"], "no task"),
        (["edges", 1, "key"], "train/h", "twice"),
        (["entries", 0, "name"], "other", "not those of the manifest"),
        (["entries", 0, "roles"], ["ps0"], "takes no part"),
        (["entries", 0, "roles"], ["nobody"], "takes no part"),
        (["entries", 0, "blocks"], 0, "no blocks"),
        (["entries", 0, "blocks"], -1, "whole number"),
        (["entries", 0, "replicated_over"], "nobody", "takes no part"),
        (["entries", 0, "feeds", 0, "name"], "y", "other feeds"),
        (["entries", 0, "feeds", 0, "split_axis"], -2, "whole number"),
        (["entries", 0, "results", 0, "name"], "y", "other results"),
        (["entries", 0, "results", 0, "source"], "worker", "no task"),
        (["entries", 0, "results", 1, "source"], "ps", "in pieces"),
        (["entries", 1, "results", 0, "source"], "worker:0", "takes no part"),
        (["entries", 1, "results", 1, "source"], "ps:0", "from one task"),
        (["entries", 1, "results", 1, "source"], "worker", "takes no part"),
        (["entries", 1, "results", 1, "rule"], "by mood", "unknown rule"),
        (["entries", 1, "results", 1, "rule"], "", "in pieces"),
        (["entries", 1, "results", 1, "split_axis"], -1, "no axis"),
        (["state", 0, "name"], "v", "not that of the manifest"),
        (["state", 0, "site"], "nobody", "no task"),
        (["state", 1, "rule"], "by mood", "unknown rule"),
        (["state", 2, "rule"], "blocks", "one task"),
        (["compressed", 0], ["ps"], "pair"),
        (["compressed", 0, 1], "nobody", "unknown job"),
        (["checkpoint", "seconds"], "soon", "number of seconds"),
        (["checkpoint", "keep"], 0, "whole number"),
        (["entries", 0, "feeds", 0, "runs"], ["$K"], "uses a size"),
        (["entries", 0, "feeds", 0, "runs"], ["*"], "not a formula"),
        (["entries", 0, "split"], "K", "uses a size"),
        (["entries", 2, "update"], {**UPDATE, "mode": "in a hurry", "backups": 0}, "unknown mode"),
        (["entries", 2, "update", "combine"], "max", "no way to combine"),
        (["entries", 2, "update", "mode"], "async", "steps that come late"),
        (["entries", 2, "update", "handed"], ["last"], "steps that come late"),
        (["entries", 2, "update", "taken"], ["x"], "not what takes"),
        (["entries", 2, "update", "bound"], -2, "whole number"),
        (["entries", 2, "update", "owner"], "ps", "no task"),
        (["entries", 2, "update", "owner"], "worker:0", "takes some"),
        (["entries", 2, "update", "variables"], ["w"], "not where it is updated"),
        (["edges", 2, "kind"], "rows", "no messages for its steps"),
        (["surprise"], 1, "unknown key"),
        (["parts"], {}, "not a list"),
        (["parts", 0, "fetches"], [], "fetches nothing"),
        (["parts", 0, "fetches", 0], [], "has no name"),
        (["parts", 0, "feeds", 0, "names"], [], "has no name"),
        (["parts", 0, "feeds", 0, "parameter"], 3, "not text"),
        (["parts", 0, "steps"], [], "unknown key"),
        (["deployment"], 3, "not text"),
        (["memory", 0, "role"], "ps0x", "takes no part"),
        (["memory", 1, "role"], "worker", "takes no part"),
        (["memory", 1, "entry"], "other", "takes no part"),
        (["memory", 0, "early"], ["*"], "not a formula"),
        (["memory", 1], {"role": "worker", "entry": "train", "delayed": [1]}, "twice"),
    ],
)
def test_what_does_not_fit_is_refused(path, value, message):
    with pytest.raises(ValueError, match=message):
        read(changed(path, value))


OTHERS = (None, 7, "text", [], {}, [1], 1.5, True)


def test_anything_of_another_type_is_refused():
    """Each value in turn becomes one of another type: nothing but `ValueError` may come of it."""
    paths = []
    open_ = [([], written())]
    while open_:
        path, value = open_.pop()
        if path:
            paths.append(path)
        if isinstance(value, dict | list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            open_ += [([*path, key], each) for key, each in pairs]
    for number, path in enumerate(paths):
        for value in OTHERS if WHOLE else OTHERS[number % 2 :: 2]:  # neighbours are alike
            try:
                read(changed(path, value))
            except ValueError:
                pass
    assert len(paths) > 80
