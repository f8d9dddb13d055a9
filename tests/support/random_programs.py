"""Random entries with state, views, folds, products and loops, for comparing ways to run a program.

Safe by construction: no index leaves its axis, divisors are at least one, exponents are small.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import ONE, Dim, Symbol, dim
from dfc.ir.dtypes import F64, I64, U64
from dfc.ir.graph import Graph, Resource, ResourceKind, Value
from dfc.ir.types import TensorType, tensor
from dfc.ops.attributes import (
    ArgAttributes,
    AxesAttributes,
    AxisAttributes,
    OperandSelector,
    PadAttributes,
    PermutationAttributes,
    RangeSelector,
    ReduceAttributes,
    ScatterAttributes,
    ShapeAttributes,
    SliceAttributes,
)
from dfc.ops.creation import philox
from tests.support.graphs import variable
from tests.support.making import Making

BATCH = Symbol("B")
EXTENTS = (dim(BATCH), dim(4), dim(3), ONE)
STATE = {"v": (4, 3), "w": (3, 4), "u": (4,), "s": ()}
MODES = (":=", "+=", "-=", "*=")


@dataclass
class Program:
    graph: Graph
    feeds: dict[str, Any]
    state: dict[str, Any]
    batch: int


@dataclass
class Generator:
    """Grows an entry by one random node at a time."""

    seed: int
    nodes: int = 14
    batches: tuple[int, ...] = (0, 1, 2, 3)
    chance: random.Random = field(init=False)
    making: Making = field(init=False)
    pool: list[Value] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        resources = [variable(name, TensorType(F64, tuple(map(dim, shape)))) for name, shape in STATE.items()]
        rng = Resource("r", ResourceKind.RNG, tensor(U64, 4), False, None, NOWHERE)
        self.making = Making(resources=[*resources, rng])

    def program(self) -> Program:
        batch = self.chance.choice(self.batches)
        numbers = np.random.default_rng(self.seed)
        feeds: dict[str, Any] = {}
        for number in range(3):
            shape = self.shape()
            value = self.making.feed(f"x{number}", TensorType(F64, shape))
            self.pool.append(value)
            feeds[value.name] = numbers.normal(size=[d.evaluate({BATCH: batch}) for d in shape])
        known = self.making.feed("size", TensorType(F64, (dim(BATCH),)))
        self.pool.append(known)
        feeds["size"] = numbers.normal(size=(batch,))
        self.grow(self.nodes)
        results = self.chance.sample(self.pool, k=min(4, len(self.pool)))
        graph = self.making.graph(*results, dims=[BATCH])
        state: dict[str, Any] = {name: numbers.normal(size=shape) for name, shape in STATE.items()}
        state["r"] = philox.initial_state(self.seed, "r")
        return Program(graph, feeds, state, batch)

    def grow(self, nodes: int) -> None:
        for _ in range(nodes):
            step = self.chance.choice(STEPS if self.depth < 2 else STEPS[:-3])
            value = step(self)
            if value is not None:
                self.pool.append(value)

    def shape(self) -> tuple[Dim, ...]:
        return tuple(self.chance.choice(EXTENTS) for _ in range(self.chance.choice((0, 1, 2, 2, 2, 3))))

    def pick(self, rank: int | None = None) -> Value | None:
        fitting = [v for v in self.pool if rank is None or v.tensor.rank == rank]
        return self.chance.choice(fitting[-12:]) if fitting else None

    def tame(self, x: Value) -> Value:
        return self.making.op("tanh", x)


def unary(g: Generator) -> Value | None:
    x = g.pick()
    assert x is not None
    op = g.chance.choice(("neg", "exp", "tanh", "relu", "square", "abs", "sigmoid", "floor"))
    return g.making.op(op, g.tame(x) if op in ("exp", "square") else x)


def binary(g: Generator) -> Value | None:
    x = g.pick()
    assert x is not None
    same = [v for v in g.pool if v.tensor.shape in (x.tensor.shape, ())]
    y = g.chance.choice(same)
    op = g.chance.choice(("add", "sub", "mul", "maximum", "div"))
    if op == "div":
        y = g.making.op("add", g.making.op("abs", y), g.making.constant(1, F64))
    return g.making.op(op, x, g.tame(y) if op == "mul" else y)


def stretch(g: Generator) -> Value | None:
    x = g.pick()
    assert x is not None
    front = tuple(g.chance.choice(EXTENTS) for _ in range(g.chance.choice((0, 1))))
    shape = (*front, *(g.chance.choice(EXTENTS[:3]) if d == ONE else d for d in x.tensor.shape))
    return g.making.op("broadcast", x, attributes=ShapeAttributes(shape)) if len(shape) < 4 else None


def transpose(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((2, 3)))
    if x is None:
        return None
    order = list(range(x.tensor.rank))
    g.chance.shuffle(order)
    return g.making.op("transpose", x, attributes=PermutationAttributes(tuple(order)))


def reverse(g: Generator) -> Value | None:
    x = g.pick(2)
    return None if x is None else g.making.op("reverse", x, attributes=AxesAttributes((g.chance.choice((0, 1)),)))


def slice_known(g: Generator) -> Value | None:
    """A slice of the axes with a known size."""
    x = g.pick(g.chance.choice((1, 2)))
    if x is None:
        return None
    starts, sizes, steps = [], [], []
    for d in x.tensor.shape:
        n = d.constant
        if n is None or n < 2:
            starts, sizes, steps = [*starts, dim(0)], [*sizes, d], [*steps, 1]
            continue
        step = g.chance.choice((1, 2, -1))
        count = g.chance.randint(1, n if abs(step) == 1 else (n + 1) // 2)
        room = n - 1 - (count - 1) * abs(step)
        first = g.chance.randint(0, room)
        starts.append(dim(first if step > 0 else first + (count - 1)))
        sizes.append(dim(count))
        steps.append(step)
    return g.making.op("slice", x, attributes=SliceAttributes(tuple(starts), tuple(sizes), tuple(steps)))


def pad(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((1, 2)))
    if x is None or any(d.constant is None for d in x.tensor.shape):
        return None
    low, high, inside = (tuple(g.chance.choice((0, 0, 1)) for _ in x.tensor.shape) for _ in range(3))
    attributes = PadAttributes(tuple(map(dim, low)), tuple(map(dim, high)), inside)
    return g.making.op("pad", x, g.making.constant(0.5, F64), attributes=attributes)


def flatten(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((2, 3)))
    if x is None:
        return None
    first, second, *rest = x.tensor.shape
    return g.making.op("reshape", x, attributes=ShapeAttributes((first * second, *rest)))


def unit(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((0, 1, 2)))
    if x is None:
        return None
    axis = g.chance.randint(0, x.tensor.rank)
    shape = (*x.tensor.shape[:axis], ONE, *x.tensor.shape[axis:])
    return g.making.op("reshape", x, attributes=ShapeAttributes(shape))


def fold(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((1, 2, 2, 3)))
    if x is None:
        return None
    axes = tuple(sorted(g.chance.sample(range(x.tensor.rank), k=g.chance.choice((1, 1, x.tensor.rank)))))
    return g.making.op("sum", x, attributes=ReduceAttributes(axes, g.chance.random() < 0.5))


def row(g: Generator) -> Value | None:
    """A normalised row: several folds over the last axis, each used by the next."""
    x = g.pick(2)
    if x is None:
        return None
    keep = ReduceAttributes((1,), True)
    m = g.making
    e = m.op("exp", m.op("tanh", m.op("sub", x, m.op("sum", x, attributes=keep))))
    scaled = m.op("div", e, m.op("add", m.op("sum", e, attributes=keep), m.constant(1, F64)))
    g.pool.append(e)
    return scaled


def extreme(g: Generator) -> Value | None:
    x = g.pick(2)
    if x is None or x.tensor.shape[1].constant is None:
        return None
    rows_of_largest = g.making.op("argmax", x, attributes=ArgAttributes(1, I64))
    rows = g.pick(2)
    if rows is None or rows.tensor.shape[0] != x.tensor.shape[1]:
        return None
    return g.making.op("gather", rows, rows_of_largest, attributes=AxisAttributes(0))


def scatter(g: Generator) -> Value | None:
    x = g.pick(2)
    if x is None or x.tensor.shape[0].constant is None:
        return None
    count = x.tensor.shape[0].constant
    ids = g.making.constant([g.chance.randint(-4, 3) for _ in range(count)], I64)
    attributes = ScatterAttributes(0, (dim(4), x.tensor.shape[1]))
    return g.making.op("scatter_add", ids, x, attributes=attributes)


def prefix(g: Generator) -> Value | None:
    x = g.pick(2)
    return None if x is None else g.making.op("cumsum", x, attributes=AxisAttributes(g.chance.choice((0, 1))))


def product(g: Generator) -> Value | None:
    a = g.pick(g.chance.choice((1, 2)))
    if a is None:
        return None
    fitting = [b for b in g.pool if b.tensor.rank in (1, 2) and b.tensor.shape[0] == a.tensor.shape[-1]]
    return g.making.op("matmul", g.tame(a), g.tame(g.chance.choice(fitting))) if fitting else None


def joined(g: Generator) -> Value | None:
    x = g.pick(g.chance.choice((1, 2)))
    if x is None:
        return None
    same = [v for v in g.pool if v.tensor.shape == x.tensor.shape]
    axis = g.chance.randrange(x.tensor.rank)
    return g.making.op("concat", x, g.chance.choice(same), attributes=AxisAttributes(axis))


def read(g: Generator) -> Value | None:
    return g.making.read(g.chance.choice(list(STATE)))


def assign(g: Generator) -> Value | None:
    name = g.chance.choice(list(STATE))
    shape = tuple(map(dim, STATE[name]))
    fitting = [v for v in g.pool if v.tensor.shape in (shape, shape[1:], ())]
    if not fitting:
        return None
    g.making.assign(name, g.tame(g.chance.choice(fitting)), mode=g.chance.choice(MODES))
    return g.making.read(name) if g.chance.random() < 0.5 else None


def assign_part(g: Generator) -> Value | None:
    fitting = [v for v in g.pool if v.tensor.shape in ((dim(2), dim(3)), (dim(3),), ())]
    if not fitting:
        return None
    value = g.tame(g.chance.choice(fitting))
    selectors: list[object] = [RangeSelector(dim(g.chance.choice((0, 1))), dim(2), g.chance.choice((1, 2)))]
    index: tuple[Value, ...] = ()
    if g.chance.random() < 0.4:
        index = (g.making.constant([g.chance.randint(-4, 3), g.chance.randint(0, 3)], I64),)
        selectors = [OperandSelector(0)]
    selectors.append(RangeSelector(dim(0), dim(3)))
    g.making.assign("v", value, *index, mode=g.chance.choice(MODES), selectors=selectors)
    return None


def loop(g: Generator) -> Value | None:
    """A counted loop over carried values, with effects and sometimes an emit."""
    carries = [v for v in (g.pick(), g.pick(0)) if v is not None]
    outer = list(g.pool)
    emits = g.chance.random() < 0.5

    def body(_index: Value, *carried: Value) -> list[Value]:
        g.pool = [*outer, *carried]
        g.depth += 1
        g.grow(g.chance.randint(1, 5))
        g.depth -= 1
        results = []
        for c in carried:
            same = [v for v in g.pool if v.tensor.shape == c.tensor.shape]
            results.append(g.tame(g.chance.choice(same)) if g.chance.random() < 0.7 else g.chance.choice(same))
        return [*results, g.chance.choice(g.pool[-4:])] if emits else results

    results = g.making.count(g.chance.choice((0, 1, 3)), carries, body)
    g.pool = [*outer, *results]
    return None


def loop_while(g: Generator) -> Value | None:
    """A loop that counts down in a carried scalar, with effects."""
    x = g.pick()
    assert x is not None
    outer = list(g.pool)
    m = g.making
    carries = [m.constant(g.chance.choice((0, 2)), I64), x]

    def body(count: Value, carried: Value) -> list[Value]:
        g.pool = [*outer, carried]
        g.depth += 1
        g.grow(g.chance.randint(1, 5))
        g.depth -= 1
        same = [v for v in g.pool if v.tensor.shape == carried.tensor.shape]
        return [m.op("sub", count, m.constant(1, I64)), g.tame(g.chance.choice(same))]

    results = m.loop(carries, lambda count, _x: [m.op("greater", count, m.constant(0, I64))], body)
    g.pool = [*outer, results[1]]
    return None


def drawn(g: Generator) -> Value | None:
    shape = g.shape()
    return g.making.draw("r", TensorType(F64, shape), g.chance.choice(("uniform", "normal")))


def element(g: Generator) -> Value | None:
    """One element, row or column, by indices that are data."""
    x = g.pick(2)
    if x is None or any(d.constant in (None, 0) for d in x.tensor.shape):
        return None
    m = g.making
    first = m.op("gather", x, m.op("neg", m.constant(1, I64)), attributes=AxisAttributes(g.chance.choice((0, 1))))
    return m.op("gather", first, m.op("neg", m.constant(1, I64)), attributes=AxisAttributes(0))


def condition(g: Generator) -> Value | None:
    x = g.pick(0)
    if x is None:
        return None
    outer = list(g.pool)
    model = g.pick()
    assert model is not None

    def side() -> list[Value]:
        g.pool = list(outer)
        g.depth += 1
        g.grow(g.chance.randint(1, 4))
        g.depth -= 1
        return [g.chance.choice([v for v in g.pool if v.tensor.shape == model.tensor.shape])]

    results = g.making.when(g.making.op("less", x, g.making.constant(0, F64)), side, side)
    g.pool = [*outer, *results]
    return None


STEPS = [
    unary,
    unary,
    binary,
    binary,
    binary,
    stretch,
    transpose,
    reverse,
    slice_known,
    pad,
    flatten,
    unit,
    fold,
    fold,
    row,
    extreme,
    scatter,
    prefix,
    product,
    product,
    joined,
    read,
    assign,
    assign,
    assign_part,
    assign_part,
    element,
    drawn,
    loop,
    loop_while,
    condition,
]
