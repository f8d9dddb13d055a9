"""Which rows of a sharded variable lie where: by number of the row and number of tasks.

`modulo`: row r is on task r mod n, as its row r div n. `blocks`: rows lie in contiguous ranges, those of task t from
t * rows div n. `hash`: rows g * n .. g * n + n - 1 are a group, one of them for each task, as its row g; row r of group
g is on task (r + mix(g)) mod n, where `mix` is the finaliser of splitmix64.

Guarantees that each row lies in one place, and that no two tasks' numbers of rows differ by more than one. A task's
memory has room for the most that any of them has: where it has one less, the last place means nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import UnsupportedError

Rows = NDArray[np.int64]
MODULO, BLOCKS, HASH = "modulo", "blocks", "hash"


def rows_of(rule: str, rows: int, tasks: int, task: int) -> Rows:
    """The rows of the whole that lie on a task, in the order in which they lie there."""
    if rule == MODULO:
        return np.arange(task, rows, tasks)
    if rule == BLOCKS:
        return np.arange(*dealt(rows, tasks, task))
    if rule != HASH:
        raise UnsupportedError(f"there is no rule {rule[:40]!r} to spread rows by", code="E1001")
    groups = np.arange(most_rows(rows, tasks))
    own_rows = groups * tasks + (task - _mixed(groups, tasks)) % tasks
    return own_rows[own_rows < rows]


def most_rows(rows: int, tasks: int) -> int:
    """The most rows that a task has."""
    return -(-rows // tasks)


def _mixed(groups: Rows, tasks: int) -> Rows:
    """How far each group is turned, from 0 to below the number of tasks."""
    with np.errstate(over="ignore"):
        x = groups.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x % np.uint64(tasks)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Division:
    """So many rows on so many tasks, by a rule."""

    rule: str
    rows: int
    tasks: int

    @property
    def most(self) -> int:
        return most_rows(self.rows, self.tasks)

    def rows_of(self, task: int) -> Rows:
        return rows_of(self.rule, self.rows, self.tasks, task)

    def count(self, task: int) -> int:
        """How many rows lie on a task."""
        if self.rule == BLOCKS:
            first, last = dealt(self.rows, self.tasks, task)
            return last - first
        full, rest = divmod(self.rows, self.tasks)
        if self.rule == MODULO or not rest:
            return full + (task < rest)
        turned = int(_mixed(np.array([full]), self.tasks)[0])
        return full + ((task - turned) % self.tasks < rest)

    def locate(self, rows: Rows) -> tuple[Rows, Rows]:
        """The task of each row, and its number there."""
        if self.rule == BLOCKS:
            starts = np.array([dealt(self.rows, self.tasks, task)[0] for task in range(self.tasks)])
            tasks = np.searchsorted(starts, rows, side="right") - 1
            return tasks, rows - starts[tasks]
        groups = rows // self.tasks
        turned = _mixed(groups, self.tasks) if self.rule == HASH else 0
        return (rows + turned) % self.tasks, groups


def part_of(whole: Array, rule: str, axis: int, tasks: int, task: int) -> Array:
    """What of a whole array lies on a task."""
    rows = rows_of(rule, whole.shape[axis], tasks, task)
    return np.ascontiguousarray(np.take(whole, rows, axis))


def put_part(whole: Array, part: Array, rule: str, axis: int, tasks: int, task: int) -> None:
    """Writes what lies on a task to its place in the whole."""
    rows = rows_of(rule, whole.shape[axis], tasks, task)
    index = (*(slice(None),) * axis, rows)
    whole[index] = part


def with_room(part: Array, axis: int, most: int) -> Array:
    """A task's rows in memory that has room for the most rows: the last row is there again."""
    missing = most - part.shape[axis]
    return np.concatenate([part, np.take(part, [-1] * missing, axis)], axis) if missing else part


def without_room(memory: Array, axis: int, count: int) -> Array:
    """The rows of a task out of its memory."""
    return np.ascontiguousarray(np.take(memory, np.arange(count), axis)) if memory.shape[axis] != count else memory
