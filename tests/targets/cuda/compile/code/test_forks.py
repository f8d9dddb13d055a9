"""Jobs in forks: results in order, and no failure without its words."""

import os
import signal
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.forks import run_forked


def number(value: int) -> bytes:
    return str(value).encode() * 100_000  # more than a pipe holds


def refuse(why: str) -> bytes:
    raise CodeGenerationError(why)


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_come_in_the_order_of_the_jobs(at_once: int) -> None:
    jobs = [partial(number, value) for value in range(7)]
    assert run_forked(jobs, at_once, [6, 0, 5, 1, 4, 2, 3]) == [number(value) for value in range(7)]
    assert run_forked([], at_once) == []


def test_the_warning_of_forks_is_none_of_the_users(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    own = os.fork

    def warned() -> int:
        warnings.warn("This process is multi-threaded, use of fork() may lead to deadlocks", DeprecationWarning, 2)
        return own()

    monkeypatch.setattr(os, "fork", warned)
    assert run_forked([partial(number, 1)], 1) == [number(1)]
    assert not recwarn.list


def test_a_job_leaves_nothing_behind_in_this_process() -> None:
    known: list[int] = []

    def count() -> bytes:
        known.append(1)
        return bytes(known)

    assert run_forked([count], 1) == [b"\1"]
    assert known == []


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_there_are_as_many_processes_as_run_at_once(at_once: int) -> None:
    def who() -> bytes:
        return str(os.getpid()).encode()

    found = run_forked([who] * 40, at_once)
    assert str(os.getpid()).encode() not in found and 1 <= len(set(found)) <= at_once


def test_jobs_behind_one_that_dies_are_done() -> None:
    def write(folder: Path, name: str) -> bytes:
        (folder / name).write_text("done")
        return b""

    with TemporaryDirectory() as folder:
        jobs = [lambda: os._exit(4), *(partial(write, Path(folder), name) for name in "abc")]
        with pytest.raises(CodeGenerationError, match="ended with 4"):
            run_forked(jobs, 1)
        done = sorted(os.listdir(folder))
    assert done == ["a", "b", "c"]


def test_the_first_refused_job_is_the_one_reported() -> None:
    jobs = [partial(number, 1), partial(refuse, "second"), partial(refuse, "third")]
    with pytest.raises(CodeGenerationError, match=r"^second$"):
        run_forked(jobs, 1, [2, 1, 0])


def test_a_mistake_of_ours_comes_with_its_place() -> None:
    with pytest.raises(CodeGenerationError, match=r"(?s)test_forks.*ZeroDivisionError"):
        run_forked([lambda: bytes(1 // 0)], 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_is_an_error(number: int) -> None:
    with pytest.raises(CodeGenerationError, match=f"ended with -{int(number)}"):
        run_forked([lambda: b"", lambda: bytes(os.kill(os.getpid(), number) or 0)], 2)


def test_a_process_that_leaves_without_a_word_is_an_error() -> None:
    with pytest.raises(CodeGenerationError, match="ended with 3"):
        run_forked([lambda: os._exit(3)], 1)
