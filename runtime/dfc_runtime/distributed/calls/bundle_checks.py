"""Whether a bundle for many ranks is whole: what each rank finds out when it loads its part, found out for all of them.

Assumes an open bundle. Guarantees that whoever looks at a bundle and whoever loads it have the same opinion: both ask
`check_part`, one for each task, the other for its own. What does not fit is a `ValueError`, or a `BundleError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from dfc_runtime.distributed.calls.entry_plan import EntryPlan, own_signature
from dfc_runtime.distributed.calls.part_sources import part_sources
from dfc_runtime.distributed.role_checks import check_role
from dfc_runtime.distributed.topology import Task, Topology
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats import manifest_writing, seal
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.cluster import PART, ROLE, site
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import Manifest


def check_ranks(bundle: OpenBundle) -> None:
    """Refuses a bundle of which some rank could not load its part."""
    cluster = bundle.manifest.cluster
    assert cluster is not None
    topology = Topology(cluster)
    plans = plans_of(bundle.manifest, topology)
    for role in cluster.roles:
        with bundles.opened(bundle.read(ROLE + role.name)) as inner:
            own = inner.manifest
        tasks = [task for task in topology.by_rank if task.role == role]
        for task in _different(tasks, own, topology):
            check_part(bundle.manifest, own, topology, task, plans)
    check_precompiled(bundle)


def plans_of(program: Manifest, topology: Topology) -> list[EntryPlan]:
    """How the entries are distributed, in their order."""
    splits = {each.name: each for each in topology.cluster.entries}
    return [EntryPlan(number, entry, splits[entry.name], topology) for number, entry in enumerate(program.entries)]


def check_part(program: Manifest, own: Manifest, topology: Topology, task: Task, plans: Iterable[EntryPlan]) -> None:
    """Refuses the program of a task's role, `own`, that does not fit the manifest around it."""
    assert task.role is not None
    if own.notes.get(seal.PROGRAM) != seal.program(manifest_writing.to_json(program)):
        raise ValueError(f"its manifest is not the one that {shown(ROLE + task.role.name)} was compiled with")
    check_role(own, program, topology, task)
    for plan in plans:
        part = plan.part_of(task.rank)
        if part is not None:
            own_signature(plan, part, own.entries)


def check_precompiled(bundle: OpenBundle) -> None:
    """Refuses parts of entries whose bundles are none, or none for these ranks."""
    for number, data in enumerate(part_sources(bundle).precompiled):
        with bundles.opened(data) as part:
            cluster = part.manifest.cluster
            if cluster is None or len(part.manifest.entries) != 1:
                raise ValueError(f"{PART}{number} is no bundle for many ranks with one entry")


def _different(tasks: Sequence[Task], own: Manifest, topology: Topology) -> list[Task]:
    """Those of a role that are spoken of by their number, and of the others, which are all alike, the first and last:
    a job may have thousands of tasks."""
    spoken = _numbers(own, topology)
    others = [task for task in tasks if task.number not in spoken]
    chosen = {task.rank: task for task in (*others[:1], *others[-1:], *(t for t in tasks if t.number in spoken))}
    return list(chosen.values())


def _numbers(own: Manifest, topology: Topology) -> set[int]:
    """The numbers of all tasks that something is said of."""
    texts: list[object] = [each.site for each in topology.cluster.state]
    texts += [result.source for entry in topology.cluster.entries for result in entry.results]
    for each in own.sites:
        for value in each.attributes.values():
            texts += cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    numbers: set[int] = set()
    for text in texts:
        try:
            number = site(text)[1] if isinstance(text, str) else None
        except ValueError:
            continue  # another kind of text
        if number is not None:
            numbers.add(number)
    return numbers
