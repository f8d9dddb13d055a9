"""A parameter of an entry, ready for the quick tests of every call.

Assumes a parameter of a checked manifest. Guarantees that what these tests let through, `struct` packs or refuses.
"""

from __future__ import annotations

import numpy as np

from dfc_runtime.calls.element_types import kind_of, numpy_dtype
from dfc_runtime.formats.manifest import Parameter

_NUMBERS: dict[str, frozenset[type]] = {
    "bool": frozenset({bool, np.bool_}),
    "integer": frozenset({int, *(np.dtype(f"{k}{n}").type for k in "iu" for n in (1, 2, 4, 8))}),
    "float": frozenset({float, int, np.float16, np.float32, np.float64}),
    "complex": frozenset(),
}


class Feed:
    """A parameter, ready for quick tests. `quick` are the types that `struct` packs, or refuses, by itself."""

    __slots__ = ("dtype", "is_tensor", "is_text", "parameter", "quick")

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.is_text = parameter.is_text
        self.is_tensor = bool(parameter.shape)
        self.dtype = np.dtype(np.uint8) if self.is_text else numpy_dtype(parameter.dtype)
        packable = not self.is_text and parameter.dtype not in ("bf16", "c64", "c128")
        self.quick = _NUMBERS[kind_of(parameter.dtype)] if packable else frozenset[type]()
