"""What a driver is: the half of a target that runs its code images. Found through the entry point group `dfc.drivers`.

Assumes that the image was checked against its hash and that this machine has the instruction-set bits it needs:
the loader sees to both before a driver is made. A driver maps the image, keeps the addresses of constants and
resources, owns the threads, and calls native functions. It must be importable without the compile half of its target.

Slots of a call: 8 bytes each, little-endian, in this order: arguments (tensor: address; 0-d: the value in the low
bytes, the rest zero; text: unused), results (tensor: address; 0-d: the value is written there), dims (i64), address
of the arena. Tensors are row-major and aligned to their element, at least; the arena, resources and constants are
aligned to 64 bytes.

A driver whose programs work in the memory of a device keeps copies of constants and resources there, and gets no
arena: it has its own. Tensors of a slot lie in the memory of the host, but where `ON_DEVICE` is set in the address:
then they lie in that of the device. A call is over when it returns, whatever it runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.errors import BundleError
from dfc_runtime.formats.fields import shown
from dfc_runtime.processor import host_bits

Array = NDArray[np.generic]

LOCK_BYTES = 64
ON_DEVICE = 1 << 63
"""Set in the slot of a tensor that lies in the memory of the device."""
BUILT_IN: dict[str, str] = {
    "cpu": "dfc_driver_cpu.driver:CpuDriver",
    "cuda": "dfc_driver_cuda.driver:CudaDriver",
    "mixed": "dfc_runtime.mixed.driver:MixedDriver",
}
"""Drivers that are found without a scan of the installed packages, which takes tens of milliseconds."""
SEPARATE = {"cpu": "dfc-driver-cpu", "cuda": "dfc-driver-cuda"}
"""Those of them that are distributions of their own: a machine that only runs bundles has those it needs."""


class NativeEntry(Protocol):
    """One native function of an entry."""

    @property
    def call(self) -> Callable[[int], int]:
        """Runs it on the slots at this address: 0 when it is done, anything else after a fault. May be the foreign
        function itself. The runtime fetches it once and calls it directly."""
        ...


class NativeFunction:
    """A native entry as its function alone."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[int], int]) -> None:
        self.call = call


class DeviceMemory(Protocol):
    """The memory of a device that a program works in, with copies of its resources. The runtime calls it while no entry
    runs, or from a host call of one; what a function says is done when it returns."""

    @property
    def kind(self) -> tuple[int, int]:
        """The kind of device and its number, as DLPack counts them: (2, 0) is the first CUDA device."""
        ...

    @property
    def stream(self) -> int:
        """The handle of the stream on which calls run, for those who make arrays ready on it; 1 for the default."""
        ...

    def pull(self, names: Sequence[str]) -> None:
        """Copies these resources from the device to the arrays of the host."""
        ...

    def push(self, names: Sequence[str]) -> None:
        """Copies these resources from the arrays of the host to the device."""
        ...

    def allocate(self, size: int) -> int:
        """The address of new memory of the device, aligned to 256 bytes; `LimitError` if there is none."""
        ...

    def free(self, address: int) -> None:
        """Gives memory back that `allocate` gave; also of a thread that runs a finaliser, and after `close`."""
        ...

    def copy_out(self, address: int, array: Array) -> None:
        """Fills a row-major array of the host with memory of the device."""
        ...

    def wait(self, stream: int) -> None:
        """Later calls begin after what is queued on that stream now: a handle, or 1 or 2 for the default streams."""
        ...


class Driver(Protocol):
    """A loaded code image. Lives as long as its module."""

    @property
    def memory(self) -> DeviceMemory | None:
        """The memory of the device; None if the program works on the arrays of the host themselves."""
        ...

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


@runtime_checkable
class Interruptible(Protocol):
    """A driver whose calls can be stopped from outside, and then leave state as it was before them."""

    def interruption(self) -> BaseException | None:
        """What stopped the last failed call of this thread: what the handler of a signal has raised, or
        `KeyboardInterrupt`; None if it failed otherwise. State is as before the call."""
        ...

    def undo(self) -> bool:
        """Puts state back as it was before the last failed call of this thread, of which the caller still holds the
        gate; False where that cannot be done any more."""
        ...


class DriverType(Protocol):
    """The class of a driver. All arguments are given by name."""

    @property
    def has_devices(self) -> bool:
        """Whether programs work in the memory of a device, which `device` chooses. Others never get `device`."""
        ...

    def bits(self, device: int) -> frozenset[str]:
        """What code runs here, as images state what they need: a class method. Fails with a `DfcError` that says what
        to do where nothing can run (`dfc_runtime.devices` has the messages)."""
        ...

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
        device: int = ...,
        state_owner: Driver | None = ...,
    ) -> Driver:
        """`constants` is u8, not to be written; `resources` are arrays by full name, in the order of the manifest,
        whose addresses stay as they are while the driver lives. `locks` are `LOCK_BYTES` bytes of memory for each
        container of state, zero at first; drivers that share a container share its lock. `host(site, address of a
        frame)` is given to programs with host calls: native code calls it, in the thread of the call, and stops with a
        fault of no site if the first word of the frame is not zero afterwards. The frame has 8-byte words: that one,
        the addresses of inputs and of outputs, and those of their extents that are no plain numbers in the manifest;
        all of them lie in the memory of the host. `device` is the number of the device, and `state_owner` another
        driver of the class whose resources have the same names and arrays: this one works on its copies. Both are given
        to drivers that have devices."""
        ...


@runtime_checkable
class TakesRecords(Protocol):
    """A driver whose code takes records out of blocks in memory (`dfc_runtime.records.blocks`) by itself."""

    def use_blocks(self, addresses: Mapping[str, int]) -> None:
        """The headers of the blocks, by the names of readers; they stay where they are while the driver lives."""
        ...


class OnHost:
    """What drivers inherit whose programs run on the processor, on the arrays of the host themselves."""

    has_devices = False
    memory: DeviceMemory | None = None

    @classmethod
    def bits(cls, _device: int) -> frozenset[str]:
        """The instruction-set bits of this processor."""
        return host_bits()


def find_driver(name: str) -> DriverType:
    """The driver of that name; `BundleError` lists what is installed."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        try:
            return cast(DriverType, getattr(import_module(module), attribute))
        except ImportError:
            pass  # not installed here: another package may offer it
    from importlib.metadata import entry_points  # reading package metadata is slow and rarely needed

    offered = entry_points(group="dfc.drivers")
    points = [point for point in offered if point.name == name]
    if len(points) == 1:
        return cast(DriverType, points[0].load())
    if points:
        offers = shown(", ".join(p.value for p in points), 100)
        raise BundleError(f"driver {shown(name)} is offered more than once: {offers}", code="E0907")
    known = ", ".join(sorted({*(point.name for point in offered), *filter(_is_here, SEPARATE)})) or "none"
    text = f"the bundle needs the driver {shown(name)}; installed: {shown(known, 80)}"
    remedy = f": pip install {SEPARATE[name]}" if name in SEPARATE else ""
    raise BundleError(text + remedy, code="E0907")


def has_queues(name: str) -> bool:
    """Whether the native code of a driver answers the requests of queues and runners itself: those that do say so by
    `has_queues`, and are `dfc_runtime.runners.native.HasQueues` for programs with queues."""
    return getattr(find_driver(name), "has_queues", False) is True


def _is_here(name: str) -> bool:
    """Whether a built-in driver is installed, perhaps as part of a checkout that states no entry points for it."""
    return find_spec(BUILT_IN[name].partition(".")[0]) is not None
