"""A driver whose native functions are Python functions: what runs, and on which slots, is all that tests need."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import numpy as np

from dfc_runtime.driver import OnHost

FUNCTIONS: dict[str, Callable[[Call], int]] = {}
INSTANCES: list[FakeDriver] = []


def native(function: Callable[[Call], int | None]) -> Callable[[Call], int]:
    """Registers a function under its name; None means that nothing failed."""

    def run(call: Call) -> int:
        return function(call) or 0

    FUNCTIONS[function.__name__] = run
    return run


class Call:
    """The slots of a call."""

    def __init__(self, address: int, driver: FakeDriver) -> None:
        self.address = address
        self.driver = driver

    def view(self, slot: int, dtype: str) -> np.ndarray:
        """The value in a slot, to read or write."""
        return self._at(self.address + 8 * slot, dtype, (1,))

    def array(self, slot: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """The tensor a slot points to."""
        return self._at(int(self.view(slot, "u8")[0]), dtype, shape)

    def size(self, slot: int) -> int:
        return int(self.view(slot, "i8")[0])

    def fault(self, site: int, *values: int) -> int:
        self.driver.fault = (site, values)
        return 1

    def ask(self, site: int) -> int:
        """Calls the run side at a site without operands."""
        frame = ctypes.c_int64(1)
        self.driver.host(site, ctypes.addressof(frame))
        return self.fault(-1) if frame.value else 0

    @staticmethod
    def _at(address: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = (ctypes.c_char * size).from_address(address) if size else bytearray()
        return np.frombuffer(memory, dtype).reshape(shape)


class FakeDriver(OnHost):
    """Its notes name the function behind each symbol."""

    reentrant = False

    def __init__(
        self,
        *,
        image: bytes,
        symbols: Mapping[str, int],
        notes: Mapping[str, object],
        constants: np.ndarray,
        resources: Mapping[str, np.ndarray],
        threads: int,
        locks: Mapping[str, np.ndarray],
        host: Callable[[int, int], None] | None = None,
    ) -> None:
        self.image = image
        self.symbols = symbols
        self.functions = notes["functions"]
        self.constants = constants
        self.resources = resources
        self.threads = threads
        self.locks = locks
        self.host = host
        self.fault: tuple[int, tuple[int, ...]] = (0, ())
        self.closed = False
        INSTANCES.append(self)

    def entry(self, number: int) -> SimpleNamespace:
        function = FUNCTIONS[self.functions[f"entry_{number}_0"]]
        return SimpleNamespace(call=lambda address: function(Call(address, self)))

    def last_fault(self) -> tuple[int, tuple[int, ...]]:
        return self.fault

    def close(self) -> None:
        self.closed = True


class ReentrantDriver(FakeDriver):
    """The same, for several calls at once."""

    reentrant = True
