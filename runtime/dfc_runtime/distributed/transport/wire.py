"""Messages of calls: their first bytes, and values of known types behind them.

Assumes that both ends have the same signatures, and says so in no byte: a message has sizes, scalars, shapes and the
data of small arrays, in their order. Guarantees that large arrays travel by themselves, out of and into their own
memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from dfc_runtime.calls.element_types import SLOT_FORMATS, numpy_dtype
from dfc_runtime.calls.scalars import Slot, slot_format
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.transport.comm import Array, Bytes, as_bytes

CALL, COMMAND, OUTCOME, CLOSE, DONE, FAILED, STOPPED, SILENT_CALL, RELAYED_CALL, RELAYED_COMMAND = range(10)
"""Kinds of messages: from the client, and answers to it. A silent call is answered only if it fails; what is
relayed goes on to other ranks (`dfc_runtime.distributed.relays`)."""
INLINE = 16 << 10
"""Arrays of up to so many bytes travel in the message."""
_ALIGNMENT = 16
_HEAD = struct.Struct("<BxHIQ")
_LENGTH = struct.Struct("<q")
HEAD_SIZE = _HEAD.size


class Head(NamedTuple):
    """`number` is that of the entry; `generation` tells messages of calls that failed from those of later ones."""

    kind: int
    number: int = 0
    generation: int = 0
    sequence: int = 0

    def packed(self) -> bytearray:
        return bytearray(_HEAD.pack(*self))


def head_of(buffer: Bytes) -> Head:
    return Head._make(_HEAD.unpack_from(buffer.data, 0))


_SERVES, _CALLS = b"\1", b"\0"


def joining(label: str | None) -> Bytes:
    """The message of a rank that calls something, by its label; None: it serves from now on."""
    return np.frombuffer(_SERVES if label is None else _CALLS + label.encode(), np.uint8)


def called(message: Bytes) -> str | None:
    """What such a message says."""
    content = message.tobytes()
    return None if content[:1] == _SERVES else content[1:].decode()


@dataclass(frozen=True, slots=True)
class Member:
    """A value of a message: a text, a scalar, or an array of a rank."""

    dtype: str
    rank: int
    is_text: bool = False

    @property
    def is_scalar(self) -> bool:
        return not self.rank and not self.is_text


Value = Slot | str | Array
_PLAIN: frozenset[type] = frozenset({np.float32, np.float64, np.int32, np.int64, np.bool_})


class Codec:
    """Messages of so many sizes and these values."""

    def __init__(self, sizes: int, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        scalars = [each.dtype for each in members if each.is_scalar]
        self._sizes = sizes
        self._fixed = struct.Struct("<" + "q" * sizes + "".join(map(slot_format, scalars)))
        self._types = [numpy_dtype(dtype) for dtype in scalars]
        self.only_scalars = len(scalars) == len(self.members)
        self._has_none = not sizes and not self.members

    def values_of(self, results: Sequence[object]) -> list[Value]:
        """Results of an entry as values to pack."""
        return [
            value if is_array(value) else slot_of(member.dtype, value)
            for member, value in zip(self.members, results, strict=True)
        ]

    def pack(self, message: bytearray, sizes: Sequence[int], values: Sequence[Value]) -> list[Array]:
        """Adds to a message that has its head. Arrays that are to be sent behind it come back."""
        if self._has_none:
            return []
        if self.only_scalars:
            message += self._fixed.pack(*sizes, *values)
            return []
        pairs = list(zip(self.members, values, strict=True))
        message += self._fixed.pack(*sizes, *(value for member, value in pairs if member.is_scalar))
        behind: list[Array] = []
        for member, value in pairs:
            if isinstance(value, str):
                text = value.encode()
                message += _LENGTH.pack(len(text)) + text
            elif isinstance(value, np.ndarray) and member.rank:
                message += struct.pack(f"<{member.rank}q", *value.shape)
                if value.nbytes > INLINE:
                    behind.append(value)
                elif value.nbytes:
                    message += bytes(-len(message) % _ALIGNMENT)
                    message += as_bytes(np.ascontiguousarray(value)).data
        return behind

    def unpack(self, buffer: Bytes) -> tuple[tuple[int, ...], list[object], list[Array]]:
        """Sizes, values, and those of them that are arrays whose data is still to come."""
        if self._has_none:
            return (), [], []
        fixed = self._fixed.unpack_from(buffer.data, HEAD_SIZE)
        sizes = fixed[: self._sizes]
        numbers = [_scalar(kind, slot) for kind, slot in zip(self._types, fixed[self._sizes :], strict=True)]
        if self.only_scalars:
            return sizes, numbers, []
        scalars = iter(numbers)
        offset = HEAD_SIZE + self._fixed.size
        values: list[object] = []
        behind: list[Array] = []
        for member in self.members:
            if member.is_scalar:
                values.append(next(scalars))
            elif member.is_text:
                (length,) = _LENGTH.unpack_from(buffer.data, offset)
                offset += _LENGTH.size
                values.append(buffer[offset : offset + length].tobytes().decode())
                offset += length
            else:
                array, offset = _array(member, buffer, offset)
                values.append(array)
                if array.nbytes > INLINE:
                    behind.append(array)
        return sizes, values, behind


def is_array(value: object) -> TypeGuard[Array]:
    """Whether it is an array, and not of rank 0."""
    return isinstance(value, np.ndarray) and value.ndim > 0


def _array(member: Member, buffer: Bytes, offset: int) -> tuple[Array, int]:
    """The array at a place of a message, and the place behind it. That of a large one is empty memory."""
    shape: tuple[int, ...] = struct.unpack_from(f"<{member.rank}q", buffer.data, offset)
    offset += 8 * member.rank
    array = np.empty(shape, numpy_dtype(member.dtype))
    if 0 < array.nbytes <= INLINE:
        offset += -offset % _ALIGNMENT
        np.copyto(as_bytes(array), buffer[offset : offset + array.nbytes])
        offset += array.nbytes
    return array, offset


def _scalar(kind: np.dtype[np.generic], slot: Slot) -> object:
    """A number as NumPy has it: of the very type."""
    return np.frombuffer(slot, kind, 1)[0] if isinstance(slot, bytes) else kind.type(slot)


def slot_of(dtype: str, value: object) -> Slot:
    """What `Codec` packs for a scalar of NumPy."""
    if type(value) in _PLAIN:
        return value  # type: ignore[return-value]  # what `struct` takes as it is
    array = np.asarray(value, numpy_dtype(dtype))
    if dtype in SLOT_FORMATS:
        number = array.item()
        assert isinstance(number, bool | int | float)
        return number
    return array.tobytes()


def as_message(message: bytearray) -> Bytes:
    return np.frombuffer(message, np.uint8)
