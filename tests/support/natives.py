"""Native functions for the fake driver, and one program that uses them all."""

from __future__ import annotations

import numpy as np

from dfc_runtime.formats.manifest import RESTORE, SAVE, FaultSite, HostSite
from tests.support.bundles import LOCATION, Sketch, entry, formula, state
from tests.support.fake_driver import Call, native


@native
def nothing(call: Call) -> None:
    """Does nothing."""


@native
def add(call: Call) -> None:
    call.view(2, "f4")[0] = call.view(0, "f4")[0] + call.view(1, "f4")[0]


@native
def scale(call: Call) -> None:
    """x: f32[B, 4], rate: f32 -> y: f32[B, 4], total: f32."""
    rows = call.size(4)
    x = call.array(0, "f4", (rows, 4))
    call.array(2, "f4", (rows, 4))[:] = x * call.view(1, "f4")[0]
    call.view(3, "f4")[0] = x.sum()


@native
def set_state(call: Call) -> None:
    call.driver.resources["w"][:] = np.arange(6, dtype="f4").reshape(2, 3)
    call.driver.resources["count"][...] = 0


@native
def count(call: Call) -> None:
    call.driver.resources["count"][...] += 1
    call.view(0, "i8")[0] = call.driver.resources["count"]


@native
def pick(call: Call) -> int:
    index = int(call.view(0, "i8")[0])
    if not 0 <= index < 10:
        return call.fault(0, index, 10, 0, 0)
    call.view(1, "i8")[0] = index
    return 0


@native
def insist(call: Call) -> int:
    return 0 if call.view(0, "?")[0] else call.fault(1)


@native
def save(call: Call) -> int:
    return call.ask(0)


@native
def restore(call: Call) -> int:
    return call.ask(1)


def program() -> Sketch:
    """Entries of every kind, state, faults and checkpoints."""
    size = ("$B", 4, "*", 4, "*")
    results = {"y": "f32[B, 4]", "total": "f32"}
    touched = ["count"]
    everything = ("count", "w")
    attributes = {"path": 0, "resources": everything}
    sites = [
        HostSite(kind, name, attributes, (), (), (name,), LOCATION)
        for kind, name in ((SAVE, "save"), (RESTORE, "restore"))
    ]
    return Sketch(
        entries=[
            (entry("init", {}, writes=["w", "count"]), "set_state"),
            (entry("add", {"x": "f32", "y": "f32"}, "f32", doc="The sum.", docs={"x": "the left one"}), "add"),
            (
                entry("scale", {"x": "f32[B, 4]", "rate": "f32"}, results, dims=["B"], arena=formula(*size)),
                "scale",
            ),
            (entry("tick", {}, {"count": "i64"}, reads=touched, writes=touched), "count"),
            (entry("pick", {"index": "i64"}, "i64", readonly=True), "pick"),
            (entry("insist", {"truth": "bool"}), "insist"),
            (entry("save", {"path": "text"}), "save"),
            (entry("restore", {"path": "text"}), "restore"),
        ],
        state=[state("w", "f32[2, 3]"), state("count", "i64"), state("cache", "f32[4]", saved=False)],
        faults=[
            FaultSite("index", "", LOCATION),
            FaultSite("assert", "the rate is above zero", LOCATION),
        ],
        sites=sites,
    )
