"""Arithmetic of kernel text as LLVM code: conversions, operators, comparisons.

Assumes operands of the types that the text gives them. Guarantees the results of the simulation: integers are computed
in 64 bits and wrap where they are cast, division rounds down and gives 0 by 0, floats keep their format and round once.
Operands whose types do not go together are refused: numbers of i64 and u64, of f32 and f64, of floats and integers.
"""

from __future__ import annotations

import ast
from typing import NoReturn

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code.code import Code, constant
from dfc_target_cuda.code.code_types import BOOLEAN, F64, I64, U64, Scalar, Type, Value, is_scalar

_EXACT = 1 << 53
_FLOATS: dict[type, str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_INDICES: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul"}
_BITS: dict[type, str] = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}
_SHIFTS: dict[type, dict[str, str]] = {
    ast.LShift: {"i": "shl", "u": "shl"},
    ast.RShift: {"i": "ashr", "u": "lshr"},
}
_ORDERS: dict[type, str] = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def refuse(node: ast.AST, why: str) -> NoReturn:
    raise CodeGenerationError(f"kernel text cannot be compiled: {why}: {ast.unparse(node)}")


# --- conversions


def cast(code: Code, value: Value, target: Scalar, node: ast.AST) -> Value:
    """`T(x)`: integers wrap, floats round; a float that no integer holds gives anything."""
    source = value.type
    if not is_scalar(source):
        refuse(node, f"a {source.name} is no number")
    if value.number is not None and _folds(source, target, value.number):
        return constant(target, value.number if target.kind != "b" else value.number != 0)
    if source == target:
        return Value(target, value.text)
    if target.kind == "b":
        compare, zero = ("fcmp une", constant(source, 0.0)) if source.is_float else ("icmp ne", constant(source, 0))
        return code.value(target, f"{compare} {source.llvm} {value.text}, {zero.text}")
    instruction = _conversion(source, target)
    if not instruction:
        return Value(target, value.text)
    return code.value(target, f"{instruction} {source.llvm} {value.text} to {target.llvm}")


def _folds(source: Scalar, target: Scalar, number: int | float) -> bool:
    """Whether a constant is converted here: where Python rounds as the machine does."""
    if source.is_float:
        return target.is_float
    return not target.is_float or abs(number) <= _EXACT


def _conversion(source: Scalar, target: Scalar) -> str:
    """The instruction; none between integers of one width."""
    if source.is_float and target.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if target.kind == "i" else "fptoui"
    if target.is_float:
        return "sitofp" if source.kind == "i" else "uitofp"
    if target.bits == source.bits:
        return ""
    return "trunc" if target.bits < source.bits else "sext" if source.kind == "i" else "zext"


def adapt(code: Code, value: Value, target: Type, node: ast.AST) -> Value:
    """As what a call, a variable or memory expects: the same type, a number of the text, or an integer in more bits."""
    source = value.type
    if source == target:
        return value
    if is_scalar(source) and is_scalar(target) and source.is_integer and target.is_integer:
        widens = target.bits > source.bits and (target.kind == source.kind or source.kind == "u")
        if widens or (value.literal and constant(target, value.number or 0).number == value.number):
            return cast(code, value, target, node)
    refuse(node, f"{target.name} is expected, and this is {source.name}")


# --- operators


def binary(code: Code, operator: ast.operator, x: Value, y: Value, node: ast.AST, *, wraps: bool) -> Value:
    """`wraps`: the result is cast; else it is an index, which stays within its type."""
    a, b = x.type, y.type
    if not is_scalar(a) or not is_scalar(b):
        refuse(node, "pointers are no numbers")
    kind = type(operator)
    if a.is_float and a == b and kind in _FLOATS:
        return code.value(a, f"{_FLOATS[kind]} {a.llvm} {x.text}, {y.text}")
    if not (a.is_integer and b.is_integer):
        refuse(node, f"{a.name} and {b.name} do not go together")
    if kind in _SHIFTS:
        wide = U64 if a.kind == "u" else I64
        left, right = cast(code, x, wide, node), cast(code, y, wide, node)
        return code.value(wide, f"{_SHIFTS[kind][wide.kind]} i64 {left.text}, {right.text}")
    wide = common(x, y, node)
    left, right = cast(code, x, wide, node), cast(code, y, wide, node)
    if kind in _INDICES:
        within = "" if wraps or wide == U64 else "nsw "
        return code.value(wide, f"{_INDICES[kind]} {within}i64 {left.text}, {right.text}")
    if kind in _BITS:
        return code.value(wide, f"{_BITS[kind]} i64 {left.text}, {right.text}")
    if kind in (ast.FloorDiv, ast.Mod):
        return _divided(code, left, right, wide, remainder=kind is ast.Mod)
    refuse(node, f"no operator of {a.name}")


def common(x: Value, y: Value, node: ast.AST) -> Scalar:
    """The 64-bit type in which two integers meet."""
    a, b = x.type, y.type
    assert is_scalar(a) and is_scalar(b)
    if a.kind == b.kind:
        return I64 if a.kind == "i" else U64
    for one, other in ((x, b), (y, a)):
        if one.literal and one.number is not None and one.number >= 0 and other == U64:
            return U64
    if U64 in (a, b):
        refuse(node, f"{a.name} and {b.name} do not go together")
    return I64


