"""Deferred data classes beside those of the standard library, declared by the same text."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from dfc_runtime import dataclasses as deferred

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
    return set(vars(cls)) - {"__doc__", "__declaration__"}  # the standard library makes one of the signature


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


def test_nothing_is_compiled_for_a_class_of_a_known_form(monkeypatch: pytest.MonkeyPatch) -> None:
    points(deferred.dataclass)
    compiled: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "exec", lambda *_, **__: compiled.append("exec"))
        patched.setattr(builtins, "compile", lambda *_, **__: compiled.append("compile"))
        _, named = points(deferred.dataclass)
        first, second, other = named(1), named(1, name="z"), named(2)
        are_equal, hashes, text = first == second, {first, second, other}, repr(first)
    assert compiled == []
    assert are_equal and len(hashes) == 2 and text


@BOTH
def test_fields_given_by_name_come_behind_the_others(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Node:
        span: int = field(default=-1, kw_only=True, repr=False)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Node)

        def __hash__(self) -> int:
            return 5

    @dataclass(frozen=True, slots=True, eq=False)
    class Name(Node):
        text: str
        parts: tuple[str, ...] = ()
        of: int = field(kw_only=True)

    name = Name("a", of=3)
    assert (name.span, name.text, name.parts, name.of) == (-1, "a", (), 3)
    assert Name("a", ("b",), span=7, of=3).span == 7
    assert Name.__match_args__ == ("text", "parts")
    assert hash(name) == 5 and name == Node()
    with pytest.raises(TypeError, match=r"Name\.__init__\(\) takes from 2 to 3 positional arguments but 4"):
        Name("a", (), 7, of=3)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'of'"):
        Name("a")


@BOTH
def test_functions_and_classes_may_be_defaults(dataclass: Decorator) -> None:
    def twice(value: int) -> int:
        return 2 * value

    @dataclass(frozen=True, slots=True)
    class Rules:
        cost: Callable[[int], int] = twice
        kind: type = int

    @dataclass(slots=True)
    class Counted:
        rules: Rules = Rules()
        counts: dict[str, int] = field(default_factory=dict)

    assert Rules().cost(4) == 8 and Rules(len).cost([1]) == 1 and Rules.__match_args__ == ("cost", "kind")
    assert Counted().rules.kind is int and Counted().counts is not Counted().counts
    assert inspect.signature(Counted).parameters["rules"].default == Rules()
    assert str(inspect.signature(Counted)).count("<factory>") == 1


@BOTH
def test_equality_asks_the_class_and_sees_the_same_instance(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class One:
        value: Any

    class Same(One):
        __slots__ = ()

    nan = One(float("nan"))
    assert nan == nan and One(1) == One(True) and One(1) != Same(1) and One(1) != 1
    assert hash(One(1)) == hash((1,))


@BOTH
def test_an_instance_within_itself_can_be_printed(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Cell:
        value: Any = None

    cell = Cell()
    cell.value = [cell]
    assert repr(cell).endswith("Cell(value=[...])")


@BOTH
def test_a_class_without_fields_and_one_that_overrides_a_field(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    @dataclass(frozen=True, slots=True)
    class Few(Nothing):
        first: int = 1
        second: int = 2

    @dataclass(frozen=True, slots=True)
    class Other(Few):
        first: int = 7

    assert Nothing() == Nothing() and hash(Nothing()) == hash(()) and repr(Nothing()).endswith("Nothing()")
    assert (Other().first, Other().second, Other(1, 3).first) == (7, 2, 1)


@BOTH
def test_what_is_wrong_with_a_class_is_said_when_it_is_declared(dataclass: Decorator) -> None:
    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):

        @dataclass(slots=True)
        class Disordered:
            x: int = 1
            y: int

    with pytest.raises(ValueError, match="mutable default <class 'list'> for field x is not allowed"):

        @dataclass(slots=True)
        class Shared:
            x: list[int] = []  # noqa: RUF012

    with pytest.raises(TypeError, match="'y' is a field but has no type annotation"):

        @dataclass(slots=True)
        class Untyped:
            x: int
            y = field(default=3)

    point, _ = points(dataclass)
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclass(slots=True)
        class Loose(point):
            z: int


@BOTH
def test_the_standard_library_and_this_inherit_from_each_other(dataclass: Decorator) -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Base:
        x: int

    @dataclass(frozen=True, slots=True)
    class Middle(Base):
        y: int = 1

    @dataclasses.dataclass(frozen=True, slots=True)
    class Last(Middle):
        z: int = 2

    assert [each.name for each in fields(Last)] == ["x", "y", "z"]
    assert Last(0) == Last(0, 1, 2) != Last(0, 1, 3) and repr(Middle(5)).endswith("Middle(x=5, y=1)")


@BOTH
def test_field_names_are_those_of_the_fields(dataclass: Decorator) -> None:
    for cls in points(dataclass):
        assert deferred.field_names(cls) == tuple(each.name for each in fields(cls))


def test_an_own_init_is_kept() -> None:
    @deferred.dataclass(frozen=True, slots=True)
    class Doubled:
        value: int
        known: ClassVar[str] = "yes"

        def __init__(self, value: int) -> None:
            object.__setattr__(self, "value", 2 * value)

    assert Doubled(2) == Doubled(2) and Doubled(2).value == 4
    assert Doubled.known == "yes"


@BOTH
def test_instances_are_copied_and_put_together_from_their_state(dataclass: Decorator) -> None:
    made = points(dataclass)[1](1, name="a")
    assert copy.deepcopy(made) == made
    other = points(dataclass)[1]  # of another process, where there is no instance yet
    empty = object.__new__(other)
    empty.__setstate__(made.__getstate__())
    assert empty == other(1, name="a") and empty.tags == ["a"]
