"""Small queues that are filled from files of records, with damage, filters, parts and copies as chance has it: saved
and restored at any moment, in the same program and in new ones, from the newest checkpoint and from older ones. The
batches are always those of a program that nobody disturbed, and so is what the runner has counted.

    python -m tests.gate.pool_restores [COUNT] [--seed N]
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import dfc
from dfc_runtime.checkpoints import store
from dfc_runtime.module import Module
from tests.support.pipelines import drained
from tests.support.record_files import framed
from tests.support.seeded_commands import run

COUNT = 200
PROGRAM = """dfg 1
var files = record_files(
  "*.rec", passes = %(passes)d, shuffle = %(shuffle)s, seed = 3, on_error = "skip", part = %(part)d, parts = %(parts)d,
)
queue pool: (x: i32, y: f32) = %(made)s
var left_out: i64 = 0
var seen: i64 = 0
runner read with copies = %(copies)d {
  let row = files.next()
  let [N] x: u8[N] = decode_raw(row, u8)
  let at = files.position()
  if (at * 7919) %% 1000 >= %(left_out)d { pool.put(sum(cumsum(x as i32)), N as f32) } else { left_out += 1 }
  seen := seen * 3 + at
}
%(between)s
entry batch() -> (x: i32[%(take)d], y: f32[%(take)d]) {
  let x, y = %(last)s.take(%(take)d)
  return x, y
}
"""
BETWEEN = """queue staged: (x: i32, y: f32) = fifo(capacity = 3)
runner move with copies = 2 {
  let x, y = pool.take()
  staged.put(x, y)
}
"""


def drawn(chance: random.Random) -> dict[str, object]:
    """The settings of a program."""
    ready, last = chance.choice([1, 2, 7, 30, 60]), chance.choice(["pool", "staged"])
    take = chance.choice([1, 2, 3] if last == "staged" else [1, 4, 5])
    parts, capacity = chance.choice([1, 3]), ready + take + chance.choice([0, 10])
    shuffled = f"shuffle_queue(capacity = {capacity}, ready = {ready}, seed = 5)"
    return {
        "passes": chance.choice([1, 4, 30]),
        "shuffle": chance.choice(["false", '"records"', '"files"']),
        "part": chance.randrange(parts),
        "parts": parts,
        "made": chance.choice([f"fifo(capacity = {capacity})", *[shuffled] * 3]),
        "copies": chance.choice([1, 3]),
        "left_out": chance.choice([0, 0, 0, 5, 100]),
        "between": BETWEEN if last == "staged" else "",
        "last": last,
        "take": take,
    }


def write_files(folder: Path, chance: random.Random) -> None:
    """Three files, some of them with damaged records or cut short."""
    rows, damage = chance.choice([20, 90, 200]), chance.choice([0, 0.02])
    for number in range(3):
        records = [framed(b"%06d" % chance.randrange(10**6)) for _ in range(rows // 3 + number)]
        data = b"".join(each[:-1] + b"?" if chance.random() < damage else each for each in records)
        (folder / f"{number}.rec").write_bytes(data[:-5] if chance.random() < 0.1 else data)


class Attack:
    """One program, and where it is in the stream of all batches."""

    def __init__(self, data: bytes, folder: Path, chance: random.Random) -> None:
        self._data, self._folder, self._chance = data, folder, chance
        self.model = self._anew()
        self.at = 0
        self.saved: dict[Path, int] = {}
        self.log: list[str] = []
        self.kinds: Counter[str] = Counter()

    def _anew(self) -> Module:
        return dfc.loads(self._data, threads=1, data={"files": str(self._folder / "*.rec")})

    def batch(self) -> bytes:
        taken = self.model.batch()
        return taken.x.tobytes() + taken.y.tobytes()

    def counted(self) -> list[int]:
        return [int(self.model.state[name]) for name in ("left_out", "seen")]

    def step(self, whole: list[bytes]) -> bool:
        """Takes, saves or restores; whether the batches are those that belong there."""
        done = self._chance.choice(["take", "take", "save", "restore", "load and restore"])
        if done == "take":
            count = min(self._chance.choice([1, 3, 20, 100]), len(whole) - self.at)
            self.log.append(f"take {count}")
            begin, self.at = self.at, self.at + count
            return [self.batch() for _ in range(count)] == whole[begin : self.at]
        if done == "save":
            path = self._folder / f"state-{len(self.log)}"
            self.model.save(path)
            self.saved[path] = self.at
            self.kinds["positions" if "pool/@positions" in store.find(path).checkpoint.state else "elements"] += 1
        elif self.saved:
            path = self._chance.choice(list(self.saved))
            if done != "restore":
                self.model.close()
                self.model = self._anew()
            self.model.restore(path)
            self.at = self.saved[path]
        self.log.append(f"{done} at {self.at}")
        return True


def attacked(chance: random.Random, kinds: Counter[str]) -> str:
    """What is wrong with one program; "" if nothing is."""
    stated = drawn(chance)
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), chance)
        attack = Attack(dfc.compile(text=PROGRAM % stated).to_bytes(), Path(name), chance)
        whole = drained(attack.batch)
        counted = attack.counted()
        attack.model.init()
        is_right = all(attack.step(whole) for _ in range(chance.randrange(3, 14)))
        is_right = is_right and drained(attack.batch) == whole[attack.at :] and attack.counted() == counted
        attack.model.close()
    kinds.update(attack.kinds)
    return "" if is_right else f"{stated}: {'; '.join(attack.log)}"


def main(count: int, seed: int) -> int:
    """1 if anything was found."""
    print(f"seed {seed}", flush=True)
    chance, findings, kinds = random.Random(seed), 0, Counter[str]()
    for _ in range(count):
        if wrong := attacked(chance, kinds):
            findings += 1
            print(wrong, flush=True)
    saved = ", ".join(f"{number} with {kind}" for kind, number in sorted(kinds.items()))
    print(f"pool_restores: {count} programs, saved {saved}; {findings} findings, seed {seed}")
    return 1 if findings else 0


if __name__ == "__main__":
    run(main, __doc__, "count", COUNT)
