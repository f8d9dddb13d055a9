"""Fields of packed records, and where they lie in one (see `packing`).

Guarantees that it imports nothing of NumPy: programs that declare readers are checked without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dfc_runtime.dataclasses import dataclass

if TYPE_CHECKING:
    import numpy as np

PACKED = "packed"
"""The `format` of a `parse_example` that takes fields one behind the other."""
STRING = "string"
STRING_BYTES = 16
"""Of the beginning and the length of a string."""
NUMPY_TYPES: Mapping[str, str] = {
    "bool": "?",
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
    **{f"{kind}{8 * size}": f"<{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)},
}
"""What numbers of a field may be, as NumPy calls it."""
ITEM_BYTES = {name: int(form.lstrip("<?iuf") or "1") for name, form in NUMPY_TYPES.items()}
_TYPE = re.compile(r"(?P<dtype>[a-z]+\d*)(\[(?P<sizes>\d{1,10}(, ?\d{1,10}){0,7})\])?")
MOST_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Field:
    """A field of records: `dtype` is a key of `NUMPY_TYPES`, or "string", of which there is one."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_string(self) -> bool:
        return self.dtype == STRING

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in the part of a record whose size is known."""
        return STRING_BYTES if self.is_string else self.count * ITEM_BYTES[self.dtype]


def field_of(name: str, type_: str) -> Field:
    """A field of a type such as `f32[28, 28]` or `string`; `ValueError` if that is none."""
    match = _TYPE.fullmatch(type_)
    if match is None or match["dtype"] not in {*NUMPY_TYPES, STRING} or (match["sizes"] and match["dtype"] == STRING):
        raise ValueError(f"{type_!r} is no type of a field")
    field = Field(name, match["dtype"], tuple(int(each) for each in (match["sizes"] or "").split(",") if each))
    if field.size > MOST_BYTES:
        raise ValueError(f"{type_!r} is too large for a field")
    return field


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Where the fields of a record lie."""

    fields: tuple[Field, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of each field."""
        sizes = [field.size for field in self.fields]
        return tuple(sum(sizes[:number]) for number in range(len(sizes)))

    @property
    def size(self) -> int:
        """Bytes before those of strings."""
        return sum(field.size for field in self.fields)

    @property
    def has_strings(self) -> bool:
        return any(field.is_string for field in self.fields)


def numpy_type(field: Field) -> np.dtype[np.generic]:
    """The type of the numbers of a field."""
    import numpy as np  # as above

    return np.dtype(NUMPY_TYPES[field.dtype])
