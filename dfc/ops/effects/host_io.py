"""Host output of a program while it runs, and the clock: calls of the host.

    summary_scalar(SummaryAttributes): x[, step], t -> t        t: the token of `@summary`
    summary_histogram(SummaryAttributes): x[, step], t -> t
    debug_print(PrintAttributes): x.., t -> t                   of `@print`
    clock(NoAttributes): x.., t -> nanoseconds, t               of `@clock`; the operands are there by then

Where no run side listens, in the evaluator, there is no output, and the clock is that of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dtypes import I64
from dfc.ir.types import TensorType
from dfc.ops.effects.host_ops import HostOps
from dfc.ops.effects.rules import CLOCK, FOR_PEOPLE
from dfc.ops.record import Array, OpError, Parameter, Sizes
from dfc_runtime.errors import counted
from dfc_runtime.observe.printing import placeholders

NO_GRADIENT = "what is told to the host has no gradient"


@dataclass(frozen=True, slots=True)
class SummaryAttributes(Attributes):
    """`tag` is the name of the series of events."""

    tag: str


@dataclass(frozen=True, slots=True)
class PrintAttributes(Attributes):
    """`format` has one `{}` for each operand; `{{` and `}}` stand for braces."""

    format: str


def _infer_scalar(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    if types and types[0].shape:
        raise OpError(
            "E0313",
            "`summary.scalar` wants a single number",
            blame=0,
            label=str(types[0]),
            helps=("write `mean({0})`", "or `summary.histogram` for the distribution of all"),
            replaces={0: 0},
        )
    return _infer_histogram(types, attributes)


def _infer_histogram(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    if not 1 <= len(types) <= 2:
        raise OpError("E0204", f"a summary is of one value and one step, not of {len(types)} values")
    if len(types) == 2 and (types[1].shape or not types[1].machine.is_integer):
        raise OpError("E0302", "a step is a single whole number", blame=1, label=str(types[1]))
    return ()


def _infer_print(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, PrintAttributes)
    try:
        count = placeholders(attributes.format)
    except ValueError as problem:
        raise OpError("E0315", str(problem), blame="format") from None
    if count != len(types):
        expected, actual = counted(count or "no", "value"), counted(len(types) or "no", "value")
        raise OpError("E0204", f"the format has room for {expected}, but {actual} follow it", blame="format")
    return ()


def _infer_clock(_types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (TensorType(I64),)


def _silent(_operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    return ()


def _now(_operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    return (np.array(time.monotonic_ns(), np.int64),)


_SUMMARY = HostOps("host", "@summary", NO_GRADIENT, _silent, FOR_PEOPLE)
_PRINT = HostOps("host", "@print", NO_GRADIENT, _silent, FOR_PEOPLE)
_CLOCK = HostOps("host", "@clock", NO_GRADIENT, _now, CLOCK)
_VALUES = (Parameter("values", "tensors"),)
STEP = "a step is a whole number; without one it is the number of calls of the entry before this one."
_SUMMARY.register(
    "summary_scalar",
    "Adds a number to the series of its tag.",
    "proc summary_scalar[T: any](const tag: str, x: T, step: i64)",
    _VALUES,
    _infer_scalar,
    SummaryAttributes,
    ("one number.", STEP),
)
_SUMMARY.register(
    "summary_histogram",
    "Adds the distribution of the elements of a tensor to the series of its tag.",
    "proc summary_histogram[T: any, ..S](const tag: str, x: T[..S], step: i64)",
    _VALUES,
    _infer_histogram,
    SummaryAttributes,
    (STEP,),
)
_PRINT.register(
    "debug_print",
    "Prints a line on the standard error, with the values in place of `{}`.",
    "proc debug_print(const format: str, values: tensors)",
    _VALUES,
    _infer_print,
    PrintAttributes,
    ("one `{}` for each value; `{{` and `}}` are braces.",),
)
_CLOCK.register(
    "clock",
    "Nanoseconds of a clock that never goes back; only differences mean something.",
    "proc clock() -> i64",
    _VALUES,
    _infer_clock,
    NoAttributes,
)
