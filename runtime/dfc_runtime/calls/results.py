"""Results of an entry: one value, or a tuple whose members have names.

Guarantees tuples like those of `collections.namedtuple`, made without executing generated text.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar


class Results(tuple[object, ...]):
    """Results by position and by name."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def _asdict(self) -> dict[str, object]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({inner})"


def results_type(entry: str, names: Sequence[str]) -> type[Results]:
    """The type of the results of an entry."""
    members: dict[str, object] = {name: property(itemgetter(i)) for i, name in enumerate(names)}
    return type(f"{entry}_results", (Results,), {"__slots__": (), "_fields": tuple(names), **members})
