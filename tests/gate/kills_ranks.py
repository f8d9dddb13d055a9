"""Kills and signals on 2 and 3 ranks at random moments: `python -m tests.gate.kills_ranks [COUNT] [--seed N]`.

Each attack is one of SIGKILL or SIGTERM to a rank, SIGTERM to rank 0, to the command, or to every process of the job at
once; at a random moment, one in three just when the last checkpoint has got its name. The same command is given again
until it ends with 0. Checked: each ends within its deadline, with the code that belongs to the attack, and never with 0
before the run is at its end; nothing is left running; the state has the bits of a run that nobody disturbed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dfc_runtime.checkpoints import format, store
from dfc_runtime.distributed.launch import processes
from dfc_runtime.errors import FileError
from tests.mpi import test_run_command as runs
from tests.support.seeded_commands import run

STEPS = {2: 3000, 3: 600}
DEADLINE = 120.0
"""Seconds for a command: it takes two on an idle machine."""
ATTACKS = ("kill", "term", "term rank 0", "term command", "term all")
PER_JOB = 5
LOST, STOPPED = 75, 143


@dataclass
class Attack:
    """What is done to one command: which, to which rank, when (seconds from the first beat; None: at the last save)."""

    what: str
    rank: int
    after: float | None


def drawn(chance: random.Random, ranks: int) -> Attack:
    after = None if chance.random() < 1 / 3 else chance.uniform(0.0, 1.5)
    return Attack(chance.choice(ATTACKS), chance.randrange(ranks), after)


def saved_steps(saved: Path) -> int:
    """How far the newest checkpoint is; 0 if there is none."""
    if not saved.is_dir():
        return 0
    for step in store.steps_in(saved):
        try:
            return int(format.about(saved / f"step-{step}").progress["steps"])
        except (OSError, ValueError, KeyError, FileError):
            continue
    return 0


def _ranks(scratch: Path) -> dict[int, int]:
    return processes.ranks_among(runs._of(scratch))


def strike(attack: Attack, process: subprocess.Popen[str], scratch: Path, saved: Path, steps: int) -> bool:
    """Waits for the moment and strikes; False if the command was over before."""
    while process.poll() is None and not list(scratch.glob("dfc-job-*/*.beat")):
        time.sleep(0.005)
    if attack.after is None:
        while process.poll() is None and saved_steps(saved) < steps:
            time.sleep(0.001)
    else:
        time.sleep(attack.after)
    if process.poll() is not None:
        return False
    ranks = _ranks(scratch)
    target = ranks.get(0 if attack.what == "term rank 0" else attack.rank)
    match attack.what:
        case "term command":
            os.kill(process.pid, signal.SIGTERM)
        case "term all":
            processes.signal_all([process.pid, *runs._of(scratch)], signal.SIGTERM)
        case _ if target is None:
            return False
        case what:
            processes.signal_all([target], signal.SIGKILL if what == "kill" else signal.SIGTERM)
    return True


def finding(attack: Attack | None, code: int, err: str, saved: Path, steps: int) -> str:
    """What is wrong with how a command has ended; "" if nothing is. Before it looks after signals, and when all is
    over, a signal ends it as it ends any process, which shells tell like its exit code."""
    if "Traceback" in err or "a bug in dfc" in err:
        return f"it says {err}"
    done = saved_steps(saved)
    if code == 0:
        return "" if done == steps else f"0 after {done} of {steps} steps"
    expected = (LOST,) if attack is not None and attack.what == "kill" else (STOPPED, -signal.SIGTERM)
    return "" if attack is not None and code in expected else f"code {code}: {err}"


def attacked(folder: Path, scratch: Path, ranks: int, steps: int, attacks: list[Attack]) -> tuple[int, str]:
    """One run under these attacks, one a command: how many struck, and what was found."""
    saved, struck = scratch / "saved", 0
    words = ["train", *runs.FEEDS, "--steps", steps, "--state", saved, "--save-every", steps // 20]
    words += ["-n", ranks, "--job", f"worker={ranks}"]
    for attack in [*attacks, None]:  # what is done already is said to be, and not done again
        process = runs._start(folder, scratch, *words)
        hit = attack is not None and strike(attack, process, scratch, saved, steps)
        try:
            _, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            return struck, f"{attack}: it does not end within {DEADLINE:.0f} s"
        struck += hit
        wrong = finding(attack if hit else None, process.returncode, err, saved, steps)
        if wrong:
            return struck, f"{attack}: {wrong}"
        if left := runs._of(scratch):
            return struck, f"{attack}: processes are left: {left}"
    return struck, ""


def main(count: int, seed: int, steps: Mapping[int, int] = STEPS) -> int:
    """1 if anything was found; `steps` for each number of ranks."""
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    findings = struck = job = 0
    with tempfile.TemporaryDirectory() as name:
        folder = runs.prepared(Path(name) / "program")
        whole: dict[int, str] = {}
        while struck < count and not findings:
            ranks = 2 + job % 2
            if ranks not in whole:
                whole[ranks] = runs.train(folder, Path(name), 1, f"whole-{ranks}", steps=steps[ranks])
            scratch = Path(name) / f"job-{job}"
            scratch.mkdir()
            attacks = [drawn(chance, ranks) for _ in range(min(PER_JOB, count - struck))]
            hits, wrong = attacked(folder, scratch, ranks, steps[ranks], attacks)
            if not wrong and runs.digest(scratch / "saved") != whole[ranks]:
                wrong = f"other bits after {attacks}"
            if wrong:
                findings += 1
                print(f"job {job} on {ranks} ranks: {wrong}", flush=True)
            struck, job = struck + hits, job + 1
    print(f"kills_ranks: {struck} attacks in {job} jobs, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    run(main, __doc__, "count", 40)
