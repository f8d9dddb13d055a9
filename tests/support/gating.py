"""Long sweeps over numbered cases: each case in a forked child, so that a signal or a hang is one finding and no end.

def cases(seed: int) -> Case: ...           # of each number: "" if all is well, else what is not
sys.exit(main(__doc__, cases, count=1000))  # python -m tests.gate.NAME [COUNT] [--seed N]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dfc.cli.failures import guarded
from dfc.cli.main import cli
from dfc.ops.record import OpRecord

Case = Callable[[int], str]
Sweep = Callable[[OpRecord, int, np.random.Generator], Iterator[tuple[int, Sequence[str]]]]
"""Of a record, a count, random numbers: how many cases were computed, and the findings among them, chunk by chunk."""

BATCH = 100
SECONDS = 120
"""For one case: whatever waits for longer waits for ever."""


def main(title: str, cases: Callable[[int], Case], count: int, *, memory: int | None = None) -> int:
    """Runs the cases that the command line asks for, tells the findings, and gives the exit code."""
    asked = arguments(title, count).parse_args()
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    print(f"{name}: {asked.count} cases, seed {asked.seed}", flush=True)
    count = 0
    for number, finding in findings(cases(asked.seed), asked.count, memory=memory):
        count += 1
        print(f"{name}: {number} (seed {asked.seed}): {finding}", flush=True)
    print(f"{name}: {asked.count} cases, {count} findings, seed {asked.seed}", flush=True)
    return 1 if count else 0


def arguments(title: str, count: int) -> argparse.ArgumentParser:
    """What every sweep takes: how many cases, and the seed, which is a new one unless it is given."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("count", nargs="?", type=int, default=count)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    return parser


def main_over_ops(title: str, records: Sequence[OpRecord], sweep: Sweep, count: int = 20) -> int:
    """A sweep over op records, each with random numbers that depend on the seed and its own name alone, so that some
    ops can be swept again by themselves (`--op NAME`); gives the exit code."""
    parser = arguments(title, count)
    parser.add_argument("--op", action="append", choices=[record.name for record in records], metavar="NAME")
    asked = parser.parse_args()
    chosen = [record for record in records if not asked.op or record.name in asked.op]
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    print(f"{name}: {len(chosen)} ops, {asked.count} cases a sample, seed {asked.seed}", flush=True)
    computed = wrong = 0
    for record in chosen:
        rng = np.random.default_rng([asked.seed, *record.name.encode()])
        for cases, lines in sweep(record, asked.count, rng):
            computed, wrong = computed + cases, wrong + len(lines)
            for line in lines:
                print(f"{name}: {line}", flush=True)
    print(f"{name}: {computed} cases of {len(chosen)} ops, {wrong} findings, seed {asked.seed}", flush=True)
    return 1 if wrong else 0


def findings(case: Case, count: int, *, memory: int | None = None) -> Iterator[tuple[int, str]]:
    """The cases in which something is not well, by their numbers. `memory` is how many bytes a case may ask for beyond
    what the process has already."""
    start = 0
    while start < count:
        last = ended = start
        for number, finding in _batch(case, start, min(start + BATCH, count), memory):
            last, ended = number, number if finding is None else number + 1
            if finding:
                yield number, finding
        if ended <= last and last < count:
            yield last, "the process ended: a signal, or a hang"
        start = last + 1


def differs(title: str, compare: Callable[[], None]) -> bool:
    """Whether a comparison fails, which is then printed."""
    try:
        with np.errstate(all="ignore"):
            compare()
    except Exception:
        print(f"{title}: {traceback.format_exc()}", flush=True)
        return True
    return False


def generator(number: int, seed: int) -> random.Random:
    """The random numbers of a case."""
    return random.Random(f"{seed}/{number}")


def outcome(*words: str) -> tuple[int, str, str]:
    """How a command of this process ends, and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = guarded(lambda: cli.main(list(words), prog_name="dfc", standalone_mode=False))
    return code, out.getvalue(), err.getvalue()


def _batch(case: Case, start: int, end: int, memory: int | None) -> Iterator[tuple[int, str | None]]:
    """For each case its number when it starts, and what was found when it has ended."""
    source, target = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(source)
        status = 1
        try:
            _work(case, start, end, target, memory)
            status = 0
        finally:
            os._exit(status)
    os.close(target)
    try:
        with open(source, encoding="utf-8") as lines:
            for line in lines:
                number, finding = json.loads(line)
                yield number, finding
    finally:  # where no more is asked for, its next word finds nobody, and is its last
        os.waitpid(child, 0)


def _work(case: Case, start: int, end: int, target: int, memory: int | None) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if memory is not None:
        limit = _address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(start, end):
        _report(target, number, None)
        signal.alarm(SECONDS)
        try:
            finding = case(number)
        except BaseException:
            finding = traceback.format_exc()
        signal.alarm(0)
        _report(target, number, finding)


def _report(target: int, number: int, finding: str | None) -> None:
    os.write(target, (json.dumps([number, finding and finding[-2000:]]) + "\n").encode())


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
