"""A worker: a fork that takes one module's tests after the other, runs them, and says how they ended."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from mmap import mmap
from typing import NoReturn

import pytest
from _pytest.runner import runtestprotocol

from . import messages
from .units import Unit

LONG = 1.0
"""Seconds from which on the phases of a test are listed at the end (`Makefile`)."""

POSITION = struct.Struct("=iiii")
"""In shared memory, for each worker: the test that it runs, the end of its unit, and the unit it has taken next."""
PR_SET_PDEATHSIG = 1
"""Of `prctl.h`: the signal that this process gets when its parent ends; what it forks does not."""
NOWHERE = (-1, 0, 0, 0)
"""Before the first test and behind the last."""
MOST_ADDED_BYTES = 300 << 20
"""Bytes of memory beyond what it had at first from which on a worker takes no more modules. Compilers,
arrays and code that tests have made known add up to that in a few minutes; a new fork is there at once."""
HAS_GROWN = 3
"""The exit status of such a worker."""


def anonymous_bytes() -> int:
    """Of resident memory of this process what is no file: the pages of files go and come as others need room."""
    with open("/proc/self/statm", encoding="ascii") as file:
        resident, of_files = map(int, file.read().split()[1:3])
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


class MemoryUse:
    """How much this process has grown since it was asked for the first time. Once it was large it stays so: the last
    test of a module may give back what it has, when this worker has been told already that there is no other module."""

    def __init__(self) -> None:
        self._first = anonymous_bytes()
        self._was_large = False

    def is_large(self) -> bool:
        self._was_large = self._was_large or anonymous_bytes() - self._first > MOST_ADDED_BYTES
        return self._was_large


def is_reported(report: pytest.TestReport) -> bool:
    """Whether it says how the test itself ended, or more of what is around it than that it was quick and went well."""
    return report.when == "call" or not report.passed or bool(report.sections) or report.duration >= LONG


class Sender:
    """In a worker the plugin that tells the first process what its own hooks are to hear."""

    def __init__(self, config: pytest.Config, sink: int) -> None:
        self._config, self._sink = config, sink
        self._has_begun = False

    def begin(self) -> None:
        """It tells from here on: a plugin that is registered late first hears what was said before, by others."""
        self._config.pluginmanager.register(self, "worker")
        self._has_begun = True

    def send(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._sink, view) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """As pytest does, but one message where it has six: to write and read those takes as long as a small test."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if is_reported(report):
                self.send(messages.of_report(self._config, report))
        return True

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        if self._has_begun:
            self.send(messages.of_warning(warning_message, when, nodeid, location))


def _numbered(units: Iterable[Unit]) -> Iterator[tuple[int, Unit]]:
    for unit in units:
        for number in range(unit.start, unit.stop):
            yield number, unit


def run_units(session: pytest.Session, units: Iterable[Unit], shared: mmap, slot: int) -> None:
    """Runs tests in order; each is told which comes next, so that fixtures end with the last test that needs them."""
    items: Sequence[pytest.Item] = session.items
    numbers = _numbered(units)
    current = next(numbers, None)
    while current is not None:
        number, unit = current
        following = next(numbers, None)
        taken = following[1] if following is not None and following[1] is not unit else Unit(0, 0)
        POSITION.pack_into(shared, slot * POSITION.size, number, unit.stop, taken.start, taken.stop)
        item = items[number]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[following[0]] if following else None)
        current = following
    POSITION.pack_into(shared, slot * POSITION.size, *NOWHERE)


def work(
    session: pytest.Session, units: Iterable[Unit], memory: MemoryUse, shared: mmap, slot: int, sink: int
) -> NoReturn:
    """All that a fork does, which has begun with interrupts blocked; it ends without what its parent has planned for
    its own end."""
    sender = Sender(session.config, sink)
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        _begin(session, slot)
        sender.begin()
        run_units(session, units, shared, slot)
        status = HAS_GROWN if memory.is_large() else 0
    except pytest.exit.Exception as asked:
        _tear_down(session)
        sender.send(messages.encode("exit", text=asked.msg, code=asked.returncode))
    except BaseException:
        text = traceback.format_exc()
        _tear_down(session)
        sender.send(messages.encode("error", text=text))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _tear_down(session: pytest.Session) -> None:
    """Ends what fixtures have started; a second Ctrl-C does not come between."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BaseException):
        session._setupstate.teardown_exact(None)


def _begin(session: pytest.Session, slot: int) -> None:
    """What a fork must not share: the file that catches output, and the folder of temporary folders, which pytest
    searches through for each new one."""
    config = session.config
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is not None:
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        capturing.suspend_global_capture(in_=True)
    folders = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.mktemp(f"worker{slot}")
