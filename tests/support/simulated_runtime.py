"""Bundles of the CUDA target, loaded by the runtime onto simulated devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import dfc
from dfc_driver_cuda import libcuda
from dfc_runtime.module import Module
from dfc_target_cuda.target import SIMULATOR
from tests.support.simulated_device import SimulatedDevice


@contextmanager
def simulated_devices(count: int = 1, **options: Any) -> Iterator[list[list[SimulatedDevice]]]:
    """Makes the runtime see this many devices. What is opened on each is kept in a list for each."""
    opened: list[list[SimulatedDevice]] = [[] for _ in range(count)]

    def open_device(number: int) -> SimulatedDevice:
        opened[number].append(SimulatedDevice(**options))
        return opened[number][-1]

    def device_bits(number: int) -> frozenset[str]:
        assert 0 <= number < count
        return frozenset({SIMULATOR, "sm_90"})

    with mock.patch.multiple(libcuda, open_device=open_device, device_bits=device_bits):
        yield opened


def simulated(text: str, **options: Any) -> Module:
    """A program in kernel text. Call with `simulated_devices` entered."""
    bundle = dfc.compile(text=f"dfg 1\n{text}\n", target="cuda", variants=[SIMULATOR])
    return dfc.loads(bundle.to_bytes(), **options)


def native(text: str, **options: Any) -> Module:
    """The same on the processor."""
    return dfc.loads(dfc.compile(text=f"dfg 1\n{text}\n").to_bytes(), threads=1, **options)
