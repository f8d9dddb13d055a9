"""What the operators of kernel text mean, told to numba before its own rules: arithmetic of indices, and memory.

Numba looks an operator up among some twenty overloads, those of strings and lists first, for each use of it; in kernel
text operators are for indices (i64) alone, all else is calls of one type each. Assumes to be installed before numba has
read its own rules. Guarantees that an index stays within i64, of which the compiler makes loops whose length it knows,
and that operands of other types are refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from dfc_target_cuda.kernels.prelude.intrinsics import fits, lower_builtin, plain, refuse, templates, types

_I64, _BOOLEAN = types.int64, types.boolean

Rule: TypeAlias = Callable[..., Any]
"""(types of the operands) -> signature; None for what numba's own rules say something about."""

_STANDARD: Any = operator  # whose functions take anything
_INSTRUCTIONS = {
    _STANDARD.add: ("add", ("nsw",)),
    _STANDARD.sub: ("sub", ("nsw",)),
    _STANDARD.mul: ("mul", ("nsw",)),
    _STANDARD.and_: ("and_", ()),
    _STANDARD.lshift: ("shl", ()),
    _STANDARD.rshift: ("ashr", ()),
}
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


def install() -> None:
    """Makes the rules those that are asked first. Once a process."""
    registry = templates.Registry()
    for one, (instruction, flags) in _INSTRUCTIONS.items():
        _register(registry, one, _of_indices(_I64), _implementation(instruction, flags))
    for one in _COMPARISONS:
        _register(registry, one, _of_indices(_BOOLEAN))
    _register(registry, operator.getitem, _load)
    _register(registry, operator.setitem, _store)
    for one in (operator.not_, bool):
        _register(registry, one, _condition)
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


def _implementation(instruction: str, flags: tuple[str, ...]) -> Any:
    def compute(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments, flags=flags)

    lower_builtin(compute, _I64, _I64)(compute)
    return compute


def _of_indices(result: Any) -> Rule:
    def rule(x: Any, y: Any) -> Any:
        for one in (x, y):
            if plain(one) != _I64:
                refuse(f"operators are for indices, and this is {one}")
        return result(_I64, _I64)

    return rule


def _condition(x: Any) -> Any:
    return _BOOLEAN(x) if plain(x) == _BOOLEAN else refuse(f"a condition is a boolean, and this is {plain(x)}")


def _load(memory: Any, index: Any) -> Any:
    if not isinstance(memory, types.CPointer):
        return None
    _check_index(index)
    return memory.dtype(memory, types.intp)


def _store(memory: Any, index: Any, value: Any) -> Any:
    if not isinstance(memory, types.CPointer):
        return None
    _check_index(index)
    if not fits(value, memory.dtype):
        refuse(f"{memory.dtype} is expected, and this is {value}")
    return types.none(memory, types.intp, memory.dtype)


def _check_index(index: Any) -> None:
    if not fits(index, _I64):
        refuse(f"an index is {_I64}, and this is {index}")
