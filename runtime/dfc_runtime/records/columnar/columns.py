"""Columns of Arrow's types as the numbers and strings of fields.

A field of numbers is a column of just that type, or of lists of it: one level of lists with all numbers of the field,
or as many levels as the field has sizes. A string is a column of strings or bytes of any kind, or of records with the
member `bytes`, as the library `datasets` writes images. Columns that are encoded by dictionaries have their values.
Guarantees that whatever has no value, or another number of them, is named by its row with what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import shown
from dfc_runtime.records.fields import Field, numpy_type
from dfc_runtime.records.framing import Numbers

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Reasons: TypeAlias = dict[int, str]
"""By row why there is no record."""
Reason: TypeAlias = Callable[[int], str]
NUMBERS = {
    "bool": "bool",
    "halffloat": "f16",
    "float": "f32",
    "double": "f64",
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
"""Types of fields by Arrow's names of numbers."""
STRINGS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
CASTS = {
    "date32": "int32", "date64": "int64", "time32": "int32", "time64": "int64",
    "timestamp": "int64", "duration": "int64", "decimal": "float64",
}  # fmt: skip
"""What other types are to be cast to before, by how their names begin."""
TENSOR = "arrow.fixed_shape_tensor"
BYTES = "bytes"
"""The member of records that is read as a string."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read as a field: how many values each level of lists has, outermost first, and the member of
    its records that counts."""

    field: Field
    sizes: tuple[int, ...] = ()
    member: str = ""

    @property
    def path(self) -> str:
        """What is read of the file."""
        return f"{self.field.name}.{self.member}" if self.member else self.field.name


def column_of(field: Field, type_: pa.DataType) -> Column:
    """How a column of that type is read as a field; `ValueError` if it cannot be."""
    levels, leaf = unwrapped(type_)
    name, leaf_name = shown(field.name), str(leaf)
    if field.is_string:
        if not levels and is_string(leaf):
            return Column(field)
        if not levels and has_bytes(leaf):
            return Column(field, member=BYTES)
        raise ValueError(f"{name} is {type_}, and a string is wanted{_remedy(field, levels, leaf_name)}")
    if NUMBERS.get(leaf_name) != field.dtype:
        stated = f"{field.dtype}{list(field.shape) if field.shape else ''}"
        raise ValueError(f"{name} is {type_}, and {stated} is wanted{_remedy(field, levels, leaf_name)}")
    if levels == len(field.shape):
        return Column(field, field.shape)
    if levels == 1:
        return Column(field, (field.count,))
    if not levels and field.count == 1:
        return Column(field)
    what = f"lists in {levels} levels" if levels else "one value a row"
    raise ValueError(f"{name} has {what}, and {field.dtype}{list(field.shape) if field.shape else ''} is wanted")


