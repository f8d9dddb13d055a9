"""From the arguments of a call in the language to attributes and nodes.

The front end evaluates constant arguments and calls `call`; everything op-specific happens here and in the records.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops.broadcasting import same_dim
from dfc.ops.builder import Builder
from dfc.ops.conditions import axis_error
from dfc.ops.record import Arguments, ConstArgument, OpError, OpRecord


def call(builder: Builder, record: OpRecord, operands: Sequence[Value], arguments: Arguments) -> Value:
    """Appends what a call `record.name(operands, arguments)` means and returns its result; raises `OpError`."""
    (result,) = results(builder, record, operands, arguments)
    return result


def results(builder: Builder, record: OpRecord, operands: Sequence[Value], arguments: Arguments) -> tuple[Value, ...]:
    """As `call`, for ops with one result or several."""
    if record.build is not None:
        return (record.build(builder, operands, arguments),)
    attributes = record.bind(arguments, [v.tensor for v in operands]) if record.bind is not None else None
    return tuple(builder.node(record.name, operands, attributes).results)


def wrong(name: str, expected: str) -> OpError:
    return OpError("E0315", f"the argument `{name}` must be {expected}", blame=name)


def integer(value: ConstArgument, name: str) -> int:
    """A plain whole number (a size that is a plain number counts)."""
    if isinstance(value, Dim) and value.constant is not None:
        return value.constant
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, "a whole number")
    return value


def integers(value: ConstArgument, name: str) -> tuple[int, ...]:
    """One whole number or a list of them."""
    return tuple(integer(v, name) for v in value) if isinstance(value, tuple) else (integer(value, name),)


def flag(value: ConstArgument, name: str) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, "`true` or `false`")
    return value


def size(value: ConstArgument, name: str) -> Dim:
    if isinstance(value, bool) or not isinstance(value, int | Dim):
        raise wrong(name, "a size")
    return dim(value)


def shape(value: ConstArgument, name: str) -> tuple[Dim, ...]:
    """A size or a list of sizes."""
    return tuple(size(v, name) for v in value) if isinstance(value, tuple) else (size(value, name),)


def element_type(value: ConstArgument, name: str) -> DType | DTypeVariable:
    if not isinstance(value, DType | DTypeVariable):
        raise wrong(name, "an element type such as `f32`")
    return value


def tensor_type(value: ConstArgument, name: str) -> TensorType:
    if isinstance(value, DType | DTypeVariable):
        return TensorType(value)
    if not isinstance(value, TensorType):
        raise wrong(name, "a type such as `f32[8]`")
    return value


def normalised_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Counts negative axes from the end; E0312 if there is no such axis."""
    if not -rank <= axis < rank:
        raise axis_error(axis, rank, name)
    return axis % rank


def normalised_axes(value: ConstArgument, rank: int, name: str = "axis") -> tuple[int, ...]:
    """Normalised and sorted; E0312 for an axis that is missing or named twice."""
    axes = tuple(sorted(normalised_axis(axis, rank, name) for axis in integers(value, name)))
    if len(set(axes)) != len(axes):
        raise OpError("E0312", "an axis is named twice", blame=name)
    return axes


def matching(types: Sequence[TensorType], first: int, second: int, axes: tuple[int, int]) -> bool:
    """Whether two axes of two operands are known to have one size."""
    return same_dim(types[first].shape[axes[0]], types[second].shape[axes[1]])
