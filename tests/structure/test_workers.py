"""Tests that run in several forks end as they do in one process; a worker that dies costs one test."""

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.forked import in_child
from tests.support.workers import worker
from tests.support.workers.supervisor import Supervisor
from tests.support.workers.units import Queue
from tests.support.workers.worker import is_reported

MODULES = {
    "test_good": "import pytest\ndef test_one(): pass\n@pytest.mark.skip(reason='no')\ndef test_two(): pass\n",
    "test_bad": "import warnings\ndef test_three(): assert 1 == 2\ndef test_four(): warnings.warn('a look at this')\n",
    "test_deadly": "import os\n"
    "def test_five(): pass\n"
    "def test_six(): os.kill(os.getpid(), 9)\n"
    "def test_seven(tmp_path): assert tmp_path.is_dir()\n",
    "test_deadly_at_the_end": "import os\ndef test_eight(): os._exit(3)\n",
    "test_quitter": "import os\ndef test_eleven(): os._exit(0)\n",
    "test_fixtures": "import pytest\n"
    "@pytest.fixture(scope='module')\n"
    "def lasting():\n"
    "    yield []\n"
    "    print('ended')\n"
    "def test_nine(lasting): lasting.append(1)\n"
    "def test_ten(lasting): assert lasting == [1]\n",
}
PLUGIN = "tests.support.workers.plugin"


def run(
    folder: Path, *options: str, modules: Mapping[str, str] = MODULES, at_forks: Callable[[], object] | None = None
) -> tuple[int, str]:
    """The exit code of pytest in a fork, and what it printed. `at_forks`: what Python calls there behind each fork."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    output = folder / "output"

    def tests() -> None:
        gc.freeze()  # at its end pytest looks for garbage five times, here in all that this process has ever made
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background ignores it
        if at_forks is not None:
            os.register_at_fork(after_in_parent=at_forks)
        places = ("--rootdir", str(folder), "--confcutdir", str(folder))  # else it looks at all that lies beside it
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
            code = pytest.main(
                ["-p", PLUGIN, "-p", "no:cacheprovider", "-c", os.devnull, "-rA", *places, *options, str(folder)]
            )
            sys.stdout.flush()
            os._exit(code)

    status = os.waitstatus_to_exitcode(in_child(tests))
    return status, output.read_text()


def test_workers_run_all_tests_also_those_behind_a_death(tmp_path: Path) -> None:
    code, printed = run(tmp_path, "--workers", "2")
    assert code == 1
    assert printed.rstrip().splitlines()[-1].startswith("=") and "4 failed, 6 passed, 1 skipped, " in printed
    for name in ("test_one", "test_four", "test_five", "test_seven", "test_nine", "test_ten"):
        assert f"::{name}\n" in printed[printed.index("PASSED") :]
    assert "assert 1 == 2" in printed and "a look at this" in printed
    assert "the worker ended with SIGKILL while it ran this test" in printed
    assert "the worker ended with the code 3 while it ran this test" in printed
    assert "the worker ended with the code 0 while it ran this test" in printed
    assert re.search(r"^workers ended after [\d.]+(, [\d.]+)+ s of tests$", printed, re.M)


@pytest.fixture
def soon_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_ADDED_BYTES", 30 << 20)


@pytest.mark.usefixtures("soon_large")
def test_a_worker_that_has_grown_makes_way_for_another(tmp_path: Path) -> None:
    """Each of eight modules keeps 24 MB, apart from a heap that may have room. Nobody takes a further one after two;
    the third was taken before that."""
    text = "import mmap, os, warnings\nkept = []\ndef test_it():\n    warnings.warn('large')\n"
    text += "    kept.append(mmap.mmap(-1, 24 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
    text += "    for _ in range(24): kept[-1].write(b'x' * (1 << 20))\n"
    text += "    print('process', os.getpid())\n"
    code, printed = run(tmp_path, "--workers", "2", modules={f"test_{letter}": text for letter in "abcdefgh"})
    assert code == 0 and "8 passed, 8 warnings" in printed
    processes = re.findall(r"^process (\d+)$", printed, re.M)
    assert len(processes) == 8
    assert max(processes.count(each) for each in processes) <= 3
    assert re.search(r"^workers ended after [\d.]+, [\d.]+ s of tests$", printed, re.M)


@pytest.mark.usefixtures("soon_large")
def test_a_worker_that_has_grown_makes_way_also_when_it_shrinks_at_its_end(tmp_path: Path) -> None:
    text = "import mmap, pytest\n@pytest.fixture(scope='module')\ndef large():\n"
    text += "    memory = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
    text += "    for _ in range(32): memory.write(b'x' * (1 << 20))\n"
    text += "    return memory\n"
    text += "def test_one(large): pass\ndef test_two(large): pass\n"
    code, printed = run(tmp_path, "--workers", "2", modules={f"test_{letter}": text for letter in "abcd"})
    assert code == 0 and "8 passed" in printed


def test_the_first_failure_can_be_the_last(tmp_path: Path) -> None:
    code, printed = run(tmp_path, "--workers", "2", "--maxfail", "1")
    assert code == 1 and "stopping after 1 failures" in printed and "1 failed" in printed


INTERRUPTED = """import os, pathlib, time, pytest

