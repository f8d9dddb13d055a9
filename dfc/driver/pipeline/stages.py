"""The stages of the compiler, all of them, in order, from the text of a program to its bundle. Each has its reason
beside it, and what must hold behind it. `the graph is whole` means what `dfc.ir.verify` lists.

    text --parse, resolve, elaborate--> graph --passes--> graph --replicate, shard, place, partition--> graphs
    each of them: --fuse--> kernels --schedule--> steps --buffers--> program --generate--> code --link--> images
    --bundle--> one bundle

Assumes nothing. This page only says what the stages are: `running` runs them.
"""

from __future__ import annotations

import warnings
from functools import cache

from dfc.bundle.target import generate, kernel_forms, load_target
from dfc.bundle.timing import timed
from dfc.bundle.writing import Bundle
from dfc.deferred.plug_ins import entry_points
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.driver.internal_errors import verify_graph
from dfc.driver.pipeline.checks import check_bundle, check_generated, check_linked, check_names, check_tree
from dfc.driver.pipeline.forms import Coded, Context, Divided, Linked, Part, Undivided
from dfc.driver.pipeline.kinds import GRAPH, AnyStage, PartStage, Phase, PlugIn, Stage
from dfc.driver.pipeline.texts import bundle_text, images_text, names_text
from dfc.elaborate.build import Resolved, elaborate_program, parse_program, resolve_program
from dfc.ir.graph import Graph
from dfc.kernels.functions.print_function import print_functions
from dfc.kernels.printer import print_program
from dfc.kernels.program import Program
from dfc.lower.buffers.verify import verify_program
from dfc.lower.fuse.fused import Fused
from dfc.lower.legalise.stage import legalise
from dfc.lower.legalise.verify import verify_legalised
from dfc.lower.printer import print_fused, print_scheduled
from dfc.lower.schedule.schedule import Scheduled
from dfc.lower.verify import verify_fused, verify_scheduled
from dfc.ops.control.derivatives import is_grad
from dfc.ops.spelling import show
from dfc.syntax.printer.printer import to_text
from dfc.syntax.tree.tree import Module
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.expand import expand, is_composed
from dfc.transforms.instrument.finite_checks import NAME as FINITE_CHECKS
from dfc.transforms.instrument.finite_checks import insert_checks
from dfc.transforms.loops.hoist_inputs import hoist_inputs
from dfc.transforms.loops.split_inputs import split_inputs
from dfc.transforms.scalar.cse import cse
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.prune import prune
from dfc.transforms.scalar.simplify import simplify
from dfc.transforms.sparse.sparse import sparse
from dfc_runtime.errors import FeedError

PLUG_INS = "dfc.passes"


# ------------------------------------------------------------ text to graph --


def _parse(source: SourceFile, _: Context) -> Module:
    return parse_program(source)


def _resolve(module: Module, context: Context) -> Resolved:
    return resolve_program(module, dict(context.options.settings))


def _elaborate(resolved: Resolved, context: Context) -> Graph:
    """The graph, without tests unless they are wanted; its warnings and texts go to the context."""
    graph, diagnostics = elaborate_program(resolved)
    if graph is None:
        raise CompileError(diagnostics)
    context.diagnostics += diagnostics
    graph.settings.update(context.options.settings)
    if not context.options.with_tests:
        graph.tests.clear()
    context.text, context.modules = graph.source, graph.modules
    return graph if not context.options.entries else _kept_entries(graph, context)


def _kept_entries(graph: Graph, context: Context) -> Graph:
    """The graph with the entries that are wanted alone."""
    from dfc.transforms.subgraph.entries import entry_mistake, keep_entries  # seldom asked for

    if mistake := entry_mistake(graph, context.options.entries):
        raise FeedError(mistake, code="E0901")
    kept = keep_entries(graph, context.options.entries)
    context.omitted_state = tuple(name for name in graph.resources if name not in kept.resources)
    return kept


# ----------------------------------------------------------- graph to parts --


def _separate(graph: Graph, context: Context) -> Graph:
    return context.distribution.separate(graph)


def _replicate(graph: Graph, context: Context) -> Undivided:
    return context.distribution.replicate(graph)


def _shard(form: Undivided, context: Context) -> Undivided:
    return context.distribution.shard(form)


def _place(form: Undivided, context: Context) -> Undivided:
    return context.distribution.place(form)


def _partition(form: Undivided, context: Context) -> Divided[Graph]:
    return context.distribution.partition(form, context)


