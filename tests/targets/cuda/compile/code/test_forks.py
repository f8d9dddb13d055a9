"""Jobs in forks: results in order, and no failure without its words."""

import os
import signal
from functools import partial

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


def test_each_job_begins_with_what_this_process_knows() -> None:
    known: list[int] = []

    def count() -> bytes:
        known.append(1)
        return bytes(known)

    assert run_forked([count, count, count], 1) == [b"\1"] * 3
    assert known == []


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
