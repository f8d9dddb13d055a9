"""What every source gives: examples, as features by name, and the errors of what is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from dfc_runtime.errors import RecordError
from dfc_runtime.records.example import Values
from dfc_runtime.terminal import in_one_line

Example: TypeAlias = Mapping[str, "Values | bytes"]
Examples: TypeAlias = Iterator[Example]


def unusable(path: str, reason: str) -> RecordError:
    """A source that no examples can be made of; the reason says where in it."""
    return RecordError(f"{in_one_line(path)}: {reason}", code="E0917", file=path)
