"""`dfc speed`: the kernels of an entry beside what the machine can do at most."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping

import click

from dfc.bundle.target import limits
from dfc.cli.bundles import LoadOptions, open_module
from dfc.cli.failures import did_you_mean
from dfc.cli.reports import speed
from dfc.cli.values import feeds, named, settings, sizes
from dfc_runtime import Module
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.module import parts_of
from dfc_runtime.observe.kernel_times import Meter
from dfc_runtime.one_rank import usable_threads

WARMING = 2


@click.command("speed", short_help="Say of each kernel how long it takes, and how near the machine's limit it is.")
@click.argument("file", metavar="BUNDLE|FILE")
@click.argument("entry")
@click.option("--feed", "pairs", multiple=True, metavar="NAME=VALUE", help="A number, file.npy, or file.npz:key.")
@click.option("--size", "size_pairs", multiple=True, metavar="NAME=N", help="A size of the feeds that are not given.")
@click.option("--set", "setting_pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of a FILE.")
@click.option("--calls", type=click.IntRange(min=1), default=20, show_default=True, help="How many calls to measure.")
@click.option("--threads", type=click.IntRange(min=1), help="How many threads to use.")
@click.option("--target", default="cpu", show_default=True, help="What a program FILE runs on: cpu or cuda.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many kernels to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    file: str,
    entry: str,
    pairs: tuple[str, ...],
    size_pairs: tuple[str, ...],
    setting_pairs: tuple[str, ...],
    calls: int,
    threads: int | None,
    target: str,
    top: int,
    as_json: bool,
) -> int:
    """Calls ENTRY of a program, or of a bundle that was compiled with --timed, and prints of each kernel its time and
    share of a call, how often it is launched, the operations and bytes of a launch, and which part it reaches of what
    the machine can do: multiply-adds of f32 in registers, or a copy of as many bytes.

    Feeds that are not given are made: normally distributed floats, and zeros. State changes in memory only."""
    meter = Meter()
    module = open_module(file, settings(setting_pairs), threads, LoadOptions(meter=meter, target=target))
    try:
        signature = _signature(module, entry)
        known = feeds(named(pairs), {p.name for p in signature.parameters if p.is_text})
        values, extents = _feeds(signature, known, sizes(size_pairs))
        took = _measure(module, entry, values, meter, calls)
        count, variant = usable_threads(threads), parts_of(module).origin.isa
        driver = module.manifest.driver
        rows = speed.kernel_speeds(meter, calls, extents, limits(driver, variant, count))
    finally:
        type(module).close(module)  # which an entry of that name would hide
    launches = sum(each.times for each in rows)
    call = max(took - launches * meter.overhead, 0.0)
    if as_json:
        click.echo(_json(rows, entry, variant, count, calls, call))
    else:
        threads_text = f", {count} thread{'s' if count > 1 else ''}" if driver == "cpu" else ""
        head = f"{module.name}, {entry}: {speed.seconds(call)} a call, median of {calls} ({variant}{threads_text})"
        click.echo(speed.as_text(head, rows, call, top))
    return 0


def _signature(module: Module, name: str) -> Entry:
    known = {each.name: each for each in module.manifest.entries if each.is_called}
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise click.UsageError(f"there is no entry {name!r}{did_you_mean(name, known)}; entries: {listed}")
    return known[name]


def _feeds(
    signature: Entry, fed: Mapping[str, object], stated_sizes: dict[str, int]
) -> tuple[dict[str, object], dict[str, int]]:
    """All feeds, and the sizes of the call."""
    extents = speed.known_sizes(signature, fed, stated_sizes)
    missing = speed.missing_sizes(signature, fed, extents)
    if missing:
        options = " ".join(f"--size {name}=64" for name in missing)
        raise click.UsageError(f"the feeds of {signature.name} have sizes that are not known: add {options}")
    unknown = sorted({*stated_sizes} - {*signature.dims})
    if unknown:
        raise click.UsageError(f"{signature.name} has no size {unknown[0]!r}{did_you_mean(unknown[0], signature.dims)}")
    texts = [each.name for each in signature.parameters if each.is_text and each.name not in fed]
    if texts:
        raise click.UsageError(f"the feed {texts[0]} is a text: add --feed {texts[0]}=TEXT")
    return speed.generated_feeds(signature, fed, extents), extents


def _measure(module: Module, entry: str, values: dict[str, object], meter: Meter, calls: int) -> float:
    """Seconds of a call: the median, after some that warm up."""
    call = module.entries[entry].function
    for _ in range(WARMING):
        call(**values)
    meter.forget()
    taken: list[float] = []
    for _ in range(calls):
        begin = time.perf_counter()
        call(**values)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _json(rows: list[speed.KernelSpeed], entry: str, variant: str, threads: int, calls: int, call: float) -> str:
    kernels = [
        {
            "line": each.location,
            "names": list(each.names),
            "seconds": each.seconds,
            "times": each.times,
            "operations": each.operations,
            "bytes": each.bytes,
            "limit_seconds": each.limit,
            "bound": each.bound or None,
        }
        for each in rows
    ]
    head = {"entry": entry, "variant": variant, "threads": threads, "calls": calls, "seconds": call}
    return json.dumps({**head, "kernels": kernels})
