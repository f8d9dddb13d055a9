"""One device of a program on several: its driver, what its code asks for, and the thread that calls it.

Assumes the bundle of a device as the compiler makes it. Guarantees that nothing which goes wrong in a request leaves
the foreign function that asked: it is kept for whoever called.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Callable
from dataclasses import field
from queue import SimpleQueue

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import Driver
from dfc_runtime.formats.manifest import Entry, HostSite, Manifest
from dfc_runtime.mixed.meeting import Meeting, StoppedError
from dfc_runtime.mixed.plan import NOT_OUTSIDE, DevicePlan
from dfc_runtime.observe.kernel_times import TICK

HostCall = Callable[[int, int], None]
SEND, RECEIVE = "send", "recv"
_WORD = ctypes.c_int64


class Messenger:
    """Answers the host calls of one device: those between devices here, all others as the program does."""

    def __init__(self, plan: DevicePlan, manifest: Manifest, meeting: Meeting, host: HostCall | None) -> None:
        if len(plan.sites) != len(manifest.sites):
            raise ValueError(f"{plan.name} has {len(manifest.sites)} host calls, and the plan {len(plan.sites)}")
        self._host = host
        self._meeting = meeting
        self._name = plan.name
        self._outside = plan.sites
        self._messages = [
            _Message(site) if number == NOT_OUTSIDE else None
            for site, number in zip(manifest.sites, plan.sites, strict=True)
        ]
        self.problem: BaseException | None = None
        pairs = zip(manifest.sites, plan.sites, strict=True)
        self.asks = {site.entry for site, number in pairs if number >= 0 and site.kind != TICK}
        """The entries that ask for something in the thread of the call."""

    def call(self, site: int, frame: int) -> None:
        """What native code calls; the first word of its frame says that it failed until it is cleared."""
        message = self._messages[site]
        if message is None:
            if self._host is not None:
                self._host(self._outside[site], frame)
            return
        status = _WORD.from_address(frame)
        try:
            address, size = message.operand(frame)
            if message.sends:
                self._meeting.put(message.key, message.to, address, size)
            else:
                self._meeting.take(message.key, self._name, message.source, address, size)
            status.value = 0
        except StoppedError:
            status.value = 1
        except BaseException as problem:
            status.value = 1
            self.problem = problem


class _Message:
    """A place where code sends or receives."""

    def __init__(self, site: HostSite) -> None:
        (operand,) = (*site.inputs, *site.outputs)
        if site.kind not in (SEND, RECEIVE):
            raise ValueError(f"a message between devices is of the kind {site.kind}")
        self.sends = site.kind == SEND
        self.key = _text(site, "key")
        self.source = _text(site, "source")
        to = site.attributes.get("destinations", ())
        self.to = to if isinstance(to, tuple) else ()
        self._item = numpy_dtype(operand.dtype).itemsize
        self._fixed = math.prod(axis for axis in operand.shape if isinstance(axis, int))
        self._open = sum(isinstance(axis, str) for axis in operand.shape)
        self._frame = _WORD * (2 + self._open)

    def operand(self, frame: int) -> tuple[int, int]:
        """The address and the bytes of what is sent, or received."""
        words = self._frame.from_address(frame)
        return words[1], self._item * self._fixed * math.prod(words[2:])


def _text(site: HostSite, name: str) -> str:
    attribute = site.attributes.get(name)
    if not isinstance(attribute, str):
        raise ValueError(f"a message between devices lacks its {name}")
    return attribute


@dataclass(slots=True)
class Unit:
    """A device that is loaded."""

    plan: DevicePlan
    manifest: Manifest
    driver: Driver
    messenger: Messenger
    worker: Worker = field(default_factory=lambda: Worker())

    @property
    def name(self) -> str:
        return self.plan.name

    def entry(self, number: int) -> Entry:
        if number >= len(self.manifest.entries):
            raise ValueError(f"{self.name} has no entry {number}")
        return self.manifest.entries[number]

    def close(self) -> None:
        self.worker.close()
        self.driver.close()


class Worker:
    """A thread that does one thing after the other. It begins with the first, and ends with the program."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._end = weakref.finalize(self, self._tasks.put, None)

    def do(self, task: Callable[[], None]) -> None:
        """Begins to do something, which raises nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=_work, args=(self._tasks,), name="dfc device", daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def close(self) -> None:
        """Ends the thread, when it has done what was begun."""
        self._end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None


def _work(tasks: SimpleQueue[Callable[[], None] | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # what it holds may end meanwhile
