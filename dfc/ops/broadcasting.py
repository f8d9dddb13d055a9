"""Broadcasting by the strict rule of the language, and equality of dimensions under what is known at this point.

Shapes are aligned at the right; an axis that is the literal 1 stretches; a symbol never does. An operand may have fewer
axes only if the others alone already have the shape of the result.
`dims_equal` is what "equal" means: canonical equality, unless a caller that knows facts has set it to something better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from operator import eq

from dfc.ir.dims import ONE, Dim
from dfc.ir.types import TensorType
from dfc.ops.record import EXPRESSION, OpError, applied

Shape = tuple[Dim, ...]
DimsEqual = Callable[[Dim, Dim], bool]

ONE_NAME = "if they are always equal, use one name for both"
dims_equal: ContextVar[DimsEqual] = ContextVar("dims_equal", default=eq)


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are known to be equal."""
    return a == b or dims_equal.get()(a, b)


def same_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(same_dim, a, b))


def broadcast(types: Sequence[TensorType]) -> Shape:
    """The shape of an element-wise result; `OpError` E0304 or E0305 if the rule refuses it."""
    rank = max(t.rank for t in types)
    full = [number for number, t in enumerate(types) if t.rank == rank]
    result = types[full[0]].shape
    for number in full[1:]:
        result = _join(types, result, full[0], number)
    for number, type_ in enumerate(types):
        if type_.rank < rank:
            _fit(types, result, full[0], number)
    return result


def stretches_to(shape: Shape, target: Shape) -> bool:
    """Whether `shape` broadcasts to exactly `target` (the target never changes)."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(d == ONE or same_dim(d, t) for d, t in zip(shape, tail, strict=True))


def _join(types: Sequence[TensorType], shape: Shape, first: int, number: int) -> Shape:
    joined: list[Dim] = []
    for a, b in zip(shape, types[number].shape, strict=True):
        if a.constant != 1 and b.constant != 1 and not same_dim(a, b):
            raise _unequal(types, a, b, first, number)
        joined.append(b if a.constant == 1 else a)
    return tuple(joined)


def _fit(types: Sequence[TensorType], shape: Shape, full: int, number: int) -> None:
    short = types[number].shape
    tail = shape[len(shape) - len(short) :]
    stretched = False
    for a, b in zip(tail, short, strict=True):
        if a.constant != 1 and b.constant != 1 and not same_dim(a, b):
            raise _unequal(types, a, b, full, number)
        stretched = stretched or (a.constant == 1 and b.constant != 1)
    if stretched:
        raise _all_pairs(types, shape, full, number)


def _unequal(types: Sequence[TensorType], a: Dim, b: Dim, first: int, number: int) -> OpError:
    first, number, a, b = (first, number, a, b) if first < number else (number, first, b, a)
    label = f"{types[first]} against {types[number]}"
    helps, replaces = _new_axis_help(types)
    if (a - b).constant is not None:
        title = f"`{a}` and `{b}` are never equal"
        helps = helps or ("only an axis of size 1 is stretched",)
        return OpError("E0305", title, label=label, helps=helps, replaces=replaces)
    where = f"if that is a promise of the caller, add `where {a} == {b}`; it is checked when the entry is called"
    title = f"`{a}` and `{b}` are not known to be equal"
    return OpError("E0305", title, label=label, helps=helps or (ONE_NAME, where), replaces=replaces)


def _new_axis_help(types: Sequence[TensorType]) -> tuple[tuple[str, ...], dict[int, int]]:
    """For `[B, K] + [B]`: the vector was probably meant along another axis."""
    for number, short in enumerate(types):
        for other in types:
            if short.rank == 1 and other.rank == 2 and same_dim(short.shape[0], other.shape[0]):
                return (f"to repeat it along the last axis, write `{{{number} grouped}}[:, new]`",), {0: number}
    return (), {}


def _all_pairs(types: Sequence[TensorType], shape: Shape, full: int, number: int) -> OpError:
    short = types[number].shape
    tail = shape[len(shape) - len(short) :]
    joined = tuple(b if a == ONE else a for a, b in zip(tail, short, strict=True))
    result = types[full].with_shape(shape[: len(shape) - len(short)] + joined)
    helps: tuple[str, ...] = ()
    if len(shape) == 2 and len(short) == 1 and len(types) == 2:
        paired = [f"{{{number}}}", f"{{{number}}}"]
        paired[full] = f"{{{full} grouped}}[:, 0]"
        every = [f"{{{full}}}", f"{{{full}}}"]
        every[number] = f"{{{number} grouped}}[new, :]"
        helps = (
            f"if each `{{{full}}}` belongs to one `{{{number}}}`, write `{applied(*paired)}`",
            f"if you do want all pairs, write `{applied(*every)}`",
        )
    return OpError(
        "E0304",
        f"this would combine every `{{{full}}}` with every `{{{number}}}`",
        label=f"would be {result}",
        notes=("an operand may gain axes only if the other one then needs no stretching",),
        helps=helps,
        replaces=dict.fromkeys(range(len(helps)), EXPRESSION),
    )
