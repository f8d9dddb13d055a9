"""What callers pass where types are not checked before: the wrong kind of a thing gets a message of its own.

Assumes nothing of the values. Guarantees a `FeedError` that says what is wanted and what came.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from dfc_runtime.errors import FeedError

Kinds = type | tuple[type, ...]


def require_kind(value: object, kinds: Kinds, expected: str) -> None:
    """`expected` says what the caller was to pass: "load wants the path of a bundle"."""
    if not isinstance(value, kinds):
        kind = "None" if value is None else f"a value of type {type(value).__name__}"
        raise FeedError(f"{expected}, not {kind}", code="E0901")


def names_of(value: object, expected: str) -> tuple[str, ...]:
    """A list of names; one text is none. `expected`: "variants is a list of names"."""
    require_kind(value, (list, tuple, set, frozenset), expected)
    names = tuple(cast("Collection[object]", value))
    for name in names:
        require_kind(name, str, expected)
    return cast("tuple[str, ...]", names)


def brief(value: object) -> str:
    """A value in a message, on 60 characters. Python refuses to write whole numbers of thousands of digits."""
    try:
        shown = repr(value)
    except ValueError:
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def is_whole(value: object) -> bool:
    """Whether this is a whole number, which True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)
