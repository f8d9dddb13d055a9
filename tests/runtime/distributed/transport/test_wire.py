"""What messages are made of: values of all types, pieces of arrays, rows of shards, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from dfc_runtime.calls.element_types import numpy_dtype
from dfc_runtime.distributed.failures import failure_from, failure_of
from dfc_runtime.distributed.reduce.pieces import piece, put
from dfc_runtime.distributed.reduce.reduction_plan import dealt
from dfc_runtime.distributed.shards import part_of, put_part
from dfc_runtime.distributed.transport.comm import as_bytes
from dfc_runtime.distributed.transport.compression import compressed, expanded
from dfc_runtime.distributed.transport.waiting import packed, unpacked
from dfc_runtime.distributed.transport.wire import INLINE, Codec, Head, Member, as_message, head_of, slot_of
from dfc_runtime.errors import CheckpointError, RankError, RunError
from dfc_runtime.formats.manifest import SourceLocation
from dfc_runtime.state.state import UnknownStateError

SCALARS = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "c64"]


def sent(codec, sizes, values):
    """What arrives of these values, large arrays filled as messages behind would do it."""
    message = Head(3, 4, 5, 6).packed()
    large = codec.pack(message, sizes, values)
    buffer = as_message(message)
    assert head_of(buffer) == Head(3, 4, 5, 6)
    found_sizes, found, behind = codec.unpack(buffer)
    assert [array.shape for array in behind] == [array.shape for array in large]
    for target, source in zip(behind, large, strict=True):
        np.copyto(target, source)
    return found_sizes, found


@pytest.mark.parametrize("dtype", SCALARS)
def test_scalars_arrive_with_their_type_and_bits(dtype):
    value = np.array(1.5 if dtype not in SCALARS[:9] else 1).astype(numpy_dtype(dtype))[()]
    codec = Codec(0, [Member(dtype, 0), Member(dtype, 0)])
    _, found = sent(codec, (), [slot_of(dtype, value), slot_of(dtype, value)])
    assert [each.dtype for each in found] == [numpy_dtype(dtype)] * 2
    assert all(each.tobytes() == value.tobytes() for each in found)


def test_sizes_texts_and_arrays_keep_their_order():
    codec = Codec(
        2, [Member("f32", 2), Member("text", 0, is_text=True), Member("i64", 0), Member("u8", 1), Member("f64", 3)]
    )
    small, odd = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.uint8)
    large = np.arange(INLINE // 8 + 8, dtype=np.float64).reshape(2, -1, 1)
    sizes, found = sent(codec, (7, -1), [small, "größe\n", 12, odd, large])
    assert sizes == (7, -1)
    assert found[1] == "größe\n"
    assert found[2] == 12
    for got, expected in zip((found[0], found[3], found[4]), (small, odd, large), strict=True):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert got.tobytes() == expected.tobytes()


def test_empty_arrays_and_views_arrive():
    codec = Codec(0, [Member("f32", 2), Member("f32", 2)])
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    _, (empty, found) = sent(codec, (), [np.empty((0, 4), np.float32), turned])
    assert empty.shape == (0, 4)
    assert found.tolist() == turned.tolist()


@pytest.mark.parametrize(("axis", "runs"), [(0, 1), (1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
def test_pieces_are_cut_and_put_together_again(axis, runs, tasks):
    whole = np.arange(24 * 24 * 24).reshape(24, 24, 24)
    again = np.zeros_like(whole)
    seen = []
    for task in range(tasks):
        own = dealt(4, tasks, task)
        part = piece(whole, axis, runs, 4, own)
        assert part.flags.c_contiguous
        assert part.shape == (own[1] - own[0], *(6 if i == axis else 24 for i in range(3)))
        put(again, part, axis, runs, 4, own)
        seen += list(part)
    assert (again == whole).all()
    rows = np.moveaxis(whole, axis, 0).reshape(runs, 4, -1, 24, 24)
    first = np.moveaxis(rows[:, 0].reshape(6, 24, 24), 0, axis)
    assert (seen[0] == first).all()


def test_a_piece_of_the_first_axis_is_no_copy():
    whole = np.arange(24.0).reshape(8, 3)
    assert np.shares_memory(piece(whole, 0, 1, 4, (1, 3)), whole)


@pytest.mark.parametrize("rule", ["modulo", "blocks"])
@pytest.mark.parametrize("axis", [0, 1])
def test_each_row_of_a_shard_lies_in_one_place(rule, axis):
    whole = np.arange(70).reshape(10, 7)
    again = np.zeros_like(whole)
    parts = [part_of(whole, rule, axis, 3, task) for task in range(3)]
    assert sum(part.size for part in parts) == whole.size
    for task, part in enumerate(parts):
        put_part(again, part, rule, axis, 3, task)
    assert (again == whole).all()
    if (rule, axis) == ("modulo", 0):
        assert parts[1].tolist() == whole[1::3].tolist()


def test_compression_cuts_mantissas_and_keeps_what_is_not_a_number():
    values = np.float32([0, -0.0, 1, np.pi, -1e38, 1e-45, np.inf, -np.inf, np.nan])
    hidden = np.array([0x7F800001, 0xFF80FFFF, 0x7FC12345], np.uint32).view(np.float32)
    given = np.concatenate([values, hidden])
    halves = np.empty(given.size * 2, np.uint8)
    compressed(given, halves)
    found = np.empty_like(given)
    expanded(halves, found)
    assert (np.isnan(found) == np.isnan(given)).all()
    numbers = ~np.isnan(given)
    assert (found.view(np.uint32)[numbers] == given.view(np.uint32)[numbers] & 0xFFFF0000).all()
    assert halves.view(ml_dtypes.bfloat16)[3] == np.float32(3.140625)
    assert (np.signbit(found) == np.signbit(given)).all()


@pytest.mark.parametrize(
    "problem",
    [
        RunError("no", code="E0903", spans=[SourceLocation("m.dfg", 3, 4)], values=[7, -1]),
        CheckpointError("gone", code="E0902"),
        RankError("silent", code="E0911"),
    ],
)
def test_errors_arrive_as_what_they_are(problem):
    found = failure_from(unpacked(packed(failure_of(problem, "rank 3").to_json()))).error()
    assert type(found) is type(problem)
    assert (found.code, found.message) == (problem.code, f"{problem.message}\n  on rank 3")
    assert [(each.name, each.line, each.column) for each in found.spans] == [
        (each.name, each.line, each.column) for each in problem.spans
    ]
    assert getattr(found, "values", ()) == getattr(problem, "values", ())


def test_other_errors_arrive_as_the_nearest_known_kind():
    assert failure_of(UnknownStateError("x"), "").error().__class__.__name__ == "FeedError"
    bug = failure_of(ZeroDivisionError("oh"), "rank 1").error()
    assert (str(bug), bug.exit_code) == ("ZeroDivisionError: oh\n  on rank 1", 1)
    full = failure_of(OSError(28, "No space left on device", "out.jsonl"), "rank 1").error()
    assert (str(full), full.exit_code) == ("[E0909] out.jsonl: No space left on device\n  on rank 1", 6)
    assert failure_of(MemoryError(), "").error().exit_code == 7


def test_bytes_of_a_view_that_is_not_whole_are_refused():
    with pytest.raises(AssertionError):
        as_bytes(np.zeros((4, 4))[:, 1:])
