"""CRC-32C against its definition, bit by bit, and published values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfc_runtime.records import crc32c as module
from dfc_runtime.records.crc32c import checksums_of_eight, crc32c, crc32c_ranges, masked
from tests.support.sweeping import examples


def by_definition(data: bytes) -> int:
    """RFC 3720, appendix B.4: one bit after the other."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum == by_definition(data)


@settings(max_examples=examples(30))
@given(st.integers(0, 400), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), max_size=12))
def test_ranges_of_a_buffer_anywhere(size: int, ranges: list[tuple[int, int]]) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    inside = [(min(start, size), min(length, size - min(start, size))) for start, length in ranges]
    starts, lengths = (np.array([each[i] for each in inside], np.int64) for i in (0, 1))
    expected = [by_definition(data[start : start + length].tobytes()) for start, length in inside]
    assert crc32c_ranges(data, starts, lengths).tolist() == expected


def test_a_long_range_is_split_and_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LANES", 7)
    monkeypatch.setattr(module, "LONGEST_PIECE", 64)
    data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
    starts, lengths = np.array([3, 0, 17, 4000]), np.array([4321, 64, 65, 0])
    expected = [by_definition(data[a : a + n].tobytes()) for a, n in zip(starts, lengths, strict=True)]
    assert crc32c_ranges(data, starts, lengths).tolist() == expected
    assert crc32c(data[1:].tobytes()) == by_definition(data[1:].tobytes())


def test_eight_bytes_at_every_offset() -> None:
    data = np.random.default_rng(2).integers(0, 256, 40, np.uint8)
    expected = [by_definition(data[at : at + 8].tobytes()) for at in range(33)]
    assert checksums_of_eight(data).tolist() == expected
    assert len(checksums_of_eight(data[:7])) == 0


def test_a_masked_checksum_is_that_of_the_format() -> None:
    """That of no bytes, as it stands behind each empty record that TensorFlow writes, and that of a length of 0."""
    plain = [crc32c(b""), crc32c(bytes(8))]
    assert masked(np.array(plain, np.uint32)).tobytes().hex(" ") == "d8 ea 82 a2 29 03 98 07"
