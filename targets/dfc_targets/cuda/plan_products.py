"""The part of a plan that says what product of matrices a kernel is, for a library that may make it instead.

    {"rows": ["$d0"], "columns": 32, "depth": 64, "batch": 1, "accumulator": "f32", "epilogue": "none",
     "first": {"operand": 1, "type": "f32", "transposed": true, "leading": 32, "stride": 0, "offset": 0}, ...}

The terms are those of `products`. Assumes nothing of the JSON. Guarantees that operands exist and are only read, or
only written, as they should be, that types fit each other, and that formulas are over the sizes of the kernel; what
does not is a `ValueError` of one line. Needs neither the compiler nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dfc_runtime.formats.fields import Record, shown
from dfc_runtime.formulas import Formula, from_json

FACTORS = {"f32": ("f32", "f16", "bf16"), "f64": ("f64",)}
"""Types of factors by the type of the sums."""

EPILOGUES = ("none", "bias")
"""What is left to the library: of a NaN its relu says nothing, and the language keeps it."""


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """A matrix by columns, in elements of its operand."""

    operand: int
    type: str
    transposed: bool
    leading: Formula
    stride: Formula
    offset: Formula


@dataclass(frozen=True, slots=True)
class BiasPlan:
    """A number for each row, of the type of the result."""

    operand: int
    offset: Formula


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """`batch` products of `rows` x `depth` by `depth` x `columns`, summed in `accumulator`."""

    rows: Formula
    columns: Formula
    depth: Formula
    batch: Formula
    accumulator: str
    first: MatrixPlan
    second: MatrixPlan
    result: MatrixPlan
    bias: BiasPlan | None

    def formulas(self) -> list[Formula]:
        made = [self.rows, self.columns, self.depth, self.batch]
        for one in (self.first, self.second, self.result):
            made += (one.leading, one.stride, one.offset)
        return made + ([self.bias.offset] if self.bias is not None else [])


def read_product(value: object, where: str, access: Sequence[str]) -> ProductPlan:
    """`access` says what the kernel does with each of its operands."""
    record = Record(value, where)
    made = ProductPlan(
        rows=_formula(record, "rows"),
        columns=_formula(record, "columns"),
        depth=_formula(record, "depth"),
        batch=_formula(record, "batch"),
        accumulator=record.text("accumulator"),
        first=_matrix(record, "first", access, "read"),
        second=_matrix(record, "second", access, "read"),
        result=_matrix(record, "result", access, "write"),
        bias=_bias(record, access) if record.has("bias") else None,
    )
    epilogue = record.text("epilogue")
    record.done()
    if epilogue != EPILOGUES[made.bias is not None]:
        raise ValueError(f"{where} has the epilogue {shown(epilogue)}, which does not fit")
    factor = made.first.type
    if factor != made.second.type or factor not in FACTORS.get(made.accumulator, ()):
        raise ValueError(f"{where} multiplies {shown(factor)} and {shown(made.second.type)}")
    if made.result.type not in (factor, made.accumulator) or made.result.transposed:
        raise ValueError(f"{where} has a result that no library writes")
    return made


def _formula(record: Record, key: str) -> Formula:
    return from_json(record.get(key), record.place(key))


def _matrix(record: Record, key: str, access: Sequence[str], wanted: str) -> MatrixPlan:
    inner = Record(record.get(key), record.place(key))
    made = MatrixPlan(
        operand=_operand(inner, access, wanted),
        type=inner.text("type"),
        transposed=inner.flag("transposed"),
        leading=_formula(inner, "leading"),
        stride=_formula(inner, "stride"),
        offset=_formula(inner, "offset"),
    )
    inner.done()
    return made


def _bias(record: Record, access: Sequence[str]) -> BiasPlan:
    inner = Record(record.get("bias"), record.place("bias"))
    made = BiasPlan(_operand(inner, access, "read"), _formula(inner, "offset"))
    inner.done()
    return made


def _operand(record: Record, access: Sequence[str], wanted: str) -> int:
    number = record.integer("operand", high=max(len(access) - 1, 0))
    if number >= len(access) or access[number] != wanted:
        raise ValueError(f"{record.where} is an operand that the kernel does not {wanted}")
    return number
