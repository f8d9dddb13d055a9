"""The process-wide threads that serve kernels: the run half of `threads.py`.

Assumes an image with `dfc_worker` and `dfc_stop`; the first one loaded serves all, since the pool's layout is fixed by
its ABI version. Guarantees: at most one pool a process; started on first use; gone before the interpreter ends; a
forked child starts without threads and gets its own on first use. The memory is never given back, so a thread that
outlives the interpreter's end finds it. Needs the standard library only.
"""

import atexit
import ctypes
import os
import threading

from dfc_driver_cpu.affinity import Affinity
from dfc_driver_cpu.context import ABI_VERSION, Context, Pool
from dfc_runtime.code_memory import MappedCode, map_memory
from dfc_runtime.dataclasses import dataclass

THREADS_VARIABLE = "DFC_THREADS"
_JOIN_SECONDS = 2.0
_SYSCALL = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value


def usable_threads() -> int:
    """`DFC_THREADS` where set, else the processors this process may use."""
    stated = os.environ.get(THREADS_VARIABLE, "").strip()
    if not stated:
        return len(os.sched_getaffinity(0))
    if not stated.isdigit() or not 1 <= int(stated) <= 4096:
        raise ValueError(f"{THREADS_VARIABLE} is {stated!r}: a number from 1 to 4096 is expected")
    return int(stated)


@dataclass(frozen=True, slots=True)
class PoolEntries:
    """Addresses of the pool's functions in a loaded image, which stays for good once threads are in it."""

    image: MappedCode
    worker: int
    stop: int


class ThreadPool:
    """The pool's memory and its threads."""

    def __init__(self) -> None:
        self.address = map_memory(ctypes.sizeof(Pool))
        self.shared = Pool.from_address(self.address)
        self.shared.abi_version = ABI_VERSION
        self.shared.syscall = _SYSCALL
        self._affinity = Affinity(self.shared)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._entries: PoolEntries | None = None

    def ensure(self, entries: PoolEntries, threads: int) -> None:
        """Have at least `threads` threads, the caller's counted in. Cheap when they are there."""
        if self.shared.workers >= threads - 1:
            return
        with self._lock:
            if self._entries is None:
                self._entries = entries
                entries.image.keep()
                atexit.register(self.stop)
            while self.shared.workers < threads - 1:
                self._start(self._entries)

    def _cover_threads(self) -> None:
        self._affinity.cover([thread.native_id for thread in self._threads if thread.native_id is not None])

    def _start(self, entries: PoolEntries) -> None:
        serve = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entries.worker)
        name = f"dfc-{len(self._threads) + 1}"
        thread = threading.Thread(target=serve, args=(self.address,), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        self._cover_threads()  # first: code that sees the worker counted finds it in the table
        self.shared.workers += 1

    def stop(self) -> None:
        """Send the threads home; later calls run alone until `ensure` is called again."""
        with self._lock:
            if self._entries is None or not self._threads:
                return
            self.shared.workers = 0
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._entries.stop)(self.address)
            for thread in self._threads:
                thread.join(_JOIN_SECONDS)
            self._threads.clear()
            self._cover_threads()
            self.shared.stop = 0

    def forget_threads(self) -> None:
        """In a forked child: the threads are not there, nor is any job of theirs."""
        self._lock = threading.Lock()
        self._threads.clear()
        self._cover_threads()
        shared = self.shared
        shared.workers = shared.sleepers = shared.caller_sleeps = shared.busy = shared.stop = shared.claims = 0
        shared.users = 0


_pool: ThreadPool | None = None
_pool_lock = threading.Lock()


def shared_pool() -> ThreadPool:
    """The one pool of this process."""
    global _pool
    if _pool is None:
        with _pool_lock:
            if _pool is None:
                _pool = ThreadPool()
                os.register_at_fork(after_in_child=_after_fork)
    return _pool


def _after_fork() -> None:
    if _pool is not None:
        _pool.forget_threads()


def new_context(entries: PoolEntries | None = None, threads: int | None = None) -> Context:
    """A context with ABI, system call and (for more than one thread) pool filled in."""
    context = Context()
    context.abi_version = ABI_VERSION
    context.syscall = _SYSCALL
    context.threads = usable_threads() if threads is None else threads
    if entries is not None and context.threads > 1:
        pool = shared_pool()
        pool.ensure(entries, context.threads)
        context.pool = pool.address
    return context
