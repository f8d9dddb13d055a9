"""Partial execution: parts of entries, compiled when they are first asked for.

The compiler is an optional companion: it is looked for when a signature is new, by name, and never otherwise. Assumes a
bundle that carries its sources. Guarantees that each signature is compiled once, that a part works on the very state of
the module, and that its calls run alone, after the module's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast

from dfc_runtime.calls.calls import Machinery
from dfc_runtime.calls.compiling.origin import Origin
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.calls.functions import make_call
from dfc_runtime.calls.gate import Closed
from dfc_runtime.calls.hosts import Handler
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import Driver
from dfc_runtime.errors import FeedError, RunError, UnsupportedError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.manifest import Entry, Manifest, StateEntry
from dfc_runtime.instances import image_for, make_driver
from dfc_runtime.observe.finite import Part, checked, has_checks
from dfc_runtime.observe.kernel_times import is_timed

COMPILER = "dfc.driver.loaded.partial"


class Specialised(Protocol):
    """A bundle for one signature; `feeds` says which feed of it each name is."""

    @property
    def bundle(self) -> bytes: ...

    @property
    def feeds(self) -> Mapping[str, str]: ...


class Filled(Protocol):
    """A bundle of an entry for batches that are filled up; `valid` is the feed that says how many rows count, `feeds`
    and `results` say along which axis rows are, and in how many runs."""

    @property
    def bundle(self) -> bytes: ...

    @property
    def valid(self) -> str: ...

    @property
    def feeds(self) -> Mapping[str, tuple[int, Formula]]: ...

    @property
    def results(self) -> Mapping[str, tuple[int, Formula]]: ...


class Specialiser(Protocol):
    """What the compiler makes of the sources of a bundle."""

    def specialise(self, fetches: Sequence[str], feeds: Sequence[str]) -> Specialised: ...


class ClusterSpecialiser(Specialiser, Protocol):
    """Likewise, for many ranks."""

    def fill(self, entry: str) -> Filled: ...


@dataclass(frozen=True, slots=True)
class Added:
    """A program of one entry that works on the state of another one."""

    signature: Entry
    function: Callable[..., object]
    driver: Driver


@dataclass(frozen=True, slots=True)
class _Part:
    """A signature that was compiled, and the name of each feed as its function knows it."""

    added: Added
    feeds: Mapping[str, str]


class PartialEntries:
    """The parts of one module's entries."""

    def __init__(self, origin: Origin, machinery: Machinery) -> None:
        self.origin = origin
        self._machinery = machinery
        self._compiler: Specialiser | None = None
        self._known: dict[tuple[object, ...], _Part] = {}
        self._lock = threading.Lock()

    def run(self, fetch: object, feed: object) -> object:
        """The values of `fetch`: one for a name, a tuple in their order for a list of names."""
        names, feeds = fetched_names(fetch), fed_values(feed)
        key = _key(fetch, names, feeds)
        part = self._known.get(key)
        if part is None:
            if self._machinery.state.is_closed:
                raise RunError("no part can run: the module was closed", code="E0903")
            with self._lock:
                part = self._known.get(key) or self._make(names, list(feeds), alone=isinstance(fetch, str))
                self._known[key] = part
        return part.added.function(**{part.feeds[name]: value for name, value in feeds.items()})

    def signature(self, fetch: object, feed: object) -> Entry:
        """The signature of a part that has run."""
        return self._known[_key(fetch, fetched_names(fetch), fed_values(feed))].added.signature

    def close(self) -> None:
        for part in self._known.values():
            part.added.driver.close()

    def add(
        self,
        data: bytes,
        handlers: Mapping[str, Handler] | None = None,
        *,
        alone: bool = False,
        part: Part | None = None,
    ) -> Added:
        """The one entry of a bundle, over the state of this program; `handlers` answer instead of the program's own,
        and `part` says which part of an entry it is. Who adds it closes its driver."""
        whole = self._machinery
        with bundles.opened(data) as bundle:
            manifest = bundle.manifest
            _check_state(manifest.state, whole.state.entries, whole.state.omitted)
            hosts = whole.hosts.of(manifest, handlers)
            threads = self.origin.threads
            image, state_owner, number = image_for(bundle, self.origin.device), whole.driver, self.origin.device
            driver = make_driver(
                bundle, image, whole.state, threads, whole.limit, hosts, device=number, state_owner=state_owner
            )
        (entry,) = manifest.entries
        entry = replace(entry, unnamed_result=alone)
        manifest = replace(manifest, entries=(entry,))
        # Calls of the module were compiled without knowing what a part reads and writes, so it runs alone.
        machinery = replace(whole, manifest=manifest, driver=driver, hosts=hosts, gate=Closed(whole.gate))
        function = make_call(machinery, 0)
        if has_checks(manifest):
            function = checked(machinery, self.origin, entry, function, part)
        return Added(entry, function, driver)

    def _make(self, names: Sequence[str], feeds: Sequence[str], *, alone: bool) -> _Part:
        if self._compiler is None:
            self._compiler = _compiler(self.origin, Build.of(self._machinery.manifest))
        specialised = self._compiler.specialise(names, feeds)
        return _Part(self.add(specialised.bundle, alone=alone, part=(tuple(names), tuple(feeds))), specialised.feeds)