def _show_parts(divided: Divided[Graph]) -> str:
    if len(divided.parts) == 1 and not divided.parts[0].name:
        return show(divided.parts[0].form)
    return "\n".join(f"# part {part.name}\n{show(part.form)}" for part in divided.parts)


def _verify_parts(divided: Divided[Graph]) -> None:
    for part in divided.parts:
        verify_graph(part.form, f"partition of {part.name}" if part.name else "partition")


# --------------------------------------------------------- parts to a bundle --


def _fuse(part: Part[Graph], context: Context) -> Fused:
    return context.lowered.fuse(part.form, kernel_forms(part.options.target))


def _schedule(part: Part[Fused], context: Context) -> Scheduled:
    return context.lowered.schedule(part.form, kernel_forms(part.options.target))


def _buffers(part: Part[Scheduled], context: Context) -> Program:
    return context.lowered.assign_buffers(part.form)


def _legalise(part: Part[Program], _: Context) -> Program:
    return legalise(part.form)


def _clocks(part: Part[Program], _: Context) -> Program:
    return timed(part.form)


def _generate(part: Part[Program], _: Context) -> Coded:
    target = load_target(part.options.target)
    return Coded(part.form, generate(target, part.form, part.options.target_options))


def _link(part: Part[Coded], _: Context) -> Linked:
    return Linked(part.form.program, part.form.generated.link())


def _bundle(divided: Divided[Linked], context: Context) -> Bundle:
    return divided.assembly.bundle(divided.parts, context)


# ----------------------------------------------------------------- the list --

