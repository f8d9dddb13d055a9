"""Contractions of any order of axes are products of matrices where they can be, and sums of products elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.driver import pipeline
from dfc.ir.attributes import Attributes
from dfc.ir.graph import Entry, Graph
from dfc.ir.types import TensorType
from dfc.kernels.form import ContractKernel
from dfc.ops import registry, table
from dfc.ops.lowering.forms import Contract, ContractAxes
from tests.support.lowering import agree
from tests.support.ops import Scratch

NUMBERS = np.random.default_rng(8)


def graph(equation: str, *shapes: Sequence[int]) -> tuple[Graph, dict[str, np.ndarray]]:
    """An entry with the contraction that an equation of `einsum` says, behind which it takes the hyperbolic tangent."""
    left, right, result = equation.replace("->", ",").split(",")
    labels = result + "k"
    axes = ContractAxes(*(tuple(labels.index(label) for label in side) for side in (left, right)))

    def infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
        sizes = dict(zip(left + right, types[0].shape + types[1].shape, strict=True))
        return (types[0].with_shape(tuple(sizes[label] for label in result)),)

    table.RECORDS["contraction"] = replace(
        registry.record("matmul"),
        name="contraction",
        infer=infer,
        evaluate=lambda operands, _attributes, _sizes: (np.einsum(equation, *operands),),
        lowering=Contract(lambda _node: axes),
    )
    scratch = Scratch()
    feeds = [scratch.feed(NUMBERS.integers(-3, 4, shape).astype(np.float32)) for shape in shapes]
    scratch.block.outputs = (scratch.builder.apply("tanh", scratch.builder.apply("contraction", *feeds)),)
    arrays = {value.name: array for value, array in scratch.feeds}
    return Graph("g", {}, {"e": Entry("e", scratch.block, tuple(arrays), ("y",), (), (), (), NOWHERE)}), arrays


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.RECORDS, "contraction", registry.record("matmul"))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("mk,nk->mn", ((3, 5), (4, 5))),
        ("km,kn->nm", ((5, 3), (5, 4))),
        ("bmk,kn->bmn", ((2, 3, 5), (5, 4))),
        ("mkb,bnk->bmn", ((3, 5, 2), (2, 4, 5))),
    ],
)
def test_a_row_and_a_column_make_one_product_with_what_follows(equation: str, shapes: Sequence[Sequence[int]]) -> None:
    contraction, feeds = graph(equation, *shapes)
    (kernel,) = pipeline.scheduled(contraction).kernels
    assert isinstance(kernel, ContractKernel)
    agree(contraction, feeds)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("mk,k->m", ((3, 5), (5,))),
        ("bk,bk->b", ((3, 5), (3, 5))),
        ("k,mk->m", ((5,), (3, 5))),
        ("mnk,k->nm", ((3, 4, 5), (5,))),
        ("ck,abk->cab", ((2, 5), (3, 4, 5))),
    ],
)
def test_what_is_no_product_of_matrices_is_computed_element_by_element(
    equation: str, shapes: Sequence[Sequence[int]]
) -> None:
    contraction, feeds = graph(equation, *shapes)
    assert not any(isinstance(kernel, ContractKernel) for kernel in pipeline.scheduled(contraction).kernels)
    agree(contraction, feeds)