def _divided(code: Code, x: Value, y: Value, wide: Scalar, *, remainder: bool) -> Value:
    """Rounded down; by 0 it is 0, and the smallest number by -1 wraps."""
    if wide == U64:
        safe = _nonzero(code, y)
        made = code.let(f"{'urem' if remainder else 'udiv'} i64 {x.text}, {safe}")
        return _zero_by_zero(code, y, made, wide)
    if y.number is not None and y.number > 0:
        return _rounded_down(code, x.text, y.text, remainder=remainder)
    minus = code.let(f"icmp eq i64 {y.text}, -1")
    safe = code.let(f"select i1 {minus}, i64 1, i64 {_nonzero(code, y)}")
    made = _rounded_down(code, x.text, safe, remainder=remainder).text
    negative = "0" if remainder else code.let(f"sub i64 0, {x.text}")
    made = code.let(f"select i1 {minus}, i64 {negative}, i64 {made}")
    return _zero_by_zero(code, y, made, wide)


def _nonzero(code: Code, y: Value) -> str:
    zero = code.let(f"icmp eq i64 {y.text}, 0")
    return code.let(f"select i1 {zero}, i64 1, i64 {y.text}")


def _zero_by_zero(code: Code, y: Value, made: str, wide: Scalar) -> Value:
    zero = code.let(f"icmp eq i64 {y.text}, 0")
    return code.value(wide, f"select i1 {zero}, i64 0, i64 {made}")


def _rounded_down(code: Code, x: str, y: str, *, remainder: bool) -> Value:
    rest = code.let(f"srem i64 {x}, {y}")
    signs = code.let(f"xor i64 {rest}, {y}")
    differ = code.let(f"icmp slt i64 {signs}, 0")
    some = code.let(f"icmp ne i64 {rest}, 0")
    below = code.let(f"and i1 {some}, {differ}")
    if remainder:
        more = code.let(f"add i64 {rest}, {y}")
        return code.value(I64, f"select i1 {below}, i64 {more}, i64 {rest}")
    quotient = code.let(f"sdiv i64 {x}, {y}")
    less = code.let(f"add i64 {quotient}, -1")
    return code.value(I64, f"select i1 {below}, i64 {less}, i64 {quotient}")


def unary(code: Code, operator: ast.unaryop, x: Value, node: ast.AST) -> Value:
    kind = x.type
    if not is_scalar(kind):
        refuse(node, "pointers are no numbers")
    if isinstance(operator, ast.Not) and kind == BOOLEAN:
        return code.value(BOOLEAN, f"xor i1 {x.text}, true")
    if isinstance(operator, ast.USub) and x.number is not None and kind.kind in "if":
        return constant(kind if kind.is_float else I64, -x.number, literal=x.literal)
    if isinstance(operator, ast.USub) and kind.is_float:
        zero = constant(kind, -0.0)
        return code.value(kind, f"fsub {kind.llvm} {zero.text}, {x.text}")
    if not kind.is_integer:
        refuse(node, f"no operator of {kind.name}")
    wide = U64 if kind.kind == "u" else I64
    value = cast(code, x, wide, node)
    if isinstance(operator, ast.USub):
        return code.value(wide, f"sub i64 0, {value.text}")
    if isinstance(operator, ast.Invert):
        return code.value(wide, f"xor i64 {value.text}, -1")
    refuse(node, f"no operator of {kind.name}")


def compare(code: Code, operator: ast.cmpop, x: Value, y: Value, node: ast.AST) -> Value:
    """NaN is unequal to all, and neither above nor below."""
    order = _ORDERS.get(type(operator))
    a, b = x.type, y.type
    if order is None or not is_scalar(a) or not is_scalar(b):
        refuse(node, "no comparison")
    if a == b and a.is_float:
        return code.value(BOOLEAN, f"fcmp {'une' if order == 'ne' else f'o{order}'} {a.llvm} {x.text}, {y.text}")
    if a == b == BOOLEAN and order in ("eq", "ne"):
        return code.value(BOOLEAN, f"icmp {order} i1 {x.text}, {y.text}")
    if not (a.is_integer and b.is_integer):
        refuse(node, f"{a.name} and {b.name} do not go together")
    wide = a if a == b else common(x, y, node)
    left, right = cast(code, x, wide, node), cast(code, y, wide, node)
    sign = "" if order in ("eq", "ne") else "s" if wide.kind == "i" else "u"
    return code.value(BOOLEAN, f"icmp {sign}{order} {wide.llvm} {left.text}, {right.text}")


def number(text: int | float | bool, node: ast.AST) -> Value:
    """A number as it stands in the text: i64, u64 where it is too large for that, f64."""
    if isinstance(text, bool):
        return constant(BOOLEAN, text)
    if isinstance(text, float):
        return constant(F64, text)
    if not -(1 << 63) <= text < 1 << 64:
        refuse(node, "no type has this number")
    return constant(I64 if text < 1 << 63 else U64, text, literal=True)
