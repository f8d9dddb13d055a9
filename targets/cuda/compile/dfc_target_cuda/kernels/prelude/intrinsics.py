"""How a name of the prelude becomes a device function of numba with one signature, and with instructions of its own.

Assumes numba-cuda; only what makes code for devices imports this. Guarantees that a call is typed by its signature
alone, without a search among overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

# None of these describes its types.
ir: Any = import_module("llvmlite.ir")
types: Any = import_module("numba.cuda.types")
templates: Any = import_module("numba.cuda.typing.templates")
lower_builtin: Any = import_module("numba.cuda.extending").lower_builtin

TYPES: dict[str, Any] = {
    "boolean": types.boolean,
    "f32": types.float32,
    "f64": types.float64,
    **{f"{kind[0]}{bits}": getattr(types, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
WORD = ir.IntType(32)
LONG = ir.IntType(64)


class DeviceFunction:
    """A function of kernel text, which only numba calls: it asks a value for its type by this name."""

    def __init__(self, name: str, kind: Any) -> None:
        self.__name__ = name
        self._numba_type_ = kind


Emit = Callable[[Any, Any, Sequence[Any]], Any]
"""(context, builder, arguments) -> the value; None where there is no result."""


class RefusedTypesError(Exception):
    """Types that do not go together; none of numba's errors, which makes it look for another meaning of the call."""


def refuse(why: str) -> NoReturn:
    raise RefusedTypesError(why)


def plain(one: Any) -> Any:
    """The type of a number that stands in the text as it is."""
    return one.literal_type if isinstance(one, types.IntegerLiteral | types.BooleanLiteral) else one


def fits(actual: Any, expected: Any) -> bool:
    """Whether a value may go where `expected` is expected: the same type, a number of the text that is one of it, or an
    integer in more bits."""
    source = plain(actual)
    if source == expected:
        return True
    if not (isinstance(source, types.Integer) and isinstance(expected, types.Integer)):
        return False
    if isinstance(actual, types.IntegerLiteral) and expected.minval <= actual.literal_value <= expected.maxval:
        return True
    return expected.bitwidth > source.bitwidth and (expected.signed == source.signed or not source.signed)


def fixed(name: str, signature: Any, emit: Emit) -> Any:
    """A function of this signature alone, with these instructions."""

    def typing(_: Any, *operand_types: Any) -> Any:
        if len(operand_types) != len(signature.args):
            refuse(f"{name}: {len(signature.args)} arguments are expected, and these are {len(operand_types)}")
        for one, expected in zip(operand_types, signature.args, strict=True):
            if not fits(one, expected):
                refuse(f"{name}: {expected} is expected, and this is {one}")
        return signature, generate

    def generate(context: Any, builder: Any, _: Any, arguments: Sequence[Any]) -> Any:
        results = emit(context, builder, arguments)
        return context.get_dummy_value() if results is None else results

    return with_parameters(name, len(signature.args), typing)


def with_parameters(name: str, count: int, typing: Callable[..., Any]) -> Any:
    """A function whose signature, and what makes its instructions, `typing(context, a0, a1, ...)` says.

    As numba's `intrinsic`, but for what that does anew at each call: it reads the rules of its target again.
    """
    lowered: dict[tuple[Any, ...], Any] = {}
    signatures: dict[tuple[Any, ...], Any] = {}

    def generic(self: Any, arguments: Any, _: Any) -> Any:
        known = signatures.get(arguments)
        if known is None and len(arguments) != count:
            refuse(f"{name}: {count} arguments are expected, and these are {len(arguments)}")
        if known is None and (typed := typing(self.context, *arguments)) is not None:
            known, generate = typed
            signatures[arguments] = known
            if known.args not in lowered:
                lowered[known.args] = lower_builtin(generate, *known.args)(generate)
        return known

    def get_impl_key(self: Any, signature: Any) -> Any:
        return lowered[signature.args]

    body = {"key": name, "generic": generic, "get_impl_key": get_impl_key, "prefer_literal": True}
    template = type(f"Rule_{name}", (templates.AbstractTemplate,), {**body, "metadata": {"target": "cuda"}})
    return DeviceFunction(name, types.Function(template))


def call(builder: Any, name: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
    """A call of a function of this name, declared at first use."""
    known = builder.module.globals.get(name)
    if known is None:
        known = ir.Function(builder.module, ir.FunctionType(result, [each.type for each in arguments]), name)
    return builder.call(known, arguments)
