"""`dfc inspect`: what is in a bundle, without running it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

import dfc_runtime
from dfc.cli.bundles import existing
from dfc.cli.output import echo_program
from dfc.cli.reports.clusters import cluster_lines
from dfc.cli.tables import size
from dfc.cli.values import sizes
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.errors import counted
from dfc_runtime.formats.manifest import QUEUE, Entry
from dfc_runtime.inspection import Inspection, state_bytes
from dfc_runtime.mixed.looking import DeviceInfo
from dfc_runtime.observe.kernel_reports import KernelInfo, call_reports, kernel_reports

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import QueueLayout


@click.command("inspect", short_help="Say what is in a bundle, without running it.")
@click.argument("bundle", metavar="BUNDLE")
@click.option("--source", is_flag=True, help="Print the program the bundle was compiled from, and nothing else.")
@click.option("--size", "size_pairs", multiple=True, metavar="NAME=N", help="A size of calls: memory for it, in bytes.")
def command(bundle: str, source: bool, size_pairs: tuple[str, ...]) -> int:
    """Prints entries, state, memory, code and settings of BUNDLE. Nothing in it is executed."""
    extents = sizes(size_pairs)
    inspection = dfc_runtime.inspect(existing(bundle))
    if source:
        echo_program(inspection.source)
        return 0
    _require_sizes_of(inspection.manifest.entries, extents)
    _print_head(inspection)
    _print_entries(inspection, extents)
    _print_state(inspection)
    _print_queues(inspection)
    if inspection.manifest.cluster is not None:
        click.echo()
        for line in cluster_lines(inspection.manifest.cluster):
            click.echo(line)
    _print_code(inspection)
    return 0


MOST_OMITTED = 8
MOST_KERNELS = 200
MOST_TOKENS = 40
"""Numbers, sizes and functions in a formula; whoever reads a longer one learns nothing from it."""


def _print_devices(role: str, devices: Sequence[DeviceInfo]) -> None:
    """What is where in a task that works on several devices."""
    click.echo(f"devices of {role}" if role else "devices")
    for device in devices:
        code = ", ".join(f"{isa} {size(count)}" for isa, count in device.sizes.items())
        entries = ", ".join(entry.name for entry in device.manifest.entries) or "no entry"
        click.echo(f"  {device.name}: {entries}; code {code}")
        if device.state:
            click.echo(f"      holds {', '.join(device.state)}")
        for each in device.sends:
            click.echo(f"      sends {each.key}: {each.type} to {', '.join(each.destinations)}")
        _print_kernels(kernel_reports(device.manifest))


def _print_kernels(kernels: Sequence[KernelInfo]) -> None:
    """What targets that tell of their kernels say: one line each, and one for each architecture."""
    if not kernels:
        return
    click.echo("kernels")
    for kernel in kernels[:MOST_KERNELS]:
        values = f"  {', '.join(kernel.values)}" if kernel.values else ""
        click.echo(f"  {kernel.name:<6} {kernel.line}{values}")
        click.echo(f"         {kernel.geometry}; {kernel.wide} accesses of 16 bytes")
        if kernel.maker:
            click.echo(f"         {kernel.maker}")
        for architecture, taken in kernel.taken.items():
            spilled = f"{taken.spilled} bytes spilled" if taken.spilled else "no spills"
            memory = f"{taken.shared} bytes of shared memory"
            click.echo(f"         {architecture}: {taken.registers} registers, {spilled}, {memory}")
    if len(kernels) > MOST_KERNELS:
        click.echo(f"  and {len(kernels) - MOST_KERNELS} more")


def _print_head(inspection: Inspection) -> None:
    manifest = inspection.manifest
    click.echo(f"{inspection.path}: {manifest.name}, {size(inspection.file_size)}, written by dfc {manifest.version}")
    if manifest.compilers:
        click.echo(f"  compiled by {', '.join(f'{name} {version}' for name, version in manifest.compilers.items())}")
    for name, value in manifest.settings.items():
        click.echo(f"  setting {name} = {value}")
    if omitted := sorted(manifest.omitted_state):
        more = ", ..." if len(omitted) > MOST_OMITTED else ""
        click.echo(f"  without state of entries that were left out: {', '.join(omitted[:MOST_OMITTED])}{more}")


def _require_sizes_of(entries: Sequence[Entry], extents: Mapping[str, int]) -> None:
    """A `--size` that no entry has is a slip of the keyboard."""
    existing_sizes = sorted({name for entry in entries for name in (*entry.dims, *entry.measured)})
    for name in extents:
        if name not in existing_sizes:
            known = f"those of its entries are {', '.join(existing_sizes)}" if existing_sizes else "no entry has one"
            raise click.UsageError(f"the bundle has no size {name}: {known}")


def _print_entries(inspection: Inspection, extents: Mapping[str, int]) -> None:
    click.echo("\nentries")
    calls = call_reports(inspection.manifest)
    for entry in (e for e in inspection.manifest.entries if not e.is_test):
        click.echo(f"  {entry}")
        if entry.doc:
            click.echo(f"      {entry.doc.splitlines()[0]}")
        if inspection.manifest.cluster is None:
            click.echo(f"      memory: {_memory(entry, extents)}")
        if entry.name in calls:
            click.echo(f"      a call: {calls[entry.name]}")
        for check in entry.checks:
            click.echo(f"      checks {check.left} {check.relation} {check.right}: {check.reason}")


def _memory(entry: Entry, extents: Mapping[str, int]) -> str:
    if entry.arena.constant == 0:
        return "none beyond feeds and results"
    peak = f"; at the peak: {', '.join(entry.peak_names)}" if entry.peak_names else ""
    return f"{_amount(entry.arena, extents)} (no less than {_amount(entry.largest_live, extents)} live at once{peak})"


def _amount(formula: Formula, extents: Mapping[str, int]) -> str:
    """So many bytes, as a number where the sizes are known, else as a formula that people can read."""
    missing = sorted(formula.symbols() - extents.keys())
    if not missing:
        try:
            return counted(formula.evaluate(extents), "byte")
        except ArithmeticError:  # of a bundle that nobody can call with these sizes
            pass
    if len(formula.tokens) <= MOST_TOKENS:
        return f"{formula} bytes"
    return (
        f"a sum of many terms in {', '.join(missing)} ({' '.join(f'--size {name}=64' for name in missing)} adds it up)"
    )


def _print_state(inspection: Inspection) -> None:
    state = [entry for entry in inspection.manifest.state if entry.kind != QUEUE]
    if not state:
        return
    click.echo(f"\nstate: {size(inspection.state_size)}, {inspection.parameters:,} trained numbers")
    width = max(len(entry.name) for entry in state)
    for entry in state:
        kind = "param" if entry.trained else "rng" if entry.kind == "rng" else "var"
        notes = ("" if entry.saved else "  not saved") + (
            "" if entry.container == "default" else f"  in {entry.container}"
        )
        count = f"{math.prod(entry.shape):,}"
        click.echo(f"  {kind:<5} {entry.name:<{width}}  {entry!s:<20} {count:>12}  {size(state_bytes(entry))}{notes}")


def _print_queues(inspection: Inspection) -> None:
    queues = [entry for entry in inspection.manifest.state if entry.kind == QUEUE]
    if not queues:
        return
    from dfc_runtime.runners.connections import Connections  # most programs have no queues

    connections = Connections(inspection.manifest)
    click.echo(f"\nqueues: {size(sum(map(state_bytes, queues)))}")
    width = max(len(entry.name) for entry in queues)
    for entry in queues:
        fill = [name for name, uses in connections.uses.items() if entry.name in uses.puts]
        empty = [name for name, uses in connections.uses.items() if entry.name in uses.takes]
        ends = f", filled by {', '.join(fill) or 'nobody'}, emptied by {', '.join(empty) or 'nobody'}"
        if inspection.manifest.cluster is not None:
            ends = ""  # what uses it is in the programs of the roles
        click.echo(f"  {entry.name:<{width}}  {size(state_bytes(entry))}{ends}")
        if entry.queue is not None:
            click.echo(f"      {_checkpoint_of(entry.queue)}")


def _checkpoint_of(queue: QueueLayout) -> str:
    """What a checkpoint has of a queue, and why."""
    if queue.refill is not None and queue.has_positions:
        again = f"the runner `{queue.refill.runner}` reads its elements again from `{queue.refill.reader}`"
        if not queue.refill.always:
            again += ", as long as each record became one"
        return f"a checkpoint has positions: {again}"
    most = size(queue.slots * sum(field.size for field in queue.fields))
    return f"a checkpoint has its elements, up to {most}" + (f": {queue.kept}" if queue.kept else "")


def _print_code(inspection: Inspection) -> None:
    sizes = {tensor.name: tensor.size for tensor in inspection.tensors}
    click.echo("\ncode" if inspection.manifest.images else "")
    noted = inspection.manifest.notes.get("winograd")
    winograd: Mapping[str, object] = cast("Mapping[str, object]", noted) if isinstance(noted, dict) else {}
    for image in inspection.manifest.images:
        bits = " ".join(image.required_bits)
        click.echo(f"  {image.isa:<12} {size(sizes[image.tensor])}  needs {bits or 'nothing special'}")
        if image.isa in winograd:
            click.echo(f"               kernels with convolutions by Winograd's algorithm: {winograd[image.isa]}")
    _print_kernels(kernel_reports(inspection.manifest))
    for role, devices in inspection.devices.items():
        _print_devices(role, devices)
    others = [t for t in inspection.tensors if not t.name.startswith("code/")]
    click.echo("other parts")
    for tensor in others:
        click.echo(f"  {tensor.name:<12} {size(tensor.size)}")
