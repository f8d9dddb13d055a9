"""Deferred data classes beside those of the standard library, declared by the same text."""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from dfc.deferred import dataclasses as deferred

Decorator = Callable[..., Callable[[type], Any]]
BOTH = pytest.mark.parametrize("dataclass", [deferred.dataclass, dataclasses.dataclass], ids=["deferred", "standard"])


def points(dataclass: Decorator) -> tuple[Any, Any]:
    """A class of points and a class of named ones that inherits from it."""

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2

        @property
        def total(self) -> int:
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Named(Point):
        name: str = field(default="p", compare=False)
        tags: list[str] = field(default_factory=list, compare=False, repr=False)

        def __post_init__(self) -> None:
            self.tags.append(self.name)

    return Point, Named


def attributes(cls: type) -> set[str]:
    return set(vars(cls)) - {"__doc__"}  # the standard library makes one of the signature


@BOTH
def test_instances_are_what_their_fields_say(dataclass: Decorator) -> None:
    point, named = points(dataclass)
    made = named(1, name="a")
    assert (made.x, made.y, made.name, made.tags, made.total) == (1, 2, "a", ["a"], 3)
    assert repr(made).endswith("Named(x=1, y=2, name='a')")
    assert made == named(1, 2, "b", []) != named(2)
    assert hash(made) == hash(named(1))
    assert made != point(1)
    assert replace(made, x=5).x == 5
    assert [each.name for each in fields(made)] == ["x", "y", "name", "tags"]
    assert not hasattr(made, "__dict__")


@BOTH
def test_a_class_without_instances_has_fields_and_patterns(dataclass: Decorator) -> None:
    point, named = points(dataclass)
    assert [each.name for each in fields(named)] == ["x", "y", "name", "tags"]
    assert is_dataclass(point) and point.__match_args__ == ("x", "y")
    match point(3, 4):
        case named():
            raise AssertionError("a point has no name")
        case point(x, y):
            assert (x, y) == (3, 4)


@BOTH
def test_what_is_frozen_stays(dataclass: Decorator) -> None:
    made = points(dataclass)[1](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        made.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x


@BOTH
def test_wrong_arguments_are_type_errors(dataclass: Decorator) -> None:
    point, _ = points(dataclass)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        point()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        point(1, z=2)


@BOTH
def test_classes_that_change_compare_or_sort_as_they_say(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Counter:
        count: int = 0

    @dataclass(frozen=True, slots=True, order=True)
    class Version:
        number: int

    @dataclass(frozen=True, slots=True, eq=False)
    class Node:
        name: str

    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    assert sorted([Version(2), Version(1)]) == [Version(1), Version(2)]
    assert Node("a") != Node("a")


@BOTH
def test_methods_of_a_class_come_before_those_that_are_made(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Loose:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return f"~{self.name}"

    assert Loose("A") == Loose("a") and len({Loose("A"), Loose("a")}) == 1
    assert repr(Loose("A")) == "~A"


def test_a_complete_class_has_what_the_standard_library_gives_it() -> None:
    for mine, theirs in zip(points(deferred.dataclass), points(dataclasses.dataclass), strict=True):
        fields(mine)
        assert attributes(mine) == attributes(theirs)
        assert mine.__slots__ == theirs.__slots__
        assert repr(mine.__dataclass_params__) == repr(theirs.__dataclass_params__).replace("slots=True", "slots=False")


def test_nothing_is_made_before_the_first_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    standard = dataclasses.dataclass

    def counted(**options: Any) -> Callable[[type], Any]:
        return lambda cls: (made.append(cls.__name__), standard(**options)(cls))[1]

    monkeypatch.setattr(dataclasses, "dataclass", counted)
    point, named = points(deferred.dataclass)
    assert made == []
    found = named(1)
    assert sorted(made) == ["Named", "Point"]
    point(1), named(2)
    assert sorted(made) == ["Named", "Point"]
    assert found == named(1) and len({found, named(1), named(2)}) == 2 and repr(found)
    assert sorted(made) == ["Named", "Named", "Point"]


def test_an_own_init_is_kept() -> None:
    @deferred.dataclass(frozen=True, slots=True)
    class Doubled:
        value: int
        known: ClassVar[str] = "yes"

        def __init__(self, value: int) -> None:
            object.__setattr__(self, "value", 2 * value)

    assert Doubled(2) == Doubled(2) and Doubled(2).value == 4
    assert Doubled.known == "yes"


def test_threads_that_make_the_first_instances_all_get_whole_ones() -> None:
    for _ in range(20):
        _, named = points(deferred.dataclass)
        found: list[object] = []
        together = threading.Barrier(4)

        def make(named: Any = named, found: list[object] = found, together: threading.Barrier = together) -> None:
            together.wait(60)
            found.append(named(1) == named(1, name="z"))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [True] * 4


@BOTH
def test_instances_are_copied_and_put_together_from_their_state(dataclass: Decorator) -> None:
    made = points(dataclass)[1](1, name="a")
    assert copy.deepcopy(made) == made
    other = points(dataclass)[1]  # of another process, where there is no instance yet
    empty = object.__new__(other)
    empty.__setstate__(made.__getstate__())
    assert empty == other(1, name="a") and empty.tags == ["a"]
