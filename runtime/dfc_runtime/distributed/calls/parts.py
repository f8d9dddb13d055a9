"""Partial execution on many ranks: parts of entries that came in the bundle, or that rank 0 has compiled.

A part is a bundle for many ranks with one entry. When it is first asked for, every rank gets the program of its own
role of it, with one command to each; from then on a call of it is a call like any other. Assumes that all ranks load
the same bundle. Guarantees that a part works on the very state of the program, that it is added on all ranks or not
called, and that ranks which call along get what rank 0 gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from dfc_runtime.calls.compiling.partial import Build, ClusterSpecialiser, Filled, fed_values, fetched_names
from dfc_runtime.calls.hosts import Handler
from dfc_runtime.calls.results import Results, results_type
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.edges import Edges
from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.calls.follower import Follower
from dfc_runtime.distributed.calls.part_sources import PartSources, Signature, precompiled_part
from dfc_runtime.distributed.calls.rank import Answer, Data, OwnPart, Rank
from dfc_runtime.distributed.calls.requests import Requests
from dfc_runtime.distributed.role_checks import check_role
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats import manifest_reading, strict_json
from dfc_runtime.formats.cluster import ROLE, Cluster
from dfc_runtime.formats.fields import flag, integer, items, shown, text
from dfc_runtime.formats.manifest import Entry, Manifest
from dfc_runtime.module import parts_of

ADD, VARIANT, WAIT = "part.add", "part.variant", "part.wait"
Handlers = Mapping[str, Handler]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loader:
    """How this rank loads programs: the `limit` of a call in bytes, and what `handlers` become before they are used."""

    limit: int
    handlers: Callable[[Handlers], Handlers]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A part as rank 0 calls it."""

    plan: EntryPlan
    requests: Requests
    feeds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Added:
    """A part as every rank knows it; `wrap` makes of its results what the caller gets."""

    plan: EntryPlan
    wrap: Callable[[Sequence[object]], object]


