"""Gradients of matrices that iterations multiply with: as many rows as there are iterations, no zeros beside them."""

from __future__ import annotations

import pytest

from dfc.ir import walk
from dfc.ir.dims import dim
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.scalar.dce import dce
from tests.dfc.transforms.autodiff.test_split_iterations import CELLS, recurrent
from tests.support.building import graph_of


@pytest.mark.parametrize("iterations, depths", [("5", [5]), ("16", [16]), ("20", [4, 16]), ("37", [5, 16])])
def test_a_shorter_block_has_no_more_rows_than_iterations(iterations: str, depths: list[int]) -> None:
    """Both matrices; the blocks of 16 are one node in a loop."""
    graph = dce(autodiff(graph_of(recurrent(CELLS["rows"], "", iterations))))
    products = [n for _, block in walk.graph_blocks(graph) for n in walk.nodes(block) if n.op == "matmul"]
    of_matrices = [n.operands[0].tensor for n in products if n.result.tensor.shape == (dim(4), dim(4))]
    assert sorted(each.shape[1].constant or 0 for each in of_matrices) == sorted(2 * depths)
