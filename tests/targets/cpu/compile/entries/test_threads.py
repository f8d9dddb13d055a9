"""Fork and join: every part once, for any number of threads; errors; forks; the end of the interpreter."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dfc_driver_cpu.context import Context, Pool
from dfc_driver_cpu.pool import PoolEntries, ThreadPool, new_context, shared_pool, usable_threads
from dfc_target_cpu.entries.context_code import report_error
from dfc_target_cpu.entries.threads import MOST_PARTS, pool_leave, pool_run, stop_entry, worker_entry
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64
from tests.support.cpu_code import Code, host, load

PART = (Parameter("ptr", "context"), Parameter("ptr", "frame"), Parameter("i64", "part"), Parameter("i64", "parts"))
ALLOWED = sorted(os.sched_getaffinity(0))
ENTRY = (Parameter("ptr", "context"), Parameter("ptr", "frame"), Parameter("i64", "parts"))


def count_part(m: ModuleText) -> str:
    """`frame[part] += part + parts`."""
    f = m.function("count_part", "void", PART)
    _, frame, part, parts = f.arguments
    address = f.gep("i64", frame, part)
    f.store(f.add(f.load("i64", address), f.add(part, parts)), address)
    f.ret()
    return m.add(f)


def entry(m: ModuleText, name: str, function: str) -> FunctionText:
    f = m.function(name, "void", ENTRY, linkage="external")
    context, frame, parts = f.arguments
    f.call(pool_run(m, host()), "void", [context, Value("ptr", f"@{function}"), frame, parts])
    f.call(pool_leave(m, host()), "void", [context])
    f.ret()
    return f


def nested_part(m: ModuleText, inner: str) -> str:
    """Each part forks again into the frame's slice of its own."""
    f = m.function("nested_part", "void", PART)
    context, frame, part, _ = f.arguments
    slice_ = f.gep("i64", frame, f.mul(part, i64(4)))
    f.call(pool_run(m, host()), "void", [context, Value("ptr", f"@{inner}"), slice_, i64(4)])
    f.ret()
    return m.add(f)


@pytest.fixture(scope="module")
def code() -> Code:
    m = ModuleText(host().triple)
    worker_entry(m, host())
    stop_entry(m, host())
    inner = count_part(m)
    m.add(entry(m, "count", inner))
    m.add(entry(m, "nested", nested_part(m, inner)))
    m.add(entry(m, "fail", failing_part(m)))
    return load(m)


def failing_part(m: ModuleText) -> str:
    f = m.function("failing_part", "void", PART)
    context, _, part, parts = f.arguments
    site = f.sub(i64(1000), part)
    f.call(report_error(m), "void", [context, site, part, parts, i64(7), i64(8)])
    f.ret()
    return m.add(f)


def entries(code: Code) -> PoolEntries:
    return PoolEntries(code.loaded, code.address("dfc_worker"), code.address("dfc_stop"))


def run(code: Code, name: str, context: Context, frame: np.ndarray, parts: int) -> None:
    call = code.function(name, None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(ctypes.addressof(context), frame.ctypes.data, parts)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 100])
def test_each_part_runs_once(code: Code, threads: int, parts: int):
    context = new_context(entries(code), threads)
    frame = np.zeros(101, np.int64)
    for _ in range(200):
        run(code, "count", context, frame, parts)
    expected = np.zeros(101, np.int64)
    expected[:parts] = 200 * (np.arange(parts) + parts)
    np.testing.assert_array_equal(frame, expected)


def test_more_parts_than_the_claims_word_holds_run_alone(code: Code):
    frame = np.zeros(MOST_PARTS + 1, np.int64)
    run(code, "count", new_context(entries(code), 2), frame, MOST_PARTS + 1)
    np.testing.assert_array_equal(frame, np.arange(MOST_PARTS + 1) + MOST_PARTS + 1)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_nested_jobs_run_inside_their_part(code: Code, threads: int):
    frame = np.zeros(40, np.int64)
    run(code, "nested", new_context(entries(code), threads), frame, 10)
    np.testing.assert_array_equal(frame, np.tile(np.arange(4) + 4, 10))


def test_callers_at_the_same_time_do_not_disturb_each_other(code: Code):
    frames = [np.zeros(8, np.int64) for _ in range(3)]

    def work(frame: np.ndarray) -> None:
        context = new_context(entries(code), 2)
        for _ in range(2000):
            run(code, "count", context, frame, 8)

    callers = [threading.Thread(target=work, args=(frame,)) for frame in frames]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for frame in frames:
        np.testing.assert_array_equal(frame, 2000 * (np.arange(8) + 8))


