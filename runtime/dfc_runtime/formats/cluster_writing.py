"""The cluster section of a manifest as JSON data."""

from __future__ import annotations

from dfc_runtime.formats.cluster import (
    CheckpointPolicy,
    Cluster,
    ClusterEntry,
    ClusterMemory,
    ClusterUpdate,
    CombineCheck,
    PrecompiledPart,
    ResultPart,
)


def to_json(cluster: Cluster) -> dict[str, object]:
    """What `cluster_reading.from_json` reads back."""
    return {
        "jobs": [{"name": job.name, "tasks": job.tasks, "elastic": job.elastic} for job in cluster.jobs],
        "roles": [{"name": role.name, "job": role.job, "tasks": list(role.tasks)} for role in cluster.roles],
        "edges": [
            {
                "key": edge.key,
                "kind": edge.kind,
                "source": edge.source,
                "destinations": list(edge.destinations),
                "name": edge.name,
                "place": edge.location,
            }
            for edge in cluster.edges
        ],
        "entries": [_entry(entry) for entry in cluster.entries],
        "state": [
            {"name": each.name, "site": each.site, "rule": each.rule, "axis": each.axis} for each in cluster.state
        ],
        "compressed": [list(pair) for pair in cluster.compressed],
        **({"checkpoint": _checkpoint(cluster.checkpoint)} if cluster.checkpoint is not None else {}),
        **({"parts": [_part(each) for each in cluster.parts]} if cluster.parts else {}),
        **({"deployment": cluster.deployment} if cluster.deployment else {}),
        **({"memory": [_memory(each) for each in cluster.memory]} if cluster.memory else {}),
    }


def _entry(entry: ClusterEntry) -> object:
    return {
        "name": entry.name,
        "roles": list(entry.roles),
        "replicated_over": entry.replicated_over,
        "split": entry.split,
        "blocks": entry.blocks,
        "feeds": [
            {"name": each.name, "roles": list(each.roles), "split_axis": each.split_axis, "runs": each.runs.to_json()}
            for each in entry.feeds
        ],
        "results": [_result(each) for each in entry.results],
        "count": entry.count,
        "first": entry.first,
        "steps": [{"kind": step.kind, "feed": step.feed, "state": list(step.state)} for step in entry.steps],
        **({"check": _check(entry.check)} if entry.check is not None else {}),
        **({"update": _update(entry.update)} if entry.update is not None else {}),
    }


def _check(check: CombineCheck) -> object:
    return {"combine": check.combine, "gradients": list(check.gradients), "place": check.location}


def _update(update: ClusterUpdate) -> object:
    return {
        "mode": update.mode,
        "entry": update.entry,
        "owner": update.owner,
        "variables": list(update.variables),
        "combine": update.combine,
        "bound": update.bound,
        "backups": update.backups,
        "handed": list(update.handed),
        **({"take": update.take, "taken": list(update.taken)} if update.take else {}),
    }


def _result(result: ResultPart) -> object:
    rule = {"rule": result.rule} if result.rule else {}
    plain = {"name": result.name, "source": result.source, "split_axis": result.split_axis}
    return {**plain, "runs": result.runs.to_json(), **rule}


def _memory(memory: ClusterMemory) -> object:
    early = {} if memory.early is None else {"early": memory.early.to_json()}
    return {"role": memory.role, "entry": memory.entry, "delayed": memory.delayed.to_json(), **early}


def _checkpoint(policy: CheckpointPolicy) -> object:
    return {"seconds": policy.seconds, "steps": policy.steps, "folder": policy.folder, "keep": policy.keep}


def _part(part: PrecompiledPart) -> object:
    return {
        "fetches": [list(names) for names in part.fetches],
        "feeds": [{"names": list(each.names), "parameter": each.parameter} for each in part.feeds],
    }