STAGES: tuple[AnyStage, ...] = (
    Stage(
        "parse",
        _parse,
        "text is read once; whatever comes later knows the grammar no more",
        "dfc.elaborate.build:parse_program",
        "what is printed of the tree is parsed as the same tree",
        check_tree,
        to_text,
    ),
    Stage(
        "resolve",
        _resolve,
        "files, constants, types and state are known before any function is expanded, so that it may use later ones",
        "dfc.elaborate.build:resolve_program",
        "every item of every file has a binding of its own",
        check_names,
        names_text,
    ),
    Stage(
        "elaborate",
        _elaborate,
        "the last stage that knows the author's words: all mistakes of a program alone are told here",
        "dfc.elaborate.build:elaborate_program",
        GRAPH,
        lambda graph: verify_graph(graph, "elaborate"),
        show,
        always=True,
    ),
    Stage(
        "separate",
        _separate,
        "before autodiff: what gradients are taken at and what is updated can be told apart",
        "dfc.distribute.separate:stage_variables",
        GRAPH,
        lambda graph: verify_graph(graph, "separate"),
        show,
        always=True,
    ),
    Phase("prune", prune, "no later pass need look at what nobody asks for"),
    Phase("split_inputs", split_inputs, "before autodiff, so that iterations that run again round in the same way"),
    Phase(
        "autodiff",
        autodiff,
        "before any pass that merges equal values: a gradient is with respect to one of them",
        needed=True,
        holds="no gradient is left to be found",
        gone=is_grad,
    ),
    Phase("simplify", simplify, "gradient rows are general: factors of one, double transposes"),
    Phase("fold", fold, "seeds and factors of gradients are constants"),
    Phase("cse", cse, "rows repeat what the forward pass computes, and the branches of gradients too"),
    Phase("dce", dce, "what folding left unused inside branches and loops need not be expanded"),
    Phase("hoist", hoist_inputs, "after autodiff, which adds up gradients in each iteration; rid of unused stacks"),
    Phase("sparse", sparse, "after simplify has cleared the way from a gradient to its variable, while ops are whole"),
    Phase(
        FINITE_CHECKS, insert_checks, "before expand: values are judged as the author wrote them", option="check_finite"
    ),
    Phase(
        "expand",
        expand,
        "fusion sees through simple ops only",
        needed=True,
        holds="no op is left that stands for several others",
        gone=is_composed,
    ),
    Phase("simplify", simplify, "expansion adds casts and reshapes that may do nothing"),
    Phase("fold", fold, "and constants"),
    Phase("cse", cse, "softmax and its gradient share their sums"),
    Phase("dce", dce, "the last word before fusion, which takes every node for needed"),
    Stage(
        "replicate",
        _replicate,
        "after all passes, on what autodiff left: a batch is cut by what is done with it",
        "dfc.distribute.replicate:replicate",
        GRAPH,
        lambda form: form.verify("replicate"),
        lambda form: form.text(),
    ),
    Stage(
        "shard",
        _shard,
        "after replicate, which leaves what picks and updates rows where all blocks of a task do it at once",
        "dfc.distribute.shard:shard",
        GRAPH,
        lambda form: form.verify("shard"),
        lambda form: form.text(),
    ),
    Stage(
        "place",
        _place,
        "what is cut or divided has its place by then; the rest follows it",
        "dfc.distribute.place:place",
        "the graph is that of shard; all state is on a task that there is",
        lambda form: form.verify("place"),
        lambda form: form.text(),
    ),
    Stage(
        "partition",
        _partition,
        "places are known; from here on each part is compiled by itself",
        "dfc.distribute.partition.split:partition",
        "every part is a graph like any other; no ring of parts waits for each other",
        _verify_parts,
        _show_parts,
        always=True,
    ),
    PartStage(
        "fuse",
        _fuse,
        "first of all that makes code: kernels are what is scheduled, and given memory",
        "dfc.lower.fuse.fuse:fuse",
        "kernels are whole and fit their memory; nothing is read before it is written",
        verify_fused,
        print_fused,
    ),
    PartStage(
        "schedule",
        _schedule,
        "locks and loops decide how long memory lives",
        "dfc.lower.schedule.schedule:schedule",
        "as behind fuse, in the order of the steps; shared state is touched under its lock",
        verify_scheduled,
        print_scheduled,
        asks_target=True,
    ),
    PartStage(
        "buffers",
        _buffers,
        "targets address memory by numbers",
        "dfc.lower.buffers.buffers:assign_buffers",
        "numbers are those of tables; what a step reads is still in the arena",
        verify_program,
        print_program,
    ),
    PartStage(
        "legalise",
        _legalise,
        "behind all that makes or changes kernels: targets know primitives and functions made of them alone",
        "dfc.lower.legalise.stage:legalise",
        "as behind buffers; functions stand behind those they call",
        verify_legalised,
        lambda program: print_functions(program.functions),
    ),
    PartStage(
        "clocks",
        _clocks,
        "around launches as they will run",
        "dfc.bundle.timing:timed",
        "as behind buffers",
        verify_program,
        print_program,
        option="timed",
    ),
    PartStage(
        "generate",
        _generate,
        "the only stages that know a machine are this one and link",
        "dfc.bundle.target:generate",
        "the code has a text",
        check_generated,
        lambda coded: coded.generated.text(),
    ),
    PartStage(
        "link",
        _link,
        "an image imports nothing, so that a bundle runs without a linker",
        "dfc.bundle.target:Generated.link",
        "every entry has a function inside of its image, every constant its place",
        check_linked,
        lambda linked: images_text(linked.lowered),
    ),
    Stage(
        "bundle",
        _bundle,
        "what runs the program gets one file",
        "dfc.bundle.writing:write",
        "the bytes open as a bundle with the manifest that was written",
        check_bundle,
        bundle_text,
    ),
)
"""The only place where the order of stages is decided."""

PHASES = tuple(stage for stage in STAGES if isinstance(stage, Phase) and not stage.option)

FORMER_NAMES = {"build": "elaborate", "hoist_inputs": "hoist", "memory": "buffers", "guard": "finite_checks"}
"""What stages were called in former editions, and still answer to."""


@cache
def all_stages() -> tuple[AnyStage, ...]:
    """The stages in order, passes of installed packages among them. A plug-in that cannot be loaded is a warning that
    names it."""
    known: list[AnyStage] = list(STAGES)
    for point in sorted(entry_points(group=PLUG_INS), key=lambda each: each.name):
        try:
            plug_in: PlugIn = point.load()
            after = FORMER_NAMES.get(plug_in.after, plug_in.after)
            passes = [n for n, stage in enumerate(known) if isinstance(stage, Phase) and stage.name == after]
            known.insert(passes[-1] + 1, plug_in.phase)
        except Exception as problem:
            package = point.dist.name if point.dist is not None else point.value
            warnings.warn(f"the pass {point.name} of {package} is missing: {problem!r}", RuntimeWarning, stacklevel=2)
    return tuple(known)


def all_phases() -> tuple[Phase, ...]:
    """The passes in order that run without being asked for."""
    return tuple(stage for stage in all_stages() if isinstance(stage, Phase) and not stage.option)


def stage_names() -> tuple[str, ...]:
    """The names of all stages, in the order of their first run."""
    return tuple(dict.fromkeys(stage.name for stage in all_stages()))
