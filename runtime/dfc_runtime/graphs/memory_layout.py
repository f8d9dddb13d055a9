"""Where the buffers of an entry lie during a call: one block for all that goes to and from the host, the arena, state.

    slots | small feeds | error block | scalar results | small results | registers, counters | large feeds and results
    `------ one copy in -------------'
                         `------------- one copy out -----------------'

The block stands twice, on the device and in pinned memory of the host, with equal offsets. Large tensors are copied by
themselves; tensors of a caller on the device are used where they are, or copied on the device to behind the block.

Assumes a plan that was read. Guarantees that every buffer lies inside its memory, or a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.driver import ON_DEVICE
from dfc_runtime.plans.plan import BufferPlan, EntryPlan

HOST, DIRECT, COPIED = 0, 1, 2
"""Where the caller has a tensor: on the host; on the device, used there; on the device, used as a copy."""

DEVICE_BIT = ON_DEVICE
"""Set in the slot of a tensor of the caller that lies on the device."""

SMALL = 1 << 16
"""The largest tensor that travels together with others."""

SLOT, ITEM, LINE, LARGE = 8, 16, 64, 256
ERROR_VALUES = 32
"""Bytes of the error block that kernels write; the next word is never written by them."""

_VIRTUAL = 1 << 70


@dataclass(frozen=True, slots=True)
class Slot:
    """Memory of the caller on the device: its address is in this slot of the call."""

    number: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the caller that is copied: its slot, its offset in the block, the bytes that it has at most."""

    slot: int
    buffer: BufferPlan
    offset: int
    room: int


