"""Calls: constant arguments become attributes, and calls that need more than one node get them."""

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I32, I64
from dfc.ir.types import TensorType, tensor
from dfc.ops import registry
from dfc.ops.attributes import (
    ArgAttributes,
    AxesAttributes,
    AxisAttributes,
    CastAttributes,
    PadAttributes,
    PermutationAttributes,
    ReduceAttributes,
    ShapeAttributes,
    TypeAttributes,
)
from dfc.ops.binding import call
from dfc.ops.record import OpError
from tests.support.ops import Scratch

B = Symbol("B")
CUBE = tensor(F32, 2, 3, 4)


def _bound(name: str, type_: TensorType = CUBE, **arguments: object) -> object:
    bind = registry.record(name).bind
    assert bind is not None
    return bind(arguments, [type_])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, ReduceAttributes((0, 1, 2))),
        ({"axis": -1}, ReduceAttributes((2,))),
        ({"axis": (2, 0)}, ReduceAttributes((0, 2))),
        ({"axis": ()}, ReduceAttributes(())),
        ({"axis": dim(1)}, ReduceAttributes((1,))),
        ({"keep": -1}, ReduceAttributes((0, 1))),
        ({"keep": (0, 1), "keep_dims": True}, ReduceAttributes((2,), True)),
    ],
)
def test_reductions_take_axis_or_keep(arguments: dict[str, object], wanted: ReduceAttributes) -> None:
    assert _bound("mean", **arguments) == wanted


@pytest.mark.parametrize(
    ("name", "arguments", "code", "blame"),
    [
        ("sum", {"axis": 3}, "E0312", "axis"),
        ("sum", {"axis": -4}, "E0312", "axis"),
        ("sum", {"axis": (1, -2)}, "E0312", "axis"),
        ("sum", {"axis": 0, "keep": 1}, "E0315", "keep"),
        ("sum", {"axis": 1.5}, "E0315", "axis"),
        ("sum", {"axis": True}, "E0315", "axis"),
        ("sum", {"axis": dim(B)}, "E0315", "axis"),
        ("sum", {"keep_dims": 1}, "E0315", "keep_dims"),
        ("softmax", {"axis": 7}, "E0312", "axis"),
        ("argmax", {"into": 3}, "E0315", "into"),
        ("reshape", {"shape": (-1, -1)}, "E0315", "shape"),
        ("reshape", {"shape": ("a",)}, "E0315", "shape"),
        ("pad", {"widths": (1, 2)}, "E0313", "widths"),
        ("pad", {"widths": ((1, 2, 3), 0, 0)}, "E0315", "widths"),
        ("transpose", {"axes": (0, 1, 5)}, "E0312", "axes"),
        ("iota", {"type": 3}, "E0315", "type"),
        ("cast", {}, "E0315", "dtype"),
    ],
)
def test_wrong_arguments_are_blamed(name: str, arguments: dict[str, object], code: str, blame: str) -> None:
    with pytest.raises(OpError) as refused:
        _bound(name, **arguments)
    assert (refused.value.code, refused.value.blame) == (code, blame)


def test_other_arguments() -> None:
    assert _bound("softmax") == AxisAttributes(2)
    assert _bound("cumsum", axis=-3) == AxisAttributes(0)
    assert _bound("argmax", axis=-1, into=I64) == ArgAttributes(2, I64)
    assert _bound("argmax", axis=0) == ArgAttributes(0, I32)
    assert _bound("transpose") == PermutationAttributes((2, 1, 0))
    assert _bound("transpose", axes=(0, -1, 1)) == PermutationAttributes((0, 2, 1))
    assert _bound("reverse") == AxesAttributes((0, 1, 2))
    assert _bound("reverse", axis=-1) == AxesAttributes((2,))
    assert _bound("cast", dtype=I64) == CastAttributes(I64)
    assert _bound("iota", type=tensor(I32, B)) == TypeAttributes(tensor(I32, B))
    assert _bound("concat", axis=-1) == AxisAttributes(2)


def test_a_reshape_may_leave_one_size_open() -> None:
    assert _bound("reshape", shape=(-1, 4)) == ShapeAttributes((dim(6), dim(4)))
    batch = tensor(F32, B, 3, 4)
    assert _bound("reshape", batch, shape=(dim(B), -1)) == ShapeAttributes((dim(B), dim(12)))
    assert _bound("reshape", batch, shape=(-1, 6)) == ShapeAttributes((dim(B) * 2, dim(6)))
    assert _bound("reshape", tensor(F32, 0, 3), shape=(0, -1)) == ShapeAttributes((dim(0), dim(0)))


def test_widths_of_padding() -> None:
    matrix = tensor(F32, 2, 3)
    one, none = dim(1), dim(0)
    assert _bound("pad", matrix, widths=1) == PadAttributes((one, one), (one, one), (0, 0))
    assert _bound("pad", matrix, widths=((1, 0), 0)) == PadAttributes((one, none), (none, none), (0, 0))
    assert _bound("pad", matrix, widths=(dim(B), 0)) == PadAttributes((dim(B), none), (dim(B), none), (0, 0))


def _call(name: str, *operands: np.ndarray, **arguments: object) -> tuple[np.ndarray, list[str]]:
    scratch = Scratch()
    result = call(scratch.builder, registry.record(name), [scratch.feed(x) for x in operands], arguments)
    return scratch.run([result])[0], [node.op for node in scratch.block.nodes]


def test_into_converts_before_it_sums() -> None:
    total, ops = _call("sum", np.full(300, 100, np.int8), into=I64)
    assert (total.dtype, int(total), ops) == (np.int64, 30_000, ["cast", "sum"])


def test_argmax_without_axis_counts_in_row_major_order() -> None:
    x = np.array([[1.0, 9.0], [3.0, 4.0]])
    assert _call("argmax", x)[0] == 1
    assert _call("argmin", x, axis=1)[0].tolist() == [0, 0]
    assert _call("argmax", np.array(3.0))[0] == 0


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((2, 2, 3, 4), (4, 1))]
)
def test_a_matrix_meets_a_batch_of_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = np.arange(np.prod(a)).reshape(a) * 0.5, np.arange(np.prod(b)).reshape(b) * 0.25
    got, _ = _call("matmul", x, y)
    np.testing.assert_allclose(got, np.matmul(x, y))
    assert got.shape == np.matmul(x, y).shape


def test_a_batch_by_a_matrix_is_one_product() -> None:
    assert _call("matmul", np.ones((2, 3, 4)), np.ones((4, 5)))[1] == ["reshape", "matmul", "reshape"]