def unwrapped(type_: pa.DataType) -> tuple[int, pa.DataType]:
    """How many levels of lists there are, and the type of what is in them."""
    import pyarrow as pa  # only programs that read such files have it

    levels = 0
    while True:
        if isinstance(type_, pa.BaseExtensionType) and type_.extension_name == TENSOR and _is_in_order(type_):
            type_ = type_.storage_type
        elif isinstance(type_, pa.DictionaryType):
            type_ = type_.value_type
        elif isinstance(type_, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
            type_, levels = type_.value_type, levels + 1
        else:
            return levels, type_


def has_bytes(type_: pa.DataType) -> bool:
    """Whether it is one of records with bytes in them."""
    import pyarrow as pa  # as above

    if not isinstance(type_, pa.StructType):
        return False
    at = type_.get_field_index(BYTES)
    return at >= 0 and str(type_.field(at).type) in ("binary", "large_binary")


def field_type(type_: pa.DataType, sizes: tuple[int, ...] | None) -> str:
    """The type of the field that a column is read as, "" if none is; lists have these sizes."""
    levels, leaf = unwrapped(type_)
    if not levels and (is_string(leaf) or has_bytes(leaf)):
        return "string"
    dtype = NUMBERS.get(str(leaf))
    if dtype is None or sizes is None or len(sizes) != levels:
        return ""
    return f"{dtype}{list(sizes)}" if sizes else dtype


def _is_in_order(type_: pa.BaseExtensionType) -> bool:
    """Whether tensors of a fixed shape lie row by row."""
    permutation: list[int] | None = getattr(type_, "permutation", None)
    return permutation is None or list(permutation) == sorted(permutation)


def cast_of(type_: pa.DataType | str) -> str:
    """What to write to a file in place of a column of a type that no field has; "" where nothing helps."""
    if str(type_).startswith("struct"):
        return "table.flatten()"
    cast = next((to for begin, to in CASTS.items() if str(type_).startswith(begin)), "")
    return f"column.cast(pyarrow.{cast}())" if cast else ""


def is_string(type_: pa.DataType) -> bool:
    """Whether it is one of strings or bytes of any kind."""
    return str(type_).startswith(STRINGS)


def _remedy(field: Field, levels: int, leaf: str) -> str:
    """What to do about a column of another type."""
    if leaf.startswith(STRINGS) and not levels:
        return f": declare {shown(field.name)} = string"
    if leaf in NUMBERS:
        shape = list(field.shape) if field.shape else ""
        shape = shape or ("[..]" if levels else "")
        return f": declare {shown(field.name)} = {NUMBERS[leaf]}{shape}, and convert it in the program"
    cast = cast_of(leaf)
    return ": no field has that type" + f", so write {cast}" * bool(cast)


# ------------------------------------------------------------------ values --


def numbers_of(column: Column, array: pa.Array) -> tuple[NDArray[np.generic], Reasons]:
    """The numbers of a column, a row each, and which rows have none; theirs are zeros."""
    field, count = column.field, len(array)
    values = np.zeros((count, field.count), numpy_type(field))
    rows, each, reasons = np.arange(count), 1, Reasons()
    for level, size in enumerate((*column.sizes, 0)):
        array = plain(array)
        rows, array = _without_nulls(column, array, rows, each, reasons, is_whole=not level)
        if level == len(column.sizes):
            break
        rows, array = _with_size(column, array, rows, each, size, reasons)
        assert isinstance(array, _lists()), "a column of lists"
        array = array.flatten()
        each *= size
    if len(rows) and each:
        values[rows] = array.to_numpy(zero_copy_only=False).reshape(len(rows), each)
    return values, reasons


def strings_of(column: Column, array: pa.Array) -> tuple[NDArray[np.uint8], Numbers, Numbers, Reasons]:
    """The bytes of all strings of a column, where each begins and ends in them, and which rows have none."""
    import pyarrow as pa  # only programs that read such files have it

    array = plain(array)
    if column.member:
        assert isinstance(array, pa.StructArray), "a column of records"
        at = next(number for number, each in enumerate(array.type) if each.name == column.member)
        array = array.flatten()[at]
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    reasons = {row: f"the column {shown(column.field.name)} is null" for row in np.flatnonzero(is_null).tolist()}
    array = array.cast(_copied(array.type) or array.type)
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64), reasons
    edges = np.frombuffer(memoryview(offsets), np.int64)[array.offset : array.offset + len(array) + 1]
    low, high = int(edges[0]), int(edges[-1])
    text = (
        np.frombuffer(memoryview(data), np.uint8)[low:high]
        if data is not None and high > low
        else np.zeros(0, np.uint8)
    )
    return text, edges[:-1] - low, edges[1:] - low, reasons


def without_views(table: pa.Table) -> pa.Table:
    """With strings that lie one behind the other in place of those that lie apart, of which rows cannot be taken."""
    for number, field in enumerate(table.schema):
        type_ = _copied(field.type)
        if type_ is not None:
            table = table.set_column(number, field.name, table.column(field.name).cast(type_))
    return table


def _copied(type_: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa  # as above

    return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(type_))


def plain(array: pa.Array) -> pa.Array:
    """Tensors as the lists that they are stored as, and values in place of their numbers in a dictionary."""
    import pyarrow as pa  # as above

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _lists() -> tuple[type[pa.ListArray], type[pa.LargeListArray], type[pa.FixedSizeListArray]]:
    import pyarrow as pa  # as above

    return pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray


def _without_nulls(
    column: Column, array: pa.Array, rows: Numbers, each: int, reasons: Reasons, *, is_whole: bool
) -> tuple[Numbers, pa.Array]:
    """The rows whose values are all there. `array` has `each` values of every row."""
    if not array.null_count:
        return rows, array
    missing = array.is_null().to_numpy(zero_copy_only=False).reshape(len(rows), each) != 0
    what = "is null" if is_whole else "has a null in its list"
    return _kept(array, rows, each, missing, lambda _at: f"the column {shown(column.field.name)} {what}", reasons)


def _with_size(
    column: Column, array: pa.Array, rows: Numbers, each: int, size: int, reasons: Reasons
) -> tuple[Numbers, pa.Array]:
    """The rows whose lists have so many values."""
    assert isinstance(array, _lists()), "a column of lists"
    counts = array.value_lengths().to_numpy(zero_copy_only=False).reshape(len(rows), each)
    other = counts != size
    if not other.any():
        return rows, array

    def reason(at: int) -> str:
        there = int(counts[at][other[at]][0])
        return f"the column {shown(column.field.name)} has a list of {there} value{'s' * (there != 1)}, not {size}"

    return _kept(array, rows, each, other, reason, reasons)


def _kept(
    array: pa.Array, rows: Numbers, each: int, wrong: NDArray[np.bool_], reason: Reason, reasons: Reasons
) -> tuple[Numbers, pa.Array]:
    """The rows of which nothing is wrong."""
    is_wrong = wrong.any(axis=1)
    for at in np.flatnonzero(is_wrong).tolist():
        reasons.setdefault(int(rows[at]), reason(at))
    import pyarrow as pa  # as above

    kept = np.flatnonzero(~is_wrong)
    elements = (kept[:, None] * each + np.arange(each)).reshape(-1)
    return rows[kept], array.take(pa.array(elements))
