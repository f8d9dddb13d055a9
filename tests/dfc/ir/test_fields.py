"""Attribute records survive being written as plain values."""

import numpy as np
import pytest

from dfc.ir import dtypes
from dfc.ir.attributes import Attributes, Literal, NoAttributes
from dfc.ir.dims import Symbol, dim
from dfc.ir.fields import FieldError, decode, encode
from dfc.ir.types import tensor
from dfc.ops import attributes as a

N = dim(Symbol("N"))
SPECIAL = np.array([np.nan, np.inf, -0.0, 1e-45], np.float32)
RECORDS: list[Attributes] = [
    NoAttributes(),
    a.ConstantAttributes(Literal(np.array([[1.5, -2.0]], np.float32))),
    a.ConstantAttributes(Literal(SPECIAL)),
    a.ConstantAttributes(Literal(np.array(3.25, np.float16))),
    a.ConstantAttributes(Literal(np.array(0.1, np.float32))),
    a.ConstantAttributes(Literal(np.array([-(2**63), 2**63 - 1]))),
    a.ConstantAttributes(Literal(np.zeros((2, 0), np.int8))),
    a.ConstantAttributes(Literal(np.arange(1000, dtype=np.float64))),
    a.ConstantAttributes(Literal(np.array([True, False]))),
    a.ConstantAttributes(Literal(np.array([1 + 2j], np.complex64))),
    a.ConstantAttributes(Literal(np.array([0.1, 3], dtypes.BF16.numpy))),
    a.DimAttributes(N * 4 + 1),
    a.TypeAttributes(tensor(dtypes.I32, N)),
    a.TypeAttributes(tensor(dtypes.F32)),
    a.RandomAttributes("normal", 7, "w/kernel", tensor(dtypes.F32, N, 3)),
    a.CastAttributes(dtypes.BF16),
    a.ShapeAttributes((N, dim(3))),
    a.ShapeAttributes(()),
    a.PermutationAttributes((1, 0)),
    a.SliceAttributes((dim(0), N - 1), (dim(2), dim(3)), (1, -1)),
    a.ReduceAttributes((0, 2), keep_dims=True),
    a.ReduceAttributes((0,)),
    a.ArgAttributes(1, dtypes.I32),
    a.AssignAttributes("w", "+=", (a.RangeSelector(N, dim(2), -1), a.OperandSelector(1))),
    a.AssignAttributes("w", ":="),
    a.HostAttributes(("a.b", "c")),
    a.ForAttributes(2, N // 4),
    a.ForAttributes(0),
    a.AssertAttributes('say "no"', "x > 0"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_decode_undoes_encode(record: Attributes) -> None:
    assert decode(type(record), dict(encode(record))) == record


def test_finite_constants_are_readable() -> None:
    fields = dict(encode(a.ConstantAttributes(Literal(np.array([1.5, 2], np.float32)))))
    assert fields == {"type": tensor(dtypes.F32, 2), "value": [1.5, 2.0]}


@pytest.mark.parametrize(
    ("cls", "values", "field"),
    [
        (a.AxisAttributes, {}, "axis"),
        (a.AxisAttributes, {"axis": 1, "axes": [1]}, "axes"),
        (a.AxisAttributes, {"axis": True}, "axis"),
        (a.AxisAttributes, {"axis": "1"}, "axis"),
        (a.ShapeAttributes, {"shape": 3}, "shape"),
        (a.ConstantAttributes, {"type": tensor(dtypes.U8), "value": 256}, "value"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32), "value": 1.5}, "value"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32, 2), "value": [1]}, "value"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32), "hex": "00"}, "hex"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32), "hex": "zz"}, "hex"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32)}, "value"),
        (a.ConstantAttributes, {"type": tensor(dtypes.I32, N), "value": 1}, "type"),
        (NoAttributes, {"axis": 1}, "axis"),
    ],
)
def test_values_that_do_not_fit_name_the_field(cls: type[Attributes], values: dict, field: str) -> None:
    with pytest.raises(FieldError) as caught:
        decode(cls, values)
    assert caught.value.field == field
