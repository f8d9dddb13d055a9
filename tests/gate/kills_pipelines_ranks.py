"""Kills on 1, 2 and 4 ranks that train on files of records through queues and runners, each of them at a random moment.

A SIGKILL hits one rank, which `dfc run` itself starts again, or every process of the job at once; then the same command
is given again with another number of ranks, until all steps are done. Checked: the job ends as belongs to the kill,
nothing is left running, and in the end the batches of all steps and the weights have the bits of a run on one rank
that nobody disturbed.

    python -m tests.gate.kills_pipelines_ranks [COUNT] [--seed N]
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.distributed.launch import processes
from dfc_runtime.records.example import encode_example
from tests.gate.kills_ranks import saved_steps
from tests.mpi import test_run_command as runs
from tests.support.record_files import write_records
from tests.support.seeded_commands import run

COUNT = 40
RANKS = (1, 2, 4)
STEPS, EVERY = 1500, 25
MOST = 10
"""Kills of one job: after so many it is let alone."""
DEADLINE = 300.0
"""Seconds for a command to end, which takes a few: whoever needs so many hangs."""
PROGRAM = """dfg 1

const STEPS = %(steps)d

var files = record_files("*.rec", passes = 1000, shuffle = "records", seed = 3, longest = 64)
queue pool: (x: f32[4], y: i32, number: i64) = shuffle_queue(capacity = 256, ready = 128, seed = 5)
queue staged: (x: f32[16, 4], y: i32[16], numbers: i64[16]) = staging(depth = 2)
param w: f32[4, 3] = uniform(-0.5, 0.5)
param b: f32[3] = 0
var step: i64 = 0
var batches: i64[STEPS] = 0

runner read with copies = 3 {
  let record = files.next()
  let fields = parse_example(record, (x = f32[4], y = i64, number = i64))
  pool.put(fields.x, fields.y as i32, fields.number)
}

runner collect {
  let x, y, numbers = pool.take(16)
  staged.put(x, y, numbers)
}

