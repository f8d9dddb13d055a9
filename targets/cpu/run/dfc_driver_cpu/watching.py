"""Native code that runs for long is made to ask, ten times a second, whether it is to stop.

A context whose `attention` is set calls the run side at its next chance; that clears it and registers here, and a
thread sets it again a while later. So a context that no call uses costs nothing, nor do calls that never ask; the
thread sleeps while nobody is registered. Guarantees that the thread is not there when a process forks: a child finds
all contexts set, as they are at first.
"""

import os
import threading
from collections import deque

from dfc_driver_cpu.context import Context

PERIOD = 0.1
"""Seconds between two questions of one call."""


class Watch:
    """The thread, and the contexts that are to ask again."""

    def __init__(self) -> None:
        self._asked: deque[Context] = deque()
        self._forget_thread()

    def _forget_thread(self) -> None:
        self._lock = threading.Lock()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def ask_again(self, context: Context) -> None:
        """Sets its `attention` in a while."""
        self._asked.append(context)
        if self._thread is None:
            self._start()
        if not self._wake.is_set():
            self._wake.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                words = (self._wake, self._stop)
                self._thread = threading.Thread(target=self._serve, args=words, name="dfc-watch", daemon=True)
                self._thread.start()

    def _serve(self, wake: threading.Event, stop: threading.Event) -> None:
        while not stop.is_set():
            wake.wait()
            wake.clear()
            stop.wait(PERIOD)
            self._set_all()

    def _set_all(self) -> None:
        while True:
            try:
                self._asked.popleft().attention = 1
            except IndexError:
                return

    def pause(self) -> None:
        """Ends the thread, until somebody registers."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None and thread is not threading.current_thread():
                self._stop.set()
                self._wake.set()
                thread.join()
                self._wake, self._stop = threading.Event(), threading.Event()
        self._set_all()

    def forget_thread(self) -> None:
        """In a forked child: no thread is there."""
        self._forget_thread()
        self._set_all()


WATCH = Watch()
os.register_at_fork(before=WATCH.pause, after_in_child=WATCH.forget_thread)
