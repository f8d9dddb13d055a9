"""The compiler as functions: what the command line and Python programs call.

Assumes sources as text. Guarantees that every mistake in a program is a `CompileError` with all messages of the run.
What is about deployments is imported inside functions, where a deployment file is given: no other program loads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dfc.bundle.target import kernel_schedule
from dfc.bundle.writing import Bundle
from dfc.deferred.collection import seldom_collected
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import SourceFile
from dfc.driver import pipeline
from dfc.driver.pipeline import Context, Divided
from dfc.driver.pipeline.stages import FORMER_NAMES
from dfc.driver.preparation import prepared
from dfc.driver.single_task import distribution_of
from dfc.driver.watching import Event, Watch, watcher
from dfc.elaborate import build
from dfc.elaborate.names.unread import remarks as name_remarks
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions, TargetOptions
from dfc.kernels.printer import print_program
from dfc.lower.reasons import explained
from dfc.ops.spelling import show as show_graph
from dfc.syntax.reader.layout import check_style
from dfc.syntax.reader.reading import is_deployment, read_source
from dfc_runtime.errors import FeedError, FileError, UnsupportedError
from dfc_runtime.kinds import names_of, require_kind
from dfc_runtime.names import did_you_mean

if TYPE_CHECKING:
    from dfc.distribute.place.cost import Costs
    from dfc.distribute.simulate import StepPrediction
    from dfc.driver.many_ranks import DistributedProgram
    from dfc.driver.placement_report import Report
    from dfc.driver.scaling import Scenario
    from dfc.ir.dims import Symbol

__all__ = [
    "FORMER_NAMES",
    "Shown",
    "check",
    "compile",
    "compile_prepared",
    "compile_source",
    "graph",
    "pass_names",
    "place",
    "scale",
    "show",
    "show_after",
    "show_roles",
    "stage_names",
    "stopped",
]

Setting = int | float | bool | str
LAST_STAGE = "bundle"
"""The one stage that asks for the precompiled parts of a program."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A stage of a program as text, with the warnings of its compilation."""

    text: str
    diagnostics: tuple[Diagnostic, ...]


def compile(
    path: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    deploy: str | os.PathLike[str] | None = None,
    target: str = "cpu",
    settings: Mapping[str, Setting] | None = None,
    check_finite: bool = False,
    variants: Sequence[str] = (),
    entries: Sequence[str] = (),
) -> Bundle:
    """The bundle of a program: of the file `path`, or of `text`. `settings` override those of the program. `deploy` is
    the path of a deployment file: the bundle is then for the ranks it describes. With `check_finite` a call stops at
    the first value that is not finite. `target` is `cpu` or `cuda`; `variants` are the processors or GPU architectures
    the code is for, such as `["x86-64-v3"]` or `["sm_80", "sm_90"]`, else those the target chooses. `entries` are those
    that are wanted, with the state that they need; none stands for all."""
    if (path is None) == (text is None):
        raise TypeError("compile wants either the path of a program or its text")
    if path is not None:
        require_kind(path, (str, os.PathLike), "compile wants the path of a program")
    if text is not None:
        require_kind(text, str, "text is the text of a program")
    if settings is not None:
        require_kind(settings, Mapping, 'settings are values by name, such as {"WIDTH": 512}')
    source = SourceFile("<text>", text) if text is not None else read(path or "")
    chosen = tuple(sorted((settings or {}).items()))
    target_options = TargetOptions(names_of(variants, 'variants is a list of names, such as ["sm_90"]'))
    kept = names_of(entries, 'entries is a list of names, such as ["predict"]')
    options = CompileOptions(target, chosen, check_finite=check_finite, entries=kept, target_options=target_options)
    return compile_source(source, options, read(deploy) if deploy is not None else None)


def read(path: str | os.PathLike[str]) -> SourceFile:
    """A program or deployment file."""
    try:
        return read_source(Path(path))
    except OSError as problem:
        raise FileError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}", code="E0909") from None


