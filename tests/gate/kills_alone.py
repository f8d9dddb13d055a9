"""Kills of a single process that trains with `dfc run --state`, at random moments and between its last save and its
end. The same command is given again until it ends: with the bits of a run that nobody disturbed, and if it was over
already, with the word that it was done before.

    python -m tests.gate.kills_alone [COUNT] [--seed N]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dfc.driver import api
from dfc_runtime.checkpoints import store

COUNT = 100
SECONDS = 120
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """dfg 1
param w: f32[4, 3] = uniform(-0.5, 0.5)
var large: f32[300, 1000] = normal(0.0, 1.0)
var steps: i64 = 0
var dice: rng = philox(seed = 7)
entry train[B](x: f32[B, 4], y: i32[B], rate: f32) -> (loss: f32) {
  let noise = dice.normal(f32[B])
  let loss = mean(cross_entropy(x @ w, y) * (1.0 + 0.1 * noise))
  w -= rate * grad(loss, w)
  large := large * 0.5 + sum(w)
  steps += 1
  return loss
}
"""
STEPS, EVERY = 400, 40


@dataclass(frozen=True, slots=True)
class Job:
    """What is killed: `prepare` makes a bundle `m.bundle` in a folder, and what it reads; `feeds` are words of the
    command. `compared` are the names of the state that is a function of the steps; without any it is all of it."""

    name: str
    prepare: Callable[[Path], Path]
    feeds: tuple[str, ...]
    compared: frozenset[str] = frozenset()


def prepared(folder: Path) -> Path:
    """A folder with a bundle and its feeds."""
    api.compile(text=PROGRAM).save(folder / "m.bundle")
    rng = np.random.default_rng(5)
    np.savez(folder / "d.npz", x=rng.normal(size=(70, 4)).astype("f4"), y=rng.integers(0, 3, 70).astype("i4"))
    return folder


FEEDS = ("--feed", "x=d.npz:x", "--feed", "y=d.npz:y", "--feed", "rate=0.1", "--batch", "16")
ALONE = Job("kills_alone", prepared, FEEDS)


def started(folder: Path, saved: str, job: Job) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(ROOT / each) for each in ("", "runtime", "targets"))
    words = ("run", "m.bundle", "train", *job.feeds, "--steps", STEPS, "--save-every", EVERY)
    return subprocess.Popen(
        [sys.executable, "-m", "dfc", *map(str, words), "--state", saved],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "DFC_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_over(saved: Path) -> bool:
    """Whether the last checkpoint of the run stands under its name."""
    about = store.newest_about(saved)
    return about is not None and about.progress.get("steps") == STEPS


def digest(saved: Path, job: Job = ALONE) -> str:
    """One hash of the state in the newest checkpoint that is compared, and of how far it is."""
    found = store.find(saved).checkpoint
    hashed = hashlib.sha256(str(found.about.progress["steps"]).encode())
    for name, each in sorted(found.state.items()):
        if not job.compared or name in job.compared:
            hashed.update(name.encode() + each.array.tobytes())
    return hashed.hexdigest()


def killed(process: subprocess.Popen[str], saved: Path, delay: float | None) -> bool:
    """Whether it was killed before it ended: after `delay` seconds, or if that is None when its last save is done."""
    end = time.monotonic() + (SECONDS if delay is None else delay)
    while process.poll() is None and time.monotonic() < end and not (delay is None and is_over(saved)):
        time.sleep(0.0005)
    process.kill()
    return process.wait() < 0


def fault_of_job(
    folder: Path, name: str, whole: str | None, delays: list[float | None], job: Job = ALONE
) -> tuple[int, int, str]:
    """Kills one run again and again, then lets it end: how many kills there were, how many of them when all was saved,
    and what is not as it should be."""
    saved, kills, late = folder / name, 0, 0
    for delay in delays:
        with started(folder, name, job) as process:
            was_killed = killed(process, saved, delay)
            err = process.stderr.read() if process.stderr is not None else ""
        if "Traceback" in err or "skipped" in err:
            return kills, late, err
        if not was_killed:
            break
        kills += 1
        late += saved.exists() and is_over(saved)
    was_over = saved.exists() and is_over(saved)
    with started(folder, name, job) as process:
        out, err = process.communicate(timeout=SECONDS)
    if process.returncode != 0 or "Traceback" in err:
        return kills, late, f"exit code {process.returncode}: {err}"
    if was_over is not ("done before" in out):
        return kills, late, f"{'over' if was_over else 'not over'}, and it says: {out}{err}"
    return kills, late, "" if whole in (None, digest(saved, job)) else f"other bits: {out}{err}"


def attack(count: int, seed: int, job: Job = ALONE) -> list[str]:
    """Findings of so many kills."""
    rng = random.Random(seed)
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dfc-kills-") as name:
        folder = job.prepare(Path(name))
        begun = time.monotonic()
        _, _, fault = fault_of_job(folder, "whole", None, [], job)
        took = time.monotonic() - begun
        if fault:
            return [fault]
        whole, done, late, number = digest(folder / "whole", job), 0, 0, 0
        while done < count and number < 10 * count:
            most = min(count - done, rng.randint(1, 4))
            delays: list[float | None] = [rng.uniform(0, took) for _ in range(most)]
            if rng.random() < 0.5:
                delays[-1] = None
            kills, after, fault = fault_of_job(folder, f"job-{number}", whole, delays, job)
            if fault:
                found.append(f"job {number}, seed {seed}, {delays}: {fault}")
            done, late, number = done + kills, late + after, number + 1
        print(f"{job.name}: {done} kills in {number} jobs, {late} of them after the last save", flush=True)
    return found if done >= count else [*found, f"only {done} of {count} kills came in time"]


def main(job: Job = ALONE, count: int = COUNT) -> int:
    """Attacks one job as the command line says."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.gate.{job.name}")
    parser.add_argument("count", nargs="?", type=int, default=count)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    asked = parser.parse_args()
    print(f"{job.name}: {asked.count} kills, seed {asked.seed}", flush=True)
    found = attack(asked.count, asked.seed, job)
    for each in found:
        print(f"{job.name}: {each}", flush=True)
    print(f"{job.name}: {asked.count} kills, {len(found)} findings, seed {asked.seed}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
