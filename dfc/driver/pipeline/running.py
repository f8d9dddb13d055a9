"""Runs stages: timed, guarded, verified and watched.

Guarantees: a mistake of the author is a `CompileError`; anything else that goes wrong is an `InternalError` that names
the stage, keeps the last graph that was good, and says how to see the failure again. The graph is verified when it is
elaborated, after the last pass, and in parts; with `verify_each` every form is, behind every stage.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from dfc.bundle.target import Lowered, kernel_forms, load_target
from dfc.driver.internal_errors import check, guarded
from dfc.driver.pipeline.forms import Context, Divided, Linked, Part, Undivided
from dfc.driver.pipeline.kinds import AnyStage, PartStage, Phase, Stage
from dfc.driver.pipeline.stages import FORMER_NAMES, all_stages, stage_names
from dfc.driver.watching import Event, Watch, ignore
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc.ops.spelling import show
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.names import did_you_mean

FIRST_PASS = "prune"
Numbered = tuple[int, AnyStage]
"""A stage with its number among the passes, 0 for one that is none."""


def run(form: Any, context: Context, first: str = "", last: str = "") -> Any:
    """What the stages from `first` to `last` (both included; "" for the ends of the list) make of a form, or those up
    to the last run of `stop_after`."""
    if first == FIRST_PASS and form is not context.verified:
        check(form, "elaborate")  # what somebody cut out of a program, say
    graph = _graph_of(form, None)
    stages = selected(context.options, first, last)
    for position, (number, stage) in enumerate(stages):
        ends = position + 1 == len(stages) or not isinstance(stages[position + 1][1], Phase)
        form = _run_stage(stage, number, form, context, graph, is_last_pass=ends)
        graph = _graph_of(form, graph)
    return form


def selected(options: CompileOptions, first: str = "", last: str = "") -> Sequence[Numbered]:
    """The stages that options let run, with their numbers: of the passes the first `pass_limit` and what no code can be
    made without; nothing behind `stop_after`."""
    known = _numbered(options)
    names = [stage.name for _, stage in known]
    start = names.index(first) if first else 0
    end = _last(names, last) if last else len(known)
    if options.stop_after is not None:
        end = min(end, _last(names, former(options.stop_after)))
    limit = options.pass_limit
    return [(n, stage) for n, stage in known[start:end] if limit is None or n <= limit or _is_needed(stage)]


def former(name: str) -> str:
    """The name of a stage by what it is called now; `UnsupportedError` lists the names if it is none."""
    current = FORMER_NAMES.get(name, name)
    known = stage_names()
    if current not in known:
        text = f"there is no stage {name!r}{did_you_mean(name, known)}; stages: {', '.join(known)}"
        raise UnsupportedError(text, code="E1002")
    return current


def _is_needed(stage: AnyStage) -> bool:
    return isinstance(stage, Phase) and stage.needed


def _numbered(options: CompileOptions) -> list[Numbered]:
    numbered: list[Numbered] = []
    number = 0
    for stage in all_stages():
        if not stage.option or getattr(options, stage.option) or stage.name == options.stop_after:
            number += isinstance(stage, Phase)
            numbered.append((number if isinstance(stage, Phase) else 0, stage))
    return numbered


def _last(names: Sequence[str], name: str) -> int:
    """The position behind the last run of a stage."""
    return len(names) - names[::-1].index(name)


def _graph_of(form: object, known: Graph | None) -> Graph | None:
    """The graph to keep if the next stage fails."""
    match form:
        case Graph():
            return form
        case Undivided():
            return form.graph
        case _:
            return known


def _run_stage(
    stage: AnyStage, number: int, form: Any, context: Context, graph: Graph | None, *, is_last_pass: bool
) -> Any:
    must_verify = context.options.verify_each
    match stage:
        case Phase():
            output = run_phase(stage, number, form, context.watch, must_verify=must_verify or is_last_pass)
            context.verified = output if must_verify or is_last_pass else None
            return output
        case PartStage():
            parts = tuple(_run_part(stage, part, context) for part in form.parts)
            return replace(form, parts=parts)
        case Stage():
            start = time.perf_counter()
            with guarded(stage.name, 0, graph):
                after = stage.run(form, context)
                if must_verify or (stage.always and not _holds_only(after, context.verified)):
                    stage.verify(after)
                    context.verified = after if isinstance(after, Graph) else context.verified
            context.watch(Event(0, stage.name, after, time.perf_counter() - start, partial(stage.show, after)))
            return after


def _holds_only(form: object, graph: Graph | None) -> bool:
    """Whether a program is just this graph: one for one rank is when it is divided."""
    return form is graph or (
        isinstance(form, Divided) and all(part.form is graph for part in cast("Divided[Any]", form).parts)
    )


def _run_part(stage: PartStage[Any, Any], part: Part[Any], context: Context) -> Part[Any]:
    if stage.asks_target:
        load_target(part.options.target)
    start = time.perf_counter()
    with guarded(stage.name, 0, part.graph, part.name):
        after = stage.run(part, context)
        if context.options.verify_each:
            stage.verify(after)
    seconds = time.perf_counter() - start
    context.watch(Event(0, stage.name, after, seconds, partial(stage.show, after), part.name))
    return part.with_form(after)


def run_phase(phase: Phase, number: int, graph: Graph, watch: Watch, *, must_verify: bool) -> Graph:
    """One pass, timed and guarded."""
    start = time.perf_counter()
    with guarded(phase.name, number, graph):
        after = phase.run(graph)
        if must_verify:
            phase.verify(after)
    watch(Event(number, phase.name, after, time.perf_counter() - start, partial(show, after)))
    return after


def optimise(graph: Graph, options: CompileOptions | None = None, watch: Watch = ignore) -> Graph:
    """All passes on a graph, as far as `pass_limit` and `stop_after` let them go, those without which no code can be
    made left out, too: for whoever looks at graphs."""
    chosen = options if options is not None else CompileOptions()
    check(graph, "elaborate")
    passes = [(n, stage) for n, stage in selected(chosen) if isinstance(stage, Phase)]
    if chosen.pass_limit is not None:
        passes = [(n, stage) for n, stage in passes if n <= chosen.pass_limit]
    for position, (number, phase) in enumerate(passes, 1):
        must_verify = chosen.verify_each or position == len(passes)
        graph = run_phase(phase, number, graph, watch, must_verify=must_verify)
    return graph


def scheduled(graph: Graph, target: str = "") -> Program:
    """Kernels, schedule and memory of an optimised graph, with the kernel forms that a target takes; without a target,
    with those that all take."""
    with guarded("fuse", 0, graph):
        return lower_graph(graph, forms=kernel_forms(target, is_needed=True) if target else ())


def lower(graph: Graph, options: CompileOptions | None = None, watch: Watch = ignore) -> tuple[Program, Lowered]:
    """The program of an optimised graph for one rank, and what the target makes of it."""
    context = Context(options if options is not None else CompileOptions(), watch=watch)
    divided: Divided[Linked] = run(graph, context, "replicate", "link")
    return divided.parts[0].form.program, divided.parts[0].form.lowered
