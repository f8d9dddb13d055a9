"""State of the standard library that has another name now: for one edition the former names work, with a warning.

Assumes that names of state are paths of members, joined by points. Guarantees that nothing is renamed that the program
knows by its former name, or that a checkpoint has under the new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

FORMER = {
    "running_mean": "usual_mean",
    "running_variance": "usual_spread",
    "last_gradient": "slope",
}
"""The last member of a path -> what it was called in the edition before."""


class Typed(Protocol):
    """What has an element type and a shape: a piece of state, declared or saved."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> Sequence[int]: ...


def former_name(name: str) -> str:
    """What this piece of state was called before; empty if it never had another name."""
    owner, point, member = name.rpartition(".")
    return f"{owner}.{FORMER[member]}" if point and member in FORMER else ""


def present_name(name: str, known: Collection[str]) -> str:
    """The one of the known names that was called `name` before, with a warning for whoever looked at the state; empty
    if there is none."""
    present = next((each for each in known if former_name(each) == name), "")
    if present:
        warnings.warn(f"{name} is now called {present}", FutureWarning, stacklevel=4)
    return present


def renamed(entries: Mapping[str, Typed], saved: Mapping[str, Typed]) -> dict[str, str]:
    """Names in a checkpoint -> names in the program, of what has another name now and the same type and shape."""
    pairs: dict[str, str] = {}
    for name, entry in entries.items():
        former = former_name(name)
        there = saved.get(former)
        if there is None or name in saved or former in entries:
            continue
        if (there.dtype, tuple(there.shape)) == (entry.dtype, tuple(entry.shape)):
            pairs[former] = name
    return pairs
