"""Metamorphic laws: changes of a random graph that change nothing leave the results of all passes as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir import walk
from dfc.ir.dims import ONE, ZERO, Symbol, dim
from dfc.ir.dtypes import BOOL, F64, I8, I64
from dfc.ir.graph import Block, Graph, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, map_blocks, rebuild
from dfc.ir.types import TensorType, tensor
from dfc.ops.attributes import (
    AssertAttributes,
    AxesAttributes,
    AxisAttributes,
    CastAttributes,
    ForAttributes,
    PadAttributes,
    ReduceAttributes,
    ShapeAttributes,
    SliceAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.effects.effects import is_pure
from dfc.ops.evaluate import evaluate
from tests.support.agreeing import assert_same, reference, verified
from tests.support.making import Making
from tests.support.random_graphs import Case, random_case
from tests.support.sweeping import few

N = Symbol("N")
Change = Callable[[Builder, Value], Value]


def optimised(graph: Graph) -> Graph:
    for phase in pipeline.PHASES:
        graph = phase.run(graph)
    return verified(graph, "all passes")


class Wrap(Pass):
    """Puts something around one value of the graph."""

    def __init__(self, change: Change, skip: int, fits: Callable[[Value], bool]) -> None:
        self.change = change
        self.skip = skip
        self.fits = fits
        self.done = False

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        node = site.node
        if self.done or len(node.results) != 1 or not self.fits(node.result):
            return None
        self.skip -= 1
        if self.skip >= 0:
            return None
        self.done = True
        kept = site.kept()
        site.output.append(kept)
        block = Block()
        block.nodes = site.output
        return (self.change(Builder(block, name=f"{kept.name}/wrapped"), kept.result),)


def is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.tensor.dtype == F64


def one(b: Builder, x: Value) -> Value:
    return b.apply("mul", x, b.constant(1, F64))


def zero(b: Builder, x: Value) -> Value:
    return b.apply("sub", x, b.constant(0, F64))


def twice(op: str) -> Change:
    return lambda b, x: b.apply(op, b.apply(op, x))


def turned(b: Builder, x: Value) -> Value:
    order = tuple(reversed(range(x.tensor.rank)))
    return b.transpose(b.transpose(x, order), order)


def reversed_twice(b: Builder, x: Value) -> Value:
    axes = AxesAttributes(tuple(range(x.tensor.rank)))
    return b.apply("reverse", b.apply("reverse", x, attributes=axes), attributes=axes)


def flattened(b: Builder, x: Value) -> Value:
    return b.apply("reshape", b.reshape(x, (x.tensor.elements,)), attributes=ShapeAttributes(x.tensor.shape))


def in_a_branch(b: Builder, x: Value) -> Value:
    other = Block()
    zeros = Builder(other, name=f"{b.name}/never")
    other.outputs = (zeros.broadcast(zeros.constant(0, F64), x.tensor.shape),)
    return b.add("if", (b.constant(True, BOOL),), (x.type,), regions=[Block((), (), (x,)), other]).result


def in_one_round(b: Builder, x: Value) -> Value:
    index, carry = Value(tensor(I64), "i"), Value(x.type, "carry")
    body = Block((index, carry), (), ())
    inner = Builder(body, name=f"{b.name}/round")
    body.outputs = (inner.apply("neg", carry),)
    bounds = (b.constant(0, I64), b.constant(2, I64))
    attributes = ForAttributes(1, dim(2))
    return b.add("for", (*bounds, x), (x.type,), attributes, [body]).result


def padded(b: Builder, x: Value) -> Value:
    rank = x.tensor.rank
    wide = PadAttributes((ONE,) * rank, (ONE,) * rank, (0,) * rank)
    y = b.apply("pad", x, b.constant(9, F64), attributes=wide)
    return b.apply("slice", y, attributes=SliceAttributes((ONE,) * rank, x.tensor.shape, (1,) * rank))


def selected(b: Builder, x: Value) -> Value:
    return b.apply("select", b.constant(True, BOOL), x, b.apply("neg", x))


def joined(b: Builder, x: Value) -> Value:
    if not x.tensor.rank:
        return x
    y = b.concat([x, x], 0)
    rank = x.tensor.rank
    return b.apply("slice", y, attributes=SliceAttributes((ZERO,) * rank, x.tensor.shape, (1,) * rank))


def doubled_and_halved(b: Builder, x: Value) -> Value:
    return b.apply("mul", b.apply("add", x, x), b.constant(0.5, F64))


WRAPPERS: dict[str, Change] = {
    "times one": one,
    "minus zero": zero,
    "negated twice": twice("neg"),
    "transposed twice": turned,
    "reversed twice": reversed_twice,
    "reshaped and back": flattened,
    "in a branch that is taken": in_a_branch,
    "in two rounds of a loop": in_one_round,
    "padded and cut": padded,
    "selected by true": selected,
    "joined and cut": joined,
    "doubled and halved": doubled_and_halved,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapping_a_value_changes_nothing(name: str) -> None:
    changed = 0
    for seed in few(range(60_000, 60_020), 5):
        case = random_case(seed)
        wrap = Wrap(WRAPPERS[name], seed % 5, is_float)
        block = case.graph.entries["e"].block
        after = map_blocks(case.graph, lambda b, w=wrap, e=block: name_nodes(rebuild(b, w), b) if b is e else b)
        changed += wrap.done
        verified(after, name)
        assert_same(reference(case), reference(case, optimised(after)))
    assert changed >= 3


def _changed(case: Case, change: Callable[[Block], Block]) -> Graph:
    block = case.graph.entries["e"].block
    return verified(map_blocks(case.graph, lambda b: change(b) if b is block else b), "change")


def test_dead_code_changes_nothing() -> None:
    for seed in few(range(61_000, 61_020), 5):
        case = random_case(seed)

        def add(block: Block) -> Block:
            copy = Block(block.parameters, block.nodes, block.outputs)
            builder = Builder(copy, name="e/dead")
            builder.apply("exp", builder.constant(1.0, F64))
            return name_nodes(copy, block)

        after = optimised(_changed(case, add))
        assert_same(reference(case), reference(case, after))
        assert not any(node.name.startswith("e/dead") for node in after.entries["e"].block.nodes)


def test_the_order_of_independent_statements_changes_nothing() -> None:
    for seed in few(range(62_000, 62_020), 5):
        case = random_case(seed, size=14)
        after = _changed(case, lambda block, s=seed: _shuffled(block, Random(s)))
        assert_same(reference(case), reference(case, optimised(after)))


def _shuffled(block: Block, random: Random) -> Block:
    """The nodes of a block in another order that respects uses."""
    ready = set(block.parameters)
    waiting = list(block.nodes)
    ordered: list[Node] = []
    while waiting:
        possible = [n for n in waiting if all(v in ready or v.node not in waiting for v in walk.inputs(n))]
        node = random.choice(possible)
        waiting.remove(node)
        ordered.append(node)
        ready.update(node.results)
    return Block(block.parameters, ordered, block.outputs)


def test_computing_again_instead_of_sharing_changes_nothing() -> None:
    for seed in few(range(63_000, 63_020), 5):
        case = random_case(seed)
        after = _changed(case, lambda block: name_nodes(rebuild(block, _Duplicate()), block))
        assert_same(reference(case), reference(case, optimised(after)))


class _Duplicate(Pass):
    """Every pure node is there twice; users see the second one."""

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        kept = site.kept()
        if not is_pure(kept):
            return None
        site.output.append(kept)
        cloner = Cloner(rename="{}/again".format)
        cloner.inline([kept], site.output)
        return [cloner.value(v) for v in kept.results]


def test_a_constant_that_is_fed_gives_the_same() -> None:
    for value in (0.0, 1.0, -1.0, 2.5):
        results = []
        for fed in (False, True):
            m = Making()
            x = m.feed("x", tensor(F64, 4))
            c = m.feed("c", TensorType(F64)) if fed else m.constant(value, F64)
            y = m.op("add", m.op("mul", x, c), m.op("div", x, m.op("add", c, m.constant(3, F64))))
            feeds: dict[str, object] = {"x": np.arange(4.0) - 1.5}
            feeds |= {"c": value} if fed else {}
            results.append(evaluate(optimised(m.graph(y)), "e", feeds).result)
        np.testing.assert_array_equal(results[0], results[1])


def test_a_batch_may_be_cut_in_two_or_permuted() -> None:
    """For a graph that treats rows alike: softmax of a product."""
    m = Making()
    x = m.feed("x", tensor(F64, N, 3))
    w = m.constant(np.arange(12.0).reshape(3, 4) / 7, F64)
    graph = optimised(m.graph(m.op("softmax", m.op("matmul", x, w), attributes=AxisAttributes(1)), dims=[N]))
    fed = np.random.default_rng(1).normal(size=(7, 3))
    whole = evaluate(graph, "e", {"x": fed}).result
    parts = [evaluate(graph, "e", {"x": part}).result for part in (fed[:3], fed[3:])]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-12)
    order = np.random.default_rng(2).permutation(7)
    np.testing.assert_allclose(evaluate(graph, "e", {"x": fed[order]}).result, whole[order], rtol=1e-12)


def test_a_reduction_in_two_stages() -> None:
    m = Making()
    x = m.feed("x", tensor(F64, N, 5))
    first = m.op("sum", x, attributes=ReduceAttributes((1,)))
    two = m.op("sum", first, attributes=ReduceAttributes((0,)))
    one_stage = m.op("sum", x, attributes=ReduceAttributes((0, 1)))
    graph = optimised(m.graph(two, one_stage, dims=[N]))
    fed = np.random.default_rng(1).normal(size=(9, 5))
    a, b = evaluate(graph, "e", {"x": fed}).results
    np.testing.assert_allclose(a, b, rtol=1e-13)


def test_whole_numbers_widened_and_narrowed() -> None:
    m = Making()
    x = m.feed("x", tensor(I8, N))
    wide = m.op("cast", x, attributes=CastAttributes(I64))
    graph = optimised(m.graph(m.op("cast", wide, attributes=CastAttributes(I8)), dims=[N]))
    fed = np.array([-128, 127, 0], np.int8)
    np.testing.assert_array_equal(evaluate(graph, "e", {"x": fed}).result, fed)
    assert not graph.entries["e"].block.nodes


def test_an_assertion_that_holds_changes_nothing() -> None:
    m = Making()
    x = m.feed("x", TensorType(F64))
    m.check(m.op("equal", m.constant(1, I64), m.constant(1, I64)))
    graph = optimised(m.graph(x))
    assert AssertAttributes not in {type(node.attributes) for node in graph.entries["e"].block.nodes}
    assert evaluate(graph, "e", {"x": 2.0}).result == 2.0


def test_running_twice_gives_the_same() -> None:
    for seed in range(64_000, 64_010):
        case = random_case(seed)
        graph = optimised(case.graph)
        assert_same(reference(case, graph), reference(case, graph), rtol=0)
