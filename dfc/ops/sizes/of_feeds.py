"""Sizes of a call: which number each symbol of a signature stands for, taken from the shapes of the feeds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from dfc.ir.dims import Dim, Symbol
from dfc.ir.graph import DimCheck, Entry
from dfc_runtime.errors import FeedError

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def bind_sizes(
    entry: Entry, shapes: Sequence[tuple[int, ...] | None], known_sizes: Mapping[str, int]
) -> dict[Symbol, int]:
    """The sizes of a call from the shapes of its feeds (None for text) and the sizes given by name."""
    sizes = {symbol: known_sizes[str(symbol)] for symbol in entry.dims if str(symbol) in known_sizes}
    pairs = list(_axes(entry, shapes))
    waiting = pairs
    while waiting:
        left = [pair for pair in waiting if not _solve(*pair, sizes)]
        if len(left) == len(waiting):
            break
        waiting = left
    missing = [symbol for symbol in entry.dims if symbol not in sizes]
    if missing:
        raise FeedError(f"`{entry.name}` cannot tell the size {missing[0]} from its feeds", code="E0901")
    for dim, size in pairs:
        if dim.evaluate(sizes) != size:
            raise FeedError(
                f"`{entry.name}` wants a size of {dim} = {dim.evaluate(sizes)}, but got {size}", code="E0901"
            )
    check_sizes(entry, entry.checks, sizes)
    return sizes


def check_sizes(entry: Entry, checks: Iterable[DimCheck], sizes: Mapping[Symbol, int]) -> None:
    for check in checks:
        left, right = check.left.evaluate(sizes), check.right.evaluate(sizes)
        if not _RELATIONS[check.relation](left, right):
            text = f"`{entry.name}` wants {check.left} {check.relation} {check.right}, but has {left} and {right}"
            raise FeedError(text, code="E0901", spans=[check.span])


def _axes(entry: Entry, shapes: Sequence[tuple[int, ...] | None]) -> Iterable[tuple[Dim, int]]:
    feeds = [value for value in entry.block.parameters if not value.is_token]
    for value, shape, name in zip(feeds, shapes, entry.parameter_names, strict=True):
        if shape is None:
            continue
        if len(shape) != value.tensor.rank:
            raise FeedError(f"`{entry.name}` wants {name}: {value.type}, but got the shape {shape}", code="E0901")
        yield from zip(value.tensor.shape, shape, strict=True)


def _solve(dim: Dim, size: int, sizes: dict[Symbol, int]) -> bool:
    """Finds the only unknown symbol of `dim = size` if it is linear in it; False if it has to wait."""
    rest = dim.substitute(sizes)
    unknown = rest.symbols()
    if not unknown:
        return True
    if len(unknown) > 1:
        return False
    (symbol,) = unknown
    offset = rest.substitute({symbol: 0}).constant
    step = rest.substitute({symbol: 1}).constant
    if offset is None or step is None or step == offset:
        return False
    if rest != (step - offset) * Dim((((symbol,), 1),)) + offset:
        return False
    value, remainder = divmod(size - offset, step - offset)
    if remainder or value < 0:
        raise FeedError(f"a size of {size} is not {dim} for any {symbol}", code="E0901")
    sizes[symbol] = value
    return True
