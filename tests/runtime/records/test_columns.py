"""Many records at once are each of them by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfc_runtime.errors import RecordError
from dfc_runtime.records import columns as module
from dfc_runtime.records.columns import alike, columns
from dfc_runtime.records.example import Values, decode_example, encode_example
from dfc_runtime.records.framing import Frames
from tests.runtime.records.test_framing import frames_of
from tests.support.example_messages import UNPACKED
from tests.support.sweeping import examples

INTEGERS = st.integers(-3, 400).map(lambda n: np.array([n]))
EXAMPLES = st.lists(
    st.fixed_dictionaries(
        {"label": INTEGERS, "image": st.binary(min_size=3, max_size=3)},
        optional={"more": st.lists(st.integers(0, 300), max_size=3).map(lambda v: np.array(v, np.int64))},
    ).map(encode_example),
    max_size=30,
)


def values_of(frames: Frames) -> dict[int, dict[str, list[object]]]:
    """Every record by its row, read in groups."""
    result: dict[int, dict[str, list[object]]] = {}
    for group in alike(frames):
        assert group.problem is None
        for name, layout in group.features.items():
            if layout.kind == "bytes":
                parts = [[row[s.begin : s.end].tobytes() for s in layout.spans] for row in group.data]
            else:
                ends = np.cumsum(group.counts(name)[:-1]) if layout.kind else np.zeros(len(group.rows) - 1, int)
                numbers = group.numbers(name) if layout.kind else np.zeros(0)
                parts = [part.tolist() for part in np.split(numbers, ends)]
            for row, part in zip(group.rows.tolist(), parts, strict=True):
                result.setdefault(row, {})[name] = part
        for row in group.rows.tolist():
            result.setdefault(row, {})
    return result


def listed(features: dict[str, Values]) -> dict[str, list[object]]:
    return {name: values if isinstance(values, list) else values.tolist() for name, values in features.items()}


@settings(max_examples=examples(60))
@given(EXAMPLES, st.integers(1, 20))
def test_groups_give_what_each_record_is_by_itself(records: list[bytes], layouts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_LAYOUTS", layouts)
        read = values_of(frames_of(records))
    assert read == {row: listed(decode_example(record)) for row, record in enumerate(records)}


def test_numbers_that_are_not_packed_are_read_as_well() -> None:
    message = UNPACKED()
    message.features.feature.add(key="n").value.int64_list.value.extend([1, 300])
    message.features.feature.add(key="f").value.float_list.value.extend([0.5, 2])
    data = message.SerializeToString()
    other = data.replace(b"\x08\x01", b"\x08\x02")
    assert values_of(frames_of([data, other, data])) == {
        0: {"n": [1, 300], "f": [0.5, 2]}, 1: {"n": [2, 300], "f": [0.5, 2]}, 2: {"n": [1, 300], "f": [0.5, 2]},
    }  # fmt: skip


def test_records_of_one_source_are_one_group() -> None:
    records = [encode_example({"x": np.float32([n, -n]), "label": np.array([n])}) for n in range(100)]
    (group,) = alike(frames_of(records))
    assert group.lists("x").tolist() == [[n, -n] for n in range(100)]
    assert group.lists("label").tolist() == [[n] for n in range(100)]


def test_columns_have_a_row_for_each_record_in_their_order() -> None:
    rng = np.random.default_rng(4)
    labels, images = rng.integers(-5, 300, 50), rng.integers(0, 256, (50, 7), np.uint8)
    records = [encode_example({"label": labels[n : n + 1], "image": images[n].tobytes()}) for n in range(50)]
    read = columns(frames_of(records))
    assert np.array_equal(read["label"][:, 0], labels) and read["label"].dtype == np.int64
    assert np.array_equal(read["image"], images)
    assert columns(frames_of([])) == {}


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"x": np.arange(3)}, r"record 1 of the batch: 'x' is not int64\[2\]"),
        ({"x": np.float32([1, 2])}, "'x' is not int64"),
        ({"y": np.arange(2)}, "records do not have the same features: x, y"),
        ({"x": [b"a", b"b"]}, "'x' has 2 texts"),
    ],
)
def test_columns_need_records_of_one_form(second: dict[str, Values], reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        columns(frames_of([encode_example({"x": np.arange(2)}), encode_example(second)]))


def test_a_record_that_is_no_example_is_named() -> None:
    good = encode_example({"x": np.array([300, 5])})
    bad = bytearray(good)
    bad[-1] = 0x80  # the last number does not end
    frames = frames_of([good, bytes(bad), good, b"\x0a\x05"])
    problems = {int(group.rows[0]): group.problem for group in alike(frames) if group.problem is not None}
    assert {row: problem.offset for row, problem in problems.items()} == {1: len(good), 3: 0}
    with pytest.raises(RecordError, match=r"record [13] of the batch is no example"):
        columns(frames)


def test_numbers_of_more_than_64_bits_are_seen_in_any_row() -> None:
    good = encode_example({"x": np.array([-1, -1])})
    bad = bytearray(good)
    bad[-1] = 0x02
    (first, second) = alike(frames_of([good, bytes(bad)]))
    assert first.rows.tolist() == [0] and second.problem is not None and "64 bits" in second.problem.reason
