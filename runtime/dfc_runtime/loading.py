"""From a bundle to a module.

The order is fixed: lengths, hashes, schema, instruction-set bits, and only then is code mapped. Assumes nothing of the
bytes. Guarantees that numbers do not depend on `threads`, and that state is initialised as if `init` had been called
once, where `init` takes no feeds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from dfc_runtime import containers
from dfc_runtime.element_types import numpy_dtype
from dfc_runtime.errors import FeedError
from dfc_runtime.finite import has_checks, with_checks
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER
from dfc_runtime.gate import Gate
from dfc_runtime.instances import image_for, make_driver, refused
from dfc_runtime.memory import aligned, memory_limit
from dfc_runtime.module import INIT, Module
from dfc_runtime.partial import Origin
from dfc_runtime.processor import choose_image
from dfc_runtime.state import State

Array = NDArray[np.generic]

THREADS_VARIABLE = "DFC_THREADS"
MOST_THREADS = 4096


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
) -> Module:
    """A program to call. `threads`: as stated, else `DFC_THREADS`, else one per processor; `memory_limit` in bytes:
    as stated, else `DFC_MEMORY_LIMIT`, else the memory of the machine. Without `initialise`, state is unset until
    `init` or `restore` is called. With `check_finite` a call stops at the first value that is not finite: a bundle that
    was compiled without these checks is compiled again, which needs the compiler."""
    return _load(path, threads, memory_limit, initialise, check_finite=check_finite)


def loads(
    data: bytes | bytearray | memoryview,
    threads: int | None = None,
    *,
    memory_limit: int | None = None,
    initialise: bool = True,
    check_finite: bool = False,
) -> Module:
    """Like `load`, for a bundle in memory."""
    return _load(bytes(data), threads, memory_limit, initialise, check_finite=check_finite)


def _load(
    source: str | os.PathLike[str] | bytes,
    threads: int | None,
    stated_limit: int | None,
    initialise: bool,
    *,
    check_finite: bool = False,
) -> Module:
    count = usable_threads(threads)
    limit = memory_limit(stated_limit)
    with bundles.opened(source) as bundle:
        if check_finite and not has_checks(bundle.manifest):
            return _load(with_checks(_origin(bundle, count)), threads, stated_limit, initialise)
        shares = any(entry.container != DEFAULT_CONTAINER for entry in bundle.manifest.state)
        with containers.loading if shares else nullcontext():
            return _loaded(bundle, count, limit, initialise)


def _loaded(bundle: OpenBundle, threads: int, limit: int, initialise: bool) -> Module:
    """The module, its state set: by captured state, else by `init`, but for what other programs have set already."""
    gate = Gate(has_concurrent=any(entry.concurrent for entry in bundle.manifest.entries))
    state = State(bundle.manifest.state, gate, limit)
    others = state.set_by_others()
    captured = _restore_captured(bundle, state, others)
    module = _make(bundle, state, gate, threads, limit)
    init = module.entries.get(INIT)
    if initialise and init is not None and not captured and not (init.signature.parameters or init.signature.dim_feeds):
        if others:
            copies = {name: _copy(state.arrays[name]) for name in others}
            module.init_over(make_driver(bundle, image_for(bundle), state, threads, limit, copies))
        else:
            init()
        state.wrote(init.signature.writes)
    return module


def _copy(array: Array) -> Array:
    copied = aligned(array.shape, array.dtype)
    np.copyto(copied, array)
    return copied


def _make(bundle: OpenBundle, state: State, gate: Gate, threads: int, limit: int) -> Module:
    driver = make_driver(bundle, image_for(bundle), state, threads, limit)
    try:
        return Module(bundle.manifest, driver, state, gate, limit, _origin(bundle, threads))
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as problem:
        raise refused(bundle, problem) from problem


def _origin(bundle: OpenBundle, threads: int) -> Origin:
    manifest = bundle.manifest
    isa = choose_image(manifest.images).isa
    return Origin(_sources(bundle), manifest.settings, manifest.driver, isa, threads)


def _sources(bundle: OpenBundle) -> dict[str, str]:
    """The texts the program was compiled from; none if the bundle has no text that could be one."""
    prefix = bundles.source_tensor("") + "/"
    names = [name for name in bundle.header.tensors if name.startswith(prefix)]
    places = [entry.place.name for entry in bundle.manifest.entries if entry.place.line]
    program = places[0] if places else f"{bundle.manifest.name}.dfg"
    paths = {program: bundles.SOURCE, **{name.removeprefix(prefix): name for name in names}}
    try:
        texts = {path: bundle.read(name).decode("utf-8") for path, name in paths.items()}
    except UnicodeDecodeError:
        return {}
    return texts if texts[program] else {}


def _restore_captured(bundle: OpenBundle, state: State, others: Sequence[str]) -> bool:
    """State that was saved inside the bundle, but for what other programs have set; whether there is any."""
    found = [name for name in state.entries if bundles.WEIGHTS + name in bundle.header.tensors]
    for name in found:
        if name not in others:
            entry, data = state.entries[name], bundle.read(bundles.WEIGHTS + name)
            state.fill(name, np.frombuffer(data, numpy_dtype(entry.dtype)).reshape(entry.shape))
    return bool(found)


def usable_threads(stated: int | None = None) -> int:
    """How many threads a module uses."""
    if stated is None:
        text = os.environ.get(THREADS_VARIABLE, "").strip()
        if not text:
            return len(os.sched_getaffinity(0))
        stated = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if isinstance(stated, bool) or not 1 <= stated <= MOST_THREADS:
        raise FeedError(f"the number of threads is a whole number from 1 to {MOST_THREADS}", code="E0901")
    return stated
