"""Options and fixtures for all tests."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings

from dfc_target_cpu.link import parallel
from tests.support import rewriting, warm_compiler
from tests.support.quick_code import is_quick, is_selected_quickly, quick_code
from tests.support.sweeping import WHOLE, examples

pytest_plugins = ["tests.support.workers.plugin"]
settings.register_profile(
    "same",
    max_examples=examples(100),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")  # the same examples each time, on however slow a machine
rewriting.speed_up()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="write what the program says now into the files of expected outputs"
    )


TESTS = Path(__file__).resolve().parent
SHARED_MEMORY = Path("/dev/shm")
ENOUGH = 1 << 30
"""Free bytes of memory that is a file system from which on it takes what is compiled: an eighth of them at most."""
M_ARENA_MAX = -8
"""Of `malloc.h`: how many heaps the C library may keep for threads."""


def pytest_configure(config: pytest.Config) -> None:
    """What is compiled is kept for this run alone, for all its processes; never among the user's. It is kept in memory
    where there is enough: to write ten thousand small files to a disk, and to remove them at the end, takes seconds.

    One heap for all threads: a lane of numba's simulator is a thread, of which a run starts a hundred thousand, and the
    heaps that the C library keeps for them (eight a core) are never given back: half a gigabyte.

    NumPy's BLAS has no threads: those of each process that loads it first wait busily for a product, a third of all
    that the import takes, and the references are small.

    UCX, which MPICH is built with, leaves the machine code of `mmap` and `free` as it is: to patch it for the sake of
    RDMA, which nothing here has, is a third of what MPI takes in each rank.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(M_ARENA_MAX, 1)
    os.environ["DFC_CACHE"] = tempfile.mkdtemp(prefix="dfc-tests-", dir=_memory())
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("UCX_MEM_EVENTS", "n")


def _memory() -> Path | None:
    """A folder in memory, if there is one with enough room."""
    with suppress(OSError):
        known = os.statvfs(SHARED_MEMORY)
        if known.f_bavail * known.f_frsize >= ENOUGH and os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
            return SHARED_MEMORY
    return None


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(os.environ["DFC_CACHE"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Nothing of what is collected becomes garbage, so that to look for it is a fifth of the collection for nothing."""
    gc.disable()
    if _shares_compiler(session.config):
        warm_compiler.begin()  # it loads meanwhile
    return (yield)


YOUNG = 20_000
"""New objects after which Python looks for dead cycles. A graph has thousands; at its usual 700 it looks through each
of them many times before they die, a fifteenth of the time of tests of passes."""


def _shares_compiler(config: pytest.Config) -> bool:
    """Whether several workers are to use one process that has loaded numba."""
    return bool(config.getoption("workers") > 1 and find_spec("numba_cuda"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been collected stays until the end. If it counted, Python would look for dead cycles (graphs, and the
    arrays that they hold) only when there are a quarter as many objects as that, and look through all of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    gc.enable()
    if _shares_compiler(session.config):
        warm_compiler.server()  # the same for all workers


LONGEST = 1000


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's name is kept a dozen times: no text of megabytes is part of it."""
    long = [item.name for item in items if len(item.name) > LONGEST]
    if long:
        raise pytest.UsageError(f"the name of a test has over {LONGEST} characters, give it an id: {long[0][:100]}...")


@pytest.fixture(autouse=True, scope="session")
def compilers() -> Iterator[None]:
    """Kernels for GPUs are compiled without the start of a compiler for each request, and native code by the process of
    the test alone: others would have to import LLVM first, and all processors are busy with tests."""
    with warm_compiler.warm_compilers(), mock.patch.object(parallel, "PAYS_FROM", sys.maxsize):
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