class ClusterParts:
    """The parts of one program's entries, on one rank."""

    def __init__(self, rank: Rank, sources: PartSources, loader: Loader) -> None:
        self._rank = rank
        self._sources = sources
        self._loader = loader
        self._compiler: ClusterSpecialiser | None = None
        self._next = len(rank.plans)
        self._questions: dict[tuple[object, ...], _Asked] = {}
        self._ready: dict[str, _Ready] = {}
        self._added: dict[str, _Added] = {}
        self._closing: list[Callable[[], None]] = []
        rank.commands[ADD] = self._add
        rank.commands[VARIANT] = self._variant
        rank.commands[WAIT] = _no_answer

    def run(self, end: Client | Follower, fetch: object, feed: object) -> object:
        """The values of `fetch`, as on one rank. Ranks that call along say the same names; what rank 0 feeds counts."""
        names, feeds = fetched_names(fetch), fed_values(feed)
        asked = self._asked(names, tuple(feeds), alone=isinstance(fetch, str))
        if isinstance(end, Follower):
            values = end.results(asked.label, lambda: self._added[asked.label].plan)
        else:
            values = end.results_together(asked.label, lambda: self._call(end, asked, feeds))
        return self._added[asked.label].wrap(values)

    def within(self, client: Client, names: Sequence[str], feeds: Mapping[str, object]) -> list[object]:
        """Likewise, at rank 0, as a part of something that is done together."""
        asked = self._asked(names, tuple(feeds), alone=False)
        return self._call(client, asked, feeds)[1]

    def signature(self, fetch: object, feed: object) -> Entry:
        """The signature of a part that has run."""
        asked = self._asked(fetched_names(fetch), tuple(fed_values(feed)), alone=isinstance(fetch, str))
        return self._added[asked.label].plan.entry

    def _asked(self, names: Sequence[str], feeds: Sequence[str], *, alone: bool) -> _Asked:
        key = (alone, *names, None, *feeds)
        question = self._questions.get(key)
        if question is None:
            text = json.dumps(names[0] if alone else names)
            question = _Asked(names, feeds, alone, f"run({text}, {json.dumps(sorted(feeds))})")
            self._questions[key] = question
        return question

    def close(self) -> None:
        """Ends the programs of all parts."""
        while self._closing:
            self._closing.pop()()

    # ------------------------------------------------------------ at rank 0 --

    def _call(self, client: Client, asked: _Asked, feeds: Mapping[str, object]) -> tuple[EntryPlan, list[object]]:
        ready = self._ready.get(asked.label)
        if ready is None:
            ready = self._ready[asked.label] = self._add_part(client, asked)
        client.require_whole(ready.plan)
        part_feeds = {ready.feeds[name]: value for name, value in feeds.items()}
        return ready.plan, client.run(ready.plan, ready.requests.checked((), part_feeds))

    def _add_part(self, client: Client, asked: _Asked) -> _Ready:
        """Adds a part on all ranks."""
        precompiled = precompiled_part(self._rank.topology.cluster.parts, asked.names, asked.feeds)
        if precompiled is not None:
            number, signature = precompiled
            self._distribute(client, asked, signature, self._sources.precompiled[number], number)
        else:
            fetched = list(dict.fromkeys(asked.names))
            specialised = self._compiled(client, lambda compiler: compiler.specialise(fetched, asked.feeds))
            signature = Signature(tuple(fetched.index(name) for name in asked.names), specialised.feeds)
            self._distribute(client, asked, signature, specialised.bundle)
        plan = self._added[asked.label].plan
        return _Ready(plan, Requests(plan, self._loader.limit), signature.feeds)

    def filled(self, client: Client, entry: str) -> Filled:
        """What the compiler makes of an entry for batches that are filled up; raises what is wrong with that."""
        return self._compiled(client, lambda compiler: compiler.fill(entry))

    def add_filled(self, client: Client, of: EntryPlan, filled: Filled) -> EntryPlan:
        """Adds an entry for batches that are filled up on all ranks; how calls of it are distributed."""
        names = [each.name for each in of.entry.results]
        asked = _Asked(names, (), not names, f"filled {of.name}", of.name)
        self._distribute(client, asked, Signature(tuple(range(len(names))), {}), filled.bundle)
        return self._added[asked.label].plan

    def _compiled(self, client: Client, make: Callable[[ClusterSpecialiser], T]) -> T:
        """What the compiler makes. Ranks that call along wait for a message, and are told that it is not forgotten."""
        answers = client.command({"command": VARIANT}).values()
        variants = sorted({each for data, _ in answers for each in str(data["variant"]).split()})
        how = Build(any(data["timed"] for data, _ in answers), any(data["checked"] for data, _ in answers))

        def compile_() -> T:
            if self._compiler is None:
                self._compiler = self._sources.compiler(variants, how)
            return make(self._compiler)

        with ThreadPoolExecutor(1, "compiler") as compiler:
            future = compiler.submit(compile_)
            while not wait([future], timeout=self._rank.waiting.seconds / 4).done:
                client.command({"command": WAIT})
            return future.result()

    def _distribute(
        self, client: Client, asked: _Asked, signature: Signature, part_bundle: bytes, precompiled: int | None = None
    ) -> None:
        """Lets every rank have the program of its role: the one at a place of its own bundle, or from here."""
        number, self._next = self._next, self._next + 1
        with bundles.opened(part_bundle) as bundle:
            cluster = _cluster_of(bundle.manifest)
            topology, edges = self._rank.topology.of_part(cluster), len(cluster.edges)
            data: Data = {"command": ADD, "number": number, "edges": edges, "picks": list(signature.picks)}
            data |= {"label": asked.label, "names": list(asked.names), "alone": asked.alone, "called": asked.called}
            if precompiled is not None:
                client.command({**data, "ahead": precompiled})
                return
            data["manifest"] = bundle.header.metadata["manifest"]
            for role in (None, *topology.cluster.roles):
                ranks = [task.rank for task in topology.by_rank if task.role is role]
                program: list[tuple[str, Array]] = []
                if role is not None:
                    program.append(("u8", np.frombuffer(bundle.read(ROLE + role.name), np.uint8)))
                if ranks:
                    client.command(data, program, ranks)

    # --------------------------------------------------------- on every rank --

    def _variant(self, _: Data, _arrays: Sequence[Array]) -> Answer:
        """The variants of the code that this rank runs, if any, and how it was compiled."""
        inner = self._rank.inner
        if inner is None:
            return {"variant": "", "timed": False, "checked": False}, []
        how = Build.of(inner.manifest)
        return {"variant": parts_of(inner).origin.isa, "timed": how.timed, "checked": how.check_finite}, []

    def _add(self, data: Data, arrays: list[Array]) -> Answer:
        """Takes a part up, so that it can be called by its number."""
        self._rank.edges.tags.make_room(integer(data["edges"], "edges"))
        if "ahead" in data:
            manifest, program = self._own_role(self._sources.precompiled[integer(data["ahead"], "ahead")])
        else:
            manifest = manifest_reading.from_json(strict_json.parse(text(data["manifest"], "manifest")))
            program = arrays[0].tobytes() if arrays else None
        plan = self._planned(manifest, program, integer(data["number"], "number"), text(data["called"], "called"))
        names = [text(each, "name") for each in items(data["names"], "names")]
        picks = [integer(each, "pick") for each in items(data["picks"], "picks")]
        make = None if flag(data["alone"], "alone") else results_type(plan.entry.name, names)
        self._added[text(data["label"], "label")] = _Added(plan, _wrapper(make, picks))
        return {}, []

    def _own_role(self, part: bytes) -> tuple[Manifest, bytes | None]:
        """What a part is, and the program of this rank's role of it, if it has one."""
        with bundles.opened(part) as bundle:
            role = self._rank.topology.of_part(_cluster_of(bundle.manifest)).by_rank[self._rank.number].role
            return bundle.manifest, None if role is None else bundle.read(ROLE + role.name)

    def _planned(self, manifest: Manifest, program: bytes | None, number: int, called: str) -> EntryPlan:
        """How calls of a part are distributed, with this rank ready for its own."""
        cluster = _cluster_of(manifest)
        self._check_state_sites(cluster)
        topology = self._rank.topology.of_part(cluster)
        (entry,), (split,) = manifest.entries, cluster.entries
        plan = EntryPlan(number, entry, split, topology, called or f"run({', '.join(e.name for e in entry.results)})")
        part = plan.part_of(self._rank.number)
        own = None
        if part is not None and program is not None:
            with bundles.opened(program) as bundle:
                check_role(bundle.manifest, manifest, topology, part.task)
            edges = Edges(topology, self._rank.waiting, self._rank.edges.tags)
            own = OwnPart(plan, part, edges, *self._loaded(program, edges))
        self._rank.add(plan, own)
        return plan

    def _loaded(self, program: bytes, edges: Edges) -> tuple[Entry, Callable[..., object]]:
        """The program of this rank's role, over the state that the rank has."""
        if self._rank.inner is None:
            raise ValueError("a part of the program is for a task that has no program")
        added = parts_of(self._rank.inner).add(program, self._loader.handlers(edges.handlers))
        self._closing.append(added.driver.close)
        return added.signature, added.function

    def _check_state_sites(self, cluster: Cluster) -> None:
        """Another version of the compiler might place state in another way."""
        known = {each.name: each for each in self._rank.topology.cluster.state}
        for each in cluster.state:
            if known.get(each.name) != each:
                text = f"the compiler that is installed places {shown(each.name)} elsewhere than the bundle has it"
                raise UnsupportedError(f"{text}: compile the program again", code="E1001")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What somebody asks for; `alone` for one name instead of a list of them. The `label` is the same for the same
    question, on all ranks. `called` is what people call it, if not by its results."""

    names: Sequence[str]
    feeds: Sequence[str]
    alone: bool
    label: str
    called: str = ""


def _no_answer(_data: Data, _arrays: list[Array]) -> Answer:
    return {}, []


def _wrapper(make: type[Results] | None, picks: Sequence[int]) -> Callable[[Sequence[object]], object]:
    if make is None:
        return lambda values: values[picks[0]]
    return lambda values: make([values[index] for index in picks])


def _cluster_of(manifest: Manifest) -> Cluster:
    if manifest.cluster is None or len(manifest.entries) != 1:
        raise ValueError("a part of an entry is a bundle for many ranks with one entry")
    return manifest.cluster
