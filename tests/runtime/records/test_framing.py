"""Frames against their definition, and what is no file of them."""

from __future__ import annotations

import gzip
import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.summary.writer.record_writer import RecordWriter

from dfc_runtime.records.framing import FRAME, HEAD, Frames, check_frames, foreign, frame
from tests.support.record_files import framed, masked_checksum, some_records


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_written_frames_are_those_of_the_definition(records: list[bytes]) -> None:
    assert frame(records) == b"".join(map(framed, records))


def test_frames_are_those_of_another_writer() -> None:
    """TensorBoard's, for event files, which have the same frames."""
    written = io.BytesIO()
    writer = RecordWriter(written)
    for record in some_records(20):
        writer.write(record)
    writer.flush()
    assert frame(some_records(20)) == written.getvalue()


def frames_of(records: list[bytes]) -> Frames:
    lengths = np.array([len(each) for each in records])
    starts = np.cumsum(lengths + FRAME) - lengths - (FRAME - HEAD)
    return Frames(np.frombuffer(bytearray(frame(records)), np.uint8), starts, lengths)


def test_each_fault_is_told_apart() -> None:
    frames = frames_of([b"one", b"two", b"three", b"four"])
    assert not check_frames(frames).any.any()
    frames.data[frames.starts[0]] ^= 1
    frames.data[frames.starts[1] - 1] ^= 1
    frames.lengths[2] -= 1
    faults = check_frames(frames)
    assert faults.is_record_damaged.tolist() == [True, False, True, False]
    assert faults.is_head_damaged.tolist() == [False, True, False, False]
    assert faults.has_other_length.tolist() == [False, False, True, False]


OTHERS = {
    "gzip": (gzip.compress(b"text"), "compressed by gzip"),
    "zlib": (zlib.compress(bytes(100)), "compressed by zlib"),
    "zlib_9": (zlib.compress(bytes(100), 9), "compressed by zlib"),
    "zip": (b"PK\x03\x04" + bytes(20), "a zip or npz archive"),
    "npy": (b"\x93NUMPY\x01\x00" + bytes(20), "a NumPy array"),
    "dfg": (b"dfg 1\n\nentry", "a dfc program"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_known_by_their_first_bytes(name: str) -> None:
    start, kind = OTHERS[name]
    assert kind in foreign(start, "file")


def test_what_to_do_about_a_compressed_file_can_be_typed() -> None:
    assert "gunzip -c 'a b.gz' > NEW.rec" in foreign(gzip.compress(b"text"), "a b.gz")
    assert "gunzip -c a.tar.gz > NEW.tar" in foreign(gzip.compress(b"text"), "a.tar.gz")
    assert "'a\\nb'" in foreign(gzip.compress(b"text"), "a\nb")


@given(st.binary(min_size=0, max_size=50))
def test_frames_are_never_taken_for_another_file(record: bytes) -> None:
    assert foreign(framed(record), "file") == ""


def test_a_frame_whose_length_looks_like_gzip_is_a_frame() -> None:
    length = (0x088B1F).to_bytes(8, "little")
    assert foreign(length + bytes(4), "file").startswith("it is compressed by gzip")
    assert foreign(length + masked_checksum(length).to_bytes(4, "little"), "file") == ""
