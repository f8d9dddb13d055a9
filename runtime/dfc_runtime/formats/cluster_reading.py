"""JSON data to the cluster section of a manifest. Whatever is not exactly as `cluster_writing` makes it, or speaks of
what is not there, is a `ValueError`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from dfc_runtime.calls import formulas
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats import fields
from dfc_runtime.formats.cluster import (
    COMBINES,
    EDGE_KINDS,
    HANDED,
    MODES,
    SHARD_RULES,
    STEP_KINDS,
    UPDATES,
    CheckpointPolicy,
    CheckpointStep,
    Cluster,
    ClusterEdge,
    ClusterEntry,
    ClusterJob,
    ClusterMemory,
    ClusterRole,
    ClusterState,
    ClusterUpdate,
    CombineCheck,
    FeedPart,
    PartFeed,
    PrecompiledPart,
    ResultPart,
    site,
)
from dfc_runtime.formats.fields import Record

MOST_TASKS = 1 << 16
MOST_BLOCKS = 1 << 20
MOST_AXES = 32

Signature = tuple[Collection[str], Collection[str], Collection[str]]
"""The names of an entry's parameters, of its results and of its sizes."""


def from_json(value: object, where: str, entries: Mapping[str, Signature], state: Collection[str]) -> Cluster:
    """The section, for a manifest with these entries and this state."""
    record = Record(value, where)
    cluster = Cluster(
        jobs=record.list("jobs", _job),
        roles=record.list("roles", _role),
        edges=record.list("edges", _edge),
        entries=record.list("entries", _entry),
        state=record.list("state", _state),
        compressed=record.list("compressed", _pair),
        checkpoint=record.optional("checkpoint", _checkpoint, None),
        parts=record.optional("parts", _parts, ()),
        deployment=record.optional("deployment", fields.text, ""),
        memory=record.optional("memory", _memories, ()),
    )
    record.done()
    _check_roles(cluster)
    _check_edges(cluster)
    _check_entries(cluster, entries, state)
    _check_steps(cluster, state)
    _check_state(cluster, state)
    _check_memory(cluster)
    return cluster


def _job(value: object, where: str) -> ClusterJob:
    record = Record(value, where)
    job = ClusterJob(record.text("name"), record.integer("tasks", 1, MOST_TASKS), record.flag("elastic"))
    record.done()
    return job


def _role(value: object, where: str) -> ClusterRole:
    record = Record(value, where)
    role = ClusterRole(record.text("name"), record.text("job"), record.list("tasks", fields.integer))
    record.done()
    return role


def _edge(value: object, where: str) -> ClusterEdge:
    record = Record(value, where)
    edge = ClusterEdge(
        key=record.text("key"),
        kind=record.text("kind"),
        source=record.text("source"),
        destinations=record.list("destinations", fields.text),
        name=record.text("name"),
        location=record.text("place"),
    )
    record.done()
    if edge.kind not in EDGE_KINDS:
        raise ValueError(f"{where} has the unknown kind {fields.shown(edge.kind)}")
    return edge


def _entry(value: object, where: str) -> ClusterEntry:
    record = Record(value, where)
    entry = ClusterEntry(
        name=record.text("name"),
        roles=record.list("roles", fields.text),
        replicated_over=record.text("replicated_over"),
        split=record.text("split"),
        blocks=record.integer("blocks", 0, MOST_BLOCKS),
        feeds=record.list("feeds", _feed),
        results=record.list("results", _result),
        count=record.text("count"),
        first=record.text("first"),
        steps=record.list("steps", _step),
        check=record.optional("check", _combine_check, None),
        update=record.optional("update", _update, None),
    )
    record.done()
    return entry


def _combine_check(value: object, where: str) -> CombineCheck | None:
    record = Record(value, where)
    check = CombineCheck(record.text("combine"), record.list("gradients", fields.text), record.text("place"))
    record.done()
    if check.combine not in COMBINES or not check.gradients:
        raise ValueError(f"{where} says neither of what nor as what gradients are checked")
    return check


