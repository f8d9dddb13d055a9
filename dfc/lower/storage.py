"""Buffer views: where values are in memory while kernels are made, before the arena is planned."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.ir.dtypes import DType
from dfc.kernels.program import BufferRole

TYPICAL = 64
"""The value of every symbol when sizes that are no constants are compared."""


class Storage:
    """One piece of memory. Storages compare by identity; `dfc.lower.buffers` gives those in the arena an offset."""

    __slots__ = ("dtype", "index", "name", "resource", "role", "shape")

    def __init__(
        self, role: BufferRole, dtype: DType, shape: tuple[Dim, ...], name: str, *, index: int = -1, resource: str = ""
    ) -> None:
        self.role = role
        self.dtype = dtype
        self.shape = shape
        self.name = name
        self.index = index
        self.resource = resource

    def __repr__(self) -> str:
        return f"<{self.role.value} {self.name}>"


def fresh(dtype: DType, shape: tuple[Dim, ...], name: str) -> Storage:
    """Memory of the call: a register for a scalar, else a piece of the arena."""
    return Storage(BufferRole.ARENA if shape else BufferRole.REGISTER, dtype, shape, name)


@dataclass(frozen=True, slots=True)
class BufferView:
    """A storage seen with some shape of the same number of elements, row-major."""

    storage: Storage
    shape: tuple[Dim, ...]

    @property
    def whole(self) -> bool:
        return self.shape == self.storage.shape

    @property
    def dtype(self) -> DType:
        return self.storage.dtype


def whole_view(storage: Storage) -> BufferView:
    return BufferView(storage, storage.shape)


def typical(size: Dim) -> int:
    """A number to compare sizes by."""
    constant = size.constant
    if constant is not None:
        return constant
    return size.evaluate(dict.fromkeys(size.symbols(), TYPICAL))


def typical_bytes(storage: Storage) -> int:
    """The bytes of a storage, as `typical` counts."""
    return typical(product(storage.shape)) * storage.dtype.size
