"""What is in a bundle, for those who want to look: parsing only. Nothing is executed, mapped or written.

Assumes nothing of the bytes. Needs the standard library only, no NumPy, but for `verify` of bundles for many ranks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import opened
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.manifest import QUEUE, Manifest, StateEntry
from dfc_runtime.mixed.looking import DeviceInfo, devices_in


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A bundle that was checked. `manifest` holds entries, state, faults, images; their `str` is as programs write.
    `devices` are those of programs that work on several, by role ("" where there are no ranks)."""

    path: str
    file_size: int
    manifest: Manifest
    tensors: tuple[TensorInfo, ...]
    source: str
    devices: Mapping[str, tuple[DeviceInfo, ...]]

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return sum(math.prod(each.shape) for each in self.manifest.state if each.trained)

    @property
    def state_size(self) -> int:
        """Bytes of state, without queues."""
        return sum(state_bytes(each) for each in self.manifest.state if each.kind != QUEUE)


def state_bytes(entry: StateEntry) -> int:
    """How large one piece of state is."""
    return math.prod(entry.shape) * SIZES[entry.dtype]


def inspect(path: str | os.PathLike[str] | bytes) -> Inspection:
    """Everything a bundle says about itself; `BundleError` if it is damaged. All hashes are checked."""
    with opened(path) as bundle:
        tensors = tuple(
            TensorInfo(t.name, t.dtype, t.shape, t.size)
            for t in sorted(bundle.header.tensors.values(), key=lambda t: (t.offset, t.size))
        )
        source = bundle.read(bundles.SOURCE).decode("utf-8", "replace")
        devices = devices_in(bundle)
        return Inspection(bundle.source.name, bundle.source.size, bundle.manifest, tensors, source, devices)


def verify(path: str | os.PathLike[str] | bytes) -> Manifest:
    """Checks lengths, hashes, schema and seals, of all that is inside as well: for many ranks also that the program of
    each fits what is said of all, which is what they check when they load it. Returns the manifest, or raises
    `BundleError`."""
    with opened(path) as bundle:
        devices_in(bundle)
        if bundle.manifest.cluster is not None:
            from dfc_runtime.distributed.calls.bundle_checks import check_ranks  # needs NumPy, as ranks do

            check_ranks(bundle)
        return bundle.manifest