@dataclass(frozen=True, slots=True)
class Build:
    """How a program was compiled, and its parts are to be: with a clock around each kernel, with checks of finite
    values."""

    timed: bool = False
    check_finite: bool = False

    @staticmethod
    def of(manifest: Manifest) -> Build:
        """That of a program with code."""
        return Build(is_timed(manifest), has_checks(manifest))


def _key(fetch: object, names: Sequence[str], feeds: Mapping[str, object]) -> tuple[object, ...]:
    return (isinstance(fetch, str), *names, None, *sorted(feeds))


def _compiler(origin: Origin, build: Build) -> Specialiser:
    make = cast(Callable[..., Specialiser], import_compiler(origin.sources).specialiser)
    return make(origin.sources, origin.settings, origin.target, origin.isa, build)


def import_compiler(sources: Mapping[str, str]) -> ModuleType:
    """The compiler's half, for a program with these texts. Only a string names it: the run side does not depend on it,
    and works where it is not installed."""
    try:
        compiler = import_module(COMPILER)
    except ImportError:
        text = (
            "run compiles the part of the program that is asked for, and the compiler is not installed: pip install dfc"
        )
        raise UnsupportedError(text, code="E1001") from None
    if not sources:
        raise UnsupportedError("the bundle does not carry its source, so no part of it can be compiled", code="E1001")
    return compiler


def _check_state(parts: Sequence[StateEntry], whole: Mapping[str, StateEntry], omitted: Collection[str]) -> None:
    """What is asked for may need state of entries that were left out; and another version of the compiler might name or
    type state in another way."""
    for entry in parts:
        if entry.name in omitted:
            text = f"that needs `{entry.name}`, which only entries use that were left out of the bundle"
            raise UnsupportedError(f"{text}: compile the program with these", code="E1001")
        known = whole.get(entry.name)
        if known is None or (known.dtype, known.shape) != (entry.dtype, entry.shape):
            text = (
                f"the compiler that is installed makes {entry.name} {entry}, the bundle has {known or 'no such state'}"
            )
            raise UnsupportedError(f"{text}: compile the program again", code="E1001")


def fetched_names(fetch: object) -> list[str]:
    """What is asked for: a name, or a list of them."""
    fetches = [fetch] if isinstance(fetch, str) else fetch
    if isinstance(fetches, (list, tuple)):
        names = cast("Sequence[object]", fetches)
        if names and all(isinstance(name, str) for name in names):
            return [str(name) for name in names]
    raise FeedError('fetch wants the full name of a value, such as "train/loss", or a list of them', code="E0901")


def fed_values(feed: object) -> dict[str, object]:
    """What is fed, by name."""
    if feed is None:
        return {}
    if isinstance(feed, Mapping):
        mapping = cast("Mapping[object, object]", feed)
        if all(isinstance(name, str) for name in mapping):
            return {str(name): value for name, value in mapping.items()}
    raise FeedError('feed wants values by name: {"images": x}', code="E0901")
