"""The conditions `infer` functions share: element types, ranks, axes. Each failure is an `OpError` with a remedy."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dims import Dim
from dfc.ir.dtypes import BOOL, DType, DTypeVariable, in_class
from dfc.ir.types import TensorType
from dfc.ops.broadcasting import broadcast
from dfc.ops.record import EXPRESSION, OpError, applied
from dfc_runtime.errors import counted

CLASS_NAMES = {
    "float": "floating-point numbers",
    "int": "whole numbers",
    "number": "numbers",
    "bool": "truth values",
    "any": "values",
}
REMEDY = {"float": "{%d as f32}", "int": "{%d as i64}", "number": "{%d as i32}", "bool": "{%d} != 0"}


def belongs(dtype: DType | DTypeVariable, bound: str) -> bool:
    return dtype == BOOL if bound == "bool" else in_class(dtype, bound)


def require_class(types: Sequence[TensorType], bound: str, only: Sequence[int] | None = None) -> None:
    """E1001 for complex numbers, E0302 for an operand outside the class (`float int number bool any`)."""
    for number in range(len(types)) if only is None else only:
        dtype = types[number].dtype
        if dtype.is_complex:
            raise OpError("E1001", "complex numbers are not supported yet", blame=number, label=str(types[number]))
        if not belongs(dtype, bound):
            helps = (f"write `{_remedy(types, number, bound)}`",) if bound in REMEDY else ()
            title = f"`{{op}}` needs {CLASS_NAMES[bound]}"
            replaces = {0: number} if helps else {}
            raise OpError("E0302", title, blame=number, label=str(types[number]), helps=helps, replaces=replaces)


def _remedy(types: Sequence[TensorType], number: int, bound: str) -> str:
    """One operand as a member of a class: of the type of another operand that is one, if there is such an operand."""
    other = next((each.dtype for each in types if belongs(each.dtype, bound)), None)
    if other is None or bound == "bool":
        return REMEDY[bound] % number
    return f"{{{number} as {other}}}"


def require_same_dtype(types: Sequence[TensorType], only: Sequence[int] | None = None) -> None:
    """E0302 if the operands have different element types."""
    numbers = list(range(len(types))) if only is None else list(only)
    first = numbers[0]
    for number in numbers[1:]:
        a, b = types[first], types[number]
        if a.dtype != b.dtype:
            raise OpError(
                "E0302",
                "`{op}` needs " + ("two operands" if len(numbers) == 2 else "operands") + " of one type",
                blame=None if len(numbers) > 2 else "@operator",
                label=f"{a.dtype} against {b.dtype}",
                notes=("nothing is converted silently in .dfg, not even to a wider type",),
                helps=(f"write `{_conversion(a, b, first, number, pair=len(types) == 2)}`",),
                operand_labels={first: str(a), number: str(b)},
                replaces={0: EXPRESSION if len(types) == 2 else _narrower(a, b, first, number)},
            )


def _conversion(a: TensorType, b: TensorType, first: int, number: int, *, pair: bool) -> str:
    """The operation with the narrower operand converted to the type of the wider one."""
    left, right = f"{{{first}}}", f"{{{number}}}"
    if _breadth(a.dtype) > _breadth(b.dtype):
        wide = f"{{{number} as {a.dtype}}}"
        return applied(left, wide) if pair else wide
    wide = f"{{{first} as {b.dtype}}}"
    return applied(wide, right) if pair else wide


def _narrower(a: TensorType, b: TensorType, first: int, number: int) -> int:
    return number if _breadth(a.dtype) > _breadth(b.dtype) else first


def _breadth(dtype: DType | DTypeVariable) -> tuple[int, int]:
    if isinstance(dtype, DTypeVariable):
        return (3, 0)
    return (2 if dtype.is_float else 1 if dtype.is_integer else 0, dtype.size)


def elementwise(types: Sequence[TensorType], bound: str) -> TensorType:
    """One class, one element type, broadcast shapes."""
    require_class(types, bound)
    if len(types) > 1:
        require_same_dtype(types)
    return TensorType(types[0].dtype, broadcast(types))


def require_rank(types: Sequence[TensorType], number: int, ranks: Sequence[int], words: str) -> None:
    """E0313 if an operand has the wrong number of axes; `words` name the right ones (`a matrix`)."""
    if types[number].rank not in ranks:
        raise OpError(
            "E0313",
            f"`{{op}}` needs {words}",
            blame=number,
            label=f"{types[number]} has {counted(types[number].rank, 'axis')}",
        )


def axis_error(axis: int, rank: int, blame: int | str = "axis") -> OpError:
    if rank == 0:
        return OpError("E0312", "a single number has no axes", blame=blame, label=f"asks for axis {axis}")
    return OpError(
        "E0312",
        f"there is no axis {axis}",
        blame=blame,
        label=f"the operand has {counted(rank, 'axis')}",
        helps=(f"axes count from 0 to {rank - 1}, or from -1 back to -{rank}",),
    )


def require_axis(axis: int, type_: TensorType) -> None:
    """E0312 if a normalised axis does not exist."""
    if not 0 <= axis < type_.rank:
        raise axis_error(axis, type_.rank)


def require_axes(axes: Sequence[int], type_: TensorType) -> None:
    for axis in axes:
        require_axis(axis, type_)
    if len(set(axes)) != len(axes):
        raise OpError("E0312", "an axis is named twice", blame="axis")


def require_size(size: Dim, blame: int | str | None, words: str) -> None:
    """E0314 if a size is known to be negative."""
    if size.constant is not None and size.constant < 0:
        raise OpError("E0314", f"{words} would be {size}", blame=blame, label="sizes are whole numbers from 0 up")
