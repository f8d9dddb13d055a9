"""From a bundle to a module on one rank: a program of its own, or that of one rank of many.

The order is fixed: lengths, hashes, schema, instruction-set bits, and only then is code mapped. Assumes nothing of the
bytes. Guarantees that numbers do not depend on `threads`, and that state is initialised as if `init` had been called
once, where `init` takes no feeds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.calls import Machinery
from dfc_runtime.calls.compiling.origin import Origin, sources_of
from dfc_runtime.calls.conflicts import Conflicts
from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.gate import Gate, Queue
from dfc_runtime.calls.handlers.answers import Answers
from dfc_runtime.calls.hosts import Handler, Hosts
from dfc_runtime.calls.memory import Arena, ResultMemory, aligned, memory_limit, working_limit
from dfc_runtime.checkpoints.saving import Saver
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.devices import NOTE as DEVICE_NOTE
from dfc_runtime.devices import device_number, device_of_rank
from dfc_runtime.driver import TakesRecords, find_driver
from dfc_runtime.errors import FeedError, RankCountError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, MIXED, NATIVE_KINDS, QUEUE, ImageEntry, Manifest
from dfc_runtime.instances import image_for, make_driver, refused
from dfc_runtime.kinds import is_whole
from dfc_runtime.mixed.variants import variant
from dfc_runtime.module import INIT, Module
from dfc_runtime.observe.destinations import Destination
from dfc_runtime.observe.finite import has_checks, with_checks
from dfc_runtime.observe.tracing import Recorder
from dfc_runtime.state import containers
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.calls.handlers.readers import Readers

Array = NDArray[np.generic]
Results = Literal["host", "device"]

THREADS_VARIABLE = "DFC_THREADS"
MOST_THREADS = 4096


def load_role(
    data: bytes,
    threads: int | None,
    limit: int | None,
    answers: Answers,
    device: int | None,
    neighbour: int,
    check: Callable[[Manifest], None],
) -> Module:
    """The program of one rank of many, its state not initialised. It is the rank `neighbour` of its machine. `check`
    looks at its manifest before anything is made of it: what does not fit the other ranks is damaged, whatever else
    there is to say of it."""
    stated = Stated(threads, limit, device, "host", neighbour)
    return _load(data, stated, False, answers, check=check)


@dataclass(frozen=True, slots=True)
class Answering:
    """How a running program reaches the caller of `load`: `handlers` answer requests of its code,
    `summaries` and `trace` say where these go, `data` which files readers read instead of those that the program names,
    which are relative to `folder`: where it is not given, that of the file which is loaded."""

    handlers: Mapping[str, Handler] | None
    summaries: Destination | None
    trace: str | os.PathLike[str] | None
    data: Mapping[str, str | os.PathLike[str]] | None = None
    folder: str | os.PathLike[str] | None = None

    def folder_of(self, source: str | os.PathLike[str] | bytes) -> str:
        """What the names of files in the program are relative to."""
        if self.folder is not None:
            return str(self.folder)
        return "" if isinstance(source, bytes) else str(Path(source).parent)


def load_alone(
    source: str | os.PathLike[str] | bytes,
    stated: Stated,
    answering: Answering,
    *,
    initialise: bool,
    check_finite: bool,
) -> Module:
    """A program to call, as `dfc_runtime.load` describes it."""
    recorder = None if answering.trace is None else Recorder()
    answers = Answers(
        answering.handlers or {}, answering.summaries, recorder, answering.folder_of(source), answering.data or {}
    )
    module = _load(source, stated, initialise, answers, check_finite=check_finite)
    around = replace(answering, trace=None, folder=answering.folder_of(source))
    module.reload = lambda bundle: load_alone(bundle, stated, around, initialise=True, check_finite=check_finite)
    return _traced(module, recorder, answering.trace)


def _traced(module: Module, recorder: Recorder | None, path: str | os.PathLike[str] | None) -> Module:
    """The module; if it is traced, closing it writes the file."""
    if recorder is not None and path is not None:
        meter = module.measured_stages()
        recorder.record_calls(module.entries, module.__dict__, meter)
        module.at_close.append(lambda: recorder.write(path, module.name, meter))
    return module


@dataclass(frozen=True, slots=True)
class Stated:
    """What the caller of `load` says of the machine; `neighbour` is the number of this rank on it, where there are many
    ranks: then `device` is for those whose tasks work on one."""

    threads: int | None
    limit: int | None
    device: int | None
    results: str
    neighbour: int | None = None

    def resolved(self, bundle: OpenBundle, threads: int, limit: int) -> _Running:
        """With what the environment says, and what the driver of the bundle has."""
        has_devices = find_driver(bundle.manifest.driver).has_devices
        if self.results not in ("host", "device"):
            raise FeedError(f'results is "host" or "device", not {self.results!r}', code="E0901")
        if self.results == "device" and not has_devices:
            text = 'results="device" is for programs that run on a GPU, and this one was compiled for the processor'
            raise FeedError(f"{text}: leave it out, or compile with --target cuda", code="E0901")
        if self.results == "device" and bundle.manifest.driver == MIXED:
            text = "this program works on several devices, and returns its results to the memory of the host"
            raise FeedError(f'{text}: leave out results="device"', code="E0901")
        return _Running(
            threads,
            limit,
            working_limit(self.limit, limit, on_device=has_devices),
            self._device(bundle.manifest.notes, has_devices=has_devices),
            self.results == "device",
            self.neighbour is not None,
        )

    def _device(self, notes: Mapping[str, object], *, has_devices: bool) -> int:
        if not has_devices and DEVICE_NOTE in notes:
            raise ValueError("its program is for a GPU, and its driver is not")
        if self.neighbour is None:
            return device_number(self.device, has_devices=has_devices)
        if not has_devices:
            return 0
        return device_number(device_of_rank(notes, self.neighbour, self.device), has_devices=True)


@dataclass(frozen=True, slots=True)
class _Running:
    """How a program is run: threads, the limit in bytes for state and for calls, the device, where results lie, and
    whether it is the part of one rank of many, whose calls queue up before they come here."""

    threads: int
    limit: int
    call_limit: int
    device: int
    results_on_device: bool
    is_role: bool


def _load(
    source: str | os.PathLike[str] | bytes,
    stated: Stated,
    initialise: bool,
    answers: Answers,
    *,
    check_finite: bool = False,
    check: Callable[[Manifest], None] | None = None,
) -> Module:
    threads, limit = usable_threads(stated.threads), memory_limit(stated.limit)
    with bundles.opened(source) as bundle:
        _require_one_rank(bundle)
        if check is not None:
            check(bundle.manifest)
        running = stated.resolved(bundle, threads, limit)
        if check_finite and not has_checks(bundle.manifest):
            image = image_for(bundle, running.device)
            return _load(with_checks(_origin(bundle, running, image)), stated, initialise, answers)
        shares = any(entry.container != DEFAULT_CONTAINER for entry in bundle.manifest.state)
        with containers.loading if shares else nullcontext():
            return _loaded(bundle, running, initialise, answers)


def _require_one_rank(bundle: OpenBundle) -> None:
    cluster = bundle.manifest.cluster
    if cluster is not None:
        jobs = ", ".join(f"{job.name} {job.tasks}" for job in cluster.jobs)
        text = f"{bundle.manifest.name} is for many ranks ({jobs}): every rank loads it with comm=MPI.COMM_WORLD"
        raise RankCountError(text, code="E0912")


def _loaded(bundle: OpenBundle, running: _Running, initialise: bool, answers: Answers) -> Module:
    """The module, its state set: by captured state, else by `init`, but for what other programs have set already."""
    asks = any(site.kind not in NATIVE_KINDS for site in bundle.manifest.sites)
    manifest = bundle.manifest
    gate = Queue(has_requests=asks) if running.is_role else Gate(Conflicts(manifest).groups(), has_requests=asks)
    state = State(manifest.state, gate, running.limit, idle_state(manifest), manifest.omitted_state)
    others = state.set_by_others()
    captured = _restore_captured(bundle, state, others)
    saver = Saver(state, bundle.manifest.name)
    readers = answers.readers(bundle.manifest)
    hosts = answers.hosts(bundle.manifest, state, saver, gate.serving, readers)
    module = _make(bundle, state, gate, running, hosts, saver, readers)
    if readers is not None:
        module.at_close.append(readers.close)
    init = module.entries.get(INIT)
    if initialise and init is not None and not captured and not (init.signature.parameters or init.signature.dim_feeds):
        if others:
            copies = {name: _copy(state.arrays[name]) for name in others}
            image = image_for(bundle)
            module.init_over(make_driver(bundle, image, state, running.threads, running.limit, hosts, copies))
        else:
            init()
        state.wrote(init.signature.writes)
        state.release_idle()
    return module


def idle_state(manifest: Manifest) -> set[str]:
    """The variables that no entry but `init` mentions."""
    named = {name for entry in manifest.entries if entry.name != INIT for name in (*entry.reads, *entry.writes)}
    return {entry.name for entry in manifest.state if entry.kind == "variable"} - named


def _copy(array: Array) -> Array:
    copied = aligned(array.shape, array.dtype)
    np.copyto(copied, array)
    return copied


def _make(
    bundle: OpenBundle,
    state: State,
    gate: Gate,
    running: _Running,
    hosts: Hosts,
    saver: Saver,
    readers: Readers | None,
) -> Module:
    image, limit = image_for(bundle, running.device), running.limit
    driver = make_driver(bundle, image, state, running.threads, limit, hosts, device=running.device)
    state.attach(driver.memory)
    if readers is not None and isinstance(driver, TakesRecords):
        driver.use_blocks(readers.blocks)
    results, on_device = ResultMemory(), running.results_on_device
    arenas = [Arena() for _ in gate.groups] or [Arena()]
    machinery = Machinery(bundle.manifest, driver, state, gate, arenas, running.call_limit, hosts, results, on_device)
    if any(entry.kind == QUEUE for entry in bundle.manifest.state):
        from dfc_runtime.runners.runners import Runners  # programs without queues need nothing of it

        machinery.runners = Runners(
            bundle.manifest,
            driver,
            state,
            hosts,
            gate,
            running.call_limit,
            is_role=running.is_role,
            readers=readers,
        )
        saver.pipeline = machinery.runners.pipeline
    try:
        return Module(machinery, _origin(bundle, running, image), saver)
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as problem:
        raise refused(bundle, problem) from problem


def _origin(bundle: OpenBundle, running: _Running, image: ImageEntry) -> Origin:
    manifest = bundle.manifest
    isa = variant(bundle, image, running.device)
    return Origin(sources_of(bundle), manifest.settings, manifest.driver, isa, running.threads, running.device)


def _restore_captured(bundle: OpenBundle, state: State, others: Sequence[str]) -> bool:
    """State that was saved inside the bundle, but for what other programs have set; whether there is any."""
    captured = [name for name in state.entries if bundles.WEIGHTS + name in bundle.header.tensors]
    for name in captured:
        if name not in others:
            entry, data = state.entries[name], bundle.read(bundles.WEIGHTS + name)
            state.fill(name, np.frombuffer(data, numpy_dtype(entry.dtype)).reshape(entry.shape))
    return bool(captured)


def usable_threads(stated: int | None = None) -> int:
    """How many threads a module uses."""
    if stated is None:
        text = os.environ.get(THREADS_VARIABLE, "").strip()
        if not text:
            return len(os.sched_getaffinity(0))
        stated = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not is_whole(stated) or not 1 <= stated <= MOST_THREADS:
        raise FeedError(f"the number of threads is a whole number from 1 to {MOST_THREADS}", code="E0901")
    return stated
