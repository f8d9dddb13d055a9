"""A driver for a bundle that was checked, over state that exists.

Assumes an open bundle. Guarantees that the code that is mapped is the code that was hashed, and that whatever a driver
makes of a bundle it does not understand is a `BundleError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.hosts import Hosts
from dfc_runtime.calls.memory import aligned, check_limit
from dfc_runtime.devices import newest, wrong_architecture
from dfc_runtime.driver import Driver, find_driver
from dfc_runtime.errors import LimitError, UnsupportedError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, ImageEntry, StateEntry
from dfc_runtime.observation import observe
from dfc_runtime.processor import choose_image
from dfc_runtime.state.state import State

Array = NDArray[np.generic]


def image_for(bundle: OpenBundle, device: int = 0) -> ImageEntry:
    """The code for this machine, or for its device of that number."""
    images, driver = bundle.manifest.images, find_driver(bundle.manifest.driver)
    bits = driver.bits(device)
    observe("processor")
    if driver.has_devices and not any(bits.issuperset(image.required_bits) for image in images):
        raise wrong_architecture([image.isa for image in images], newest(bits))
    return choose_image(images, bits)


def make_driver(
    bundle: OpenBundle,
    image: ImageEntry,
    state: State,
    threads: int,
    limit: int,
    hosts: Hosts,
    instead: Mapping[str, Array] | None = None,
    device: int = 0,
    state_owner: Driver | None = None,
) -> Driver:
    """Maps the code over the state, of which the program may use a part. `instead` are other arrays for some names;
    `state_owner` is the driver whose copies of the state this one is to work on, where they lie on a device."""
    manifest = bundle.manifest
    code = bundle.code(image)
    size = bundle.tensor(bundles.CONSTANTS).size
    check_limit("the constants of the program", size, limit)
    constants = aligned((size,), np.dtype(np.uint8))
    bundle.read_into(bundles.CONSTANTS, constants.data)
    constants.flags.writeable = False
    arrays = {**state.arrays, **(instead or {})}
    make = find_driver(manifest.driver)
    if make.has_devices:
        refuse_shared(manifest.state)
    more: dict[str, Any] = {"host": hosts.call} if hosts else {}
    if make.has_devices:
        more |= {"device": device, "state_owner": state_owner}
    observe(f"map {image.tensor}")
    try:
        return make(
            image=code,
            symbols=image.symbols,
            notes=manifest.notes,
            constants=constants,
            resources={entry.name: arrays[entry.name] for entry in manifest.state},
            threads=threads,
            locks=state.locks,
            **more,
        )
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as problem:
        raise refused(bundle, problem) from problem
    except MemoryError:
        raise LimitError("there is no memory for the working space of the program", code="E0905") from None


def refuse_shared(state: Sequence[StateEntry]) -> None:
    """Programs share state in the memory of the host; copies on a device would be different state."""
    for entry in state:
        if entry.container != DEFAULT_CONTAINER:
            text = f"{shown(entry.name, 40)} is in the shared container {shown(entry.container, 40)}"
            helps = "programs share state on the processor only: compile with --target cpu, or leave out `container`"
            raise UnsupportedError(
                f"{text}, and the program is for a GPU: {helps}", code="E1003", spans=[entry.location]
            )


def refused(bundle: OpenBundle, problem: Exception) -> Exception:
    """The error for a bundle whose driver does not take it."""
    reason = str(problem) if type(problem) is ValueError else f"{type(problem).__name__}: {problem}"
    return bundles.damaged(bundle.source.name, f"the driver {bundle.manifest.driver} refuses it: {reason}")
