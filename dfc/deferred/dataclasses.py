"""Data classes whose methods are made when the first instance is.

The `dataclass` of the standard library writes the source of six methods for each class and compiles it, half a
millisecond of work; the compiler has hundreds of such classes, and a run makes instances of half of them. Here a class
with slots gets only these when it is declared, and an `__init__` that makes most of the rest; instances are compared,
hashed or printed by methods that are made then:

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int

Assumes that instances are made by calling the class, copying or unpickling. Guarantees that a class is then what the
standard library makes of it, `fields`, `replace`, `match` and subclasses included; but a class without a docstring
stays without one. Without slots, or with an `__init__` of its own, a class is made at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`, which says what `options` mean."""
        if cls is None:
            return lambda declared: dataclass(declared, **options)
        if _is_plain(cls, options):
            return _Deferred(cls, options).shell
        return dataclasses.dataclass(**options)(cls)


AT_ONCE = ("__init__", "__new__", "__slots__", "__getstate__", "__setstate__")
"""What a class may define that instances come to be without the `__init__` made here, or need at once."""
LATE = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
COMPARISONS = ("__repr__", "__eq__", "__hash__")
"""What most classes are never asked for: made when it is."""
NOT_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")
_completing = RLock()


class _Deferred:
    """A class that has its slots, and how the rest of it is made."""

    def __init__(self, declared: type, options: dict[str, bool]) -> None:
        self._options = {**options, "slots": False}
        self._body = {name: value for name, value in vars(declared).items() if name not in ("__dict__", "__weakref__")}
        self._is_complete = self._is_comparable = False
        names = tuple(self._body.get("__annotations__", ()))
        inherited = {slot for base in declared.__mro__[1:] for slot in _slots(base)}
        body = {name: value for name, value in self._body.items() if name not in names}
        body |= {"__slots__": tuple(name for name in names if name not in inherited), "__init__": _first_init(self)}
        body |= {name: _Late(self, name) for name in LATE} | {"__getstate__": _state, "__setstate__": _set_state}
        self.shell: Any = type(declared)(declared.__name__, declared.__bases__, body)
        self.shell.__qualname__ = declared.__qualname__

    def complete(self) -> None:
        """Gives the class what the standard library gives it; other threads wait until it has that."""
        with _completing:
            if self._is_complete:
                return
            if self._compares_later():
                after = self._new_attributes({**self._options, "repr": False, "eq": False})
                after["__dataclass_params__"].repr = True
                if self._options.get("eq", True):
                    after["__dataclass_params__"].eq = True
                    after["__eq__"] = _first(self, "__eq__")
                    after["__hash__"] = _first(self, "__hash__") if self._options.get("frozen") else None
                after["__repr__"] = _first(self, "__repr__")
            else:
                after = self._new_attributes(self._options)
                self._is_comparable = True
            self._take(after)
            self._is_complete = True
            self.shell.__init__ = after["__init__"]  # the last one: whoever sees it sees all

    def compare(self) -> None:
        """Gives a complete class what is in `COMPARISONS`."""
        with _completing:
            if not self._is_comparable:
                after = self._new_attributes(self._options)
                self._take({name: after[name] for name in COMPARISONS if name in after})
                self._is_comparable = True

    def _compares_later(self) -> bool:
        """Whether a class says nothing of its own about comparing and printing, and has no order."""
        usual = self._options.get("repr", True) and not any(
            self._options.get(name) for name in ("order", "unsafe_hash")
        )
        return usual and not any(name in self._body for name in COMPARISONS)

    def _new_attributes(self, options: dict[str, bool]) -> dict[str, Any]:
        """What the standard library adds to the class as it was declared."""
        shell = self.shell
        before = {**self._body, "__doc__": "-"}  # without, one is made of the signature, which takes long
        model: Any = type(shell)(shell.__name__, shell.__bases__, dict(before))
        complete = cast("Callable[[type], type]", dataclasses.dataclass(**options))
        after = vars(complete(model))
        kept = {"__doc__", "__dict__", "__weakref__", *self._body.get("__annotations__", ())}
        return {n: value for n, value in after.items() if n not in kept and value is not before.get(n, _MISSING)}

    def _take(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            if name != "__init__":
                setattr(self.shell, name, value)


class _Late:
    """An attribute of a class that is there once the class is complete."""

    def __init__(self, deferred: _Deferred, name: str) -> None:
        self._deferred = deferred
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        self._deferred.complete()
        return getattr(owner, self._name)


_MISSING = object()


def _first_init(deferred: _Deferred) -> Callable[..., None]:
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        deferred.complete()
        deferred.shell.__init__(self, *arguments, **named)

    return __init__


def _first(deferred: _Deferred, name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        deferred.compare()
        return getattr(deferred.shell, name)(self, *arguments)

    return method


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _is_plain(cls: type, options: dict[str, bool]) -> bool:
    """Whether instances of a class can only be made by the `__init__` that it gets."""
    if not options.get("slots") or not options.get("init", True) or any(name in vars(cls) for name in AT_ONCE):
        return False
    annotations = vars(cls).get("__annotations__", {}).values()
    return not any(word in str(annotation) for annotation in annotations for word in NOT_FIELDS)


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
