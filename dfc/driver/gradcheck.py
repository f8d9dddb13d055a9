"""Gradients against central differences: every `grad` of every entry, in double precision.

The graph is written as a program, its element types are widened to f64, and that program is built and evaluated by the
reference evaluator: `grad` as the compiler expands it, and the loss on both sides along random directions. This is done
at several points, of different sizes: a gradient that takes the wrong side of a choice is right wherever the choice
falls the other way. Assumes a graph as the front end makes it. Guarantees that feeds, sizes and directions follow from
the seed, and that a gradient that is not compared is reported with the reason, never counted as right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile, Span
from dfc.driver import pipeline
from dfc.elaborate import build
from dfc.ir import walk
from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.options import CompileOptions
from dfc.ir.types import TensorType
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.control.derivatives import GradView, grad_view, is_grad
from dfc.ops.evaluate import State, evaluate, initial_state
from dfc.ops.record import Array
from dfc.ops.spelling import show
from dfc.transforms.autodiff.autodiff import NAME as AUTODIFF
from dfc.transforms.subgraph.extraction import extract
from dfc_runtime.errors import UnsupportedError

DIRECTIONS = 3
SCALES = (1.0, 3.0, 0.3)  # a point is drawn for each: standard normal numbers times this
STEPS = (1e-6, 1e-5, 1e-7)  # the later ones where the first is not fine enough, or drowns in the rounding of the loss
TOLERANCE = 1e-5
SIZE = 3
_NARROW = re.compile(r"\b(?:f32|f16|bf16)\b")
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Compared:
    """One target of one `grad`. `error` is the greatest relative error; `reason` says why there is none."""

    entry: str
    target: str
    span: Span
    error: float | None = None
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.error is not None and not self.error <= TOLERANCE


def gradcheck(graph: Graph, seed: int, sizes: Mapping[str, int], only: str | None = None) -> list[Compared]:
    """Compares all gradients, or those of the entry `only`."""
    wide = widened(graph)
    state = initial_state(pipeline.optimise(wide, CompileOptions(stop_after=AUTODIFF)))
    comparisons: list[Compared] = []
    for name, entry in graph.entries.items():
        if only in (None, name):
            rng = np.random.default_rng(seed)
            comparisons += _Entry(wide, wide.entries[name], state, sizes, rng).compare(entry)
    return comparisons


def widened(graph: Graph) -> Graph:
    """The program in double precision."""
    text = _NARROW.sub("f64", show(graph))
    try:
        return build.build(SourceFile(f"{graph.name}.dfg", text))
    except CompileError as problem:
        first = problem.diagnostics[0].title
        raise UnsupportedError(f"the program has no meaning in double precision: {first}", code="E1001") from None


class _Entry:
    """One entry with feeds that were drawn."""

    def __init__(
        self, graph: Graph, entry: Entry, state: State, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> None:
        self._graph = graph
        self._entry = entry
        self._state = state
        self._rng = rng
        self._sizes = {symbol: sizes.get(str(symbol), SIZE) for symbol in entry.dims}
        self._parameters = list(zip(entry.parameter_names, entry.block.parameters, strict=False))

    def compare(self, original: Entry) -> Iterator[Compared]:
        """Each target of each `grad`; `original` knows the lines of the author."""
        mine, theirs = ([n for n in walk.nodes(e.block) if is_grad(n)] for e in (self._entry, original))
        top = set(self._entry.block.nodes)
        texts = [name for name, value in self._parameters if not isinstance(value.type, TensorType)]
        for node, written in zip(mine, theirs, strict=True):
            request = grad_view(node)
            names = [_name(value) for value in grad_view(written).targets]
            reason = f"takes the text `{texts[0]}`" if texts else "" if node in top else "is inside a loop or branch"
            if reason:
                yield from (Compared(original.name, name, written.span, reason=reason) for name in names)
                continue
            points = [{name: self._drawn(value, scale) for name, value in self._parameters} for scale in SCALES]
            for number, name in enumerate(names):
                yield self._compare(request, number, Compared(original.name, name, written.span), points)

    def _drawn(self, value: Value, scale: float) -> Array:
        """A feed: normal numbers, or zeros and ones, which are indices almost everywhere."""
        shape = [extent.evaluate(self._sizes) for extent in value.tensor.shape]
        dtype = value.tensor.machine.numpy
        if value.tensor.machine.is_float:
            return (scale * self._rng.standard_normal(shape)).astype(dtype)
        return self._rng.integers(0, 2, shape).astype(dtype)

    def _compare(self, request: GradView, number: int, compared: Compared, points: list[dict[str, Array]]) -> Compared:
        """The worst error of all points where the loss is finite."""
        target = request.targets[number]
        if _is_read(target) and not _is_first(target, self._entry.block):
            return Compared(compared.entry, compared.target, compared.span, reason="is read after it was written")
        errors = [error for feeds in points for error in self._errors(request, number, feeds)]
        return Compared(compared.entry, compared.target, compared.span, max(errors, default=np.inf))

    def _errors(self, request: GradView, number: int, feeds: Mapping[str, Array]) -> Iterator[float]:
        """At one point, along random directions; infinite for a gradient that is not finite."""
        loss, target, gradient = request.loss, request.targets[number], request.gradients[number]
        at, analytic = self._values([target, gradient], feeds, None)
        size = max(1.0, float(np.abs(at).max(initial=0)))
        for _ in range(DIRECTIONS):
            direction = self._rng.standard_normal(at.shape)
            direction /= max(float(np.linalg.norm(direction)), 1e-30)

            def along(step: float, direction: Numbers = direction) -> float:
                return float(self._values([loss], feeds, (target, at + step * direction))[0])

            here = along(0.0)
            if np.isfinite(here):
                mine = float(np.sum(analytic * direction))
                yield _least_error(mine, here, along, size) if np.isfinite(mine) else np.inf

    def _values(
        self, targets: list[Value], feeds: Mapping[str, Array], moved: tuple[Value, Numbers] | None
    ) -> list[Numbers]:
        """Values of the entry, perhaps with another one put in the place of `moved`."""
        inputs, state = dict(feeds), dict(self._state)
        fed = list(self._parameters)
        if moved is not None:
            value, array = moved
            resource = value.node.attributes if value.node is not None else None
            own = next((name for name, parameter in fed if parameter is value), None)
            if _is_read(value) and isinstance(resource, ResourceAttributes):
                state[resource.resource] = array
            elif own is not None:
                inputs[own] = array
            else:
                fed.append(("moved", value))
                inputs["moved"] = array
        fetched = [(f"value{number}", value) for number, value in enumerate(targets)]
        part = extract(self._graph, self._entry, fetched, fed)
        ready = pipeline.optimise(part.graph, CompileOptions(stop_after=AUTODIFF))
        entry = next(iter(ready.entries.values()))
        kept = {name: array for name, array in inputs.items() if name in entry.parameter_names}
        dims = {str(symbol): self._sizes[symbol] for symbol in entry.dim_feeds}
        return [np.asarray(each, np.float64) for each in evaluate(ready, entry, kept, state, dims).results]


def _least_error(mine: float, here: float, along: Callable[[float], float], size: float) -> float:
    """With the first step that shows the gradient to be right, or the best one."""
    least = np.inf
    for step in STEPS:
        least = min(least, _error(mine, here, along, step * size))
        if least <= TOLERANCE:
            break
    return least


def _error(mine: float, here: float, along: Callable[[float], float], step: float) -> float:
    """Of a gradient, relative: compared with the difference over both sides, or over one side if the other has a
    kink."""
    forward, behind = along(step), along(-step)
    numeric = [(forward - behind) / (2 * step), (forward - here) / step, (here - behind) / step]
    errors = [abs(each - mine) / max(abs(each), abs(mine), STEPS[0] * max(abs(here), 1.0)) for each in numeric]
    return min((error for error in errors if np.isfinite(error)), default=np.inf)


def _is_read(value: Value) -> bool:
    return value.node is not None and value.node.op == "read"


def _is_first(value: Value, block: Block) -> bool:
    """Whether nothing has written the variable before this read: only reads stand between it and the start."""
    node = value.node
    while node is not None:
        token = next(v for v in node.operands if v.is_token)
        if token in block.parameters:
            return True
        node = token.node if token.node is not None and token.node.op == "read" else None
    return False


def _name(value: Value) -> str:
    node = value.node
    if node is not None and node.op == "read" and isinstance(node.attributes, ResourceAttributes):
        return node.attributes.resource
    return value.name
