"""A process that is killed at a system call, or whose call fails, loses no checkpoint that was reported as saved.

`strace` does the killing and failing, of forks of this process. Where it is not installed, or may not trace, the tests
are skipped and say so.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.errors import CheckpointError, DfcError
from tests.support import traced
from tests.support.sweeping import few

SAVES = 3
CALLS = ("mkdir", "write", "fsync", "rename", "renameat", "unlinkat")
"""Of what is too old the name goes with `renameat`, files and folder with `unlinkat`, which work in an open folder."""


MADE = {"mkdir": 4, "write": 15, "fsync": 13, "rename": 3, "unlinkat": 3}
"""How often each call is made that may be hindered at any time."""
ERRORS = {"mkdir": "ENOSPC", "write": "ENOSPC", "fsync": "EIO", "rename": "EACCES", "unlinkat": "EIO"}


def calls(**some: int) -> list[tuple[str, int]]:
    """Of each of these calls so many, the last one first: before that one there is most to lose."""
    return [(call, number) for call, count in some.items() for number in few(range(MADE[call], 0, -1), count)]


def saving(folder: Path) -> None:
    """Prints the number of each checkpoint that was reported as saved, or `failed CODE`, one a line."""
    for number in range(1, SAVES + 1):
        state = [Saved("v", "i64", (3,), np.full(3, number)), Saved("w", "f32", (40,), np.full(40, number, "f4"))]
        try:
            line = store.publish(folder, About(number, "p"), state, numbered=True).name.removeprefix("step-")
        except DfcError as problem:
            line = f"failed {problem.code}"
        os.write(1, f"{line}\n".encode())


def strace(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return traced.traced(lambda: saving(folder / "saved"), folder / "strace.log", *options)


obstacle = cache(traced.obstacle)


@pytest.fixture(autouse=True)
def _traceable() -> None:
    if obstacle():
        pytest.skip(obstacle())


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often an undisturbed process makes each call."""
    if obstacle():
        return Counter()
    folder = tmp_path_factory.mktemp("undisturbed")
    done = strace(folder, "-e", f"trace={','.join(CALLS)}")
    assert done.stdout.split() == ["1", "2", "3"], done.stderr
    return Counter(re.findall(r"^\d+ +(\w+)\(", (folder / "strace.log").read_text(), re.MULTILINE))


def check(folder: Path, told: str) -> None:
    """What was reported last, or something newer, is there and whole, and saving goes on."""
    numbers = [int(line) for line in told.splitlines() if line.isdigit()]
    try:
        found = store.find(folder / "saved")
    except CheckpointError:
        assert not numbers
        return
    step = found.checkpoint.about.step
    assert step >= max(numbers, default=0)
    np.testing.assert_array_equal(found.checkpoint.state["v"].array, np.full(3, step))
    again = store.publish(folder / "saved", found.checkpoint.about, list(found.checkpoint.state.values()))
    assert store.find(folder / "saved").path == again
    assert not list((folder / "saved").glob("*.tmp-*"))


def test_the_calls_are_those_that_were_expected(counts: Counter[str]) -> None:
    """Else the tests below hinder nothing, or not all of them."""
    assert counts["fsync"] == 4 * SAVES + 1 and counts["rename"] == SAVES and counts["renameat"] == 1
    assert counts["write"] == 5 * SAVES and counts["mkdir"] == SAVES + 1 and counts["unlinkat"] == 3


@pytest.mark.parametrize(
    ("call", "number"),
    [("renameat", 1), *calls(mkdir=1, write=3, fsync=3, rename=1, unlinkat=1)],
)
def test_killed_at_a_call(tmp_path: Path, counts: Counter[str], call: str, number: int) -> None:
    assert number <= counts[call]
    done = strace(tmp_path, "-e", f"inject={call}:signal=KILL:when={number}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    check(tmp_path, done.stdout)


@pytest.mark.parametrize(
    ("call", "when", "error"),
    [
        ("renameat", "1", "EACCES"),
        ("write", "5+", "ENOSPC"),
        ("fsync", "6+", "EIO"),
        ("rename", "2+", "ENOSPC"),
        ("unlinkat", "3", "EBUSY"),
        *((call, str(n), ERRORS[call]) for call, n in calls(write=3, fsync=2, rename=1, unlinkat=1, mkdir=1)),
    ],
)
def test_a_call_that_fails_is_told_and_costs_nothing(
    tmp_path: Path, counts: Counter[str], call: str, when: str, error: str
) -> None:
    assert int(when.rstrip("+")) <= counts[call]
    done = strace(tmp_path, "-e", f"inject={call}:error={error}:when={when}")
    assert "Traceback" not in done.stderr or call == "write", done.stderr
    told = done.stdout.splitlines()
    assert all(line.isdigit() or line == "failed E0909" for line in told), told
    if call not in ("unlinkat", "renameat", "write"):
        assert "failed E0909" in told
    check(tmp_path, done.stdout)
