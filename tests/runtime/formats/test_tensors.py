from __future__ import annotations

import json
import math

import ml_dtypes  # noqa: F401  (registers bfloat16 with NumPy for the independent reader)
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from dfc_runtime.formats.element_types import STORED_SIZES
from dfc_runtime.formats.source import MemorySource
from dfc_runtime.formats.tensors import NewTensor, read_header, write

NAMES = {
    "BOOL": "?",
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
    **{f"{k.upper()}{8 * n}": f"{k}{n}" for k in "iu" for n in (1, 2, 4, 8)},
}
LETTERS = "ab0/. '\"\\\x7f\u00e9\u0301\u2028\u6f22\U0001f600"
"""Of names: what JSON escapes or might, one to four bytes long, and what stands above another letter."""


def parts(header: object, data: bytes = b"") -> bytes:
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(offsets: list[int], shape: list[int], dtype: str = "U8") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@given(
    st.dictionaries(
        st.text(LETTERS, min_size=1, max_size=8),
        st.tuples(st.sampled_from(sorted(NAMES)), st.lists(st.integers(0, 3), max_size=3)),
        max_size=5,
    )
)
def test_the_reference_library_reads_what_is_written(described: dict[str, tuple[str, list[int]]]) -> None:
    arrays = {}
    for name, (dtype, shape) in described.items():
        count = math.prod(shape)
        arrays[name] = (np.arange(count) % 2).astype(NAMES[dtype]).reshape(shape)
    made = [NewTensor(n, described[n][0], a.shape, a.tobytes()) for n, a in arrays.items()]
    data = b"".join(write(made, {"key": "value"}))
    found = safetensors.numpy.load(data)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    header = read_header(MemorySource(data))
    assert header.metadata == {"key": "value"}
    for name, entry in header.tensors.items():
        assert data[entry.offset : entry.offset + entry.size] == arrays[name].tobytes()


def test_files_of_the_reference_library_are_read() -> None:
    arrays = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.zeros((0, 4), "i8"), "c": np.array(True)}
    data = safetensors.numpy.save(arrays, {"x": "y"})
    header = read_header(MemorySource(data))
    assert {name: (t.dtype, t.shape) for name, t in header.tensors.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("I64", (0, 4)),
        "c": ("BOOL", ()),
    }
    start = header.tensors["a"].offset
    np.testing.assert_array_equal(np.frombuffer(data, "f4", 6, start).reshape(2, 3), arrays["a"])


def test_order_of_the_input_does_not_change_the_file() -> None:
    tensors = [NewTensor("b", "U8", (3,), b"abc"), NewTensor("a", "F32", (1,), b"1234"), NewTensor("0", "U8", (), b"x")]
    data = b"".join(write(tensors, {"m": "n", "a": "b"}))
    assert data == b"".join(write(reversed(tensors), {"a": "b", "m": "n"}))
    assert (8 + int.from_bytes(data[:8], "little")) % 64 == 0
    assert data.endswith(b"1234xabc")


def test_sizes_of_all_element_types_are_known() -> None:
    assert {name: size for name, size in STORED_SIZES.items() if name in NAMES} == {
        name: np.dtype(code).itemsize for name, code in NAMES.items()
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too short"),
        (b"1234567", "too short"),
        (parts("{ }")[:-1], "claims 3 bytes"),
        ((2**63).to_bytes(8, "little") + b"{}", "claims 9223372036854775808 bytes"),
        ((2**64 - 1).to_bytes(8, "little") + b"{}", "claims"),
        (parts("[]"), "not a JSON object"),
        (parts(" {}"), "not a JSON object"),
        (parts("{,"), "no valid JSON"),
        (parts('{"a":NaN}'), "NaN"),
        (parts('{"a":1e999}'), "too large"),
        (parts('{"a":{},"a":{}}'), "key twice"),
        (parts('{"__metadata__":{"a":"1","a":"2"}}'), "key twice"),
        (parts('{"a":' + "[" * 200 + "]" * 200 + "}"), "nested too deeply"),
        (parts('{"a":' + "[" * 10**6 + "]" * 10**6 + "}"), "nested too deeply"),
        (parts('{"a":' + "9" * 5000 + "}"), "limit|not an object"),
        (parts({"__metadata__": {"a": 1}}), "__metadata__.a is not text"),
        (parts({"__metadata__": []}), "not an object"),
        (parts({"a": tensor([0, 1], [1]), "extra": 1}, b"x"), "not an object"),
        (parts({"a": {**tensor([0, 1], [1]), "more": 1}}, b"x"), "unknown key more"),
        (parts({"a": {"dtype": "U8", "shape": [1]}}, b"x"), "lacks data_offsets"),
        (parts({"a": tensor([0, 1], [1], "Q8")}, b"x"), "unknown element type Q8"),
        (parts({"a": tensor([0, 1], [-1])}, b"x"), "not a whole number"),
        (parts({"a": tensor([0, 1], [True])}, b"x"), "not a whole number"),
        (parts({"a": tensor([0, 1], [1.0])}, b"x"), "not a whole number"),
        (parts({"a": tensor([1, 0], [1])}, b"x"), "no valid range"),
        (parts({"a": tensor([0, 1, 2], [1])}, b"x"), "no valid range"),
        (parts({"a": tensor([0, 1], [2])}, b"x"), "its shape contradicts"),
        (parts({"a": tensor([0, 1], [1], "F32")}, b"x"), "its shape contradicts"),
        (parts({"a": tensor([0, 4], [2**33, 2**33, 0, 1])}, b"xxxx"), "its shape contradicts"),
        (parts({"a": tensor([0, 1], [1] * 65)}, b"x"), "65 axes"),
        (parts({"a": tensor([1, 2], [1])}, b"xy"), "does not follow"),
        (parts({"a": tensor([0, 2], [2]), "b": tensor([1, 3], [2])}, b"xyz"), "does not follow"),
        (parts({"a": tensor([0, 1], [1])}, b"xy"), "end at byte"),
        (parts({"a": tensor([0, 2], [2])}, b"x"), "end at byte"),
        (parts({}, b"x"), "end at byte"),
        (parts('{"a":"\\ud800"}'), "not an object"),
        ((3).to_bytes(8, "little") + b"{\xff}", "UTF-8"),
    ],
)
def test_a_header_that_is_not_right_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        read_header(MemorySource(data))
    assert "\n" not in str(caught.value)
