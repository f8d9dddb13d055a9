"""Samples of every op pass the check of nodes, invalid ones do not."""

from dfc.ir.attributes import Literal
from dfc.ir.dtypes import from_numpy
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ir.verify import Situation
from dfc.ops import registry
from dfc.ops.check import check_node
from dfc.ops.record import Array, Effect
from tests.support.one_test_for_all import one_test_for_all

PURE = [r for r in registry.all_records() if r.effect is Effect.PURE and r.family not in ("control", "gradient")]


def type_of(array: Array) -> TensorType:
    dtype = from_numpy(Literal(array).array.dtype)
    assert dtype is not None
    return tensor(dtype, *array.shape)


@one_test_for_all(PURE)
def test_samples_are_accepted_and_invalid_ones_refused(record) -> None:
    for sample in record.samples():
        operands = [Value(type_of(array), "x") for array in sample.operands]
        if sample.kind == "invalid":
            node = Node(record.name, operands, [], attributes=sample.attributes, name="n")
            assert list(check_node(node, Situation({})))
            continue
        types = record.infer([v.tensor for v in operands], sample.attributes)
        node = Node(record.name, operands, types, attributes=sample.attributes, name="n")
        assert list(check_node(node, Situation({}))) == []
        without = Node(record.name, operands, [], attributes=sample.attributes, name="n")
        assert list(check_node(without, Situation({})))
