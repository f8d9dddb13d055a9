"""Data classes that are declared without compiling code.

The `dataclass` of the standard library writes the source of up to six methods for each class and compiles it, half a
millisecond of work; the compiler has hundreds of such classes. Here the methods are closures over the fields. Only
`__init__`, which is called most, is code of its own: it is compiled once for all classes whose fields are as many and
of the same kinds (`_template`), and each of them gets a copy with its own names in it.

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int

Guarantees that a class is then what the standard library makes of it, `fields`, `replace`, `match` and subclasses
included; but a class without a docstring stays without one. What is rare is left to the standard library: classes
without slots or with an order, with an `__init__` of their own, fields that are no arguments.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, FrozenInstanceError
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`, which says what `options` mean."""
        if cls is None:
            return lambda declared: dataclass(declared, **options)
        declaration = _declaration(cls, options)
        return dataclasses.dataclass(**options)(cls) if declaration is None else _with_methods(cls, declaration)


class Field(NamedTuple):
    """A field as it is declared."""

    name: str
    annotation: Any
    default: Any = MISSING
    factory: Any = MISSING
    is_compared: bool = True
    is_printed: bool = True
    is_by_name: bool = False

    @property
    def is_optional(self) -> bool:
        return self.default is not MISSING or self.factory is not MISSING


class Declaration(NamedTuple):
    """A class as it is declared: its fields, inherited ones first, and the options that may differ here."""

    fields: dict[str, Field]
    frozen: bool
    eq: bool
    repr: bool

    @property
    def arguments(self) -> list[Field]:
        """The fields in the order of the arguments of `__init__`."""
        return sorted(self.fields.values(), key=lambda field: field.is_by_name)


DECLARATION = "__declaration__"
OPTIONS = frozenset({"slots", "frozen", "eq", "repr"})
BY_HAND = {"__init__", "__new__", "__slots__", "__getstate__", "__setstate__", "__setattr__", "__delattr__"}
"""What a class may define that is to go together with the methods made here: the standard library knows how."""
NOT_FIELDS = re.compile("ClassVar|InitVar|KW_ONLY")


def field_names(cls: type) -> tuple[str, ...]:
    """The names of `dataclasses.fields(cls)`, which takes longer."""
    declaration = vars(cls).get(DECLARATION)
    return tuple(each.name for each in dataclasses.fields(cls)) if declaration is None else tuple(declaration.fields)


# ------------------------------------------------------------ declarations --


def _declaration(cls: type, options: Mapping[str, bool]) -> Declaration | None:
    """None if the standard library has to see to the class, be it to say what is wrong with it."""
    if not options.get("slots") or not options.keys() <= OPTIONS or not vars(cls).keys().isdisjoint(BY_HAND):
        return None
    frozen = options.get("frozen", False)
    fields: dict[str, Field] = {}
    for base in cls.__mro__[:0:-1]:
        if "__dataclass_fields__" not in vars(base):
            continue
        inherited: Declaration | None = vars(base).get(DECLARATION)
        if inherited is None or inherited.frozen != frozen:
            return None
        fields |= inherited.fields
    for name, annotation in cls.__annotations__.items():
        field = _field(name, annotation, getattr(cls, name, MISSING))
        if field is None:
            return None
        fields[name] = field
    if any(
        isinstance(value, dataclasses.Field) for name, value in vars(cls).items() if name not in cls.__annotations__
    ):
        return None
    are_optional = [each.is_optional for each in fields.values() if not each.is_by_name]
    if "self" in fields or are_optional != sorted(are_optional):
        return None
    return Declaration(fields, frozen, options.get("eq", True), options.get("repr", True))


def _field(name: str, annotation: Any, value: Any) -> Field | None:
    if NOT_FIELDS.search(str(annotation)):
        return None
    if isinstance(value, dataclasses.Field):
        return _field_of(name, annotation, value)
    if isinstance(value, MemberDescriptorType):  # the slot of a base that has a field of that name
        return Field(name, annotation)
    return None if type(value).__hash__ is None else Field(name, annotation, value)  # pyright: ignore[reportUnnecessaryComparison]


def _field_of(name: str, annotation: Any, value: Any) -> Field | None:
    """What is declared by a call of `dataclasses.field`."""
    if not value.init or value.hash is not None or value.metadata:
        return None
    kinds = (value.compare, value.repr, value.kw_only is True)
    return Field(name, annotation, value.default, value.default_factory, *kinds)


# ----------------------------------------------------------------- classes --


def _with_methods(cls: type, declaration: Declaration) -> Any:
    """The class anew, with slots and methods."""
    fields, own = declaration.fields, vars(cls)
    slots = {slot for base in cls.__mro__[1:-1] for slot in _slots(base)}
    body = {n: value for n, value in own.items() if n not in fields and n not in ("__dict__", "__weakref__")}
    body |= {"__slots__": tuple(name for name in fields if name not in slots), DECLARATION: declaration}
    body |= {name: _Late() for name in ("__dataclass_fields__", "__dataclass_params__")}
    body.setdefault("__match_args__", tuple(name for name, field in fields.items() if not field.is_by_name))
    if declaration.repr and "__repr__" not in own:
        body["__repr__"] = _printing(fields.values())
    if declaration.eq:
        _compare(body, declaration)
    if sys.version_info >= (3, 13):
        body["__replace__"] = _replace
    anew: Any = type(cls)(cls.__name__, cls.__bases__, body)
    anew.__qualname__ = cls.__qualname__
    anew.__init__ = _initialiser(anew, declaration)
    if declaration.frozen:
        _freeze(anew, fields)
    return anew


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _replace(self: Any, /, **changes: Any) -> Any:
    """For `copy.replace`."""
    return dataclasses.replace(self, **changes)


