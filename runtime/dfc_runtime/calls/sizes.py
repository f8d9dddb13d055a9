"""The sizes of a call: dims from the shapes of feeds, the checks of the entry, shapes of results, memory.

Assumes shapes of NumPy arrays. Guarantees that all arithmetic is unbounded, that every formula of the signature agrees
with the shapes, and that memory is compared with the limit before it is allocated. What is wrong is a `FeedError` that
names the feeds, or a `LimitError`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import field

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.calls.memory import check_limit
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import FeedError, LimitError, RunError
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import LARGEST
from dfc_runtime.formats.manifest import Entry, Result, SizeCheck
from dfc_runtime.kinds import brief

Shape = tuple[int, ...]
_RELATIONS = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True, slots=True)
class CallSizes:
    """What one combination of shapes comes to."""

    dims: tuple[int, ...]
    result_shapes: tuple[Shape, ...]
    arena: int
    by_name: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)


def plan(entry: Entry, shapes: Sequence[Shape], known_dims: Mapping[str, int], limit: int, in_use: int) -> CallSizes:
    """The sizes of a call with feeds of these shapes. `in_use` are bytes the program holds anyway."""
    sizes = _solve(entry, shapes, known_dims)
    for check in entry.checks:
        _verify(entry, check, sizes)
    results = tuple(_result_shape(entry, result, sizes) for result in entry.results)
    arena = _value(entry, entry.arena, sizes)
    if not arena >= 0:
        raise LimitError(f"`{entry.name}` has no memory plan for {_listed(sizes)}", code="E0905")
    stored = sum(SIZES[r.dtype] * math.prod(shape) for r, shape in zip(entry.results, results, strict=True))
    culprits = f" (largest: {', '.join(entry.peak_names[:3])})" if entry.peak_names else ""
    with_dims = f" with {_listed(sizes)}" if sizes else ""
    check_limit(f"`{entry.name}`{with_dims}", arena + stored + in_use, limit, culprits)
    return CallSizes(tuple(sizes[name] for name in entry.slot_dims), results, arena, sizes)


def result_shape(entry: Entry, result: Result, sizes: Mapping[str, int]) -> Shape:
    """The shape of a result once the entry has run: `sizes` holds those that it has found out, too."""
    return _shape(entry, result, sizes)


def declared(entry: Entry) -> str:
    """The line of a message that says where the entry is."""
    return f"\n  the entry is declared at {entry.location.name}:{entry.location.line}"


class _Dims:
    """Dims found so far, and the feed each was found in."""

    def __init__(self, entry: Entry, known_dims: Mapping[str, int]) -> None:
        self.entry = entry
        self.values: dict[str, int] = dict(known_dims)
        self.source_of: dict[str, str] = dict.fromkeys(known_dims, "the feed of that name")

    def bind(self, name: str, value: int, feed: str) -> None:
        known = self.values.setdefault(name, value)
        if known != value:
            where = self.source_of[name]
            text = f"`{self.entry.name}` got feeds whose sizes disagree: `{name}` is {known} in {where} but {value}"
            raise FeedError(f"{text} in {feed}{declared(self.entry)}", code="E0901")
        self.source_of.setdefault(name, feed)


def _solve(entry: Entry, shapes: Sequence[Shape], known_dims: Mapping[str, int]) -> dict[str, int]:
    dims = _Dims(entry, known_dims)
    tensors = [p for p in entry.parameters if p.shape]
    open_: list[tuple[Formula, int, str]] = []
    for parameter, shape in zip(tensors, shapes, strict=True):
        for formula, size in zip(parameter.shape, shape, strict=True):
            if formula.symbol is not None:
                dims.bind(formula.symbol, size, parameter.name)
            else:
                open_.append((formula, size, parameter.name))
    for formula, size, feed in open_:
        _invert(dims, formula, size, feed)
    missing = [name for name in entry.dims if name not in dims.values]
    if missing:
        raise FeedError(f"`{entry.name}` cannot tell the size {missing[0]} from its feeds", code="E0901")
    for formula, size, feed in open_:
        value = _value(entry, formula, dims.values)
        if value != size:
            text = f"`{entry.name}` wants a size of {formula} in {feed}, which is {value} with {_listed(dims.values)}"
            raise FeedError(f"{text}, but got {size}{declared(entry)}", code="E0901")
    return dims.values


def _invert(dims: _Dims, formula: Formula, size: int, feed: str) -> None:
    """Finds the one dim that is unknown in a formula linear in it; that it fits is checked with all the others."""
    unknown = formula.symbols() - dims.values.keys()
    if len(unknown) != 1:
        return
    (name,) = unknown
    try:
        zero, one, two = (formula.evaluate({**dims.values, name: value}) for value in (0, 1, 2))
    except ArithmeticError:
        return
    coefficient = one - zero
    if coefficient and two - one == coefficient and (size - zero) % coefficient == 0:
        dims.bind(name, (size - zero) // coefficient, feed)


def _verify(entry: Entry, check: SizeCheck, sizes: Mapping[str, int]) -> None:
    left, right = _value(entry, check.left, sizes), _value(entry, check.right, sizes)
    if _RELATIONS[check.relation](left, right):
        return
    condition = f"{check.left} {check.relation} {check.right}"
    values = ", ".join(f"{n} = {brief(sizes[n])}" for n in sorted(check.left.symbols() | check.right.symbols()))
    because = f": {check.reason}" if check.reason else ""
    line = f"\n  {check.location}: {check.location.text.strip()}" if check.location.text else f"\n  {check.location}"
    raise FeedError(
        f"`{entry.name}` wants {condition}, but {values}{because}{line}", code="E0901", spans=[check.location]
    )


def _result_shape(entry: Entry, result: Result, sizes: Mapping[str, int]) -> Shape:
    """The shape of a result; one axis with room for all elements it can have, if the entry finds out its sizes."""
    return _shape(entry, result, sizes) if result.most is None else (_value(entry, result.most, sizes),)


def _shape(entry: Entry, result: Result, sizes: Mapping[str, int]) -> Shape:
    shape = tuple(_value(entry, formula, sizes) for formula in result.shape)
    for formula, size in zip(result.shape, shape, strict=True):
        if size < 0:
            text = f"`{entry.name}` would return {result.name} with a size of {formula}, which is {size}"
            raise FeedError(f"{text} with {_listed(sizes)}{declared(entry)}", code="E0901")
    return shape


def _value(entry: Entry, formula: Formula, sizes: Mapping[str, int]) -> int:
    try:
        value = formula.evaluate(sizes)
    except ZeroDivisionError:
        text = f"`{entry.name}` divides by zero in the size {formula} with {_listed(sizes)}"
        raise RunError(text + declared(entry), code="E0903", spans=[entry.location]) from None
    except OverflowError:
        value = LARGEST + 1
    if value > LARGEST:
        raise LimitError(f"`{entry.name}` has a size of {formula}, which no memory holds", code="E0905")
    return value


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {brief(value)}" for name, value in sizes.items())
