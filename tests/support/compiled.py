"""One small program from graph to bundle, without the front end: scalars, a symbolic batch, state."""

from __future__ import annotations

from functools import cache

from dfc.bundle import writing as bundle
from dfc.bundle.target import load_target
from dfc.bundle.writing import Bundle
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32, I64
from dfc.ir.graph import Entry, Graph, Resource, Value
from dfc.ir.options import TargetOptions
from dfc.ir.types import TensorType, tensor
from dfc.lower.program import lower_graph
from dfc.ops.attributes import AssignAttributes, ResourceAttributes
from dfc.ops.builder import Builder
from tests.support.graphs import entry, token, variable

B = Symbol("B")


def block_of(*parameters: Value) -> tuple[Entry, Builder]:
    empty = entry("none", parameters, (), ())
    return empty, Builder(empty.block)


def finished(name: str, unfinished: Entry, *outputs: Value, dims: tuple[Symbol, ...] = ()) -> Entry:
    return entry(name, unfinished.block.parameters, unfinished.block.nodes, outputs, dims=dims)


def add_entry() -> Entry:
    x, y = Value(tensor(F32), "x"), Value(tensor(F32), "y")
    unfinished, build = block_of(x, y)
    return finished("add", unfinished, build.apply("add", x, y))


def scale_entry() -> Entry:
    x, rate = Value(tensor(F32, B, 4), "x"), Value(tensor(F32), "rate")
    unfinished, build = block_of(x, rate)
    return finished("scale", unfinished, build.apply("mul", x, rate), dims=(B,))


def tick_entry(resource: Resource, name: str, step: int) -> Entry:
    before = token(resource.name)
    unfinished, build = block_of(before)
    value, after = build.add("read", (before,), (resource.type, before.type), ResourceAttributes(resource.name)).results
    new = build.apply("add", value, build.constant(step, I64))
    done = build.add("assign", (new, after), (before.type,), AssignAttributes(resource.name, ":="))
    return finished(name, unfinished, new, done.result)


def init_entry(resource: Resource) -> Entry:
    before = token(resource.name)
    unfinished, build = block_of(before)
    zero = build.constant(40, I64)
    done = build.add("assign", (zero, before), (before.type,), AssignAttributes(resource.name, ":="))
    return finished("init", unfinished, done.result)


def graph() -> Graph:
    count = variable("count", TensorType(I64))
    entries = (init_entry(count), add_entry(), scale_entry(), tick_entry(count, "tick", 2))
    return Graph("model", {"count": count}, {e.name: e for e in entries})


@cache
def compiled() -> Bundle:
    """Entries init, add, scale[B] and tick; one variable."""
    program = lower_graph(graph())
    lowered = load_target("cpu").lower(program, TargetOptions())
    return bundle.write(program, lowered, "source text\n", {"WIDTH": 4, "RATE": 0.5})
