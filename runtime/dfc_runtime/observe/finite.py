"""What a module does around each call of a program that was compiled with checks of finite values.

State is copied before a call. When a check fails, state is put back as it was before the call, and if the compiler is
installed and the bundle carries its source, the call is evaluated once more to find the element and the ranges of the
inputs. Calls with checks of one state queue up, so that what is put back is what this call changed. Assumes that the
caller holds no gate. The cost, beside the checks themselves, is that copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.calls import Machinery
from dfc_runtime.calls.compiling.origin import Origin
from dfc_runtime.calls.device_arrays import on_host
from dfc_runtime.errors import DfcError, RunError, UnsupportedError
from dfc_runtime.formats.manifest import Entry, Manifest

COMPILER = "dfc.driver.loaded.nonfinite"
CODE = "E0910"
KIND = "finite"
Array = NDArray[np.generic]
Part = tuple[tuple[str, ...], tuple[str, ...]]
"""Which part of an entry: the names of what is fetched, and of what is fed."""


def has_checks(manifest: Manifest) -> bool:
    """Whether the program was compiled with checks of finite values."""
    return any(site.kind == KIND for site in manifest.faults)


def with_checks(origin: Origin) -> bytes:
    """The bundle of a program compiled again, with checks."""
    try:
        compiler = import_module(COMPILER)
    except ImportError:
        text = "the bundle was compiled without checks of finite values, and the compiler is not installed"
        raise UnsupportedError(f"{text}: pip install dfc", code="E1001") from None
    if not origin.sources:
        text = "the bundle has no checks of finite values and does not carry its source to compile it with them"
        raise UnsupportedError(text, code="E1001")
    compiled = cast("Callable[..., bytes]", compiler.compiled)
    return compiled(origin.sources, origin.settings, origin.target, origin.isa)


def checked(
    machinery: Machinery, origin: Origin, entry: Entry, function: Callable[..., object], part: Part | None = None
) -> Callable[..., object]:
    """The function of an entry, or of a part of one, that says more when a check of finite values fails."""
    state = machinery.state
    label = entry.name if part is None else f"run({', '.join(part[0])})"
    steps = 0

    def call(*feeds: object, **named: object) -> object:
        with state.turn:
            return watched(*feeds, **named)

    def watched(*feeds: object, **named: object) -> object:
        nonlocal steps
        steps += 1
        with state.alone:
            before = {name: array.copy() for name, array in state.current(state).items()}
            unset = set(state.unset)
        try:
            return function(*feeds, **named)
        except RunError as problem:
            if problem.code != CODE:
                raise
            with state.alone:
                state.fill_all(before)
                state.unset.update(unset)
            known = {name: array for name, array in before.items() if name not in unset}
            names = [parameter.name for parameter in entry.parameters]
            fed = {**dict(zip(names, feeds, strict=False)), **named}
            fed = {name: on_host(value, machinery.driver.memory) for name, value in fed.items()}
            text = _explained(origin, entry, fed, known, part) or problem.message
            message = f"{text}\n  in call {steps} of `{label}`; state is as before this call"
            raise RunError(message, code=CODE, spans=problem.spans) from None

    return call


def _explained(
    origin: Origin, entry: Entry, feeds: Mapping[str, object], state: Mapping[str, Array], part: Part | None
) -> str:
    """What the compiler finds; nothing where it is not installed or cannot tell."""
    try:
        compiler = import_module(COMPILER)
    except ImportError:
        return ""
    if not origin.sources:
        return ""
    sizes = {name: value for name, value in feeds.items() if name in entry.dim_feeds}
    values = {name: value for name, value in feeds.items() if name not in sizes}
    explain = cast("Callable[..., str]", compiler.explain)
    try:
        return explain(origin.sources, origin.settings, entry.name, values, state, sizes, part)
    except (DfcError, MemoryError):
        return ""
