"""Queues and runners in a manifest: what is read is what was written, and nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import dfc_runtime
from dfc.kernels.program import BACKGROUND as LOCK_OF_TARGETS
from dfc_runtime.errors import BundleError, UnsupportedError
from dfc_runtime.formats import manifest_reading, manifest_writing, strict_json
from dfc_runtime.formats.manifest import BACKGROUND, NATIVE_KINDS, QUEUE, RECORD_NEXT, FaultSite, HostSite, SiteOperand
from dfc_runtime.formats.queue_layout import QueueField, QueueLayout, Refill
from dfc_runtime.runners.connections import Connections
from tests.support.bundles import LOCATION, Sketch, entry, state, with_manifest

ELEMENT = (SiteOperand("f32", (3,)),)
USE = {"resource": "jobs", "fault": 0}
JOBS = QueueLayout((QueueField("row", "f32", (3,)), QueueField("row_length", "i64", ())), 1, 0, True, (1, 3), (0,))
"""One element, of a field that varies."""


def sketch() -> Sketch:
    fill = replace(entry("fill", {}, {}, reads=["jobs"], writes=["jobs"]), copies=3)
    sites = [
        HostSite("turn_take", "fill", {"turn": 0, "turns": 2}, (), (), (), LOCATION),
        HostSite("queue_put", "fill", USE, ELEMENT, (), (), LOCATION),
        HostSite("turn_pass", "fill", {"turn": 1, "turns": 2}, (), (), (), LOCATION),
        HostSite("queue_take", "use", USE, (), ELEMENT, (), LOCATION),
    ]
    return Sketch(
        entries=[(fill, "nothing"), (entry("use", {}, {}, reads=["jobs"], writes=["jobs"]), "nothing")],
        state=[replace(state("jobs", "u8[256]", kind=QUEUE, saved=False), queue=JOBS)],
        faults=[FaultSite("queue", "jobs", LOCATION)],
        sites=sites,
    )


def test_queues_and_runners_are_read_as_they_were_written() -> None:
    manifest = sketch().manifest()
    data = strict_json.parse(strict_json.dump(manifest_writing.to_json(manifest)))
    assert manifest_reading.from_json(data) == manifest
    assert [str(each) for each in manifest.entries] == ["runner fill with copies = 3", "entry use()"]
    assert [each.is_called for each in manifest.entries] == [False, True]
    assert manifest.kinds_in("fill") == frozenset()  # nothing is asked of the run side


def refilled() -> Sketch:
    """The same with a shuffled queue of numbers, that a runner fills from a reader."""
    pool = QueueLayout((QueueField("row", "f32", (3,)),), 2, 0, True, window=2, refill=Refill("fill", "rows", 1))
    fill = replace(entry("fill", {}, {}, reads=["rows", "pool"], writes=["rows", "pool"]), copies=3)
    drawn = replace(state("pool.order", "u64[4]"), kind="rng")
    queue = replace(state("pool", "u8[320]", kind=QUEUE, saved=False), queue=pool)
    stated = {"resource": "rows", "pattern": "*", "shuffled": "", "on_error": "skip", "seed": 0, "part": 0}
    stated |= {"passes": 1, "parts": 1, "longest": 9}
    outputs = (SiteOperand("u8", (9,)), SiteOperand("i64", (3,)), SiteOperand("i64", (2,)))
    next_ = HostSite(RECORD_NEXT, "fill", stated, outputs[2:], outputs, (), LOCATION)
    return Sketch(entries=[(fill, "nothing")], state=[state("rows", "i64[2]"), queue, drawn], sites=[next_])


def test_what_refills_a_queue_is_read_as_it_was_written_and_is_there() -> None:
    manifest = refilled().manifest()
    data = strict_json.parse(strict_json.dump(manifest_writing.to_json(manifest)))
    assert manifest_reading.from_json(data) == manifest
    for change in (
        _set("state", 1, "queue", "refill", 0, to="use"),
        _set("state", 1, "queue", "refill", 1, to="pool"),
        _set("state", 2, "name", to="other"),
        _set("state", 2, "kind", to="variable"),
    ):
        with pytest.raises(BundleError, match="the queue pool is refilled by nobody"):
            dfc_runtime.verify(with_manifest(refilled().to_bytes(), change))


def test_a_program_without_runners_says_nothing_of_them() -> None:
    manifest = Sketch(entries=[(entry("add", {}), "add")]).manifest()
    data = manifest_writing.to_json(manifest)
    assert "copies" not in data["entries"][0]


def test_connections_are_read_from_the_requests() -> None:
    connections = Connections(sketch().manifest())
    assert connections.connected(connections.uses["use"]) == {"fill"}
    assert (connections.fillers("jobs"), connections.is_filled_by_calls("jobs")) == (["fill"], False)
    assert connections.turns("fill") == 2


def _set(*path: str | int, to: object) -> Callable[[dict], None]:
    def change(manifest: dict) -> None:
        part = manifest
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("entries", 0, "copies", to=0), "copies is not a whole number from 1 to 4096"),
        (_set("entries", 0, "copies", to=4097), "copies is not a whole number from 1 to 4096"),
        (_set("entries", 0, "test", to=True), "is a runner, which nobody calls, with a signature"),
        (_set("state", 0, "kind", to="heap"), "unknown kind heap"),
        (_set("state", 0, "kind", to="variable"), "is no queue, and says how elements lie in it"),
        (_set("sites", 1, "attributes", "resource", to="others"), "the queue_put in entry fill is of no queue"),
        (_set("sites", 1, "attributes", "fault", to=1), "the queue_put in entry fill is of no queue"),
        (_set("sites", 1, "attributes", "fault", to=True), "the queue_put in entry fill is of no queue"),
        (_set("sites", 0, "attributes", "turn", to=2), "the turn_take in entry fill is no turn of a runner"),
        (_set("sites", 0, "attributes", "turns", to=2**40), "the turn_take in entry fill is no turn of a runner"),
        (_set("sites", 0, "entry", to="use"), "the turn_take in entry use is no turn of a runner"),
        (_set("state", 0, "queue", "capacity", to=0), "capacity is not a whole number from 1"),
        (_set("state", 0, "queue", "capacity", to=2), "has another size than its queue"),
        (_set("state", 0, "queue", "reserve", to=2**40), "has another size than its queue"),
        (_set("state", 0, "queue", "fields", to=[]), "has no elements"),
        (_set("state", 0, "queue", "fields", 0, 1, to="f33"), "is no type of an element"),
        (_set("state", 0, "queue", "fields", 1, 1, to="f64"), "has lengths that are no numbers"),
        (_set("state", 0, "queue", "varying", to=[1]), "has no such field"),
        (_set("state", 0, "queue", "varying", to=[]), "has no elements"),
        (_set("state", 0, "queue", "bounds", to=[3, 3]), "has buckets that are in no order"),
        (_set("state", 0, "queue", "bounds", to=[2, 4]), "has buckets that do not fit its elements"),
        (_set("state", 0, "queue", "order", to="any"), "unknown key order"),
        (_set("state", 0, "queue", "window", to=2), "has no room for its window"),
        (_set("state", 0, "queue", "refill", to=["fill"]), "refill"),
    ],
)
def test_damaged_queues_are_refused_in_one_line(change: Callable[[dict], None], message: str) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        dfc_runtime.verify(with_manifest(sketch().to_bytes(), change))
    assert caught.value.exit_code == 4 and "\n" not in caught.value.message


def test_a_driver_without_queues_does_not_load_them_and_says_where_they_work() -> None:
    with pytest.raises(UnsupportedError, match=r"`fill` uses a queue at model\.dfg") as caught:
        dfc_runtime.loads(sketch().to_bytes())
    assert (caught.value.code, caught.value.exit_code) == ("E1001", 3)
    assert "queues and runners work there only: compile with --target cpu" in caught.value.message


def test_both_halves_mean_the_same_lock() -> None:
    assert LOCK_OF_TARGETS == BACKGROUND
    assert {"queue_put", "queue_take", "queue_take_up_to", "turn_take"} <= NATIVE_KINDS
