"""How a batch is cut for entries whose replicas take steps of their own: each block is the batch of one step.

Assumes that the entry has the dimension that is cut. Guarantees that each feed and result has that dimension as one
whole axis, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, CompileError, error
from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Replicate
from dfc.ir.dims import Symbol
from dfc.ir.graph import Entry, Value
from dfc.ir.types import TensorType


def split_axes(names: Sequence[str], values: Sequence[Value], symbol: Symbol) -> dict[str, int]:
    """The axis that is cut, by name, of values that are; -1 for what mentions the size in another way."""
    axes: dict[str, int] = {}
    for name, value in zip(names, values, strict=False):
        if isinstance(value.type, TensorType):
            mentioned = [n for n, axis in enumerate(value.type.shape) if symbol in axis.symbols()]
            if mentioned:
                (axis,) = mentioned if len(mentioned) == 1 else (-1,)
                axes[name] = axis if axis >= 0 and value.type.shape[axis].symbol == symbol else -1
    return axes


def split_symbol(entry: Entry, statement: Replicate) -> Symbol:
    """The dimension that is cut."""
    return next(each for each in entry.dims if str(each) == statement.split)


def check_split(entry: Entry, statement: Replicate, *, is_fed: bool = True) -> None:
    """Refuses what cannot be given out, or put together, block by block; unless it `is_fed` what is cut, steps have
    elements of queues."""
    feeds: dict[str, int] = {}
    results: dict[str, int] = {}
    symbol = split_symbol(entry, statement) if is_fed else None
    if symbol is not None:
        feeds = split_axes(entry.parameter_names, entry.block.parameters, symbol)
        results = split_axes(entry.result_names, entry.block.outputs, symbol)
    wrong = next((name for name, axis in (*feeds.items(), *results.items()) if axis < 0), None)
    if wrong is not None:
        title = f"`{wrong}` has {symbol} in its shape in a way that cannot be cut in the mode `{statement.mode}`"
        raise CompileError([error(NOT_SUPPORTED_YET, title, entry.span, secondary=[asked(statement)])])
    for name, value in zip(entry.result_names, entry.block.outputs, strict=False):
        if statement.mode == "backup" and name in results:
            title = f"`{name}` has a row for each example, and some would be missing in the mode `backup`"
            raise CompileError([error(NOT_SUPPORTED_YET, title, entry.span, secondary=[asked(statement)])])
        if name not in results and not is_float(value):
            title = f"nothing says what `{name}` of several steps is in the mode `{statement.mode}`"
            note = "results of the steps are put together where they have an axis of the batch, else averaged"
            raise CompileError(
                [error(NOT_SUPPORTED_YET, title, entry.span, secondary=[asked(statement)], notes=(note,))]
            )


def is_float(value: Value) -> bool:
    """Whether it can be averaged."""
    return value.tensor.machine.is_float


def asked(statement: Replicate) -> tuple[Span, str]:
    """Where the mode stands, for messages."""
    return statement.setting_span("mode"), "asked for here"
