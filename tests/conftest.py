"""Options and fixtures for all tests."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import worker_reports
from tests.support.quick_code import is_quick, is_selected_quickly, quick_code
from tests.support.sweeping import WHOLE
from tests.support.warm_compiler import warm_compilers

settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")  # the same examples each time, on however slow a machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what the program says now into the files of expected outputs"
    )


TESTS = Path(__file__).resolve().parent
M_ARENA_MAX = -8
"""Of `malloc.h`: how many heaps the C library may keep for threads."""


def pytest_configure(config: pytest.Config) -> None:
    """What is compiled is kept for this run alone, for all its processes; never among the user's.

    One heap for all threads: a simulated lane is a thread, of which a run starts a hundred thousand, and the heaps that
    the C library keeps for them (eight a core) are never given back: half a gigabyte.

    NumPy's BLAS has no threads: those of each process that loads it first wait busily for a product, a third of all
    that the import takes, and the references are small.

    UCX, which MPICH is built with, leaves the machine code of `mmap` and `free` as it is: to patch it for the sake of
    RDMA, which nothing here has, is a third of what MPI takes in each rank.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(M_ARENA_MAX, 1)
    if not hasattr(config, "workerinput"):
        os.environ["DFC_CACHE"] = tempfile.mkdtemp(prefix="dfc-tests-")
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ.setdefault("UCX_MEM_EVENTS", "n")
        if _is_untranslated():
            os.environ[FIRST] = str(Path(os.environ["DFC_CACHE"]) / "collected")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["DFC_CACHE"], ignore_errors=True)


FIRST = "DFC_TESTS_FIRST"
"""In the environment of workers: the file that one of them locks while it collects, before all others."""


def _is_untranslated() -> bool:
    """Whether pytest has yet to translate the tests, as in a fresh clone, and will keep what it makes of them."""
    return not sys.dont_write_bytecode and not any(TESTS.rglob("__pycache__/test_*-pytest-*.pyc"))


@contextmanager
def _behind_the_first(config: pytest.Config) -> Generator[None]:
    """All workers but one wait until that one has collected, and find what it has translated for pytest and looked up
    for hypothesis: half of a collection. They wait for its descriptor, so also one that dies does not stop them."""
    path = os.environ.get(FIRST)
    if path is None or not hasattr(config, "workerinput"):
        yield
        return
    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_size:  # another one has been here
            fcntl.flock(file, fcntl.LOCK_UN)
        yield
        file.write("collected\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Nothing of what is collected becomes garbage, so that to look for it is a fifth of the collection for nothing."""
    gc.disable()
    with _behind_the_first(session.config):
        return (yield)


YOUNG = 20_000
"""New objects after which Python looks for dead cycles. A graph has thousands; at its usual 700 it looks through each
of them many times before they die, a fifteenth of the time of tests of passes."""


def pytest_collection_finish() -> None:
    """What has been collected stays until the end. If it counted, Python would look for dead cycles (graphs, and the
    arrays that they hold) only when there are a quarter as many objects as that, and look through all of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    gc.enable()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In workers; where there are none pytest's own."""
    if not hasattr(item.config, "workerinput"):
        return None
    worker_reports.run(item, nextitem)
    return True


LONGEST = 1000
WAITING = ("tests/mpi/", "tests/runtime/distributed/launch/", "tests/runtime/calls/test_interrupting.py")
"""Tests of processes that start, wait for each other, sleep, and are killed."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's name is kept a dozen times in each worker: no text of megabytes is part of it.

    Of several workers the first begins with the tests that wait, one after the other, while the rest have the
    processors. Where they come late, all workers wait at the same time, for more than a minute.
    """
    long = [item.name for item in items if len(item.name) > LONGEST]
    if long:
        raise pytest.UsageError(f"the name of a test has over {LONGEST} characters, give it an id: {long[0][:100]}...")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(WAITING))


@pytest.fixture(autouse=True, scope="session")
def compilers() -> Iterator[None]:
    """Kernels for GPUs are compiled without the start of a compiler for each request."""
    with warm_compilers():
        yield


TESTS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True, scope="module")
def native_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Before all other fixtures of a module, so that they compile as its tests do."""
    name = request.path.relative_to(TESTS).as_posix()
    if WHOLE or not (is_quick(name) or is_selected_quickly(name)):
        yield
        return
    with quick_code(optimised=is_selected_quickly(name)):
        yield


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be rewritten."""
    return bool(request.config.getoption("--bless"))