def _update(value: object, where: str) -> ClusterUpdate | None:
    record = Record(value, where)
    update = ClusterUpdate(
        mode=record.text("mode"),
        entry=record.text("entry"),
        owner=record.text("owner"),
        variables=record.list("variables", fields.text),
        combine=record.text("combine"),
        bound=record.integer("bound", -1),
        backups=record.integer("backups", 0, MOST_TASKS),
        handed=record.list("handed", fields.text),
        take=record.optional("take", fields.text, ""),
        taken=record.list("taken", fields.text) if record.has("taken") else (),
    )
    record.done()
    if (update.backups and update.mode != "backup") or not {*update.handed} <= {*HANDED}:
        raise ValueError(f"{where} says not what becomes of steps that come late")
    if update.taken and not update.take:
        raise ValueError(f"{where} says not what takes from queues")
    if update.mode not in MODES or update.combine not in COMBINES:
        raise ValueError(f"{where} has the unknown mode {fields.shown(update.mode)}, or no way to combine results")
    return update


def _step(value: object, where: str) -> CheckpointStep:
    record = Record(value, where)
    step = CheckpointStep(record.text("kind"), record.text("feed"), record.list("state", fields.text))
    record.done()
    if step.kind not in STEP_KINDS:
        raise ValueError(f"{where} has the unknown kind {fields.shown(step.kind)}")
    return step


def _feed(value: object, where: str) -> FeedPart:
    record = Record(value, where)
    axis = record.integer("split_axis", -1, MOST_AXES - 1)
    feed = FeedPart(record.text("name"), record.list("roles", fields.text), axis, _runs(record))
    record.done()
    return feed


def _result(value: object, where: str) -> ResultPart:
    record = Record(value, where)
    axis = record.integer("split_axis", -1, MOST_AXES - 1)
    rule = record.optional("rule", fields.text, "")
    result = ResultPart(record.text("name"), record.text("source"), axis, _runs(record), rule)
    record.done()
    if rule and (rule not in SHARD_RULES or axis < 0):
        raise ValueError(f"{where} has the unknown rule {fields.shown(rule)}, or no axis for it")
    return result


def _runs(record: Record) -> Formula:
    return formulas.from_json(record.get("runs"), record.field_path("runs"))


def _state(value: object, where: str) -> ClusterState:
    record = Record(value, where)
    axis = record.integer("axis", 0, MOST_AXES - 1)
    state = ClusterState(record.text("name"), record.text("site"), record.text("rule"), axis)
    record.done()
    if state.rule not in ("", *SHARD_RULES):
        raise ValueError(f"{where} has the unknown rule {fields.shown(state.rule)}")
    return state


def _pair(value: object, where: str) -> tuple[str, str]:
    parts = fields.items(value, where)
    if len(parts) != 2:
        raise ValueError(f"{where} is not a pair of jobs")
    return fields.text(parts[0], where), fields.text(parts[1], where)