entry train(rate: f32) -> (loss: f32) {
  let x, y, numbers = staged.take()
  let loss = mean(cross_entropy(x @ w + b, y))
  let dw, db = grad(loss, [w, b])
  w -= rate * dw
  b -= rate * db
  batches[step] += sum((numbers + 1) * square(iota(i64[16]) + 1))
  step += 1
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "model.dfg"

job worker tasks 2

replicate train over worker with mode = "sync", split = "staged", blocks = 4
"""
COMPARED = ("batches", "step", "w", "b")
"""What stands in queues, and how far readers are ahead, is a matter of time."""


@dataclass
class Kill:
    """Of one rank, or of the whole job (None), some seconds after its ranks are there, or after so many more steps than
    before are saved."""

    rank: int | None
    steps: int
    after: float


def drawn(chance: random.Random) -> Kill:
    rank = None if chance.random() < 0.4 else chance.randrange(max(RANKS))
    if chance.random() < 0.4:
        return Kill(rank, 0, chance.uniform(0.0, 1.0))
    return Kill(rank, EVERY * chance.randint(1, 8), chance.uniform(0.0, 0.03))


def prepared(folder: Path, steps: int) -> Path:
    """A folder with a bundle and three files of records."""
    folder.mkdir(exist_ok=True)
    (folder / "model.dfg").write_text(PROGRAM % {"steps": steps})
    (folder / "model.deploy").write_text(DEPLOYMENT)
    dfc.compile(folder / "model.dfg", deploy=folder / "model.deploy").save(folder / "model.bundle")
    rng, number = np.random.default_rng(5), 0
    for name, count in (("a.rec", 150), ("b.rec", 90), ("c.rec", 301)):
        records: list[bytes] = []
        for _ in range(count):
            x, y = rng.normal(size=4).astype("f4"), rng.integers(0, 3, 1)
            records.append(encode_example({"x": x, "y": y, "number": np.array([number])}))
            number += 1
        write_records(folder / name, records)
    return folder


def words(saved: Path, ranks: int, steps: int, restarts: int = 0) -> list[object]:
    """Of the command on so many ranks."""
    asked: list[object] = ["train", "--feed", "rate=0.1", "--steps", steps, "--state", saved, "--save-every", EVERY]
    return [*asked, "-n", ranks, "--job", f"worker={ranks}", "--max-restarts", restarts]


def outcome(saved: Path) -> dict[str, bytes]:
    """What is compared, of the newest checkpoint."""
    state = store.find(saved).checkpoint.state
    return {name: state[name].array.tobytes() for name in COMPARED}


def difference(found: dict[str, bytes], whole: dict[str, bytes]) -> str:
    """In words; "" if there is none."""
    if found["batches"] != whole["batches"]:
        ours, others = (np.frombuffer(each["batches"], np.int64) for each in (found, whole))
        return f"the batch of step {int(np.argmax(ours != others))} is another one"
    return ", ".join(f"{name} has other bits" for name in COMPARED if found[name] != whole[name])


def _beats(scratch: Path) -> tuple[int, list[Path]]:
    """How often the job was started, and a file of each rank that is there since."""
    try:
        beats = sorted(scratch.glob("dfc-job-*/*.beat"))
    except FileNotFoundError:
        return 0, []
    newest = max((int(path.name.split("-")[0]) for path in beats), default=0)
    return newest, [path for path in beats if path.name.startswith(f"{newest}-")]


def strike(kill: Kill, process: subprocess.Popen[str], scratch: Path, saved: Path, killed: int) -> int:
    """Waits for the moment, behind the start number `killed`, and kills: which start that was, 0 if the command was
    over before."""
    enough = saved_steps(saved) + kill.steps
    while process.poll() is None and (_beats(scratch)[0] <= killed or saved_steps(saved) < enough):
        time.sleep(0.002)
    time.sleep(kill.after)
    start, beats = _beats(scratch)
    if process.poll() is not None or start <= killed:
        return 0
    if kill.rank is None:
        processes.signal_all([process.pid, *runs._of(scratch)], signal.SIGKILL)
        return start
    try:
        os.kill(json.loads(beats[kill.rank % len(beats)].read_text())["pid"], signal.SIGKILL)
    except (OSError, ValueError, KeyError):  # it has just ended
        return 0
    return start


def command(folder: Path, scratch: Path, ranks: int, steps: int, kills: list[Kill]) -> tuple[int, str]:
    """One command under some of these kills, each taken from the list: how many struck, and what is wrong."""
    saved, struck, start, is_killed = scratch / "saved", 0, 0, False
    process = runs._start(folder, scratch, *words(saved, ranks, steps, len(kills) + 1))
    while kills and process.poll() is None and not is_killed:
        kill = kills.pop(0)
        if hit := strike(kill, process, scratch, saved, start):
            start, struck, is_killed = hit, struck + 1, kill.rank is None
    try:
        _, err = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        return struck, f"it does not end within {DEADLINE:.0f} s"
    if process.returncode != (-signal.SIGKILL if is_killed else 0) or "Traceback" in err or "a bug in dfc" in err:
        return struck, f"it ends with {process.returncode}: {err}"
    end = time.monotonic() + DEADLINE
    while left := runs._of(scratch):
        if time.monotonic() > end:
            return struck, f"processes are left: {left}"
        time.sleep(0.01)
    return struck, ""


def attacked(folder: Path, scratch: Path, steps: int, kills: list[Kill], chance: random.Random) -> tuple[int, str, str]:
    """One job, each command of it on another number of ranks, until all steps are done: how many kills struck, what is
    wrong, and on how many ranks it was."""
    total, counts = 0, [chance.choice(RANKS)]
    while saved_steps(scratch / "saved") < steps:
        struck, wrong = command(folder, scratch, counts[-1], steps, kills)
        total += struck
        if wrong:
            return total, wrong, str(counts)
        counts.append(chance.choice([each for each in RANKS if each != counts[-1]]))
    return total, "", str(counts[:-1])


def main(count: int, seed: int, steps: int = STEPS) -> int:
    """1 if anything was found."""
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    total = number = findings = 0
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(Path(name) / "program", steps)
        code, _, err = runs._run(folder, Path(name), *words(Path(name) / "whole", 1, steps))
        assert code == 0, err
        whole = outcome(Path(name) / "whole")
        while total < count and not findings:
            scratch = Path(name) / f"job-{number}"
            scratch.mkdir()
            kills = [drawn(chance) for _ in range(min(MOST, count - total))]
            planned = list(kills)
            struck, wrong, ranks = attacked(folder, scratch, steps, kills, chance)
            wrong = wrong or difference(outcome(scratch / "saved"), whole)
            if wrong:
                findings += 1
                print(f"job {number} on {ranks} ranks, {planned}: {wrong}", flush=True)
            print(f"job {number}: {struck} kills on {ranks} ranks", flush=True)
            total, number = total + struck, number + 1
    print(f"kills_pipelines_ranks: {total} kills in {number} jobs, {findings} findings, seed {seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    run(main, __doc__, "count", COUNT)
