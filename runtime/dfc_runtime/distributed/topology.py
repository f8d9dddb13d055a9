"""Which rank is which task: numbers of ranks for the jobs of a program, in their order.

Assumes a cluster section that was checked. Guarantees that a number of ranks that does not fit is one `RankCountError`,
which says what would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import RankCountError, counted
from dfc_runtime.formats.cluster import Cluster, ClusterEntry, ClusterRole, site


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a job, and the role it plays; None where nothing was placed on it."""

    job: str
    number: int
    rank: int
    role: ClusterRole | None

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.job} task {self.number})"


class Topology:
    """The tasks of a program by rank. `tasks` are the numbers for each job, as written or as stated at the start."""

    def __init__(self, cluster: Cluster, stated: Mapping[str, int] | None = None) -> None:
        self.cluster = cluster
        self.tasks = _counts(cluster, stated or {})
        self.by_rank: list[Task] = []
        self._first: dict[str, int] = {}
        self._ranks: dict[str, tuple[int, ...]] = {}
        for job, count in self.tasks.items():
            self._first[job] = len(self.by_rank)
            for number in range(count):
                rank = len(self.by_rank)
                self.by_rank.append(Task(job, number, rank, _role(cluster, job, number)))

    @property
    def size(self) -> int:
        return len(self.by_rank)

    def of_part(self, cluster: Cluster) -> Topology:
        """The same tasks, for a part of the program that is for them."""
        if [job.name for job in cluster.jobs] != [job.name for job in self.cluster.jobs]:
            raise ValueError("a part of the program has other jobs")
        for role in cluster.roles:
            if any(task >= self.tasks[role.job] for task in role.tasks):
                text = f"something in it is placed on task {max(role.tasks)} of `{role.job}`"
                raise RankCountError(f"{text}, which has {counted(self.tasks[role.job], 'task')} here", code="E0912")
        jobs = tuple(replace(job, tasks=self.tasks[job.name]) for job in cluster.jobs)
        return Topology(replace(cluster, jobs=jobs))

    def ranks_of(self, text: str) -> tuple[int, ...]:
        """The ranks of `job` or `job:task`."""
        ranks = self._ranks.get(text)
        if ranks is None:
            job, task = site(text)
            first = self._first[job]
            ranks = tuple(range(first, first + self.tasks[job])) if task is None else (first + task,)
            self._ranks[text] = ranks
        return ranks

    def name(self, rank: int) -> str:
        return str(self.by_rank[rank])

    def parts_of(self, entry: ClusterEntry) -> tuple[Task, ...]:
        """The tasks that take part in an entry."""
        return tuple(each for each in self.by_rank if each.role is not None and each.role.name in entry.roles)

    def described(self) -> str:
        """For messages: `ps 1 + worker 2 = 3 ranks`."""
        terms = " + ".join(f"{job} {count}" for job, count in self.tasks.items())
        return f"{terms} = {self.size} rank{'s' if self.size != 1 else ''}"

    def check_size(self, ranks: int, program: str) -> None:
        """Refuses a number of ranks that is not that of the tasks."""
        if ranks == self.size:
            return
        text = f"{program} is for {self.described()}, but there {'is' if ranks == 1 else 'are'} {ranks}"
        fitting = {job.name: ranks - self.size + self.tasks[job.name] for job in self.cluster.jobs if job.elastic}
        suggestion = next((f"{name}={n}" for name, n in fitting.items() if self._can_be(name, n)), None)
        remedy = f"start {self.size}"
        if suggestion is not None:
            remedy += f", or say how many tasks a job has: --job {suggestion}"
        raise RankCountError(f"{text}\n  {remedy}", code="E0912")

    def _can_be(self, job: str, count: int) -> bool:
        """Whether the bundle has programs for so many tasks of a job whose number may change."""
        compiled = next(each.tasks for each in self.cluster.jobs if each.name == job)
        return count > 0 and (count <= compiled or _role(self.cluster, job, count - 1) is not None)


def _counts(cluster: Cluster, stated: Mapping[str, int]) -> dict[str, int]:
    counts = {job.name: job.tasks for job in cluster.jobs}
    for name, count in stated.items():
        job = next((job for job in cluster.jobs if job.name == name), None)
        if job is None:
            raise RankCountError(f"there is no job `{name}`; there are {', '.join(counts)}", code="E0912")
        if isinstance(count, bool) or count < 1:
            raise RankCountError(f"the job `{name}` needs at least one task", code="E0912")
        if count != job.tasks and not job.elastic:
            text = f"the job `{name}` has {counted(job.tasks, 'task')}: something is placed on a task of it or divided"
            raise RankCountError(f"{text}\n  {_compiled_with(name, count)}", code="E0912")
        if count > job.tasks and _role(cluster, name, count - 1) is None:
            text = f"the job `{name}` has {counted(job.tasks, 'task')} as compiled, and there is no program for more"
            raise RankCountError(f"{text}\n  {_compiled_with(name, count)}", code="E0912")
        most = min((each.blocks for each in cluster.entries if each.replicated_over == name and each.blocks), default=0)
        if most and count > most:
            text = f"the job `{name}` can have at most {counted(most, 'task')}: its work is cut into as many blocks"
            remedy = f"say --job {name}={most}, or compile it with `blocks = {count}` in the deployment file"
            raise RankCountError(f"{text}\n  {remedy}", code="E0912")
        counts[name] = count
    return counts


def _compiled_with(name: str, count: int) -> str:
    return f"write `job {name} tasks {count}` in the deployment file, and compile it again"


def _role(cluster: Cluster, job: str, number: int) -> ClusterRole | None:
    roles = [role for role in cluster.roles if role.job == job]
    own = next((role for role in roles if number in role.tasks), None)
    return own or next((role for role in roles if not role.tasks), None)
