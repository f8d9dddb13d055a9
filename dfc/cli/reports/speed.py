"""What a measured entry says of its speed: each kernel with its time, its work, and the machine's limit for that work.

Assumes a meter that has seen some calls of an entry with given sizes. Guarantees that a kernel's limit is the longer of
two times: what its operations take at the rate of multiply-adds in registers, and what its bytes take at the rate of a
copy of that size, from a cache where they fit into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc.bundle.target import Limits
from dfc.cli.tables import seconds, table
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats.manifest import Entry, HostSite
from dfc_runtime.observe.kernel_times import BYTES, OPERATIONS, Meter

Array = NDArray[np.generic]
SEED = 0
SMALLEST_COPY = 1 << 14
"""Bytes: below it a copy is measured as one of this size, and from there on in sizes that double."""
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class KernelSpeed:
    """One kernel of a call: seconds of a launch, how often it is launched in a call, and what a launch does and moves
    at least, where its sizes are known. `limit` are the seconds that this would take at the machine's limit, which is
    that of `bound`: operations or bytes."""

    location: str
    names: tuple[str, ...]
    seconds: float
    times: float
    operations: int | None
    bytes: int | None
    limit: float | None = None
    bound: str = ""

    @property
    def total(self) -> float:
        """Seconds of a call."""
        return self.seconds * self.times

    @property
    def share_of_limit(self) -> float | None:
        """How much of what the machine can do the kernel reaches."""
        return None if self.limit is None or not self.seconds else self.limit / self.seconds


def known_sizes(entry: Entry, feeds: Mapping[str, object], stated: Mapping[str, int]) -> dict[str, int]:
    """The sizes of an entry that follow from the feeds, and those that are given."""
    sizes = dict(stated)
    for parameter in entry.parameters:
        fed = feeds.get(parameter.name)
        if isinstance(fed, np.ndarray):
            pairs = zip(parameter.shape, np.shape(cast("Array", fed)), strict=False)
            sizes |= {formula.symbol: extent for formula, extent in pairs if formula.symbol is not None}
    return sizes


def missing_sizes(entry: Entry, feeds: Mapping[str, object], sizes: Mapping[str, int]) -> list[str]:
    """The sizes that feeds cannot be made without."""
    open_shapes = (each.shape for each in entry.parameters if each.name not in feeds)
    return sorted({name for shape in open_shapes for size in shape for name in size.symbols()} - {*sizes})


def generated_feeds(entry: Entry, feeds: Mapping[str, object], sizes: Mapping[str, int]) -> dict[str, object]:
    """All feeds: where none is given, normally distributed floats, and zeros of other types."""
    generator = np.random.default_rng(SEED)
    values = dict(feeds)
    for parameter in entry.parameters:
        if parameter.name not in values and not parameter.is_text:
            shape = tuple(formula.evaluate(sizes) for formula in parameter.shape)
            values[parameter.name] = _array(generator, parameter.dtype, shape)
    return values


def _array(generator: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype.startswith(("f", "bf", "c")):
        return generator.standard_normal(shape, np.float32).astype(numpy_dtype(dtype))
    return np.zeros(shape, numpy_dtype(dtype))


def kernel_speeds(meter: Meter, calls: int, sizes: Mapping[str, int], limits: Limits | None) -> list[KernelSpeed]:
    """The kernels of a call, those that take longest first."""
    bandwidth = None if limits is None else cache(limits.bandwidth)
    rows: list[KernelSpeed] = []
    for site, took, launches in meter.kernels():
        operations, moved = _work(site, OPERATIONS, sizes), _work(site, BYTES, sizes)
        limit, bound = None, ""
        if limits is not None and bandwidth is not None and operations is not None and moved is not None:
            by_operations, by_bytes = operations / limits.operations, moved / bandwidth(_copy_size(moved))
            limit, bound = max((by_operations, "operations"), (by_bytes, "bytes"))
        location = f"{site.location.name}:{site.location.line}"
        rows.append(KernelSpeed(location, site.names, took, launches / calls, operations, moved, limit, bound))
    return sorted(rows, key=lambda each: -each.total)


def _copy_size(size: int) -> int:
    """The next size that is measured: few are, since that takes time."""
    return max(SMALLEST_COPY, 1 << (size - 1).bit_length() if size else 0)


def _work(site: HostSite, name: str, sizes: Mapping[str, int]) -> int | None:
    """What a launch does, or moves; None where that depends on sizes that are not known before."""
    tokens = site.attributes.get(name)
    if not isinstance(tokens, tuple):
        return None
    formula = Formula(tuple(int(token) if token.lstrip("-").isdigit() else token for token in tokens))
    try:
        return formula.evaluate(sizes)
    except (ArithmeticError, KeyError):
        return None


def as_text(head: str, kernels: Sequence[KernelSpeed], call: float, top: int) -> str:
    """The call, then its kernels as a table."""
    inside = sum(each.total for each in kernels)
    rows = [_row(each, call) for each in kernels[:top]]
    lines = [head]
    if rows:
        lines += ["", *table(_HEAD, rows, right=_HEAD[1:-1])]
    if len(kernels) > top:
        rest = sum(each.total for each in kernels[top:])
        more = len(kernels) - top
        lines.append(f"  and {more} more kernel{'s' if more > 1 else ''}, {seconds(rest)} in all")
    outside = max(call - inside, 0.0)
    lines.append(f"  outside of kernels: {seconds(outside)}, {_percent(outside / call if call else 0)}")
    return "\n".join(lines)


_HEAD = ("line", "time", "share", "times", "operations", "bytes", "op/s", "byte/s", "of limit", "what")


def _row(kernel: KernelSpeed, call: float) -> list[str]:
    share = kernel.share_of_limit
    return [
        kernel.location,
        seconds(kernel.total),
        _percent(kernel.total / call if call else 0),
        f"{kernel.times:.4g}",
        _quantity(kernel.operations),
        _quantity(kernel.bytes),
        _quantity(_rate(kernel.operations, kernel.seconds)),
        _quantity(_rate(kernel.bytes, kernel.seconds)),
        "-" if share is None else f"{_percent(share)} {kernel.bound}",
        kernel.names[-1] + (f" and {len(kernel.names) - 1} more" if len(kernel.names) > 1 else "")
        if kernel.names
        else "",
    ]


def _rate(amount: int | None, took: float) -> float | None:
    return None if amount is None or not took else amount / took


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _quantity(amount: float | None) -> str:
    """A number with three digits that count."""
    if amount is None:
        return "-"
    amount = float(f"{amount:.3g}")
    for scale, unit in _UNITS:
        if amount >= scale:
            return f"{amount / scale:.3g} {unit}"
    return f"{amount:.0f}"
