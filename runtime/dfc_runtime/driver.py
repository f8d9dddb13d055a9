"""What a driver is: the half of a target that runs its code images. Found through the entry point group `dfc.drivers`.

Assumes that the image was checked against its hash and that this machine has the instruction-set bits it needs:
the loader sees to both before a driver is made. A driver maps the image, keeps the addresses of constants and
resources, owns the threads, and calls native functions. It must be importable without the compile half of its target.

Slots of a call: 8 bytes each, little-endian, in this order: arguments (tensor: address; 0-d: the value in the low
bytes, the rest zero; text: unused), results (tensor: address; 0-d: the value is written there), dims (i64), address
of the arena. Tensors are row-major and aligned to their element, at least; the arena, resources and constants are
aligned to 64 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.errors import BundleError
from dfc_runtime.formats.fields import shown

Array = NDArray[np.generic]

LOCK_BYTES = 64
BUILT_IN: dict[str, str] = {"cpu": "dfc_targets.cpu.driver:CpuDriver"}
"""Drivers that are found without a scan of the installed packages, which takes tens of milliseconds."""


class NativeEntry(Protocol):
    """One native function of an entry."""

    @property
    def call(self) -> Callable[[int], int]:
        """Runs it on the slots at this address: 0 when it is done, anything else after a fault. May be the foreign
        function itself. The runtime fetches it once and calls it directly."""
        ...


class Driver(Protocol):
    """A loaded code image. Lives as long as its module."""

    @property
    def reentrant(self) -> bool:
        """Whether functions may be called from several threads at once; if not, the runtime makes calls queue up."""
        ...

    def entry(self, number: int) -> NativeEntry:
        """The native function of an entry, `entry_<number>_0`."""
        ...

    def last_fault(self) -> tuple[int, tuple[int, ...]]:
        """The fault site of the last failed call of this thread, counted from 0 as in the program's table of faults
        (-1: a host call failed), and its values: (index, extent) for a fault of kind `index`. What follows them is
        ignored."""
        ...

    def close(self) -> None:
        """Ends threads; nothing is called afterwards."""
        ...


class DriverType(Protocol):
    """The class of a driver. All arguments are given by name."""

    def __call__(
        self,
        *,
        image: bytes,
        symbols: Mapping[str, int],
        notes: Mapping[str, object],
        constants: Array,
        resources: Mapping[str, Array],
        threads: int,
        locks: Mapping[str, Array],
        host: Callable[[int, int], None] = ...,
    ) -> Driver:
        """`constants` is u8, not to be written; `resources` are arrays by full name, in the order of the manifest,
        whose addresses stay as they are while the driver lives. `locks` are `LOCK_BYTES` bytes of memory for each
        container of state, zero at first; drivers that share a container share its lock. `host(site, address of a
        frame)` is given to programs with host calls: native code calls it, in the thread of the call, and stops with a
        fault of no site if the first word of the frame is not zero afterwards. The frame has 8-byte words: that one,
        the addresses of inputs and of outputs, and those of their extents that are no plain numbers in the manifest."""
        ...


def find_driver(name: str) -> DriverType:
    """The driver of that name; `BundleError` lists what is installed."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        try:
            return cast(DriverType, getattr(import_module(module), attribute))
        except ImportError:
            pass  # not installed here: another package may offer it
    from importlib.metadata import entry_points  # reading package metadata is slow and rarely needed

    points = [point for point in entry_points(group="dfc.drivers") if point.name == name]
    if len(points) == 1:
        return cast(DriverType, points[0].load())
    if points:
        offers = shown(", ".join(p.value for p in points), 100)
        raise BundleError(f"driver {shown(name)} is offered more than once: {offers}", code="E0907")
    known = ", ".join(sorted({p.name for p in entry_points(group="dfc.drivers")})) or "none"
    raise BundleError(f"the bundle needs the driver {shown(name)}; installed: {shown(known, 80)}", code="E0907")
