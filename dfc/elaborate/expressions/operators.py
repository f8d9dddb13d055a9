"""Operators: on constants and sizes at compile time, otherwise one node."""

from __future__ import annotations

import re
from collections.abc import Callable

from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import converted
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import apply, operate
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.types.convert import default_type, element_type, is_operand, not_an_operand, tensor
from dfc.elaborate.types.entities import Constant, Entity, Opaque, Size, SizeCondition, Tensor, Unknown, Untyped
from dfc.elaborate.types.untyped import deferred
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import I64
from dfc.ops import binding, registry
from dfc.ops.operators import op_between

Number = int | float
_FOLDS: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
_COMPARES: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
LARGEST_CONSTANT = 2**64
LONGEST_TEXT = 1_000_000


def binary(context: Context, op: str, left: Entity, right: Entity, spans: OperationSpans) -> Entity:
    """`left op right`"""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        raise Abandoned
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _fold(op, left.value, right.value, spans)
    folded = _on_sizes(context, op, left, right)
    if folded is not None:
        return folded
    if isinstance(left, Opaque | Constant) and isinstance(right, Opaque | Constant):
        return _unknown_result(op, left, right, spans)
    return _on_tensors(context, op, left, right, spans)


def negate(context: Context, operand: Entity, spans: OperationSpans) -> Entity:
    match operand:
        case Constant(value):
            if isinstance(value, bool | str):
                raise mistake("E0302", "`-` needs a number", spans.operands[0])
            return Constant(-value)
        case Size(size, adapts):
            return Size(-size, adapts)
        case Opaque("float"):
            return operand
        case _:
            later = deferred("neg", lambda builder, it: builder.apply("neg", *it), [operand], spans)
            if later is not None:
                return later
            value = tensor(context, operand, spans.operands[0])
            return Tensor(apply(context, "neg", [value], spans))


def invert(context: Context, operand: Entity, spans: OperationSpans) -> Entity:
    match operand:
        case Constant(bool() as value):
            return Constant(not value)
        case Opaque("bool"):
            return operand
        case _:
            value = tensor(context, operand, spans.operands[0])
            return Tensor(apply(context, "not", [value], spans))


# ---------------------------------------------------------- compile time --


def _fold(op: str, left: bool | Number | str, right: bool | Number | str, spans: OperationSpans) -> Constant:
    if isinstance(left, bool) or isinstance(right, bool) or isinstance(left, str) or isinstance(right, str):
        return _fold_words(op, left, right, spans)
    if op in _COMPARES:
        return Constant(_COMPARES[op](left, right))
    if op in ("and", "or"):
        raise mistake("E0302", f"`{op}` needs two bools", spans.span)
    return Constant(_compute(op, left, right, spans))


def _fold_words(op: str, left: bool | Number | str, right: bool | Number | str, spans: OperationSpans) -> Constant:
    """Operators on bools and strings."""
    if isinstance(left, bool) and isinstance(right, bool) and op in ("and", "or"):
        return Constant(left and right if op == "and" else left or right)
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        if len(left) + len(right) > LONGEST_TEXT:
            raise mistake("E0311", f"a string has at most {LONGEST_TEXT} characters", spans.span)
        return Constant(left + right)
    if isinstance(left, bool) != isinstance(right, bool) or isinstance(left, str) != isinstance(right, str):
        raise mistake("E0302", f"`{op}` needs two operands of one type", spans.operator)
    if op in ("==", "!="):
        return Constant((left == right) == (op == "=="))
    raise mistake("E0302", f"`{op}` needs two numbers", spans.operator)


def _compute(op: str, left: Number, right: Number, spans: OperationSpans) -> Number:
    whole = isinstance(left, int) and isinstance(right, int)
    if op == "@":
        raise mistake("E0301", "`@` multiplies matrices, and these are numbers", spans.operator)
    if op == "/" and whole:
        raise whole_quotient("a whole number divided by a whole number", spans, (True, True), whole=True)
    if op == "**" and (abs(right) > 4096 or (whole and abs(left) > 1 and abs(right) > 64)):
        raise mistake("E0311", "this power is too large for a constant", spans.span)
    if op == "**" and whole and right < 0:
        base = spans.operands[0].text
        raise _negative_power(f"{base}.0" if base.isdigit() else None, spans)
    try:
        result = _FOLDS[op](left, right)
    except ZeroDivisionError:
        raise mistake("E0311", "this divides by zero", spans.span) from None
    except OverflowError:
        raise mistake("E0311", "this is too large for a number", spans.span) from None
    if isinstance(result, complex):
        raise mistake("E0311", "a power of a negative number with a fraction is no number", spans.span)
    if isinstance(result, int) and abs(result) > LARGEST_CONSTANT:
        raise mistake("E0311", "this is too large for a constant", spans.span)
    return result


def whole_quotient(label: str, spans: OperationSpans, adapt: tuple[bool, bool], *, whole: bool) -> Exception:
    """`adapt`: which operands are numbers without an element type; `whole`: whether these are whole numbers."""
    left, right = (span.text for span in spans.operands)
    helps = [replacing(f"write `{left} // {right}` for the whole part", spans.operator, "//")] if whole else []
    exact = _exact(left, right, adapt)
    helps.append(replacing(f"write `{exact}` for the exact quotient", spans.span, exact))
    return mistake("E0303", "`/` is for floating-point numbers", spans.operator, label, helps=helps)


