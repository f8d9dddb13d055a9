"""Which nodes count as equal, beyond what programs can say (`golden/cse.cases` has those)."""

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32
from dfc.ir.graph import Block, Node, Value
from dfc.ir.types import tensor
from dfc.transforms.scalar.cse import cse_block


def test_results_of_other_types_are_shared_among_themselves_alone() -> None:
    """Sizes may be equal by a promise of the caller, and be written in two ways."""
    x = Value(tensor(F32, Symbol("N")), "x")
    other = tensor(F32, Symbol("M"))
    nodes = [Node("exp", (x,), (type_,), name=name) for name, type_ in (("a", x.type), ("b", other), ("c", other))]
    shared = cse_block(Block((x,), nodes, [node.result for node in nodes]))
    assert [node.name for node in shared.nodes] == ["a", "b"]
    assert [value.name for value in shared.outputs] == ["a", "b", "b"]
