"""The phases of the compiler, in order. Each has its reason beside it; everything else here is about watching them.

    text --parse, build--> graph --PASSES--> graph --fuse, schedule, memory--> program --target--> code --> bundle

Guarantees: a mistake of the author is a `CompileError`; anything else that goes wrong is an `InternalError` that names
the phase, keeps the last graph that was good, and says how to see the failure again. The graph is verified when it is
built and after the last pass; with `verify_each` after every pass.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from dfc.bundle.target import Lowered, load_target
from dfc.bundle.timing import timed
from dfc.driver.reproducer import keep
from dfc.driver.watching import Event, Watch, ignore
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from dfc.ir.verify import verify
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc.ops.check import check_node
from dfc.ops.spelling import show
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.expand import expand
from dfc.transforms.instrument.finite_checks import NAME as GUARD
from dfc.transforms.instrument.finite_checks import guard
from dfc.transforms.loops.hoist_inputs import hoist_inputs
from dfc.transforms.loops.split_inputs import split_inputs
from dfc.transforms.scalar.cse import cse
from dfc.transforms.scalar.dce import dce
from dfc.transforms.scalar.fold import fold
from dfc.transforms.scalar.prune import prune
from dfc.transforms.scalar.simplify import simplify
from dfc.transforms.sparse.sparse import sparse
from dfc_runtime.errors import DfcError


@dataclass(frozen=True, slots=True)
class Phase:
    """One run of one pass. `reason` says why it stands where it stands; no code can be made without a `needed` one."""

    name: str
    run: Callable[[Graph], Graph]
    reason: str
    needed: bool = False


PHASES: tuple[Phase, ...] = (
    Phase("prune", prune, "no later pass need look at what nobody asks for"),
    Phase("split_inputs", split_inputs, "before autodiff, so that rounds that run again are rounded in the same way"),
    Phase(
        "autodiff",
        autodiff,
        "before any pass that merges equal values: a gradient is with respect to one of them",
        needed=True,
    ),
    Phase("simplify", simplify, "gradient rows are general: factors of one, double transposes"),
    Phase("fold", fold, "seeds and factors of gradients are constants"),
    Phase("cse", cse, "rows repeat what the forward pass computes, and the branches of gradients too"),
    Phase("dce", dce, "what folding left unused inside branches and loops need not be expanded"),
    Phase("hoist_inputs", hoist_inputs, "after autodiff, which adds up gradients round by round; rid of unused stacks"),
    Phase("sparse", sparse, "after simplify has cleared the way from a gradient to its variable, while ops are whole"),
    Phase("expand", expand, "fusion sees through simple ops only", needed=True),
    Phase("simplify", simplify, "expansion adds casts and reshapes that may do nothing"),
    Phase("fold", fold, "and constants"),
    Phase("cse", cse, "softmax and its gradient share their sums"),
    Phase("dce", dce, "the last word before fusion, which takes every node for needed"),
)
"""The only place where the order of passes is decided."""

PASS_NAMES = tuple(dict.fromkeys(phase.name for phase in PHASES))
PLUG_INS = "dfc.passes"


@dataclass(frozen=True, slots=True)
class PlugIn:
    """A pass of another package, offered as an entry point of the group `dfc.passes`: it runs after the last run of the
    pass `after`."""

    phase: Phase
    after: str


@cache
def all_phases() -> tuple[Phase, ...]:
    """The phases in order, those of installed packages among them. A plug-in that cannot be loaded is a warning that
    names it."""
    found = list(PHASES)
    for point in sorted(entry_points(group=PLUG_INS), key=lambda each: each.name):
        try:
            plug_in: PlugIn = point.load()
            places = [number for number, phase in enumerate(found) if phase.name == plug_in.after]
            found.insert(places[-1] + 1, plug_in.phase)
        except Exception as problem:
            package = point.dist.name if point.dist is not None else point.value
            warnings.warn(f"the pass {point.name} of {package} is missing: {problem!r}", RuntimeWarning, stacklevel=2)
    return tuple(found)


class InternalError(DfcError):
    """A bug of the compiler. `reproducer` is the file with the last good graph, if one could be written."""

    exit_code = 1

    def __init__(self, message: str, reproducer: str = "") -> None:
        super().__init__(message, code="E0000")
        self.reproducer = reproducer


def optimise(graph: Graph, options: CompileOptions | None = None, watch: Watch = ignore) -> Graph:
    """All passes on a graph, as far as `pass_limit` and `stop_after` let them go."""
    chosen = options if options is not None else CompileOptions()
    check(graph, "build")
    phases = limited(with_guard(all_phases()) if chosen.check_finite else all_phases(), chosen)
    for number, phase in enumerate(phases, 1):
        graph = run_phase(phase, number, graph, watch, must_verify=chosen.verify_each or number == len(phases))
    return graph


def with_guard(phases: Sequence[Phase]) -> Sequence[Phase]:
    """The phases with checks of finite values: before `expand`, so that what an op does inside is not judged."""
    place = next((number for number, phase in enumerate(phases) if phase.name == "expand"), len(phases))
    return (*phases[:place], Phase(GUARD, guard, "checks values as the author wrote them"), *phases[place:])


def limited(phases: Sequence[Phase], options: CompileOptions) -> Sequence[Phase]:
    """The phases to run: the first `pass_limit`, up to the last one called `stop_after`."""
    last = len(phases)
    if options.pass_limit is not None:
        last = min(last, options.pass_limit)
    if options.stop_after is not None:
        named = [number for number, phase in enumerate(phases, 1) if phase.name == options.stop_after]
        last = min(last, named[-1] if named else 0)
    return phases[:last]


def finish(graph: Graph, options: CompileOptions, watch: Watch = ignore) -> Graph:
    """The needed passes that `pass_limit` kept from running: the others may be left out, and code still be made."""
    if options.pass_limit is None:
        return graph
    for number, phase in enumerate(all_phases(), 1):
        if number > options.pass_limit and phase.needed:
            graph = run_phase(phase, number, graph, watch, must_verify=options.verify_each)
    return graph


def run_phase(phase: Phase, number: int, graph: Graph, watch: Watch, *, must_verify: bool) -> Graph:
    """One pass, timed and guarded."""
    start = time.perf_counter()
    with guarded(phase.name, number, graph):
        after = phase.run(graph)
        if must_verify:
            verify(after, phase.name, check_node, show)
    watch(Event(number, phase.name, after, time.perf_counter() - start))
    return after


def lower(graph: Graph, options: CompileOptions | None = None, watch: Watch = ignore) -> tuple[Program, Lowered]:
    """Kernels, schedule and memory of an optimised graph, then machine code for them."""
    chosen = options if options is not None else CompileOptions()
    target = load_target(chosen.target)
    program = scheduled(graph, watch)
    program = timed(program) if chosen.timed else program
    start = time.perf_counter()
    with guarded(target.name, 0, graph):
        lowered = target.lower(program, chosen.target_options)
    watch(Event(0, target.name, graph, time.perf_counter() - start))
    return program, lowered


def scheduled(graph: Graph, watch: Watch = ignore) -> Program:
    """Kernels, schedule and memory of an optimised graph."""
    start = time.perf_counter()
    with guarded("fuse", 0, graph):
        program = lower_graph(graph)
    watch(Event(0, "fuse", graph, time.perf_counter() - start))
    return program


def check(graph: Graph, phase: str) -> None:
    """Verifies a graph that does not come from a pass."""
    with guarded(phase, 0, graph):
        verify(graph, phase, check_node, show)


@contextmanager
def guarded(phase: str, number: int, graph: Graph | None) -> Generator[None]:
    """Turns whatever is no mistake of the author into an `InternalError` that can be reproduced."""
    try:
        yield
    except (DfcError, MemoryError, OSError):
        raise
    except Exception as failure:
        path = keep(graph, phase, show) if graph is not None else ""
        raise InternalError(_report(phase, number, failure, path), path) from failure


def _report(phase: str, number: int, failure: Exception, path: str) -> str:
    lines = [f"a bug in dfc: {phase} failed: {type(failure).__name__}: {failure}", "please report it"]
    if path:
        lines[-1] += f" with {path}, the graph before {phase}"
        lines.append(f"to see it again: dfc compile {path} --verify-each")
    if number:
        lines.append(f"to see what came before: dfc compile FILE --pass-limit {number - 1}")
    return "\n  ".join(lines)