def _checkpoint(value: object, where: str) -> CheckpointPolicy:
    record = Record(value, where)
    seconds = record.get("seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < math.inf:
        raise ValueError(f"{where}.seconds is not a number of seconds")
    policy = CheckpointPolicy(float(seconds), record.integer("steps"), record.text("folder"), record.integer("keep", 1))
    record.done()
    return policy


def _memories(value: object, where: str) -> tuple[ClusterMemory, ...]:
    return tuple(_memory(each, f"{where}[{number}]") for number, each in enumerate(fields.items(value, where)))


def _memory(value: object, where: str) -> ClusterMemory:
    record = Record(value, where)
    role, entry = record.text("role"), record.text("entry")
    delayed = formulas.from_json(record.get("delayed"), record.field_path("delayed"))
    memory = ClusterMemory(role, entry, delayed, record.optional("early", formulas.from_json, None))
    record.done()
    return memory


def _parts(value: object, where: str) -> tuple[PrecompiledPart, ...]:
    return tuple(_part(each, f"{where}[{number}]") for number, each in enumerate(fields.items(value, where)))


def _part(value: object, where: str) -> PrecompiledPart:
    record = Record(value, where)
    part = PrecompiledPart(record.list("fetches", _names), record.list("feeds", _part_feed))
    record.done()
    if not part.fetches:
        raise ValueError(f"{where} fetches nothing")
    return part


def _part_feed(value: object, where: str) -> PartFeed:
    record = Record(value, where)
    feed = PartFeed(_names(record.get("names"), record.field_path("names")), record.text("parameter"))
    record.done()
    return feed


def _names(value: object, where: str) -> tuple[str, ...]:
    names = tuple(fields.text(each, where) for each in fields.items(value, where))
    if not names:
        raise ValueError(f"{where} has no name")
    return names


def _unique(names: Iterable[str], where: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where} has {fields.shown(name)} twice")
        seen.add(name)
    return seen


def _check_roles(cluster: Cluster) -> None:
    jobs = _unique((job.name for job in cluster.jobs), "cluster.jobs")
    _unique((role.name for role in cluster.roles), "cluster.roles")
    if not jobs:
        raise ValueError("cluster.jobs is empty")
    if any(":" in name or not name for name in jobs):
        raise ValueError("cluster.jobs has a job that cannot be named")
    for role in cluster.roles:
        if role.job not in jobs or not role.name:
            raise ValueError(f"the role {fields.shown(role.name)} is of an unknown job")
    for job in cluster.jobs:
        _check_tasks(job, [role for role in cluster.roles if role.job == job.name])


def _check_tasks(job: ClusterJob, roles: list[ClusterRole]) -> None:
    """No task has two roles; one that nothing was placed on has none."""
    numbered = [task for role in roles for task in role.tasks]
    rest = sum(not role.tasks for role in roles)
    if len(set(numbered)) != len(numbered) or any(task >= job.tasks for task in numbered) or rest > 1:
        raise ValueError(f"the roles of {fields.shown(job.name)} do not fit its tasks")
    if job.elastic and any(numbered):
        raise ValueError(f"{fields.shown(job.name)} is elastic, and something is on a task that may not be there")


def _check_site(cluster: Cluster, text: str, *, whole_job: bool = True) -> None:
    name, task = site(text)
    job = next((job for job in cluster.jobs if job.name == name), None)
    if job is None or (task is None and not whole_job) or (task is not None and not 0 <= task < job.tasks):
        raise ValueError(f"{fields.shown(text)} is no task of the cluster")


def _check_edges(cluster: Cluster) -> None:
    _unique((edge.key for edge in cluster.edges), "cluster.edges")
    for edge in cluster.edges:
        _check_site(cluster, edge.source, whole_job=edge.kind != "value")
        for destination in edge.destinations:
            _check_site(cluster, destination)
    for pair in cluster.compressed:
        for name in pair:
            if name not in {job.name for job in cluster.jobs}:
                raise ValueError(f"cluster.compressed has the unknown job {fields.shown(name)}")


def _check_entries(cluster: Cluster, entries: Mapping[str, Signature], state: Collection[str]) -> None:
    if _unique((entry.name for entry in cluster.entries), "cluster.entries") != {*entries}:
        raise ValueError("the entries of the cluster are not those of the manifest")
    roles = {role.name for role in cluster.roles}
    for entry in cluster.entries:
        feeds, results, dims = entries[entry.name]
        where = f"cluster entry {fields.shown(entry.name)}"
        used = {*entry.roles, *(role for feed in entry.feeds for role in feed.roles)}
        if not used <= roles or not used <= {*entry.roles}:
            raise ValueError(f"{where} uses a role that takes no part")
        if _unique((feed.name for feed in entry.feeds), where) != {*feeds}:
            raise ValueError(f"{where} has other feeds than the manifest")
        if [result.name for result in entry.results] != list(results):
            raise ValueError(f"{where} has other results than the manifest")
        if bool(entry.blocks) != bool(entry.split) or (entry.blocks and not entry.replicated_over):
            raise ValueError(f"{where} has no blocks, or nothing that is split")
        symbols = {name for each in (*entry.feeds, *entry.results) for name in each.runs.symbols()}
        queues = {name.strip() for name in entry.split.split(",")}
        is_queue = queues <= {*state} and not any(feed.split_axis >= 0 for feed in entry.feeds)
        if not symbols <= {*dims} or (entry.split and entry.split not in dims and not is_queue):
            raise ValueError(f"{where} uses a size that the entry does not have")
        _check_parts(cluster, entry, where)
        if entry.update is not None:
            _check_update(cluster, entry, entry.update, where)


def _check_memory(cluster: Cluster) -> None:
    _unique((f"{each.role}/{each.entry}" for each in cluster.memory), "cluster.memory")
    known = {(role, entry.name) for entry in cluster.entries for role in entry.roles}
    for each in cluster.memory:
        if (each.role, each.entry) not in known:
            raise ValueError(f"cluster.memory has {fields.shown(each.entry)} in a role that takes no part in it")


def _check_steps(cluster: Cluster, state: Collection[str]) -> None:
    for entry in cluster.entries:
        where = f"cluster entry {fields.shown(entry.name)}"
        feeds = {feed.name for feed in entry.feeds}
        if entry.steps and (entry.roles or entry.results or entry.blocks):
            raise ValueError(f"{where} saves or restores, and does something else")
        if not all(step.feed in feeds and {*step.state} <= {*state} for step in entry.steps):
            raise ValueError(f"{where} saves or restores what is not there")


def _check_parts(cluster: Cluster, entry: ClusterEntry, where: str) -> None:
    jobs = {role.job for role in cluster.roles if role.name in entry.roles}
    if entry.replicated_over and entry.replicated_over not in jobs:
        raise ValueError(f"{where} is replicated over a job that takes no part")
    for result in entry.results:
        _check_site(cluster, result.source, whole_job=result.split_axis >= 0 or entry.update is not None)
        if site(result.source)[0] not in jobs:
            raise ValueError(f"{where} has a result of a job that takes no part")
        if result.rule and site(result.source)[1] is not None:
            raise ValueError(f"{where} has a result by rows from one task")
        if result.in_blocks and result.source != entry.replicated_over:
            raise ValueError(f"{where} has a result in pieces that it is not replicated over")
    if any(feed.split_axis >= 0 for feed in entry.feeds) and not entry.blocks:
        raise ValueError(f"{where} splits a feed, but has no blocks")


def _check_update(cluster: Cluster, entry: ClusterEntry, update: ClusterUpdate, where: str) -> None:
    """Steps come from all tasks of one job, and state lies on one task of another."""
    _check_site(cluster, update.owner, whole_job=False)
    states = {each.name: each.site for each in cluster.state}
    if not entry.blocks or site(update.owner)[0] == entry.replicated_over:
        raise ValueError(f"{where} has no steps, or the task that updates takes some")
    if any(states.get(name) != update.owner for name in update.variables):
        raise ValueError(f"{where} reads state that is not where it is updated")
    if not any((edge.key, edge.kind) == (entry.updates, UPDATES) for edge in cluster.edges):
        raise ValueError(f"{where} has no messages for its steps")


def _check_state(cluster: Cluster, state: Collection[str]) -> None:
    if _unique((each.name for each in cluster.state), "cluster.state") != {*state}:
        raise ValueError("the state of the cluster is not that of the manifest")
    for each in cluster.state:
        _check_site(cluster, each.site)
        if each.rule and site(each.site)[1] is not None:
            raise ValueError(f"{fields.shown(each.name)} is sharded over one task")
