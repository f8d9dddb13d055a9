"""A driver for a bundle that was checked, over state that exists.

Assumes an open bundle. Guarantees that the code that is mapped is the code that was hashed, and that whatever a driver
makes of a bundle it does not understand is a `BundleError`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.driver import Driver, find_driver
from dfc_runtime.errors import LimitError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.manifest import ImageEntry
from dfc_runtime.hosts import Hosts
from dfc_runtime.memory import aligned, check_limit
from dfc_runtime.observation import observe
from dfc_runtime.processor import choose_image
from dfc_runtime.state import State

Array = NDArray[np.generic]


def image_for(bundle: OpenBundle) -> ImageEntry:
    """The code for this machine."""
    image = choose_image(bundle.manifest.images)
    observe("processor")
    return image


def make_driver(
    bundle: OpenBundle,
    image: ImageEntry,
    state: State,
    threads: int,
    limit: int,
    hosts: Hosts,
    instead: Mapping[str, Array] | None = None,
) -> Driver:
    """Maps the code over the state, of which the program may use a part. `instead` are other arrays for some names."""
    manifest = bundle.manifest
    code = bundle.read(image.tensor)
    size = bundle.tensor(bundles.CONSTANTS).size
    check_limit("the constants of the program", size, limit)
    constants = aligned((size,), np.dtype(np.uint8))
    bundle.read_into(bundles.CONSTANTS, constants.data)
    constants.flags.writeable = False
    arrays = {**state.arrays, **(instead or {})}
    make = find_driver(manifest.driver)
    more = {"host": hosts.call} if hosts else {}
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


def refused(bundle: OpenBundle, problem: Exception) -> Exception:
    """The error for a bundle whose driver does not take it."""
    reason = str(problem) if type(problem) is ValueError else f"{type(problem).__name__}: {problem}"
    return bundles.damaged(bundle.source.name, f"the driver {bundle.manifest.driver} refuses it: {reason}")
