"""A lowering that does not fit its node is found before kernels read by it; those of all ops fit (`test_check`)."""

import pytest

from dfc.ir.dims import dim
from dfc.ir.dtypes import F32, I32
from dfc.ir.graph import Node, Value
from dfc.ir.types import tensor
from dfc.ops.lowering.faults import lowering_faults
from dfc.ops.lowering.forms import Contract, ContractAxes, Lowering, MaskedView, Pick, Picked, View
from dfc.ops.lowering.index_maps import along, scaled, shifted


def faults(lowering: Lowering, *, compares_sizes: bool = True) -> str:
    """Of a node with operands of the shapes [4, 3] and [3, 4] and, of whole numbers, [4], and a result of [4, 4]."""
    operands = [Value(type_, "x") for type_ in (tensor(F32, 4, 3), tensor(F32, 3, 4), tensor(I32, 4))]
    count = 2 if isinstance(lowering, Contract) else 3
    node = Node("n", operands[:count], [tensor(F32, 4, 4)], name="n")
    return "; ".join(lowering_faults(node, lowering, compares_sizes=compares_sizes))


@pytest.mark.parametrize(
    ("lowering", "words"),
    [
        (View(lambda _: (along(0),)), "1 indices for an operand of rank 2"),
        (View(lambda _: (along(0), along(2))), "over axis 2 of a result of rank 2"),
        (View(lambda _: (along(0), along(1))), "goes from 0 to 3 along an axis of 3"),
        (View(lambda _: (scaled(along(0), -1), scaled(along(1), 0))), "goes from -3 to 0 along an axis of 4"),
        (MaskedView(lambda _: (along(0), along(1)), lambda _: [(0, 1)]), "along an axis of 3"),
        (MaskedView(lambda _: (along(0), along(1)), lambda _: [(1, 0)]), "steps of 1 or more"),
        (MaskedView(lambda _: (along(0), along(1)), lambda _: [(1, 1), (2, 1)]), "no axes of an operand of rank 2"),
        (Pick(lambda _: (along(0), Picked(3, (along(0),)))), "operand 3 of 3"),
        (Pick(lambda _: (along(0), Picked(2, ()))), "by 0 indices into i32"),
        (Pick(lambda _: (along(0), Picked(1, (along(0), along(1))))), "not by whole numbers"),
        (Pick(lambda _: (along(0), Picked(2, (shifted(along(0), dim(1)),)))), "goes from 1 to 4 along an axis of 4"),
        (Contract(lambda _: ContractAxes((0, 1), (2, 1))), "with 2 summed over"),
        (Contract(lambda _: ContractAxes((0, 2), (2, 2))), "not those of an operand"),
        (Contract(lambda _: ContractAxes((0, 2), (2, 0))), "not those of a result of rank 2"),
        (Contract(lambda _: ContractAxes((2, 0), (2, 1))), "axis 0 has 4 elements, and 3 in an operand"),
    ],
)
def test_what_does_not_fit_is_said(lowering: Lowering, words: str) -> None:
    assert words in faults(lowering)


@pytest.mark.parametrize(
    "lowering",
    [
        View(lambda _: (shifted(scaled(along(1), -1), dim(3)), shifted(scaled(along(0), 0), dim(2)))),
        MaskedView(lambda _: (along(0), along(1)), lambda _: [(1, 1)]),
        Pick(lambda _: (along(1), Picked(2, (along(0),)))),
        Contract(lambda _: ContractAxes((0, 2), (2, 1))),
    ],
)
def test_what_fits_is_accepted(lowering: Lowering) -> None:
    assert faults(lowering) == ""


def test_sizes_of_code_that_may_never_run_are_not_compared() -> None:
    assert faults(View(lambda _: (along(0), along(1))), compares_sizes=False) == ""
