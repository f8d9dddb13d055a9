"""Statements to a deployment: jobs first, then what refers to them.

Guarantees that every mistake that can be seen without the program is a message, and that without one every name of a
job in the result is one of its jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Edit, Help, editing, replacing
from dfc.diagnostics.source import SourceFile
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.distribute.deployment.devices import constraint_of, unknown_job
from dfc.distribute.deployment.model import (
    APART,
    IN_STEP,
    Checkpoint,
    Colocate,
    Compress,
    Constraint,
    Deployment,
    Job,
    PlaceStatement,
    Replicate,
    Shard,
    Step,
)
from dfc.distribute.deployment.syntax.settings import Settings, apart_mistakes, duration
from dfc.distribute.deployment.syntax.statements import Edition, Statement, Word
from dfc_runtime.errors import counted

MOST_TASKS = 1 << 20
MODES = ("sync", "staged", "mirrored", "independent", "async", "stale", "backup")
RULES = ("modulo", "blocks", "hash")
COMBINATIONS = ("mean", "sum")
KEPT = 5
SUFFIX = ".dfg"


def assemble(
    source: SourceFile, edition: Edition | None, statements: Sequence[Statement], complete: bool
) -> tuple[Deployment, list[Diagnostic]]:
    """The deployment, and what is wrong with it. What is missing is reported only if the text was read completely."""
    making = _Making(source)
    if edition is not None:
        making.program(edition.program)
    for statement in statements:
        if statement.kind == "job":
            making.job(statement)
    if complete and not making.deployment.jobs and not making.problems:
        title = "a deployment has at least one job"
        making.problems.append(error("E0183", title, source.span(0, 0), helps=[_a_job(source)]))
    if not complete and not making.deployment.jobs:
        return (
            making.deployment,
            making.problems,
        )  # where the jobs could not be read, every name of one would look wrong
    others = {
        "shard": making.shard,
        "place": making.place,
        "colocate": making.colocate,
        "replicate": making.replicate,
        "compress": making.compress,
        "checkpoint": making.checkpoint,
        "step": making.step,
    }
    for statement in statements:
        if statement.kind in others:
            others[statement.kind](statement)
    return making.deployment, making.problems


def _a_job(source: SourceFile) -> Help:
    """A help that writes a job at the end of the file."""
    end, line = len(source.text), "job worker tasks 1"
    before = "" if source.text.endswith("\n") else "\n"
    return editing(f"write `{line}`", [Edit(source.span(end, end), f"{before}\n{line}\n")])


class _Making:
    """One deployment on its way."""

    def __init__(self, source: SourceFile) -> None:
        self.deployment = Deployment(source, "")
        self.problems: list[Diagnostic] = []

    def program(self, word: Word) -> None:
        self.deployment.program, self.deployment.program_span = word.text, word.span
        if not word.text.endswith(SUFFIX) or word.text == SUFFIX:
            title = f'"{word.text}" is not the name of a program'
            helps: list[Help] = []
            if word.text and "." not in word.text and not word.text.endswith("/"):
                name = f'"{word.text}{SUFFIX}"'
                helps = [replacing(f"write `{name}`", word.span, name)]
            self.problems.append(error("E0180", title, word.span, f"expected a file ending in {SUFFIX}", helps=helps))

    def job(self, statement: Statement) -> None:
        name, tasks = statement.word(0), statement.word(1)
        settings = Settings(statement, self.problems)
        cpus, gpus = settings.whole("cpu", 1, 1), settings.whole("gpu", 0, 0)
        memory = settings.bytes("memory")
        job = Job(name.text, tasks.number, cpus, gpus, memory, settings.finish(), statement.span)
        earlier = self.deployment.jobs.get(job.name)
        if earlier is not None:
            title = f"there are two jobs `{job.name}`"
            self.problems.append(error("E0183", title, name.span, secondary=[(earlier.span, "the first one")]))
            return
        if not 1 <= tasks.number <= MOST_TASKS:
            title = f"a job has 1 to {MOST_TASKS} tasks"
            written = replacing(f"write `job {job.name} tasks 1`", tasks.span, "1")
            self.problems.append(error("E0183", title, tasks.span, helps=[] if tasks.number else [written]))
        self.deployment.jobs[job.name] = job

    def check_job(self, word: Word) -> None:
        if word.text not in self.deployment.jobs:
            self.problems.append(unknown_job(word.text, word.span, self.deployment.jobs))

    def shard(self, statement: Statement) -> None:
        name, axis, job, rule = statement.word(0), statement.word(1), statement.word(2), statement.words[3]
        Settings(statement, self.problems).finish()
        if rule is not None and rule.value not in RULES:
            title = f"there is no rule `{rule.text}`"
            label = did_you_mean(closest(rule.text, RULES))
            notes = ["the rules are modulo, blocks and hash"]
            self.problems.append(error("E0181", title, rule.span, label, notes=notes))
        self.check_job(job)
        kind = RULES[0] if rule is None else rule.text
        division = Shard(name.text, axis.number, job.text, kind, name.span, job.span, statement.span)
        self.deployment.shards.append(division)

    def place(self, statement: Statement) -> None:
        glob, where = statement.word(0), statement.where
        assert where is not None, "the grammar demands it"
        constraint = constraint_of(where, self.deployment.jobs, self.problems)
        asked = constraint or Constraint(None, None, None, None, where.span)
        self.deployment.placements.append(PlaceStatement(glob.text, asked, glob.span, statement.span))

    def colocate(self, statement: Statement) -> None:
        glob, name = statement.word(0), statement.word(1)
        self.deployment.colocations.append(Colocate(glob.text, name.text, glob.span, name.span, statement.span))

    def replicate(self, statement: Statement) -> None:
        entry, job = statement.word(0), statement.word(1)
        settings = Settings(statement, self.problems)
        mode = settings.choice("mode", "sync", MODES)
        split, combine = settings.text("split"), settings.choice("combine", "mean", COMBINATIONS)
        tasks = self.deployment.jobs[job.text].tasks if job.text in self.deployment.jobs else 1
        blocks = settings.whole("blocks", max(tasks, 1), 1)
        bound, backups = settings.whole("bound", -1, 0), settings.whole("backups", 0, 0)
        options = settings.finish()
        self._check_mode(statement, settings, mode, split)
        if mode in (*IN_STEP, *APART) and blocks < tasks:
            title = f"`{job.text}` has {tasks} tasks, and `{entry.text}` is cut into {counted(blocks, 'block')} only"
            span, words = settings.span("blocks"), "or a multiple of it: each task takes one block at least"
            helps = [replacing(f"write `blocks = {tasks}`, {words}", span, f"blocks = {tasks}")]
            self.problems.append(error("E0181", title, span, helps=helps))
        self.check_job(job)
        replication = Replicate(
            entry.text,
            job.text,
            mode,
            split,
            combine,
            blocks,
            entry.span,
            job.span,
            statement.span,
            options,
            bound=bound,
            backups=backups,
        )
        self.problems += apart_mistakes(replication, tasks, settings)
        self.deployment.replications.append(replication)

    def _check_mode(self, statement: Statement, settings: Settings, mode: str, split: str) -> None:
        entry = statement.word(0).text
        if settings.find("mode") is None:
            title = f"`{entry}` is replicated, but it is not said how"
            helps = _modes(statement, settings, split)
            self.problems.append(error("E0181", title, statement.span, helps=helps))
        elif mode == "independent":
            for name in ("split", "combine", "blocks", "bound", "backups"):
                if settings.find(name) is not None:
                    title = f"`{name}` means nothing where every task runs by itself"
                    helps = [settings.without(name, f"delete `{name}`")]
                    self.problems.append(error("E0181", title, settings.span(name), helps=helps))
        elif mode in (*IN_STEP, *APART) and not split and settings.find("split") is None:
            title = f"it is not said along which dimension `{entry}` is cut"
            helps = ['add `split = "..."`, with a dimension of the entry']
            self.problems.append(error("E0181", title, settings.span("mode"), helps=helps))

    def compress(self, statement: Statement) -> None:
        source, destination = statement.word(0), statement.word(1)
        settings = Settings(statement, self.problems)
        form = settings.choice("format", "", ("bf16",))
        settings.finish()
        if settings.find("format") is None:
            title = "it is not said to which format"
            misspelt = bool(statement.settings)
            helps = list[Help]() if misspelt else [settings.added('format = "bf16"')]
            self.problems.append(error("E0181", title, statement.span, helps=helps))
        self.check_job(source)
        self.check_job(destination)
        self.deployment.compressions.append(Compress(source.text, destination.text, form, statement.span))

    def checkpoint(self, statement: Statement) -> None:
        seconds, steps = duration(statement.word(0), self.problems)
        folder = statement.word(1)
        settings = Settings(statement, self.problems)
        keep = settings.whole("keep", KEPT, 1)
        settings.finish()
        if not folder.text:
            self.problems.append(error("E0181", "checkpoints need a folder", folder.span))
        earlier = self.deployment.checkpoint
        if earlier is not None:
            title = "checkpoints are saved in one way only"
            self.problems.append(error("E0804", title, statement.span, secondary=[(earlier.span, "the first one")]))
            return
        self.deployment.checkpoint = Checkpoint(seconds, steps, folder.text, keep, statement.span)

    def step(self, statement: Statement) -> None:
        fetches, *rest = statement.strings
        feeds = rest[0].words if rest else ()
        self.deployment.steps.append(
            Step(
                tuple(word.text for word in fetches.words),
                tuple(word.text for word in feeds),
                tuple(word.span for word in fetches.words),
                tuple(word.span for word in feeds),
                statement.span,
            )
        )


def _modes(statement: Statement, settings: Settings, split: str) -> list[Help]:
    """How an entry may be replicated; what else is set says which way is meant."""
    if split:
        return [settings.added('mode = "sync"')]
    if statement.settings:
        return ['add `mode = "sync", split = "..."`, with a dimension of the entry']
    return [
        'to cut what is fed, write `with mode = "sync", split = "..."`, with a dimension of the entry',
        'for an entry that changes nothing, write `with mode = "independent"`',
    ]
