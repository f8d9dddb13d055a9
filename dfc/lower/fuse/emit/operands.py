"""Operand slots of a kernel that is being made: numbered by first use, with the access each needs."""

from __future__ import annotations

from dfc.kernels.form import Operand
from dfc.lower.storage import BufferView


class Slots:
    """Views become slots; one that is read and written becomes one slot with access `update`."""

    def __init__(self) -> None:
        self._numbers: dict[BufferView, int] = {}
        self._read: set[int] = set()
        self._written: set[int] = set()

    def read(self, view: BufferView) -> int:
        number = self._numbers.setdefault(view, len(self._numbers))
        self._read.add(number)
        return number

    def write(self, view: BufferView) -> int:
        number = self._numbers.setdefault(view, len(self._numbers))
        self._written.add(number)
        return number

    @property
    def views(self) -> tuple[BufferView, ...]:
        return tuple(self._numbers)

    def operands(self) -> tuple[Operand, ...]:
        return tuple(Operand(p.dtype, p.shape, self._access(n)) for p, n in self._numbers.items())

    def _access(self, number: int) -> str:
        if number in self._read:
            return "update" if number in self._written else "read"
        return "write"
