"""One profile of many ranks: each measures its kernels, rank 0 gathers them at the end.

Assumes that all ranks load the program with a meter, and close it. Guarantees that nothing is sent while calls are
made; and that a bundle without ticks is an error before the first call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.calls.rank import Answer, Data
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import DfcError, FeedError, RankError
from dfc_runtime.formats.fields import integer, items, seconds, text
from dfc_runtime.observe.kernel_times import Meter, is_timed

READY, KERNELS = "profile_ready", "profile_kernels"


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """A kernel at one place of an entry, `FILE:LINE`: the median of its seconds over `launches` at one rank. `names`
    are the nodes it computes."""

    entry: str
    names: tuple[str, ...]
    location: str
    seconds: float
    launches: int


@dataclass(frozen=True, slots=True)
class RankTimes:
    """What one rank has measured. `overhead` are the seconds of a measurement itself, which were taken off."""

    overhead: float
    kernels: tuple[MeasuredKernel, ...]


class Metering:
    """The measurements of one program on one rank; made on all of them, before the first call. When the program is
    closed, rank 0 hands those of all ranks, in their order, to `done`."""

    def __init__(self, meter: Meter, module: ClusterModule, done: Callable[[Sequence[RankTimes]], None]) -> None:
        self._meter = meter
        self._module = module
        self._done = done
        module.add_command(READY, self._ready)
        module.add_command(KERNELS, self._kernels)

    def start(self) -> None:
        """Sees to it that there is something to measure; all ranks call this."""
        try:
            self._module.together("the profile", self._check)
        except DfcError:
            self._module.close()  # ranks that are about to serve would wait for ever
            raise
        self._module.at_close.append(self.finish)

    def finish(self) -> None:
        """Hands over what was measured; all ranks call this that do not serve. If ranks have lost each other, there is
        nothing to hand over."""
        with contextlib.suppress(RankError):
            self._module.together("the end of the profile", self._collect)

    def _check(self, client: Client) -> Answer:
        if not any(data["ticks"] for data, _ in client.command({"command": READY}).values()):
            raise FeedError(f"{self._module.name} has no clocks: compile it with --timed", code="E0901")
        return {}, []

    def _ready(self, _: Data, _arrays: Sequence[Array]) -> Answer:
        inner = self._module.inner
        return {"ticks": inner is not None and is_timed(inner.manifest)}, []

    def _kernels(self, _: Data, _arrays: Sequence[Array]) -> Answer:
        rows: list[object] = [
            [site.entry, list(site.names), f"{site.location.name}:{site.location.line}", seconds, launches]
            for site, seconds, launches in self._meter.kernels()
        ]
        return {"overhead": self._meter.overhead, "kernels": rows}, []

    def _collect(self, client: Client) -> Answer:
        answers = client.command({"command": KERNELS})
        self._done([_times(data) for _, (data, _) in sorted(answers.items())])
        return {}, []


def _times(data: Data) -> RankTimes:
    rows = [items(each, "kernel") for each in items(data["kernels"], "kernels")]
    return RankTimes(seconds(data["overhead"], "overhead"), tuple(_kernel(*row) for row in rows))


def _kernel(entry: object, names: object, location: object, took: object, launches: object) -> MeasuredKernel:
    return MeasuredKernel(
        text(entry, "entry"),
        tuple(text(each, "name") for each in items(names, "names")),
        text(location, "place"),
        seconds(took, "seconds"),
        integer(launches, "launches"),
    )
