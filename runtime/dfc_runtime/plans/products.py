"""The part of a plan that says what product of matrices a kernel is, for a library that may make it instead.

    {"rows": ["$d0"], "columns": 32, "depth": 64, "batch": [], "accumulator": "f32", "rounds": false,
     "first": {"operand": 1, "type": "f32", "transposed": true, "leading": 32, "strides": [], "offset": 0}, ...,
     "whole": {"result": {...}, "scale": 1.0, "bias": {"operand": 2, "offset": 0}},
     "finish": {"kernel": 7, "operands": [-1, 2, 3], "sizes": [["$d0"]]}, "sums": "f32"}

The terms are those of `products` and `splitting`. Assumes nothing of the JSON. Guarantees that operands exist and are
only read, or written, as they should be, that types fit each other, and that formulas are over the sizes of the kernel;
what does not is a `ValueError` of one line. Needs neither the compiler nor NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dfc_runtime.calls.formulas import Formula, from_json
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import Record, integer, shown, text

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
    """All that the kernel does: result = scale * product + sign * added + bias."""

    result: MatrixPlan
    scale: float
    sign: int
    added: MatrixPlan | None
    bias: BiasPlan | None


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """The kernel that takes on sums that lie together by columns, matrix after matrix: its number, the operands of the
    product's launch that it is given (`SUMS`: the sums), and its sizes."""

    kernel: int
    operands: tuple[int, ...]
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
    is_rounding: bool
    first: MatrixPlan
    second: MatrixPlan
    whole: WholePlan | None
    finish: FinishPlan | None
    sums: str

    def formulas(self) -> list[Formula]:
        formulas = [self.rows, self.columns, self.depth, *self.batch]
        matrices = [self.first, self.second]
        if self.whole is not None:
            matrices += [one for one in (self.whole.result, self.whole.added) if one is not None]
            formulas += [self.whole.bias.offset] if self.whole.bias is not None else []
        for one in matrices:
            formulas += (one.leading, *one.strides, one.offset)
        return formulas + list(self.finish.sizes if self.finish is not None else ())


def read_product(value: object, where: str, access: Sequence[str]) -> ProductPlan:
    """`access` says what the kernel does with each of its operands."""
    record = Record(value, where)
    batch = record.list("batch", from_json)
    if len(batch) > MOST_LEVELS:
        raise ValueError(f"{where} has a batch of {len(batch)} levels")
    reader = _Matrices(access, len(batch))
    plan = ProductPlan(
        rows=_formula(record, "rows"),
        columns=_formula(record, "columns"),
        depth=_formula(record, "depth"),
        batch=batch,
        accumulator=record.text("accumulator"),
        is_rounding=record.flag("rounds"),
        first=reader.matrix(record.get("first"), f"{where}.first", ("read", "update")),
        second=reader.matrix(record.get("second"), f"{where}.second", ("read", "update")),
        whole=record.optional("whole", reader.whole, None),
        finish=record.optional("finish", reader.finish, None),
        sums=record.optional("sums", text, ""),
    )
    record.done()
    _check_types(plan, where)
    if plan.whole is None and plan.finish is None:
        raise ValueError(f"{where} is neither whole nor finished")
    return plan


def _check_types(product: ProductPlan, where: str) -> None:
    factor = product.first.type
    if factor != product.second.type or factor not in FACTORS.get(product.accumulator, ()):
        raise ValueError(f"{where} multiplies {shown(factor)} and {shown(product.second.type)}")
    if product.sums not in ((factor, product.accumulator) if product.finish is not None else ("",)):
        raise ValueError(f"{where} has sums of the type {shown(product.sums)}")
    whole = product.whole
    if whole is None:
        return
    added = whole.added
    if whole.result.type not in (factor, product.accumulator) or whole.result.transposed:
        raise ValueError(f"{where} has a result that no library writes")
    if added is not None and (added.type != whole.result.type or added.transposed):
        raise ValueError(f"{where} adds a matrix that does not fit")
    if abs(whole.scale) != 1 and (added is not None or whole.bias is not None):
        raise ValueError(f"{where} may round a factor and a sum together")


def _formula(record: Record, key: str) -> Formula:
    return from_json(record.get(key), record.field_path(key))


def _scale(value: object, where: str) -> float:
    """A library leaves a product out that is scaled by zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not value:
        raise ValueError(f"{where} is no finite number other than zero")
    return float(value)


def read_finish(value: object, where: str, operands: int) -> FinishPlan:
    """A kernel that goes on with sums of a launch that has so many operands."""
    inner = Record(value, where)
    plan = FinishPlan(
        kernel=inner.integer("kernel"),
        operands=inner.list("operands", lambda each, path: integer(each, path, SUMS, operands - 1)),
        sizes=inner.list("sizes", from_json),
    )
    inner.done()
    if plan.operands.count(SUMS) != 1:
        raise ValueError(f"{where} takes on {plan.operands.count(SUMS)} sums")
    return plan


class _Matrices:
    """Reads what mentions operands of one kernel; matrices with a stride for each of so many levels."""

    def __init__(self, access: Sequence[str], levels: int) -> None:
        self._access, self._levels = access, levels

    def matrix(self, value: object, where: str, expected: Sequence[str]) -> MatrixPlan:
        inner = Record(value, where)
        plan = MatrixPlan(
            operand=self._operand(inner, expected),
            type=inner.text("type"),
            transposed=inner.flag("transposed"),
            leading=_formula(inner, "leading"),
            strides=inner.list("strides", from_json),
            offset=_formula(inner, "offset"),
        )
        inner.done()
        if len(plan.strides) != self._levels:
            raise ValueError(f"{where} has {len(plan.strides)} strides for a batch of {self._levels} levels")
        return plan

    def whole(self, value: object, where: str) -> WholePlan:
        inner = Record(value, where)
        result = self.matrix(inner.get("result"), f"{where}.result", ("write", "update"))
        scale = _scale(inner.get("scale"), f"{where}.scale")
        added = inner.optional("added", lambda each, path: self.matrix(each, path, ("read", "update")), None)
        sign = inner.integer("sign", -1, 1) if added is not None else 0
        plan = WholePlan(result, scale, sign, added, inner.optional("bias", self._bias, None))
        inner.done()
        if added is not None and not sign:
            raise ValueError(f"{where} adds nothing")
        read = {one.operand for one in (added, plan.bias) if one is not None}
        if sum(one != "read" for one in self._access) != 1 or any(
            self._access[number] != "read" and number != result.operand for number in read
        ):
            raise ValueError(f"{where} is not all that the kernel does")
        if self._access[result.operand] == "update" and added != result:
            raise ValueError(f"{where} writes over what the kernel reads")
        return plan

    def finish(self, value: object, where: str) -> FinishPlan:
        return read_finish(value, where, len(self._access))

    def _bias(self, value: object, where: str) -> BiasPlan:
        inner = Record(value, where)
        plan = BiasPlan(self._operand(inner, ("read",)), _formula(inner, "offset"))
        inner.done()
        return plan

    def _operand(self, record: Record, expected: Sequence[str]) -> int:
        number = record.integer("operand", high=max(len(self._access) - 1, 0))
        if number >= len(self._access) or self._access[number] not in expected:
            raise ValueError(f"{record.where} is an operand that the kernel does not {expected[0]}")
        return number
