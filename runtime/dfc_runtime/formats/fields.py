"""Typed access to parsed JSON. Every getter checks; a mismatch is a `ValueError` that names the place in the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

T = TypeVar("T")

LARGEST = 2**63 - 1


def shown(text: str, limit: int = 48) -> str:
    """Text from a file, safe to print inside one line of a message."""
    cleaned = text.encode("ascii", "backslashreplace").decode("ascii")
    cleaned = "".join(c if c.isprintable() else "?" for c in cleaned)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 3] + "..."


def integer(value: object, where: str, low: int = 0, high: int = LARGEST) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{where} is not a whole number from {low} to {high}")
    return value


def text(value: object, where: str) -> str:
    if type(value) is not str:
        raise ValueError(f"{where} is not text")
    return value


def seconds(value: object, where: str) -> float:
    """A number that is not below 0, and not infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{where} is not a number of seconds")
    return float(value)


def flag(value: object, where: str) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{where} is neither true nor false")
    return value


def items(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a list")
    return cast("list[object]", value)


def mapping(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    return cast("dict[str, object]", value)


class Record:
    """An object with exactly the keys that are asked for: `done` complains about what nobody read."""

    def __init__(self, value: object, where: str) -> None:
        self._data: Mapping[str, object] = mapping(value, where)
        self._read: set[str] = set()
        self.where = where

    def get(self, key: str) -> object:
        if key not in self._data:
            raise ValueError(f"{self.where} lacks {key}")
        self._read.add(key)
        return self._data[key]

    def optional(self, key: str, make: Callable[[object, str], T], otherwise: T) -> T:
        """What is not there in files of earlier versions."""
        return make(self.get(key), self.field_path(key)) if key in self._data else otherwise

    def has(self, key: str) -> bool:
        """Whether there is such a key, of which files of earlier versions know nothing."""
        return key in self._data

    def field_path(self, key: str) -> str:
        return f"{self.where}.{key}"

    def text(self, key: str) -> str:
        return text(self.get(key), self.field_path(key))

    def flag(self, key: str) -> bool:
        return flag(self.get(key), self.field_path(key))

    def integer(self, key: str, low: int = 0, high: int = LARGEST) -> int:
        return integer(self.get(key), self.field_path(key), low, high)

    def list(self, key: str, make: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list whose members `make(value, where)` reads."""
        where = self.field_path(key)
        return tuple(make(value, f"{where}[{i}]") for i, value in enumerate(items(self.get(key), where)))

    def table(self, key: str, make: Callable[[object, str], T]) -> dict[str, T]:
        """An object whose values `make(value, where)` reads."""
        where = self.field_path(key)
        return {name: make(value, f"{where}.{shown(name)}") for name, value in mapping(self.get(key), where).items()}

    def done(self) -> None:
        unknown = self._data.keys() - self._read
        if unknown:
            raise ValueError(f"{self.where} has an unknown key {shown(min(unknown))}")
