"""On what each task works: its processors, its GPUs, or several of them.

    place "**" on worker any gpu       all tasks of `worker` work on their first GPU
    place "table" on worker any cpu    and what is about `table` on their processors
    place "head.*" on worker gpu 1     and this on their second GPU

The devices of a task are those that its lines name. If they name one, all of the task is there; if they name several,
what no line gives a device is where placement finds it best. A task of which no line says anything of the kind works
on its processors. Assumes constraints that some device satisfies. Guarantees that a line which wants on a GPU what the
host does is a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import alone, replacing
from dfc.distribute.deployment.constraints import where_text, words_of
from dfc.distribute.deployment.model import Job, PlaceStatement
from dfc.distribute.deployment.resolution import ResolvedConstraint
from dfc.distribute.deployment.task_devices import Ask, Devices
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ops.effects.effects import is_host_call


def devices_of(resolved_constraints: Iterable[ResolvedConstraint], jobs: Mapping[str, Job]) -> Devices:
    """What the lines that hold say of devices, in the order of the file; GPUs first, which say where they are not."""
    known = list(resolved_constraints)
    devices = Devices(jobs)
    for kind in ("gpu", "cpu"):
        asks = [pair for resolved in known if resolved.constraint.device == kind for pair in _asks(devices, resolved)]
        for job, ask in sorted(asks, key=lambda pair: pair[1].span.start):
            if ask not in devices.asks.setdefault(job, []):
                devices.asks[job].append(ask)
    return devices


def _asks(devices: Devices, resolved: ResolvedConstraint) -> Iterator[tuple[str, Ask]]:
    """The lines behind a constraint that name a device."""
    asked = devices.with_job(resolved.constraint)
    for cause in resolved.causes:
        if isinstance(cause, PlaceStatement) and cause.where.device is not None and asked.job and asked.device:
            yield asked.job, Ask(asked.task, asked.device, asked.number, words_of(cause))


def on_the_host(resolved_constraints: Mapping[str, ResolvedConstraint], graph: Graph) -> Iterator[Diagnostic]:
    """A message for each line that names something the host does, and wants it on a GPU. Lines with stars mean the rest
    of what they match."""
    done_there = {
        node.name: node for entry in graph.entries.values() for node in walk.nodes(entry.block) if is_host_call(node)
    }
    for name, resolved in resolved_constraints.items():
        for cause in resolved.causes if name in done_there else ():
            if isinstance(cause, PlaceStatement) and cause.where.device == "gpu" and "*" not in cause.glob:
                title = f"`{cause.glob}` cannot be on a gpu: it is done by the host"
                second = [(done_there[name].span, f"`{done_there[name].op}` is no work for a gpu")]
                words = "or leave the line out: the values it needs are sent there"
                rest = where_text(replace(cause.where, device="cpu", number=None))
                moved = replacing(f'place "{cause.glob}" on {rest}', cause.where.span, rest)
                helps = [moved, replacing(words, alone(cause.span), "")]
                yield error("E0811", title, words_of(cause), "a gpu here", secondary=second, helps=helps)