def _exact(left: str, right: str, adapt: tuple[bool, bool]) -> str:
    """The floating-point quotient of whole numbers; one of numbers alone still takes the type that it meets."""
    literals = [_LITERAL.fullmatch(text) is not None for text in (left, right)]
    if all(adapt):
        if literals[0]:
            return f"{left}.0 / {right}"
        return f"{left} / {right}.0" if literals[1] else f"1.0 * {left} / {right}"
    a = f"{left}.0" if literals[0] else left if adapt[0] else converted(left, "f32")
    return f"{a} / {right if adapt[1] else converted(right, 'f32')}"


_LITERAL = re.compile(r"-?[0-9][0-9_]*")


def as_size(entity: Entity) -> Dim | None:
    match entity:
        case Size(size):
            return size
        case Constant(bool()):
            return None
        case Constant(int() as value):
            return dim(value)
        case _:
            return None


def _on_sizes(context: Context, op: str, left: Entity, right: Entity) -> Entity | None:
    """Arithmetic and comparison of dimensions; None if it is not that."""
    a, b = as_size(left), as_size(right)
    if a is None or b is None:
        return None
    adapts = _adapts(left) and _adapts(right)
    if op in _COMPARES:
        answer = context.facts.holds(a, op, b)
        return Constant(answer) if answer is not None else SizeCondition(a, op, b)
    size = _size_arithmetic(op, a, b)
    return Size(context.facts.canonical(size), adapts) if size is not None else None


def _adapts(entity: Entity) -> bool:
    return element_type(entity) is None


def _size_arithmetic(op: str, a: Dim, b: Dim) -> Dim | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%" if b.constant != 0:
            return a // b if op == "//" else a % b
        case "**" if b.constant is not None and 0 <= b.constant <= 8:
            power = dim(1)
            for _ in range(b.constant):
                power = power * a
            return power
        case _:
            return None


def _unknown_result(op: str, left: Opaque | Constant, right: Opaque | Constant, spans: OperationSpans) -> Entity:
    del spans
    if op in _COMPARES or op in ("and", "or"):
        known = next((e.value for e in (left, right) if isinstance(e, Constant)), None)
        if (op == "and" and known is False) or (op == "or" and known is True):
            return Constant(known)
        return Opaque("bool")
    return Opaque("float")


# -------------------------------------------------------------- run time --


def _on_tensors(context: Context, op: str, left: Entity, right: Entity, spans: OperationSpans) -> Entity:
    for entity, span in zip((left, right), spans.operands, strict=True):
        if not is_operand(entity):
            raise not_an_operand(entity, span)
    known_left, known_right = element_type(left), element_type(right)
    fallback = default_type(left) if default_type(left) == default_type(right) else default_type(Opaque("float"))
    dtype = known_left or known_right or fallback
    mixed = known_left is not None and known_right is not None and known_right.is_float
    if op == "/" and not (dtype.is_float or dtype.is_complex or dtype.is_bool or mixed):
        adapt = (_adapts(left), _adapts(right))
        whole = all(default_type(e) == I64 for e, adapts in zip((left, right), adapt, strict=True) if adapts)
        raise whole_quotient(f"{_kind(left)} divided by {_kind(right)}", spans, adapt, whole=whole)
    if isinstance(left, Untyped) or isinstance(right, Untyped):
        later = deferred(op_between(op), lambda builder, it: builder.apply(op_between(op), *it), [left, right], spans)
        if later is not None:
            return later
    a = tensor(context, left, spans.operands[0], None if known_left else dtype)
    b = tensor(context, right, spans.operands[1], None if known_right else dtype)
    if op == "**" and isinstance(right, Constant) and b.tensor.dtype.is_integer and _is_negative(right):
        raise _negative_power(f"({converted(spans.operands[0].text, 'f32')})", spans)
    if op == "@":
        record = registry.record("matmul")
        return Tensor(operate(context, spans, lambda builder: binding.call(builder, record, [a, b], {})))
    return Tensor(apply(context, op_between(op), [a, b], spans))


def _is_negative(constant: Constant) -> bool:
    return isinstance(constant.value, int) and constant.value < 0


def _negative_power(base: str | None, spans: OperationSpans) -> Mistake:
    """E0311, with the base to write instead where there is one."""
    title = "a whole number to a negative power is no whole number"
    left, right = spans.operands
    helps = () if base is None else (replacing(f"write `{base} ** {right.text}`", left, base),)
    return mistake("E0311", title, spans.span, helps=helps)


def _kind(entity: Entity) -> str:
    dtype = element_type(entity)
    if dtype is not None:
        return str(dtype)
    return "a whole number" if default_type(entity) == I64 else "a number"


def spans(op: str, left: Span, right: Span, operator: Span, whole: Span) -> OperationSpans:
    return OperationSpans(op, whole, (left, right), operator)