def test_a_call_computes_alone_where_there_are_more_calls_than_workers(code: Code):
    context, frame, pool = new_context(entries(code), 2), np.zeros(8, np.int64), shared_pool().shared
    forked: list[bool] = []
    for others in (0, pool.workers - 1, pool.workers, 0):
        pool.users, before = others, pool.claims >> 32
        run(code, "count", context, frame, 8)
        forked.append(pool.claims >> 32 != before)
        assert (pool.users, context.uses_pool) == (others, 0)
    assert forked == [True, True, False, True]
    np.testing.assert_array_equal(frame, 4 * (np.arange(8) + 8))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_lowest_error_site_is_reported(code: Code, threads: int):
    context = new_context(entries(code), threads)
    for _ in range(50):
        run(code, "fail", context, np.zeros(1, np.int64), 16)
        assert context.take_error() == (1000 - 15, (15, 16, 7, 8))
        assert context.take_error() is None


@pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")
@pytest.mark.parametrize("workers", [1, len(ALLOWED)])
def test_workers_are_woken_beside_their_caller_where_there_is_room(code: Code, workers: int):
    pool = ThreadPool()
    pool.ensure(entries(code), workers + 1)
    context = new_context(entries(code), 2)
    context.pool = pool.address
    thread_id = next(t.native_id for t in reversed(threading.enumerate()) if t.name == f"dfc-{workers}")
    try:
        for processor in (*ALLOWED[:2], ALLOWED[0]):
            os.sched_setaffinity(0, {processor})
            while pool.shared.sleepers < workers:
                time.sleep(1e-4)
            run(code, "count", context, np.zeros(8, np.int64), 8)
            expected = set(ALLOWED) - {processor} if workers < len(ALLOWED) else set(ALLOWED)
            assert os.sched_getaffinity(thread_id) == expected
    finally:
        os.sched_setaffinity(0, ALLOWED)
        pool.stop()


def test_threads_can_be_stopped_and_started_again(code: Code):
    pool = ThreadPool()
    context = new_context()
    context.pool = pool.address
    frame = np.zeros(4, np.int64)
    for _ in range(3):
        pool.ensure(entries(code), 3)
        assert pool.shared.workers == 2
        run(code, "count", context, frame, 4)
        pool.stop()
        assert pool.shared.workers == 0
        run(code, "count", context, frame, 4)
    np.testing.assert_array_equal(frame, 6 * (np.arange(4) + 4))


def test_a_forked_child_computes_and_gets_its_own_threads(code: Code):
    context = new_context(entries(code), 2)
    child = os.fork()
    if child == 0:
        frame = np.zeros(8, np.int64)
        run(code, "count", context, frame, 8)
        shared_pool().ensure(entries(code), 2)
        run(code, "count", context, frame, 8)
        right = shared_pool().shared.workers == 1 and (frame == 2 * (np.arange(8) + 8)).all()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_interpreter_ends_cleanly_with_threads_waiting():
    program = (
        "import sys; sys.path[:0] = ['.', 'targets/cpu/compile', 'targets/cpu/run']\n"
        "from tests.targets.cpu.compile.entries import test_threads as t\n"
        "import numpy as np\n"
        "code = t.code.__wrapped__() if hasattr(t.code, '__wrapped__') else t.code._get_wrapped_function()()\n"
        "context = t.new_context(t.entries(code), 4)\n"
        "t.run(code, 'count', context, np.zeros(8, np.int64), 8)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_thread_count_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DFC_THREADS", "3")
    assert usable_threads() == 3
    monkeypatch.setenv("DFC_THREADS", "many")
    with pytest.raises(ValueError, match="DFC_THREADS"):
        usable_threads()
    monkeypatch.delenv("DFC_THREADS")
    assert usable_threads() == len(os.sched_getaffinity(0))


def test_fields_of_different_writers_do_not_share_a_cache_line():
    lines = {
        field: getattr(Pool, field).offset // 64 for field in ("workers", "claims", "function", "done", "sleepers")
    }
    assert len(set(lines.values())) == len(lines)
    assert ctypes.sizeof(Pool) % 64 == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("stops", "committed"), [(True, 0), (False, 0), (True, 1)])
def test_parts_of_a_call_that_stops_need_not_run(code: Code, threads: int, stops: bool, committed: int):
    context = new_context(entries(code), threads)
    asked: list[int] = []

    def answer(_: int) -> None:
        asked.append(threading.get_ident())
        context.stopping = context.leave = int(stops)
        context.attention = int(stops)

    question = ctypes.CFUNCTYPE(None, ctypes.c_int64)(answer)
    context.poll = ctypes.cast(question, ctypes.c_void_p).value
    context.attention, context.committed = 1, committed
    frame = np.zeros(8, np.int64)
    run(code, "count", context, frame, 8)
    if stops and not committed:  # a worker may have run some before the caller asked
        assert set(frame - np.arange(8)) <= {8, *-np.arange(8)} and (threads > 1 or not frame.any())
    else:
        np.testing.assert_array_equal(frame, np.arange(8) + 8)
    assert set(asked) <= {threading.get_ident()}
    assert bool(asked) == (not committed) or threads > 1
