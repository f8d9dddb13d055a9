"""Columns become the numbers and strings that Python makes of them; what cannot is named by its row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dfc_runtime.records.columnar.columns import NUMBERS, Column, column_of, field_type, numbers_of, strings_of
from dfc_runtime.records.fields import NUMPY_TYPES, Field

LISTS = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]], [[0, 0, 0], [1, 1, 1]]]
FLAT = [[*first, *second] for first, second in LISTS]
FIXED = pa.list_(pa.list_(pa.int16(), 3), 2)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_python(name: str) -> None:
    field = Field("x", NUMBERS[name])
    wanted = np.array([1, 0, 1, 1]).astype(NUMPY_TYPES[field.dtype])
    array = pa.array(wanted).slice(1)
    assert str(array.type) == name
    values, reasons = numbers_of(column_of(field, array.type), array)
    np.testing.assert_array_equal(values, wanted[1:, None], strict=True)
    assert not reasons


@pytest.mark.parametrize(
    ("type_", "shape", "rows"),
    [
        (pa.list_(pa.list_(pa.int16())), (2, 3), LISTS),
        (FIXED, (2, 3), LISTS),
        (pa.large_list(pa.list_(pa.int16(), 3)), (2, 3), LISTS),
        (pa.list_(pa.int16()), (2, 3), FLAT),
        (pa.list_(pa.int16(), 6), (6,), FLAT),
        (pa.list_(pa.list_(pa.dictionary(pa.int8(), pa.int16()))), (2, 3), LISTS),
    ],
)
def test_lists_are_tensors(type_: pa.DataType, shape: tuple[int, ...], rows: list) -> None:
    field = Field("x", "i16", shape)
    array = pa.array(rows, type_).slice(1)
    values, reasons = numbers_of(column_of(field, type_), array)
    np.testing.assert_array_equal(values, np.array(FLAT[1:], np.int16))
    assert not reasons


def test_tensors_of_a_fixed_shape_are_tensors() -> None:
    wanted = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    array = pa.FixedShapeTensorArray.from_numpy_ndarray(wanted)
    values, _ = numbers_of(column_of(Field("x", "f32", (2, 3)), array.type), array)
    np.testing.assert_array_equal(values, wanted.reshape(2, 6))


def test_rows_without_all_of_their_numbers_are_named() -> None:
    rows = [[[1, 2], [3, 4]], None, [[1, 2], None], [[1, 2], [3, None]], [[1], [2, 3]], [[5, 6]], [[5, 6], [7, 8]]]
    for type_ in (pa.list_(pa.list_(pa.int64())), pa.large_list(pa.large_list(pa.int64()))):
        values, reasons = numbers_of(Column(Field("x", "i64", (2, 2)), (2, 2)), pa.array(rows, type_))
        assert values[[0, 6]].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
        assert reasons == {
            1: "the column x is null",
            2: "the column x has a null in its list",
            3: "the column x has a null in its list",
            4: "the column x has a list of 1 value, not 2",
            5: "the column x has a list of 1 value, not 2",
        }
    fixed = pa.array([[1, 2], None, [3, None], [5, 6]], pa.list_(pa.int64(), 2))
    values, reasons = numbers_of(Column(Field("x", "i64", (2,)), (2,)), fixed.slice(1))
    assert values[2].tolist() == [5, 6] and list(reasons) == [0, 1]


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())),
        *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)),
    ],
)
def test_strings_are_bytes(type_: pa.DataType) -> None:
    texts = ["abc", "def", None, "xyz"]
    array = pa.array(texts, pa.string()).cast(pa.binary()).cast(type_) if type_ != pa.binary(3) else None
    array = pa.array([text and text.encode() for text in texts], type_) if array is None else array
    data, begins, ends, reasons = strings_of(column_of(Field("x", "string"), type_), array.slice(1))
    found = [data[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True)]
    assert (found[0], found[2], reasons) == (b"def", b"xyz", {1: "the column x is null"})


def test_records_with_bytes_are_strings() -> None:
    array = pa.array([{"bytes": b"a", "path": "p"}, {"bytes": None, "path": "q"}, None, {"bytes": b"bc", "path": ""}])
    column = column_of(Field("image", "string"), array.type)
    data, begins, ends, reasons = strings_of(column, array)
    assert (column.path, data[begins[3] : ends[3]].tobytes(), list(reasons)) == ("image.bytes", b"bc", [1, 2])


I64 = Field("x", "i64")


@pytest.mark.parametrize(
    ("field", "type_", "reason"),
    [
        (I64, pa.int32(), "x is int32, and i64 is wanted: declare x = i32, and convert it in the program"),
        (I64, pa.string(), "x is string, and i64 is wanted: declare x = string"),
        (Field("x", "string"), pa.float64(), "x is double, and a string is wanted: declare x = f64"),
        (
            I64,
            pa.timestamp("us"),
            r"timestamp\[us\], .* no field has that type, so write column.cast\(pyarrow.int64\(\)\)",
        ),
        (I64, pa.date32(), r"date32\[day\], .* column.cast\(pyarrow.int32\(\)\)"),
        (Field("x", "f64"), pa.decimal128(9, 2), r"decimal128\(9, 2\), .* column.cast\(pyarrow.float64\(\)\)"),
        (I64, pa.struct([("a", pa.int64())]), r"no field has that type, so write table.flatten\(\)"),
        (I64, pa.null(), "x is null, and i64 is wanted: no field has that type"),
        (Field("x", "i64", (2, 2)), pa.int64(), r"x has one value a row, and i64\[2, 2\] is wanted"),
        (Field("x", "i64", (8,)), FIXED, r"x is .*int16.*declare x = i16\[8\]"),
        (Field("x", "i16", (6,)), pa.list_(FIXED), r"x has lists in 3 levels, and i16\[6\] is wanted"),
    ],
)
def test_columns_of_other_types_are_refused_with_what_to_do(field: Field, type_: pa.DataType, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        column_of(field, type_)


def test_a_column_says_how_it_is_declared() -> None:
    assert field_type(pa.list_(pa.int16()), (4,)) == "i16[4]"
    assert field_type(pa.dictionary(pa.int8(), pa.string()), ()) == "string"
    assert field_type(pa.date32(), ()) == field_type(pa.list_(pa.int16()), None) == ""