@pytest.fixture(scope="module")
def lasting():
    yield
    pathlib.Path(__file__).with_name("torn-down").touch()

def test_endless(lasting):
    os.kill(os.getppid(), 2)
    time.sleep(1000)
"""


def test_an_interrupted_run_ends_what_its_tests_have_started(tmp_path: Path) -> None:
    code, printed = run(tmp_path, "--workers", "2", modules={"test_interrupted": INTERRUPTED})
    assert code == pytest.ExitCode.INTERRUPTED and "KeyboardInterrupt" in printed
    assert (tmp_path / "torn-down").exists()


def test_an_interrupt_while_a_worker_begins_is_not_lost(tmp_path: Path) -> None:
    code, printed = run(
        tmp_path,
        "--workers",
        "2",
        modules={"test_endless": "import time\ndef test_it(): time.sleep(1000)\n"},
        at_forks=lambda: signal.raise_signal(signal.SIGINT),
    )
    assert code == pytest.ExitCode.INTERRUPTED and "KeyboardInterrupt" in printed


def test_modules_to_begin_with_come_first_whether_they_wait_or_not() -> None:
    paths = [Path(name) for name in ("a", "a", "b", "c", "d", "d")]
    session: Any = SimpleNamespace(items=[SimpleNamespace(path=path) for path in paths])
    waiting, long = ([path.name in names for path in paths] for names in ("bd", "cd"))
    supervisor = Supervisor(session, 2, waiting, long)
    queues = (supervisor._waiting, supervisor._computing)
    taken = [["abcd"[number] for number in queue] for queue in queues]
    supervisor._end()
    assert taken == [["d", "b"], ["c", "a"]]


def test_each_number_is_handed_out_once() -> None:
    queue = Queue(range(1000))
    first, second = iter(queue), iter(queue)
    taken = [next(each) for each in [first, second] * 500]
    assert taken == list(range(1000)) and next(first, None) is None
    queue.close()


def report(when: Any, outcome: Any = "passed", **more: Any) -> pytest.TestReport:
    return pytest.TestReport("test", ("test.py", 1, "test"), {}, outcome, None, when, **more)


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_what_went_well_around_a_test_is_not_said(when: str) -> None:
    assert not is_reported(report(when))


@pytest.mark.parametrize(
    "said",
    [
        report("call"),
        report("call", "skipped"),
        report("setup", "failed"),
        report("setup", "skipped"),
        report("teardown", "failed"),
        report("setup", duration=2.0),
        report("teardown", sections=[("Captured stdout teardown", "text")]),
    ],
    ids=lambda one: f"{one.when}-{one.outcome}",
)
def test_everything_else_is_said(said: pytest.TestReport) -> None:
    assert is_reported(said)