def compile_source(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> Bundle:
    """The bundle of a program that was read already; with a deployment file, one for many ranks, placed by measured
    costs if there is a profile."""
    with prepared(source, options, is_deployed=deploy is not None):
        return compile_prepared(source, options, deploy, profile)


def compile_prepared(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> Bundle:
    """`compile_source` for callers that have entered `prepared` themselves, before they imported this module."""
    with seldom_collected():
        return _compiled(source, options, deploy, profile)


def _compiled(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile | None,
    profile: str | os.PathLike[str] | None,
) -> Bundle:
    context = Context(options, distribution_of(options), watcher(options))
    built: Graph = pipeline.run(source, context, last="elaborate")
    if deploy is None:
        return pipeline.run(built, context, "separate")
    built, divided = _deployed(built, context, deploy, profile)
    assert divided is not None, "a bundle is wanted, and nothing stops before"
    return pipeline.run(_with_extras(divided, built, context), context, "fuse")


def stopped(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Runs the stages up to `options.stop_after`, for what they print on the way; gives the warnings."""
    context = _run_up_to(source, options, deploy, profile, watcher(options))
    return tuple(context.diagnostics)


def _run_up_to(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile | None,
    profile: str | os.PathLike[str] | None,
    watch: Watch,
) -> Context:
    context = Context(options, distribution_of(options), watch)
    built = pipeline.run(source, context, last="elaborate")
    if not isinstance(built, Graph):
        return context  # it was to stop before that
    if deploy is None:
        pipeline.run(built, context, "separate")
        return context
    built, divided = _deployed(built, context, deploy, profile)
    if divided is not None:
        whole = _with_extras(divided, built, context) if options.stop_after == LAST_STAGE else divided
        pipeline.run(whole, context, "fuse")
    return context


def _deployed(
    built: Graph, context: Context, deploy: SourceFile, profile: str | os.PathLike[str] | None
) -> tuple[Graph, Divided[Graph] | None]:
    """The program that a deployment file is about, separated, and its parts, placed by measured costs if there is a
    profile; None if it was to stop before there are any."""
    from dfc.driver import many_ranks

    context.distribution = many_ranks.deployed(built, deploy, lambda optimised: _costs(optimised, profile))
    built = pipeline.run(built, context, "separate", "separate")
    partitioned: object = pipeline.run(built, context, "prune", "partition")
    return built, cast("Divided[Graph]", partitioned) if isinstance(partitioned, Divided) else None


def _with_extras(divided: Divided[Graph], built: Graph, context: Context) -> Divided[Graph]:
    """What a bundle for many ranks holds besides its roles: precompiled parts of entries."""
    from dfc.distribute.deployment.variants import check_variants
    from dfc.distribute.separate import together
    from dfc.driver import cluster_parts, combine_checks, many_ranks

    assembly, options = divided.assembly, context.options
    assert isinstance(assembly, many_ranks.ClusterAssembly)
    distributed = assembly.distributed
    tasks = [(role.job, role.task) for role in distributed.parts.graphs]
    check_variants(options.target_options.isas, tasks, distributed.resolution)
    around = cluster_parts.surroundings(together(built), distributed)
    checks = combine_checks.combine_checks(around, distributed, options)
    extras = many_ranks.Extras(
        context.text,
        context.modules,
        has_deployment=True,
        precompiled=[*cluster_parts.precompiled_parts(around, options), *((c.part, c.bundle) for c in checks.values())],
        checks={name: each.check for name, each in checks.items()},
        notes=context.notes,
    )
    return replace(divided, assembly=replace(assembly, extras=extras))


def place(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile,
    profile: str | os.PathLike[str] | None = None,
    only: str | None = None,
    *,
    plans_memory: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> tuple[Report, tuple[Diagnostic, ...]]:
    """Where a program would be placed, and why; `only` is a glob for the names to report, `sizes` are those of
    dimensions by name."""
    from dfc.driver import placement_report

    distributed, diagnostics = _distributed(source, options, deploy, profile, sizes)
    return placement_report.report(distributed, only, plans_memory=plans_memory), diagnostics


def scale(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile,
    scenarios: Sequence[Scenario],
    profile: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> tuple[list[StepPrediction], tuple[Diagnostic, ...]]:
    """What a step of each replicated entry would take on other numbers of ranks."""
    from dfc.driver import scaling

    distributed, diagnostics = _distributed(source, options, deploy, profile, sizes)
    return scaling.predictions(distributed, scenarios), diagnostics


def _distributed(
    source: SourceFile,
    options: CompileOptions,
    deploy: SourceFile,
    profile: str | os.PathLike[str] | None,
    sizes: Mapping[str, int] | None,
) -> tuple[DistributedProgram, tuple[Diagnostic, ...]]:
    from dfc.driver import many_ranks as cluster

    built, diagnostics = _built(source, options)
    built = cluster.separated(built, deploy)[0]
    optimised = pipeline.optimise(built, options)
    distributed = cluster.distribute(built, optimised, deploy, _costs(optimised, profile, sizes))
    return distributed, (*diagnostics, *distributed.diagnostics)


def _costs(
    optimised: Graph, profile: str | os.PathLike[str] | None, sizes: Mapping[str, int] | None = None
) -> Costs | None:
    """Costs as they were measured, with sizes as they are said to be; None where nothing is known."""
    if profile is None and not sizes:
        return None
    from dfc.distribute.place.cost import Costs
    from dfc.driver import profiles

    costs = Costs(_sizes(optimised, sizes or {}))
    if profile is None:
        return costs
    taken = profiles.read(profile)
    return replace(costs, measured=profiles.measured(taken, optimised), blocks=taken.blocks)


def _sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[Symbol, int]:
    """Sizes for the dimensions of entries; one that no entry has is a mistake."""
    known = {str(symbol): symbol for entry in graph.entries.values() for symbol in entry.dims}
    for name in sizes:
        if name not in known:
            there = f"; the dimensions are {', '.join(sorted(known))}" if known else ""
            raise FeedError(f"no entry has a dimension {name}{did_you_mean(name, known) or there}", code="E0901")
    return {known[name]: size for name, size in sizes.items()}


def show(source: SourceFile, options: CompileOptions, stage: str, name: str = "") -> Shown:
    """A program as text: the `graph` (as elaborated, or after the stage `options.stop_after`), its `kernels` for
    the target, the `reasons` why these hold what they hold (with a `name`: of those that mention it), or what
    the target makes of them: a `listing`, whose kind is that of the target options."""
    if stage == "graph":
        return show_after(source, replace(options, stop_after=options.stop_after or "elaborate"))[""]
    built, diagnostics = _built(source, options)
    optimised = pipeline.optimise(built, options)
    if stage == "kernels":
        return Shown(print_program(pipeline.scheduled(optimised, options.target)), diagnostics)
    if stage == "reasons":
        schedule = kernel_schedule(options.target, options.target_options)
        return Shown(explained(pipeline.scheduled(optimised, options.target), name, schedule), diagnostics)
    _, lowered = pipeline.lower(optimised, options)
    if not lowered.listings:
        text = f"the target {options.target} has no listing of the kind {options.target_options.listing}"
        raise UnsupportedError(text, code="E1002")
    return Shown("\n".join(lowered.listings), diagnostics)


def show_after(source: SourceFile, options: CompileOptions, deploy: SourceFile | None = None) -> Mapping[str, Shown]:
    """What the last run of the stage `options.stop_after` makes of a program, by part: "" for all of it."""
    name = pipeline.former(options.stop_after or "")
    texts: dict[str, Callable[[], str]] = {}

    def watch(event: Event) -> None:
        if event.name == name:
            texts[event.part] = event.show

    context = _run_up_to(source, replace(options, stop_after=name), deploy, None, watch)
    remarks = tuple(context.diagnostics)
    return {part: Shown(text(), remarks) for part, text in texts.items()}


def show_roles(source: SourceFile, options: CompileOptions, deploy: SourceFile) -> Mapping[str, Shown]:
    """The graph of each role of a deployed program, by its name; where it works on several devices, those of its parts,
    too: `worker/gpu0`."""
    from dfc.distribute.partition.devices import split_by_device
    from dfc.driver import many_ranks as cluster

    built, diagnostics = _built(source, options)
    built = cluster.separated(built, deploy)[0]
    distributed = cluster.distribute(built, pipeline.optimise(built, options), deploy)
    remarks = (*diagnostics, *distributed.diagnostics)
    graphs: dict[str, Graph] = {}
    for role, whole in distributed.parts.graphs.items():
        graphs[role.name] = whole
        if role in distributed.devices:
            split = split_by_device(whole, distributed.devices[role])
            graphs |= {f"{role.name}/{device.kind}{device.number}": part for device, part in split.graphs.items()}
    return {name: Shown(show_graph(each), remarks) for name, each in graphs.items()}


def pass_names() -> tuple[str, ...]:
    """Every pass over graphs, in the order of its first run."""
    return tuple(dict.fromkeys(phase.name for phase in pipeline.all_phases()))


def stage_names() -> tuple[str, ...]:
    """Every stage, in the order of its first run."""
    return pipeline.stage_names()


def graph(source: SourceFile, settings: Mapping[str, Setting]) -> Graph:
    """The graph of a program as the front end makes it."""
    return build.build(source, settings)


def check(source: SourceFile, settings: Mapping[str, Setting]) -> list[Diagnostic]:
    """Every message about a program, from its style to its graph, or about a deployment file; no code is generated."""
    if is_deployment(source):
        from dfc.driver import deployment_check as deployment

        diagnostics, built_graph = deployment.examined(source, settings)
        if built_graph is None:
            return diagnostics
        from dfc.driver import cluster_parts
        from dfc.driver import many_ranks as cluster

        mistakes = cluster.replication_mistakes(built_graph, source)
        return [*diagnostics, *(mistakes or cluster_parts.step_mistakes(built_graph, source))]
    examined = build.examine(source, settings)
    module = examined.module
    if module is None:
        return list(examined.diagnostics)
    return [*examined.diagnostics, *name_remarks(module, broken=examined.is_broken), *check_style(source, module)]


def _built(source: SourceFile, options: CompileOptions) -> tuple[Graph, tuple[Diagnostic, ...]]:
    """The graph as the front end makes it, without tests unless they are wanted, and the warnings."""
    context = Context(replace(options, stop_after=None))
    graph: Graph = pipeline.run(source, context, last="elaborate")
    return graph, tuple(context.diagnostics)
