"""Makes graphs of real ops in a line a node, for tests of passes and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager

from dfc.diagnostics.source import NOWHERE
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import I64, DType
from dfc.ir.graph import Block, DimCheck, Entry, Graph, Node, Resource, Value
from dfc.ir.names import NameSet
from dfc.ir.types import TensorType, TokenType, Type, tensor
from dfc.ops.attributes import (
    ASSERT_RESOURCE,
    AssertAttributes,
    AssignAttributes,
    DrawAttributes,
    ForAttributes,
    RandomAttributes,
    ResourceAttributes,
)
from dfc.ops.builder import Builder

Body = Callable[..., Sequence[Value]]


class Making:
    """An entry in the making. Effects are threaded by themselves; regions are given as functions that add nodes."""

    def __init__(self, name: str = "e", resources: Sequence[Resource] = ()) -> None:
        self.name = name
        self.resources = {r.name: r for r in resources}
        self.names = NameSet()
        self.feeds: list[Value] = []
        self._blocks: list[Builder] = [Builder(Block())]
        self._tokens: list[dict[str, Value]] = [{}]
        self._entering: list[dict[str, Value]] = [{}]

    @property
    def builder(self) -> Builder:
        return self._blocks[-1]

    # ---------------------------------------------------------------- values --

    def feed(self, name: str, type_: TensorType) -> Value:
        value = Value(type_, name)
        self.feeds.append(value)
        return value

    def op(self, op: str, *operands: Value, attributes: Attributes | None = None) -> Value:
        self.builder.name = self.names.fresh(f"{self.name}/{op}")
        return self.builder.apply(op, *operands, attributes=attributes)

    def many(self, op: str, *operands: Value, attributes: Attributes | None = None) -> tuple[Value, ...]:
        self.builder.name = self.names.fresh(f"{self.name}/{op}")
        return self.builder.node(op, operands, attributes).results

    def constant(self, value: object, dtype: DType) -> Value:
        self.builder.name = self.names.fresh(f"{self.name}/c")
        return self.builder.constant(value, dtype)

    def random(self, type_: TensorType, distribution: str = "uniform") -> Value:
        stream = self.names.fresh(f"{self.name}/random")
        self.builder.name = stream
        attributes = RandomAttributes(distribution, 1, stream, type_)
        return self.builder.add("random", (), (type_,), attributes).result

    # --------------------------------------------------------------- effects --

    def token(self, resource: str) -> Value:
        tokens = self._tokens[-1]
        if resource not in tokens:
            tokens[resource] = self._entering[-1][resource] = Value(TokenType(resource), resource)
        return tokens[resource]

    def _effect(
        self, op: str, resource: str, operands: Sequence[Value], types: Sequence[Type], attributes: Attributes
    ) -> Node:
        token = self.token(resource)
        self.builder.name = self.names.fresh(f"{self.name}/{op}")
        node = self.builder.add(op, (*operands, token), (*types, token.type), attributes)
        self._tokens[-1][resource] = node.results[-1]
        return node

    def read(self, name: str) -> Value:
        return self._effect("read", name, (), (self.resources[name].type,), ResourceAttributes(name)).result

    def assign(
        self, name: str, value: Value, *index: Value, mode: str = ":=", selectors: Sequence[object] = ()
    ) -> None:
        attributes = AssignAttributes(name, mode, tuple(selectors))  # type: ignore[arg-type]
        self._effect("assign", name, (value, *index), (), attributes)

    def draw(self, name: str, type_: TensorType, distribution: str = "uniform") -> Value:
        return self._effect("draw", name, (), (type_,), DrawAttributes(name, distribution, type_)).result

    def check(self, condition: Value, message: str = "") -> None:
        self._effect("assert", ASSERT_RESOURCE, (condition,), (), AssertAttributes(message, "condition"))

    # --------------------------------------------------------------- regions --

    @contextmanager
    def _region(self):
        parent = self.builder
        self._blocks.append(Builder(Block(), name=parent.name))
        self._tokens.append({})
        self._entering.append({})
        try:
            yield
        finally:
            self._blocks.pop()
            self._tokens.pop()
            self._entering.pop()

    def _body(self, parameters: Sequence[Value], body: Body) -> tuple[Builder, list[Value], dict, dict]:
        with self._region():
            outputs = list(body(*parameters))
            return self.builder, outputs, self._entering[-1], self._tokens[-1]

    def _finish(self, unfinished, parameters: Sequence[Value], resources: Sequence[str]) -> Block:
        builder, outputs, entering, tokens = unfinished
        for name in resources:
            if name not in entering:
                entering[name] = tokens[name] = Value(TokenType(name), name)
        builder.block.parameters = (*parameters, *(entering[name] for name in resources))
        builder.block.outputs = (*outputs, *(tokens[name] for name in resources))
        return builder.block

    def _region_node(
        self,
        op: str,
        operands: Sequence[Value],
        types: Sequence[Type],
        regions: Sequence[tuple[Sequence[Value], object]],
        attributes: Attributes | None = None,
    ) -> tuple[Value, ...]:
        resources = sorted({name for _, unfinished in regions for name in unfinished[2]})  # type: ignore[index]
        blocks = [self._finish(unfinished, parameters, resources) for parameters, unfinished in regions]
        tokens = [self.token(name) for name in resources]
        self.builder.name = self.names.fresh(f"{self.name}/{op}")
        node = self.builder.add(op, (*operands, *tokens), (*types, *(t.type for t in tokens)), attributes, blocks)
        for token in node.results[len(types) :]:
            assert isinstance(token.type, TokenType)
            self._tokens[-1][token.type.resource] = token
        return node.results[: len(types)]

    def when(self, condition: Value, then: Body, otherwise: Body) -> tuple[Value, ...]:
        sides = [((), self._body((), then)), ((), self._body((), otherwise))]
        types = [v.type for v in sides[0][1][1]]
        return self._region_node("if", (condition,), types, sides)

    def loop(self, start: Sequence[Value], condition: Body, body: Body) -> tuple[Value, ...]:
        first, second = ([Value(v.type, f"{self.name}/carry") for v in start] for _ in range(2))
        sides = [(first, self._body(first, condition)), (second, self._body(second, body))]
        return self._region_node("while", start, [v.type for v in start], sides)

    def count(self, count: Symbol | int, start: Sequence[Value], body: Body) -> tuple[Value, ...]:
        """`for i in 0..count`: the body returns the next carries, then what it emits."""
        bounds = (self.constant(0, I64), self.size(count))
        carries = [Value(v.type, f"{self.name}/carry") for v in start]
        parameters = [Value(tensor(I64), f"{self.name}/i"), *carries]
        unfinished = self._body(parameters, body)
        emitted = [tensor(v.tensor.dtype, bounds_size(count), *v.tensor.shape) for v in unfinished[1][len(start) :]]
        types = [*(v.type for v in start), *emitted]
        attributes = ForAttributes(len(start), bounds_size(count))
        return self._region_node("for", (*bounds, *start), types, [(parameters, unfinished)], attributes)

    def size(self, size: Symbol | int) -> Value:
        self.builder.name = self.names.fresh(f"{self.name}/size")
        return self.builder.constant(size, I64) if isinstance(size, int) else self.builder.size(size)

    # ---------------------------------------------------------------- ending --

    def entry(self, *results: Value, dims: Sequence[Symbol] = (), checks: Sequence[DimCheck] = ()) -> Entry:
        block = self.builder.block
        resources = sorted(self._entering[0])
        block.parameters = (*self.feeds, *(self._entering[0][name] for name in resources))
        block.outputs = (*results, *(self._tokens[0][name] for name in resources))
        return Entry(
            self.name,
            block,
            tuple(v.name for v in self.feeds),
            tuple(f"r{i}" for i in range(len(results))),
            tuple(dims),
            (),
            tuple(checks),
            NOWHERE,
        )

    def graph(self, *results: Value, dims: Sequence[Symbol] = ()) -> Graph:
        return Graph("test", dict(self.resources), {self.name: self.entry(*results, dims=dims)})


def bounds_size(count: Symbol | int):
    return tensor(I64, count).shape[0]
