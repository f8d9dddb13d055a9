"""What operators of kernel text mean on numbers, told to numba before its own rules.

Numba looks an operator up among some twenty overloads, those of strings and lists first, for each use of it; numbers
are all that a kernel text has. Assumes to be installed before numba has read its own rules. Guarantees the results of
the simulation: integers meet in 64 bits and wrap where they are cast at once, division rounds down and gives 0 by 0,
floats keep their format and round once. Operands that do not go together are refused: numbers of i64 and u64, of f32
and f64, of floats and integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from dfc_target_cuda.kernels.prelude.intrinsics import (
    LONG,
    fits,
    ir,
    lower_builtin,
    plain,
    refuse,
    templates,
    types,
)

I64, U64, BOOLEAN = types.int64, types.uint64, types.boolean
FLOATS = (types.float32, types.float64)
_NUMBERS = (types.Integer, types.Float, types.Boolean)

Operator: TypeAlias = Callable[..., Any]
Rule: TypeAlias = Callable[..., Any]
"""(types of the operands) -> signature; None for what numba's own rules say something about."""


def install() -> None:
    """Makes the rules those that are asked first. Once a process."""
    registry = templates.Registry()
    for one, name in _OPERATORS.items():
        _register(registry, one, arithmetic, _implementation(name))
    for one in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        _register(registry, one, _comparison)
    for one in (_STANDARD.and_, _STANDARD.or_, _STANDARD.xor):
        _register(registry, one, bits)
    for one in (_STANDARD.lshift, _STANDARD.rshift):
        _register(registry, one, shift)
    _register(registry, _STANDARD.floordiv, bits, _lowered(_quotient, I64, U64))
    _register(registry, operator.mod, bits, _lowered(_remainder, I64, U64))
    _register(registry, _STANDARD.truediv, floating)
    _register(registry, operator.neg, _sign, _negation())
    _register(registry, operator.getitem, load)
    _register(registry, operator.setitem, store)
    _register(registry, operator.not_, condition)
    _register(registry, bool, condition)
    import_module("numba.cuda.descriptor").cuda_target.typing_context.install_registry(registry)


def _register(registry: Any, one: Any, rule: Rule, implementation: Any = None) -> None:
    """A rule for one operator, and what computes it if that is not what numba does."""

    def generic(self: Any, operands: Any, _: Any) -> Any:
        return rule(*operands)

    body: dict[str, Any] = {"key": one, "generic": generic, "prefer_literal": True, "metadata": {"target": "cuda"}}
    if implementation is not None:

        def get_impl_key(self: Any, signature: Any) -> Any:
            return implementation

        body["get_impl_key"] = get_impl_key
    registry.register_global(one)(type("Rule", (templates.AbstractTemplate,), body))


# --- sums and products: where the result is cast at once it may wrap, else it is an index

_STANDARD: Any = operator  # whose functions take anything
_OPERATORS: dict[Operator, str] = {
    getattr(_STANDARD, prefix + name): name for name in ("add", "sub", "mul") for prefix in ("", "i")
}
"""An operator, also that of `+=` and the like -> what LLVM calls it."""


def _lowered(implementation: Any, *kinds: Any, operands: int = 2) -> Any:
    """It, known to numba for operands of these types."""
    for kind in kinds:
        lower_builtin(implementation, *[kind] * operands)(implementation)
    return implementation