class _Late:
    """What only `dataclasses` itself asks of a class: made by it at the first question."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        declaration: Declaration = vars(self._owner)[DECLARATION]
        body = {name: _standard_field(field) for name, field in declaration.fields.items()}
        body |= {"__annotations__": {name: field.annotation for name, field in declaration.fields.items()}}
        model: Any = type(self._owner.__name__, (), {**body, "__doc__": "-", "__module__": self._owner.__module__})
        dataclasses.dataclass(init=False, repr=False, eq=False)(model)
        parameters = model.__dataclass_params__
        parameters.init, parameters.repr = True, declaration.repr
        parameters.eq, parameters.frozen = declaration.eq, declaration.frozen
        self._owner.__dataclass_params__ = parameters  # pyright: ignore[reportAttributeAccessIssue]
        self._owner.__dataclass_fields__ = model.__dataclass_fields__  # pyright: ignore[reportAttributeAccessIssue]
        return getattr(self._owner, self._name)


def _standard_field(field: Field) -> Any:
    kinds: dict[str, Any] = {"compare": field.is_compared, "repr": field.is_printed, "kw_only": field.is_by_name}
    if field.factory is not MISSING:
        return dataclasses.field(default_factory=field.factory, **kinds)
    return dataclasses.field(default=field.default, **kinds)


# ----------------------------------------------------------------- methods --


class _New:
    """The default of a field that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_NEW = _New()
STEPS = {
    "=": "self.field_{0} = value_{0}",
    "+": "self.field_{0} = make_{0}() if value_{0} is new else value_{0}",
    "s": "set_{0}(self, value_{0})",
    "m": "set_{0}(self, make_{0}() if value_{0} is new else value_{0})",
}
"""How a field gets its value: assigned, or where that is refused by its slot; as it is, or made by a factory."""
AFTERWARDS = "self.__post_init__()"


@cache
def _template(steps: str, goes_on: bool) -> CodeType:
    """`__init__` of all classes with fields of these kinds."""
    arguments = ", ".join(f"value_{number}" for number in range(len(steps)))
    lines = [STEPS[step].format(number) for number, step in enumerate(steps)] + [AFTERWARDS] * goes_on
    text = f"def __init__(self, {arguments}):\n " + "\n ".join(lines or ["pass"])
    return next(each for each in compile(text, "<data class>", "exec").co_consts if isinstance(each, CodeType))


def _initialiser(cls: Any, declaration: Declaration) -> FunctionType:
    arguments = declaration.arguments
    plain, by_factory = "sm" if declaration.frozen else "=+"
    steps = "".join(plain if field.factory is MISSING else by_factory for field in arguments)
    template = _template(steps, hasattr(cls, "__post_init__"))
    names = {f"field_{number}": field.name for number, field in enumerate(arguments)}
    by_name = [field for field in arguments if field.is_by_name]
    code = template.replace(
        co_varnames=("self", *names.values()),
        co_names=tuple(names.get(name, name) for name in template.co_names),
        co_argcount=1 + len(arguments) - len(by_name),
        co_kwonlyargcount=len(by_name),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    scope: dict[str, Any] = {"__name__": cls.__module__, "new": _NEW}
    for number, field in enumerate(arguments):
        scope[f"set_{number}"], scope[f"make_{number}"] = getattr(cls, field.name).__set__, field.factory
    defaults = {f.name: f.default if f.factory is MISSING else _NEW for f in arguments if f.is_optional}
    initialise = FunctionType(code, scope)
    initialise.__defaults__ = tuple(defaults[f.name] for f in arguments if f.name in defaults and not f.is_by_name)
    initialise.__kwdefaults__ = {field.name: defaults[field.name] for field in by_name if field.name in defaults}
    initialise.__annotations__ = {**{field.name: field.annotation for field in arguments}, "return": None}
    return initialise


def _values(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Gives the values of some fields of an instance."""
    listed = tuple(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    if not listed:
        return lambda instance: ()
    one = attrgetter(*listed)
    return lambda instance: (one(instance),)


def _printing(fields: Iterable[Field]) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.is_printed]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _compare(body: dict[str, Any], declaration: Declaration) -> None:
    """Equal are instances of one class with equal values; a frozen class has a hash, another one has none."""
    values = _values(name for name, field in declaration.fields.items() if field.is_compared)

    def __eq__(self: Any, other: Any) -> Any:
        if other is self:
            return True
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    # Python itself writes `__hash__ = None` into a class that says `__eq__` and no more.
    if body.get("__hash__") is None and ("__hash__" not in body or "__eq__" in body):
        body["__hash__"] = __hash__ if declaration.frozen else None
    body.setdefault("__eq__", __eq__)


def _above(cls: type[object], instance: object) -> Any:
    return cast("Any", super)(cls, instance)


def _freeze(cls: Any, fields: Mapping[str, Field]) -> None:
    """Refuses changes of instances; copies and messages between processes set the fields where no one changes them."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _above(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        _above(cls, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in fields]

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(fields, state, strict=True):
            object.__setattr__(self, name, value)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    cls.__getstate__, cls.__setstate__ = __getstate__, __setstate__
