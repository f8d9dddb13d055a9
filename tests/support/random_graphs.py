"""Random graphs of real ops, safe by construction: no division by zero, no index out of range, no wild numbers.

`random_case(seed)` gives a graph with one entry `e`, feeds and state for it. The op records decide what fits: an op is
drawn, operands and attributes are guessed, and `infer` says whether they belong together. Sizes include 0, 1 and odd
ones; `N` is symbolic. Control flow, variables and an rng are mixed in. A seed always gives the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.ir.attributes import Literal
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.dtypes import BOOL, F32, F64, I32, I64, U64, DType
from dfc.ir.graph import Block, Entry, Graph, Node, Resource, ResourceKind, Value
from dfc.ir.types import TensorType, tensor
from dfc.ir.walk import used_values
from dfc.ops import attributes as a
from dfc.ops import registry
from dfc.ops.record import Effect, OpError
from tests.support.cases import Case, N
from tests.support.making import Making
from tests.support.random_attributes import Guesser

MAX_ELEMENTS = 600
COMMON = {
    "add": 5,
    "sub": 5,
    "mul": 4,
    "slice": 3,
    "transpose": 3,
    "reverse": 3,
    "reshape": 2,
    "matmul": 3,
    "concat": 2,
}
POSITIVE = frozenset({"log", "log2", "log10", "sqrt", "rsqrt", "pow", "log1p", "prod", "cumsum", "hypot", "atan2"})
INSIDE = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "tan", "asin", "acos", "atanh", "erf_inverse"})
UNSAFE = frozenset(
    {"gather_along", "solve", "grad", "jacobian", "constant", "random", "scatter_add", "cross_entropy", "gather"}
    | {"inverse", "determinant", "log_determinant", "cholesky", "qr", "eigh", "svd", "triangular_solve", "median"}
)


def random_case(
    seed: int,
    *,
    size: int = 10,
    floating: DType = F64,
    control: bool = True,
    state: bool = True,
    smooth: bool = False,
) -> Case:
    """A graph of about `size` nodes. `smooth` keeps to differentiable ops and adds a scalar loss as first result."""
    random = Random(seed)
    grower = _Grower(random, floating, control, state, smooth)
    graph = grower.run(size)
    return Case(graph, seed, random.choice([0, 1, 3, 5, 7] if not smooth else [1, 3, 5]))


class _Grower:
    def __init__(self, random: Random, floating: DType, control: bool, state: bool, smooth: bool) -> None:
        self.random = random
        self.floating = floating
        self.control = control
        self.smooth = smooth
        self.in_while = False  # effects there have no backward pass
        pool = [1, 2, 3, 4, 5, 7, 8] if random.random() < 0.9 or smooth else [0, 1, 3]
        self.sizes: list[Dim] = [dim(N), *(dim(n) for n in random.sample(pool, min(2, len(pool))))]
        self.guesser = Guesser(random, self.sizes, self._dtype, self._type, none=not smooth)
        self.making = Making(resources=self._resources() if state else ())
        self.values: list[Value] = []
        self.depth = 0
        self.records = [
            r
            for r in registry.all_records()
            if r.effect is Effect.PURE and r.name not in UNSAFE and r.family not in ("control", "gradient")
        ]
        if smooth:
            self.records = [r for r in self.records if r.gradient is not None and r.smooth]
        self.frequencies = [COMMON.get(r.name, 1) for r in self.records]

    def _resources(self) -> list[Resource]:
        resources = [
            self._resource(f"v{i}", ResourceKind.VARIABLE, self._type(symbolic=False))
            for i in range(self.random.randint(0, 2))
        ]
        if self.random.random() < 0.3:
            resources.append(self._resource("dice", ResourceKind.RNG, tensor(U64, 4)))
        return resources

    def _resource(self, name: str, kind: ResourceKind, type_: TensorType) -> Resource:
        shape = [d.constant for d in type_.shape]
        array = np.zeros([n for n in shape if n is not None], type_.machine.numpy)
        node = Node(
            "constant",
            (),
            (type_,),
            attributes=a.ConstantAttributes(Literal(array)),
            name=f"{name}/initial",
        )
        trained = kind is ResourceKind.VARIABLE and type_.machine.is_float
        return Resource(name, kind, type_, trained, Block((), (node,), node.results), NOWHERE)

    # ----------------------------------------------------------------- types --

    def _dtype(self) -> DType:
        if self.smooth:
            return self.floating
        return self.random.choices([self.floating, I32, BOOL, I64], [6, 2, 1, 1])[0]

    def _type(self, symbolic: bool = True, dtype: DType | None = None) -> TensorType:
        rank = self.random.choices([0, 1, 2, 3], [2, 4, 4, 3])[0]
        sizes = self.sizes if symbolic else self.sizes[1:]
        shape = [self.random.choice([*sizes, *sizes, ONE]) for _ in range(rank)]
        return TensorType(dtype or self._dtype(), tuple(shape))

    def _pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """One of the values, the newer the likelier."""
        fitting = [v for v in self.values if fits(v)]
        if not fitting:
            return None
        return fitting[min(len(fitting) - 1, int(len(fitting) * self.random.random() ** 0.6))]

    def _floating_value(self) -> Value:
        value = self._pick(lambda v: v.tensor.dtype == self.floating)
        assert value is not None
        return value

    # ------------------------------------------------------------------ steps --

    def run(self, size: int) -> Graph:
        for number in range(self.random.randint(1, 3)):
            dtype = self.floating if number == 0 else None
            self.values.append(self.making.feed(f"x{number}", self._type(dtype=dtype)))
        self._grow(size)
        results = self._results()
        used = any(N in t.symbols() for v in (*self.making.feeds,) for t in v.tensor.shape)
        if not used:
            self.making.feed("n", tensor(BOOL, N))
        graph = self.making.graph(*results, dims=[N])
        if graph.resources:
            graph.entries["init"] = self._init()
        return graph

    def _init(self) -> Entry:
        """What the front end makes for a program that has state and no `init`."""
        making = Making("init", list(self.making.resources.values()))
        for name, resource in making.resources.items():
            shape = [d.constant or 0 for d in resource.type.shape]
            making.assign(name, making.constant(np.zeros(shape), resource.type.machine))
        return making.entry()

    def _results(self) -> list[Value]:
        if self.smooth:
            return [self._loss(), *self._some(1)]
        return self._some(self.random.randint(3, 9))

    def _some(self, count: int) -> list[Value]:
        """Mostly values that nothing else uses, so that little of the graph is dead."""
        used = used_values(self.making.builder.block)
        leaves = [v for v in self.values if v not in used] or self.values
        return [leaves[-1], *self.random.sample(leaves, min(count, len(leaves))), self.random.choice(self.values)]

    def _loss(self) -> Value:
        """The mean of everything at the end of the graph that is a float."""
        making, total = self.making, None
        for value in self.values[-8:]:
            every = a.ReduceAttributes(tuple(range(value.tensor.rank)))
            part = making.op("mean", making.op("tanh", value), attributes=every)
            total = part if total is None else making.op("add", total, part)
        assert total is not None
        return total

    def _grow(self, count: int) -> None:
        for _ in range(count):
            step = self.random.choices(self._steps(), self._weights())[0]
            step()

    def _steps(self) -> list[Callable[[], None]]:
        plain = [self._op, self._constant, self._safe, self._pure_extra]
        return [*plain, self._effect, self._branch, self._count, self._loop]

    def _weights(self) -> list[float]:
        nested = self.control and self.depth < 2
        loops = nested
        state = bool(self.making.resources) and not (self.smooth and self.in_while)
        return [12, 2, 4, 2, 4 * state, 1.2 * nested, 0.8 * loops, 0.6 * loops]

    def _add(self, value: Value) -> None:
        elements = value.tensor.elements.substitute({N: 7}).constant
        if elements is not None and elements <= MAX_ELEMENTS and value.tensor.rank <= 4:
            self.values.append(value)

    def _op(self) -> None:
        """Guesses an op, operands and attributes until a record accepts them."""
        for _ in range(40):
            record = self.random.choices(self.records, self.frequencies)[0]
            count = sum(1 for p in record.parameters if p.kind == "tensor")
            if any(p.kind == "tensors" for p in record.parameters):
                count = self.random.randint(1, 3)
            operands = self._operands(count)
            if operands is None:
                continue
            attributes = self.guesser.attributes(record.attributes, operands)
            if attributes is None:
                continue
            try:
                operands = self._safe_operands(record.name, operands)
                self._add(self.making.op(record.name, *operands, attributes=attributes))
            except OpError:
                continue
            return

    def _operands(self, count: int) -> list[Value] | None:
        first = self._pick()
        if first is None or not count:
            return None if count else []
        operands = [first]
        for _ in range(count - 1):
            twin = self._pick(lambda v: v.type == first.type and v is not first)
            kin = self._pick(lambda v: v.tensor.dtype == first.tensor.dtype)
            chosen = twin if twin is not None and self.random.random() < 0.6 else kin
            operands.append(chosen if chosen is not None and self.random.random() < 0.9 else first)
        self.random.shuffle(operands)
        return operands

    def _safe_operands(self, op: str, operands: list[Value]) -> list[Value]:
        making = self.making
        x = operands[0] if operands else None
        if x is None or x.tensor.dtype not in (F32, F64, I32, I64):
            return operands
        floating = x.tensor.machine.is_float
        if op in POSITIVE and floating:
            positive = making.op("add", making.op("abs", making.op("tanh", x)), making.constant(0.5, x.tensor.machine))
            return [positive, *(making.op("tanh", v) for v in operands[1:])]
        if op in INSIDE and floating:
            return [making.op("mul", making.op("tanh", x), making.constant(0.8, x.tensor.machine))]
        if op == "acosh" and floating:
            return [making.op("add", making.op("square", making.op("tanh", x)), making.constant(1.5, x.tensor.machine))]
        if op == "pow":
            return [x, making.op("abs", making.op("sign", operands[1]))]
        if op in ("div", "floordiv", "mod", "fmod") and len(operands) == 2:
            y = operands[1]
            if y.tensor.machine.is_float:
                return [x, making.op("add", making.op("abs", y), making.constant(1, y.tensor.machine))]
            if y.tensor.machine.is_integer:
                zero = making.op("equal", y, making.constant(0, y.tensor.machine))
                return [x, making.op("select", zero, making.constant(3, y.tensor.machine), y)]
        return operands

    # ----------------------------------------------------------- other steps --

    def _constant(self) -> None:
        type_ = self._type(symbolic=False)
        shape = [d.constant or 0 for d in type_.shape]
        number = self.random.choice([0, 1, -1, 2, 0.5, -0.0])
        if self.random.random() < 0.5:
            self._add(self.making.constant(np.full((), number), type_.machine))
            return
        count = int(np.prod(shape)) if shape else 1
        numbers = [self.random.choice([0, 1, 2, -1, 0.5, 3]) for _ in range(count)]
        self._add(self.making.constant(np.array(numbers, np.float64).reshape(shape), type_.machine))

    def _safe(self) -> None:
        """Something that optimisers like: a neutral operand, a double inverse, the same computation again."""
        making, x = self.making, self._floating_value()
        dtype = x.tensor.machine
        twin = self._pick(lambda v: v.type == x.type and v is not x)
        choice = self.random.randrange(8)
        if choice == 0:
            self._add(making.op("mul", x, making.constant(1, dtype)))
        elif choice == 1:
            self._add(
                making.op(self.random.choice(["add", "sub"]), x, making.constant(self.random.choice([0, -0.0]), dtype))
            )
        elif choice == 2:
            self._add(making.op("neg", making.op("neg", x)))
        elif choice == 3:
            self._add(making.op("add", making.op("tanh", x), making.op("tanh", x)))
        elif choice == 4 and twin is not None:
            self._add(making.op(self.random.choice(["add", "sub"]), x, making.op("neg", twin)))
        elif choice == 5 and twin is not None:
            self._add(making.op("sub", x, twin))
            self._add(making.op("sub", twin, x))
        else:
            self._again(x)

    def _again(self, x: Value) -> None:
        """Two structural ops of one kind, one behind the other."""
        op, cls = self.random.choice(
            [("slice", a.SliceAttributes), ("reverse", a.AxesAttributes), ("transpose", a.PermutationAttributes)]
        )
        x = self._pick(lambda v: v.tensor.rank >= 3) or x
        for _ in range(2):
            attributes = self.guesser.attributes(cls, [x])
            assert attributes is not None
            x = self.making.op(op, x, attributes=attributes)
        self._add(x)

    def _pure_extra(self) -> None:
        """Gathers with indices in range, and random numbers."""
        making = self.making
        x = self._pick(lambda v: v.tensor.rank > 0 and (v.tensor.shape[0].constant or 0) > 0)
        if self.smooth or x is None or self.random.random() < 0.3:
            if not self.smooth:
                self._add(making.random(self._type(dtype=self.floating), self.random.choice(["uniform", "normal"])))
            return
        extent = x.tensor.shape[0].constant or 1
        ids = [self.random.randrange(-extent, extent) for _ in range(self.random.randint(0, 4))]
        indices = making.constant(np.array(ids, np.int64), I64)
        self._add(making.op("gather", x, indices, attributes=a.AxisAttributes(0)))

    def _effect(self) -> None:
        making = self.making
        resource = self.random.choice(list(making.resources.values()))
        if resource.kind is ResourceKind.RNG:
            self._add(making.draw(resource.name, self._type(dtype=self.floating)))
            return
        if self.random.random() < 0.5:
            self._add(making.read(resource.name))
            return
        value = self._pick(lambda v: v.type == resource.type)
        if value is None or self.smooth:
            self._add(making.read(resource.name))
            return
        modes = [":="] if resource.type.machine.is_bool else [":=", "+=", "-="]
        making.assign(resource.name, value, mode=self.random.choice(modes))

    def _inside(self, count: int) -> None:
        self.depth += 1
        self._grow(count)
        self.depth -= 1

    def _branch(self) -> None:
        x = self._floating_value()
        making = self.making
        total = making.op("sum", x, attributes=a.ReduceAttributes(tuple(range(x.tensor.rank))))
        condition = making.op("greater", total, making.constant(0, self.floating))
        if self.random.random() < 0.2:
            condition = making.constant(self.random.random() < 0.5, BOOL)
        like = [self._floating_value() for _ in range(self.random.randint(1, 2))]

        def side() -> list[Value]:
            known = len(self.values)
            self._inside(self.random.randint(0, 3))
            outputs = [self._like(v) for v in like]
            del self.values[known:]
            return outputs

        self.values += making.when(condition, side, side)

    def _like(self, value: Value) -> Value:
        """A value of the same type, made from another one if there is one."""
        other = self._pick(lambda v: v.type == value.type)
        return self.making.op("sin", other if other is not None else value)

    def _count(self) -> None:
        start = [self._floating_value() for _ in range(self.random.randint(0, 2))]
        emits = self.random.randint(0 if start else 1, 1)

        def body(_index: Value, *carries: Value) -> list[Value]:
            known = len(self.values)
            self.values += carries
            self._inside(self.random.randint(0, 2))
            outputs = [self._like(v) for v in start]
            outputs += [self._like(self._floating_value()) for _ in range(emits)]
            del self.values[known:]
            return outputs

        for value in self.making.count(self.random.choice([N, 0, 1, 2, 3]), start, body):
            self._add(value)

    def _loop(self) -> None:
        making = self.making
        start = [making.constant(0, I32), self._floating_value()]
        limit = making.constant(self.random.randint(0, 3), I32)

        def condition(k: Value, _x: Value) -> list[Value]:
            return [making.op("less", k, limit)]

        def body(k: Value, x: Value) -> list[Value]:
            known = len(self.values)
            self.values.append(x)
            outer, self.in_while = self.in_while, True
            self._inside(self.random.randint(0, 2))
            self.in_while = outer
            outputs = [making.op("add", k, making.constant(1, I32)), self._like(x)]
            del self.values[known:]
            return outputs

        number, result = making.loop(start, condition, body)
        if not self.smooth:
            self._add(number)
        self._add(result)