class BlockLayout:
    """The block of one combination of sizes. `modes` are `HOST`, `DIRECT` or `COPIED` for each slot."""

    def __init__(self, entry: EntryPlan, sizes: Mapping[str, int], modes: Sequence[int]) -> None:
        self.entry = entry
        self._end = 0
        tensors = {slot: (b, number(b.room, sizes)) for slot, b in slot_buffers(entry).items() if not b.scalar}
        here = [(slot, b, room) for slot, (b, room) in tensors.items() if modes[slot] == HOST]
        small = [each for each in here if each[2] <= SMALL]
        large = [each for each in here if each[2] > SMALL]
        self._take(entry.arguments * SLOT, LINE)
        self.feeds = [self._tensor(*each) for each in small if each[0] < entry.arguments]
        self.error = self._take(LINE, LINE)
        self.feeds_end = self._end
        self._scalars = {
            slot: self._take(ITEM, ITEM)
            for slot, b in slot_buffers(entry).items()
            if b.scalar and slot >= entry.arguments
        }
        self.results = [self._tensor(*each) for each in small if each[0] >= entry.arguments]
        self.results_end = self._end
        self._registers = {n: self._take(ITEM, ITEM) for n, b in enumerate(entry.buffers) if b.role == "register"}
        self.counters = [self._take(ITEM, ITEM) for _ in range(entry.counters)]
        self.large_feeds = [self._tensor(*each, LARGE) for each in large if each[0] < entry.arguments]
        self.large_results = [self._tensor(*each, LARGE) for each in large if each[0] >= entry.arguments]
        self.mirrored = self._take(0, LARGE)
        copied = [(slot, b, room) for slot, (b, room) in tensors.items() if modes[slot] == COPIED]
        self.copied_feeds = [self._tensor(*each, LARGE) for each in copied if each[0] < entry.arguments]
        self.copied_results = [self._tensor(*each, LARGE) for each in copied if each[0] >= entry.arguments]
        self.size = self._take(0, LARGE)
        self._offsets = {each.slot: (each.offset, each.room) for each in self.tensors()}

    def tensors(self) -> Iterator[Tensor]:
        for group in (self.feeds, self.results, self.large_feeds, self.large_results, self.copied_feeds):
            yield from group
        yield from self.copied_results

    def _take(self, size: int, alignment: int) -> int:
        start = -(-self._end // alignment) * alignment
        self._end = start + size
        return start

    def _tensor(self, slot: int, buffer: BufferPlan, room: int, alignment: int = LINE) -> Tensor:
        return Tensor(slot, buffer, self._take(room, alignment), room)

    def scalar_results(self) -> list[tuple[int, int]]:
        """Slot and offset of the results of rank 0."""
        return list(self._scalars.items())

    def offset(self, number: int) -> tuple[int, int] | None:
        """Offset and room of a register, an argument or a result in the block; None: it is not in the block."""
        buffer = self.entry.buffers[number]
        if buffer.role == "register":
            return self._registers[number], ITEM
        slot = slot_of(self.entry, buffer)
        if buffer.scalar:
            return (slot * SLOT, SLOT) if buffer.role == "argument" else (self._scalars[slot], ITEM)
        return self._offsets.get(slot)


def slot_of(entry: EntryPlan, buffer: BufferPlan) -> int:
    return buffer.index + (entry.arguments if buffer.role == "result" else 0)


def slot_buffers(entry: EntryPlan) -> dict[int, BufferPlan]:
    """A buffer for each slot that has one."""
    buffers: dict[int, BufferPlan] = {}
    for buffer in entry.buffers:
        if buffer.role in ("argument", "result"):
            known = buffers.setdefault(slot_of(entry, buffer), buffer)
            if known.scalar != buffer.scalar:
                raise ValueError(f"{buffer.role} {buffer.index} is a scalar and is none")
    return dict(sorted(buffers.items()))


def number(formula: Formula, sizes: Mapping[str, int]) -> int:
    """The value of a size; `ValueError` if it has none or is negative."""
    try:
        value = formula.evaluate(sizes)
    except (ArithmeticError, KeyError) as problem:
        raise ValueError(f"a size of the plan has no value: {problem}") from None
    if not 0 <= value < 1 << 62:
        raise ValueError(f"a size of the plan is {value}")
    return value


def padded(size: int) -> int:
    """Room for so many bytes between addresses that are multiples of `LARGE`."""
    return -(-size // LARGE) * LARGE


@dataclass(frozen=True, slots=True)
class Region:
    """Memory on the device."""

    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Regions:
    """All memory that a call touches; `pinned` is the copy of the block on the host."""

    block: Region
    pinned: int
    arena: Region
    constants: Region
    state: Mapping[str, Region]


class BufferAddresses:
    """Addresses of the buffers in a call."""

    def __init__(self, layout: BlockLayout, regions: Regions) -> None:
        self.layout = layout
        self.regions = regions
        self.entry = layout.entry
        self.error = regions.block.address + layout.error
        self.unwritten = self.error + ERROR_VALUES

    def size(self, number_: int, sizes: Mapping[str, int]) -> int:
        """The bytes of a buffer now; all that it can have where a size is not known yet."""
        buffer = self.entry.buffers[number_]
        return bytes_of(buffer, sizes)

    def find(self, number_: int, size: int, sizes: Mapping[str, int]) -> int | Slot:
        """The address of a buffer that has this size."""
        buffer, regions = self.entry.buffers[number_], self.regions
        match buffer.role:
            case "arena":
                return _inside(regions.arena, number(buffer.offset, sizes), size, "the arena")
            case "constant":
                return _inside(regions.constants, number(buffer.offset, sizes), size, "the constants")
            case "resource":
                return _inside(regions.state[buffer.resource], 0, size, buffer.resource)
            case _:
                known_offset = self.layout.offset(number_)
                if known_offset is None:
                    return Slot(slot_of(self.entry, buffer))
                offset, room = known_offset
                if size > room:
                    raise ValueError(f"{buffer.role} {number_} of {size} bytes has room for {room}")
                return _inside(regions.block, offset, size, "the block")


def bytes_of(buffer: BufferPlan, sizes: Mapping[str, int]) -> int:
    """The bytes of a buffer now; all that it can have where a size is not known yet."""
    known = buffer.bytes.symbols() <= sizes.keys()
    return number(buffer.bytes if known else buffer.room, sizes)


def virtual(slot: Slot) -> int:
    """A number for memory of the caller, beyond all addresses, to tell what overlaps with what."""
    return _VIRTUAL * (slot.number + 1)


def _inside(region: Region, offset: int, size: int, what: str) -> int:
    if offset + size > region.size:
        raise ValueError(f"a buffer of {size} bytes at {offset} leaves {what} of {region.size}")
    return region.address + offset
