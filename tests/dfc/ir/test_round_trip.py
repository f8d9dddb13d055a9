"""Printing a graph and building the text gives an equal graph, which prints the same text: samples, and random graphs
at every stage before fusion."""

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE, SourceFile
from dfc.driver import pipeline
from dfc.elaborate.build import build, elaborate
from dfc.ir.attributes import Literal
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import ALL, F32, F64, I64, U64
from dfc.ir.equality import difference
from dfc.ir.graph import DimCheck, Graph, Value
from dfc.ir.types import tensor
from dfc.ops.attributes import ConstantAttributes
from dfc.ops.spelling import show
from tests.support.agreeing import verified
from tests.support.corpus import ROOT
from tests.support.graphs import entry, graph
from tests.support.making import Making
from tests.support.random_graphs import random_case
from tests.support.sweeping import few

N = Symbol("N")
SAMPLES = ROOT / "samples"


def rebuilt(printed: str) -> Graph:
    return build(SourceFile("printed.dfg", printed))


def assert_round_trip(original: Graph, what: str = "") -> None:
    printed = show(original)
    again = rebuilt(printed)
    words = difference(original, again)
    assert words is None, f"{what}: {words}\n{printed}"
    assert show(again) == printed, what  # names, too


@pytest.mark.parametrize("block", few(range(12), 1))
def test_random_graphs_at_every_stage(block: int) -> None:
    for seed in range(block * 5, block * 5 + 5):
        current = random_case(seed, smooth=seed % 4 == 0).graph
        assert_round_trip(current, f"seed {seed}")
        for phase in pipeline.PHASES:
            after = phase.run(current)
            if after is not current:
                assert_round_trip(after, f"seed {seed} after {phase.name}")
            current = after


@pytest.mark.parametrize("sample", few(sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.dfg")), 3))
def test_what_is_shown_of_a_sample_is_shown_again(sample: str) -> None:
    made, mistakes = elaborate(SourceFile(sample, (SAMPLES / sample).read_text(encoding="utf-8")), {})
    if made is None:
        assert mistakes  # one that is refused as it stands
        return
    assert_round_trip(made)
    assert_round_trip(pipeline.optimise(made))


SPECIAL = {
    "f32": [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1],
    "f64": [np.nan, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1 / 3],
    "f16": [np.inf, 6e-8, 65504, 0.1],
    "bf16": [np.inf, 1e-40, 0.1],
    "i64": [-(2**63), 2**63 - 1],
    "u64": [0, 2**64 - 1],
    "bool": [True, False],
    "i8": [-128, 127],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_numbers_survive_exactly(name: str) -> None:
    dtype = ALL[name]
    m = Making()
    values = np.array(SPECIAL[name], object if dtype is U64 else None).astype(dtype.numpy)
    results = [m.constant(values, dtype), *(m.constant(v, dtype) for v in values)]
    made = m.graph(*results)
    again = rebuilt(show(made)).entries["e"].block.nodes
    for mine, other in zip(made.entries["e"].block.nodes, again, strict=True):
        assert isinstance(mine.attributes, ConstantAttributes)
        assert mine.attributes == other.attributes


@pytest.mark.parametrize("shape", [(0,), (2, 0), (1, 1), (3, 2), (200,), ()])
def test_shapes_of_constants_survive(shape: tuple[int, ...]) -> None:
    m = Making()
    assert_round_trip(m.graph(m.constant(np.zeros(shape), F32)))


def test_checks_on_sizes_and_flags_survive() -> None:
    x = Value(tensor(F32, N, dim(N) * 2 + 1), "x")
    made = entry("e", (x,), (), (x,), dims=[N])
    made.checks = (DimCheck(dim(N), ">=", dim(3), "", NOWHERE), DimCheck(dim(N) % 2, "==", dim(0), "", NOWHERE))
    made.readonly = made.unnamed_result = True
    made.result_names = ("",)
    again = rebuilt(show(graph(made))).entries["e"]
    assert [(c.left, c.relation, c.right) for c in again.checks][:2] == [
        (c.left, c.relation, c.right) for c in made.checks
    ]
    assert (again.readonly, again.unnamed_result) == (True, True)


FACTS = {
    "a known divisor": """
        entry e[D, H](x: f64[D], y: f64[H, D // H]) -> (z: f64[D], g: f64[D]) where D % H == 0, H >= 1 {
          let c = reshape(reshape(x, [H, D // H]) * y, [D])
          return c + x, grad(sum(c + x), x)
        }""",
    "equal symbols": """
        entry e[N, M](x: f64[N], y: f64[M]) -> (z: f64[N], g: f64[M]) where N == M {
          let c = x * y + y
          return c, grad(sum(c), y)
        }""",
    "a branch on a size": """
        entry e[N](x: f64[N], w: f64[3]) -> (z: f64, g: f64[3]) {
          let q = if N == 3 then sum(x * w) else sum(w)
          return q, grad(q, w)
        }""",
    "a branch on two sizes": """
        entry e[N, M](x: f64[N], y: f64[M], w: f64[3]) -> f64 {
          let z: f64 = if N == 3 and M == 3 { yield sum(x * w + y) } else { yield 0 }
          return z
        }""",
    "an assertion": """
        entry e[N](x: f64[N], w: f64[3]) -> f64[3] {
          assert N == 3
          return x * w
        }""",
    "rounds that facts make simple": """
        entry e[N](x: f64) -> f64 where N >= 1 {
          let y = loop y = x for i in 1..N {
            y = sin(y)
          }
          return y
        }""",
}


@pytest.mark.parametrize("name", FACTS)
def test_graphs_that_hold_only_under_facts_survive_every_stage(name: str) -> None:
    current = rebuilt("dfg 1\n" + FACTS[name])
    assert_round_trip(current, name)
    for phase in pipeline.PHASES:
        current = verified(phase.run(current), phase.name)
        assert_round_trip(current, f"{name} after {phase.name}")


def test_conditions_that_are_no_expression_survive() -> None:
    m = Making()
    x, limit = m.feed("x", tensor(F64, N)), m.feed("limit", tensor(I64))

    def condition(k: Value, _x: Value) -> list[Value]:
        twice = m.op("add", k, k)
        return [m.op("less", m.op("mul", twice, twice), m.op("add", limit, m.size(N)))]

    def body(k: Value, y: Value) -> list[Value]:
        return [m.op("add", k, m.constant(1, I64)), m.op("sin", y)]

    made = m.graph(*m.loop([m.constant(0, I64), x], condition, body), dims=[N])
    assert "fn " in show(made)
    assert_round_trip(made)


def test_carried_values_may_change_places() -> None:
    m = Making()
    a, b = m.feed("a", tensor(F64)), m.feed("b", tensor(F64))
    made = m.graph(*m.count(3, [a, b], lambda _i, x, y: [y, x]))
    assert "= (carry_1, carry)" in show(made)
    assert_round_trip(made)


def test_equal_literals_are_equal_attributes() -> None:
    assert Literal(np.array([np.nan])) == Literal(np.array([np.nan]))
    assert Literal(np.array(-0.0)) != Literal(np.array(0.0))