def _implementation(name: str) -> Any:
    """An index stays within i64, of which the compiler makes loops whose length it knows."""

    def compute(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.return_type in FLOATS:
            return getattr(builder, f"f{name}")(*arguments)
        flags = ("nsw",) if signature.return_type == I64 else ()
        return getattr(builder, name)(*arguments, flags=flags)

    return _lowered(compute, I64, U64, *FLOATS)


def _negation() -> Any:
    def compute(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (x,) = arguments
        if signature.return_type in FLOATS:
            return builder.fsub(ir.Constant(x.type, -0.0), x)
        return builder.sub(ir.Constant(x.type, 0), x)

    return _lowered(compute, I64, U64, *FLOATS, operands=1)


# --- which types go together


def _common(x: Any, y: Any) -> Any:
    """The 64-bit type in which two integers meet."""
    a, b = plain(x), plain(y)
    if a.signed == b.signed:
        return I64 if a.signed else U64
    for one, other in ((x, b), (y, a)):
        if isinstance(one, types.IntegerLiteral) and one.literal_value >= 0 and other == U64:
            return U64
    if U64 in (a, b):
        refuse(f"{a} and {b} do not go together")
    return I64


def _are(kind: Any, x: Any, y: Any) -> bool:
    return isinstance(plain(x), kind) and isinstance(plain(y), kind)


def arithmetic(x: Any, y: Any) -> Any:
    if _are(types.Integer, x, y):
        wide = _common(x, y)
        return wide(wide, wide)
    return floating(x, y)


def floating(x: Any, y: Any) -> Any:
    if x in FLOATS and x == y:
        return x(x, x)
    return refuse(f"{x} and {y} do not go together") if _are(_NUMBERS, x, y) else None


def condition(x: Any) -> Any:
    return BOOLEAN(x) if plain(x) == BOOLEAN else refuse(f"a condition is a boolean, and this is {plain(x)}")


def _sign(x: Any) -> Any:
    if isinstance(plain(x), types.Integer):
        wide = I64 if plain(x).signed else U64
        return wide(wide)
    return x(x) if x in FLOATS else None


def _comparison(x: Any, y: Any) -> Any:
    if _are(types.Integer, x, y):
        a, b = plain(x), plain(y)
        wide = a if a == b else _common(x, y)
        return BOOLEAN(wide, wide)
    if _are(types.Boolean, x, y):
        return BOOLEAN(x, y)
    common = floating(x, y)
    return None if common is None else BOOLEAN(x, y)


def bits(x: Any, y: Any) -> Any:
    if _are(types.Integer, x, y):
        wide = _common(x, y)
        return wide(wide, wide)
    return refuse(f"{x} and {y} do not go together") if _are(_NUMBERS, x, y) else None


def shift(x: Any, y: Any) -> Any:
    if _are(types.Integer, x, y):
        wide = I64 if plain(x).signed else U64
        return wide(wide, wide)
    return refuse(f"{x} and {y} do not go together") if _are(_NUMBERS, x, y) else None


def load(memory: Any, index: Any) -> Any:
    if not isinstance(memory, types.CPointer):
        return None
    _check_index(index)
    return memory.dtype(memory, types.intp)


def store(memory: Any, index: Any, value: Any) -> Any:
    if not isinstance(memory, types.CPointer):
        return None
    _check_index(index)
    if not fits(value, memory.dtype):
        refuse(f"{memory.dtype} is expected, and this is {value}")
    return types.none(memory, types.intp, memory.dtype)


def _check_index(index: Any) -> None:
    if not fits(index, I64):
        refuse(f"an index is {I64}, and this is {index}")


# --- division: rounded down; by 0 it is 0, and the smallest number by -1 wraps


def _quotient(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _divided(builder, signature, arguments, remainder=False)


def _remainder(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _divided(builder, signature, arguments, remainder=True)


def _divided(builder: Any, signature: Any, arguments: Any, *, remainder: bool) -> Any:
    x, y = arguments
    zero, one = ir.Constant(LONG, 0), ir.Constant(LONG, 1)
    by_zero = builder.icmp_signed("==", y, zero)
    safe = builder.select(by_zero, one, y)
    if signature.return_type == U64:
        result = builder.urem(x, safe) if remainder else builder.udiv(x, safe)
        return builder.select(by_zero, zero, result)
    by_minus_one = builder.icmp_signed("==", y, ir.Constant(LONG, -1))
    safe = builder.select(by_minus_one, one, safe)
    rest = builder.srem(x, safe)
    differ = builder.icmp_signed("<", builder.xor(rest, safe), zero)
    below = builder.and_(builder.icmp_signed("!=", rest, zero), differ)
    if remainder:
        result = builder.select(below, builder.add(rest, safe), rest)
        negated = zero
    else:
        quotient = builder.sdiv(x, safe)
        result = builder.select(below, builder.sub(quotient, one), quotient)
        negated = builder.sub(zero, x)
    return builder.select(by_zero, zero, builder.select(by_minus_one, negated, result))
