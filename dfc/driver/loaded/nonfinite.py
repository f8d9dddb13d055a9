"""Where a value that is not finite comes from: the call is evaluated again, node by node.

The run side finds this module by name when a check of finite values has failed. Assumes the feeds of the call and the
state before it. Guarantees that what it names is the first value in the order of the program, inside branches and
loops too, that the pass `finite_checks` watches and that is not finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dfc.bundle.writing import Bundle
from dfc.driver import pipeline
from dfc.driver.loaded.partial import Setting, rebuilt
from dfc.driver.pipeline import Context
from dfc.driver.selection import select
from dfc.driver.single_task import distribution_of
from dfc.ir.graph import Node
from dfc.ir.options import CompileOptions, TargetOptions
from dfc.ops.evaluate import evaluate
from dfc.ops.record import Array
from dfc.transforms.instrument.finite_checks import NAME, watched


class _NonfiniteValue(Exception):
    def __init__(self, node: Node, operands: Sequence[Array], result: int, array: Array) -> None:
        super().__init__(node.name)
        self.node = node
        self.operands = tuple(operands)
        self.result = result
        self.array = array


def compiled(sources: Mapping[str, str], settings: Mapping[str, Setting], target: str, isa: str) -> bytes:
    """The bundle of a program with checks."""
    options = CompileOptions(target=target, target_options=TargetOptions(isas=tuple(isa.split())), check_finite=True)
    graph = rebuilt(sources, settings)
    graph.settings.update(settings)
    graph.tests.clear()
    context = Context(options, distribution_of(options), text=graph.source, modules=graph.modules)
    bundle: Bundle = pipeline.run(graph, context, "prune")
    return bundle.to_bytes()


def explain(
    sources: Mapping[str, str],
    settings: Mapping[str, Setting],
    entry: str,
    feeds: Mapping[str, object],
    state: Mapping[str, Array],
    sizes: Mapping[str, int],
    part: tuple[Sequence[str], Sequence[str]] | None = None,
) -> str:
    """Place, element and ranges of inputs as text; empty if the evaluation meets only finite values. `part` are the
    names of what is fetched and fed, if it is not the whole entry."""
    built = rebuilt(sources, settings)
    graph = built if part is None else select(built, *part).graph
    graph = pipeline.optimise(graph, CompileOptions(check_finite=True, stop_after=NAME))
    watching = watched(graph.entries[entry].block)

    def observe(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> None:
        if node in watching:
            for number, array in enumerate(results):
                if array.dtype.kind in "fV" and not np.isfinite(_plain(array)).all():
                    raise _NonfiniteValue(node, operands, number, array)

    try:
        with np.errstate(all="ignore"):
            evaluate(graph, entry, feeds, state, sizes, observe=observe)
    except _NonfiniteValue as found:
        return _message(found)
    return ""


def _plain(array: Array) -> Array:
    """As f64, which NumPy can judge; narrow types of other packages among them."""
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def _message(nonfinite: _NonfiniteValue) -> str:
    node, array = nonfinite.node, _plain(nonfinite.array)
    index = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
    index_text = f"[{', '.join(str(int(i)) for i in index)}]" if array.ndim else ""
    line = node.span.file.line_text(node.span.line).strip()
    where = f" at {node.span.file.name.rsplit('/', 1)[-1]}:{node.span.line}:{node.span.column}"
    lines = [
        f"`{node.results[nonfinite.result].name}`{index_text} is {array[index]}"
        + ("" if node.span.is_nowhere else where)
    ]
    if line:
        lines.append(f"  {node.span.line} | {line}")
    bad = int(array.size - np.isfinite(array).sum())
    if array.size > 1:
        lines.append(f"  {bad} of {array.size} elements {'is' if bad == 1 else 'are'} not finite")
    for value, operand in zip(node.operands, nonfinite.operands, strict=True):
        if operand.dtype.kind in "fViu":
            lines.append(f"  input `{value.name}`: {value.type}, {_range(_plain(operand))}")
    return "\n".join(lines)


def _range(array: Array) -> str:
    """The least and the greatest number, and how many are none."""
    finite = array[np.isfinite(array)]
    numbers = f"from {finite.min():g} to {finite.max():g}" if finite.size else "no finite number"
    nan, infinite = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    others = [f"{count} {what}" for count, what in ((nan, "NaN"), (infinite, "infinite")) if count]
    return ", ".join([numbers, *others])
