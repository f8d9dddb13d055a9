"""The functions that `condense` writes for operators, casts and conditions: one call each, without blocks for numba.

Guarantees the types and the arithmetic of `device_arithmetic`, and that memory is touched only where the condition of
an access holds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from dfc_target_cuda.code.device_arithmetic import (
    BOOLEAN,
    FLOATS,
    I64,
    Rule,
    arithmetic,
    bits,
    condition,
    floating,
    load,
    shift,
    store,
)
from dfc_target_cuda.kernels.prelude.intrinsics import TYPES, fits, plain, refuse, types, with_parameters


def constant(kind: str, value: float) -> Any:
    """`kind(value)` as a number that numba knows the type of; None where the device has to convert."""
    with np.errstate(over="ignore"):
        if kind in ("f32", "f64"):
            exact = isinstance(value, float) or abs(value) <= 1 << 53
            return np.dtype(kind.replace("f32", "f4").replace("f64", "f8")).type(value) if exact else None
    if isinstance(value, float):
        return None
    width = int(kind[1:])
    return np.array([value % (1 << width)], f"u{width // 8}").view(f"{kind[0]}{width // 8}")[0]


@cache
def condensed_function(name: str) -> Any:
    """The function of a name that `condense` writes."""
    known = {"_choose": _choose, "_both": _both, "_either": _either, "_load_if": _load_if, "_store_if": _store_if}
    if name in known:
        typing, count = known[name]()
        return with_parameters(name, count, typing)
    operation, _, kind = name.removeprefix("_").rpartition("_")
    return with_parameters(name, 2, _cast_operator(operation, TYPES[kind]))


def _cast_operator(name: str, target: Any) -> Callable[..., Any]:
    """`kind(x + y)`: sums and products that are cast to an integer may wrap."""
    rule = _RULES[name]
    flags = ("nsw",) if isinstance(target, types.Float) else ()

    def typing(_: Any, x: Any, y: Any) -> Any:
        inner = rule(x, y)
        if inner is None:
            return None
        wide = inner.return_type

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, _operation(builder, name, wide, arguments, flags), wide, target)

        return target(*inner.args), generate

    return typing


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub", "mul"), arithmetic),
    **dict.fromkeys(("and", "or", "xor"), bits),
    **dict.fromkeys(("shift_left", "shift_right"), shift),
    "div": floating,
}


def _operation(builder: Any, name: str, kind: Any, arguments: Any, flags: tuple[str, ...]) -> Any:
    match name:
        case "add" | "sub" | "mul" if kind not in FLOATS:
            return getattr(builder, name)(*arguments, flags=flags)
        case "add" | "sub" | "mul" | "div":
            return getattr(builder, f"f{name}")(*arguments)
        case "and" | "or":
            return getattr(builder, f"{name}_")(*arguments)
        case "shift_left":
            return builder.shl(*arguments)
        case "shift_right":
            return (builder.ashr if kind == I64 else builder.lshr)(*arguments)
        case _:
            return builder.xor(*arguments)


Typing: TypeAlias = tuple[Callable[..., Any], int]
"""What says the signature of a call and makes its instructions, and its number of arguments."""


def _both() -> Typing:
    return _truth("and_")


def _either() -> Typing:
    return _truth("or_")


def _truth(instruction: str) -> Typing:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)

    def typing(_: Any, x: Any, y: Any) -> Any:
        for one in (x, y):
            condition(one)
        return BOOLEAN(BOOLEAN, BOOLEAN), generate

    return typing, 2


def _met(x: Any, y: Any) -> Any:
    """The type of a name that holds one or the other."""
    if fits(x, plain(y)):
        return plain(y)
    if fits(y, plain(x)):
        return plain(x)
    return refuse(f"{plain(y)} is expected, and this is {plain(x)}")


def _choose() -> Typing:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    def typing(_: Any, test: Any, x: Any, y: Any) -> Any:
        condition(test)
        kind = _met(x, y)
        return kind(BOOLEAN, kind, kind), generate

    return typing, 3


def _load_if() -> Typing:
    """`_load_if(memory, index, test, otherwise)`."""

    def typing(_: Any, memory: Any, index: Any, test: Any, otherwise: Any) -> Any:
        loaded = load(memory, index)
        condition(test)
        if loaded is None:
            return None
        kind = _met(memory.dtype, otherwise)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, position, asked, other = arguments
            before = builder.block
            with builder.if_then(asked):
                value = context.cast(builder, builder.load(builder.gep(pointer, [position])), memory.dtype, kind)
                inside = builder.block
            merged = builder.phi(other.type)
            merged.add_incoming(other, before)
            merged.add_incoming(value, inside)
            return merged

        return kind(memory, types.intp, BOOLEAN, kind), generate

    return typing, 4


def _store_if() -> Typing:
    """`_store_if(memory, index, value, test)`."""

    def typing(_: Any, memory: Any, index: Any, value: Any, test: Any) -> Any:
        stored = store(memory, index, value)
        condition(test)
        if stored is None:
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, position, new, asked = arguments
            with builder.if_then(asked):
                builder.store(new, builder.gep(pointer, [position]))
            return context.get_dummy_value()

        return types.none(memory, types.intp, memory.dtype, BOOLEAN), generate

    return typing, 4
