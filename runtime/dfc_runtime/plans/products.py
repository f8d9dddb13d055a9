"""The part of a plan that says what product of matrices a kernel is, for a library that may make it instead.

    {"rows": ["$d0"], "columns": 32, "depth": 64, "batch": [], "accumulator": "f32", "rounds": false,
     "first": {"operand": 1, "type": "f32", "transposed": true, "leading": 32, "strides": [], "offset": 0}, ...,
     "whole": {"result": {...}, "scale": 1.0, "bias": {"operand": 2, "offset": 0}},
     "finish": {"kernel": 7, "operands": [-1, 2, 3], "sizes": [["$d0"]]}, "sums": "f32"}

The terms are those of `dfc.kernels.matching`. `check_product` guarantees that operands exist and are only read, or
written, as they should be, and that types fit each other; what does not is a `ValueError` of one line. Needs neither
the compiler nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.records import Key, Range

FACTORS = {"f32": ("f32", "f16", "bf16"), "f64": ("f64",)}
"""Types of factors by the type of the sums."""

MOST_LEVELS = 2
SUMS = -1
"""The number of the operand that holds the sums, in a kernel that comes after a library's product."""


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """A matrix by columns, in elements of its operand; `strides` for each level of the batch."""

    operand: int
    type: str
    transposed: bool
    leading: Formula
    strides: tuple[Formula, ...]
    offset: Formula


@dataclass(frozen=True, slots=True)
class BiasPlan:
    """A number for each row, of the type of the result."""

    operand: int
    offset: Formula


@dataclass(frozen=True, slots=True)
class WholePlan:
    """All that the kernel does: result = scale * product + sign * added + bias. A library leaves a product out that is
    scaled by zero. `sign` is 0 without `added`."""

    result: MatrixPlan
    scale: float
    sign: Annotated[int, Range(-1, 1)] = 0
    added: MatrixPlan | None = None
    bias: BiasPlan | None = None


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """The kernel that takes on sums that lie together by columns, matrix after matrix: its number, the operands of the
    product's launch that it is given (`SUMS`: the sums), and its sizes."""

    kernel: int
    operands: tuple[Annotated[int, Range(SUMS)], ...]
    sizes: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """Products of `rows` x `depth` by `depth` x `columns`, as many as the numbers of `batch` multiplied, summed in
    `accumulator`. `is_rounding`: factors of f32 may be rounded to 11 bits. At least one of `whole` and `finish` is
    there; `sums` is the type in which those for `finish` are written."""

    rows: Formula
    columns: Formula
    depth: Formula
    batch: tuple[Formula, ...]
    accumulator: str
    is_rounding: Annotated[bool, Key("rounds")]
    first: MatrixPlan
    second: MatrixPlan
    whole: WholePlan | None = None
    finish: FinishPlan | None = None
    sums: str = ""


def check_product(product: ProductPlan, where: str, access: Sequence[str]) -> None:
    """`access` says what the kernel does with each of its operands."""
    if len(product.batch) > MOST_LEVELS:
        raise ValueError(f"{where} has a batch of {len(product.batch)} levels")
    if product.whole is None and product.finish is None:
        raise ValueError(f"{where} is neither whole nor finished")
    _check_types(product, where)
    for name, factor in (("first", product.first), ("second", product.second)):
        _check_matrix(factor, f"{where}.{name}", access, ("read", "update"), len(product.batch))
    if product.whole is not None:
        _check_whole(product.whole, f"{where}.whole", access, len(product.batch))
    if product.finish is not None:
        check_finish(product.finish, f"{where}.finish", len(access))


def _check_types(product: ProductPlan, where: str) -> None:
    factor, whole = product.first.type, product.whole
    if factor != product.second.type or factor not in FACTORS.get(product.accumulator, ()):
        raise ValueError(f"{where} multiplies {shown(factor)} and {shown(product.second.type)}")
    if product.sums not in ((factor, product.accumulator) if product.finish is not None else ("",)):
        raise ValueError(f"{where} has sums of the type {shown(product.sums)}")
    if whole is None:
        return
    added = whole.added
    if whole.result.type not in (factor, product.accumulator) or whole.result.transposed:
        raise ValueError(f"{where} has a result that no library writes")
    if added is not None and (added.type != whole.result.type or added.transposed):
        raise ValueError(f"{where} adds a matrix that does not fit")
    if not whole.scale or (abs(whole.scale) != 1 and (added is not None or whole.bias is not None)):
        raise ValueError(f"{where} may round a factor and a sum together, or scales by zero")


def check_finish(finish: FinishPlan, where: str, operands: int) -> None:
    """A kernel that goes on with sums of a launch that has so many operands."""
    if finish.operands.count(SUMS) != 1 or max(finish.operands) >= operands:
        raise ValueError(f"{where} takes on {finish.operands.count(SUMS)} sums, and operands of {operands}")


def _check_operand(number: int, where: str, access: Sequence[str], expected: Sequence[str]) -> None:
    if number >= len(access) or access[number] not in expected:
        raise ValueError(f"{where} is an operand that the kernel does not {expected[0]}")


def _check_matrix(matrix: MatrixPlan, where: str, access: Sequence[str], expected: Sequence[str], levels: int) -> None:
    _check_operand(matrix.operand, where, access, expected)
    if len(matrix.strides) != levels:
        raise ValueError(f"{where} has {len(matrix.strides)} strides for a batch of {levels} levels")


def _check_whole(whole: WholePlan, where: str, access: Sequence[str], levels: int) -> None:
    result, added, bias = whole.result, whole.added, whole.bias
    _check_matrix(result, f"{where}.result", access, ("write", "update"), levels)
    if added is not None:
        _check_matrix(added, f"{where}.added", access, ("read", "update"), levels)
    if bias is not None:
        _check_operand(bias.operand, f"{where}.bias", access, ("read",))
    if bool(whole.sign) != (added is not None):
        raise ValueError(f"{where} adds nothing, or what is not there")
    read = {one.operand for one in (added, bias) if one is not None}
    if sum(one != "read" for one in access) != 1 or any(
        access[number] != "read" and number != result.operand for number in read
    ):
        raise ValueError(f"{where} is not all that the kernel does")
    if access[result.operand] == "update" and added != result:
        raise ValueError(f"{where} writes over what the kernel reads")
