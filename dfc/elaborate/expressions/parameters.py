"""Matching the arguments of a call with the declared parameters of a function or block.

Finds out what the generic names stand for. Arguments with an element type of their own are matched first, so that
numbers adapt to what the others decided.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.statements.inserting import conversion
from dfc.elaborate.types.convert import constant_of, default_type, element_type, tensor
from dfc.elaborate.types.declared import ConstType, DeclaredType, FunctionType, ResourceType, TupleType
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    Constant,
    Entity,
    Instance,
    ListValue,
    Opaque,
    PreludeFunction,
    Routine,
    Size,
    Tensor,
    TupleValue,
    Unknown,
    Untyped,
    VariableValue,
)
from dfc.elaborate.types.fitting import fit, fits_resource, tuple_items, wrong_argument
from dfc.elaborate.types.generics import Matching, Mismatch
from dfc.ir.dims import dim
from dfc.ir.dtypes import DTypeVariable, in_class
from dfc.ir.types import TensorType
from dfc.ops.conditions import CLASS_NAMES
from dfc.syntax.tree import tree


@dataclass(slots=True)
class Bound:
    """A parameter with its argument."""

    parameter: tree.Parameter
    type: DeclaredType
    entity: Entity
    span: Span


def described(name: str, parameters: Sequence[tree.Parameter]) -> str:
    """The call as it is declared: `f(x: f32[N], const n: int = 2)`."""
    return f"{name}({', '.join(' '.join(p.span.text.split()) for p in parameters)})"


def match_arguments(
    context: Context,
    matching: Matching,
    name: str,
    arguments: Sequence[Argument],
    span: Span,
    scope: Scope,
) -> list[Bound]:
    """Elaborates the arguments and finds out what the generic names stand for."""
    signature = matching.signature
    expected_parameters = [
        ExpectedArgument(p.name.text, isinstance(p, tree.RefParameter) or p.default is None)
        for p in signature.parameters
    ]
    note = described(name, signature.parameters)
    assigned = assign_arguments(name, expected_parameters, arguments, span, note)
    bound: list[Bound] = []
    for parameter, type_ in zip(signature.parameters, signature.types, strict=True):
        argument = assigned.get(parameter.name.text)
        if argument is not None:
            here = context.changed(may_affect=False)
            bound.append(Bound(parameter, type_, value_of(here, argument), argument.span))
        elif not isinstance(parameter, tree.RefParameter) and parameter.default is not None:
            default = _default(context, scope, bound, parameter.default)
            bound.append(Bound(parameter, type_, default, span))
    for each in sorted(bound, key=lambda b: _adapts(b.entity)):
        each.entity = _match(context, matching, name, each)
    return bound


def _default(context: Context, scope: Scope, before: Sequence[Bound], default: tree.Expression) -> Entity:
    """A default value sees the parameters before it."""
    inner = Scope(scope)
    for each in before:
        inner.bind(each.parameter.name.text, each.entity, each.parameter.name.span, BindingRole.PARAMETER)
    return context.engine.evaluate(context.changed(scope=inner, may_affect=False), default)


def _adapts(entity: Entity) -> bool:
    return element_type(entity) is None and isinstance(entity, Constant | Opaque | ListValue | Size | Untyped)


def _match(context: Context, matching: Matching, function: str, bound: Bound) -> Entity:
    name = bound.parameter.name.text
    if isinstance(bound.entity, Unknown):
        raise Abandoned
    if isinstance(bound.parameter, tree.RefParameter):
        _require_reference(bound, function)
    complain = wrong_argument(name, function, bound.span)
    match bound.type:
        case ConstType():
            return _constant(context, matching, bound, function)
        case FunctionType():
            if isinstance(bound.entity, Routine | PreludeFunction | Instance):
                return bound.entity
            raise complain(f"a function {bound.type}", describe(bound.entity))
        case ResourceType(kind):
            if not fits_resource(bound.entity, kind):
                raise complain({"rng": "an rng", "vars": "a list of variables"}.get(kind, kind), describe(bound.entity))
            return bound.entity
        case _:
            fitted = _match_value(context, matching, bound.entity, bound.type, bound.span, name, function)
            return bound.entity if isinstance(bound.parameter, tree.RefParameter) else fitted


def _require_reference(bound: Bound, function: str) -> None:
    name = bound.parameter.name.text
    if isinstance(bound.entity, VariableValue):
        return
    if isinstance(bound.entity, ListValue | TupleValue) and not isinstance(bound.type, TensorType):
        return
    raise mistake(
        "E0406",
        f"the argument `{name}` of `{function}` must be a variable",
        bound.span,
        f"this is {describe(bound.entity)}",
        notes=(f"`ref {name}` lets `{function}` change it",),
    )


def _match_value(
    context: Context, matching: Matching, entity: Entity, type_: DeclaredType, span: Span, name: str, function: str
) -> Entity:
    complain = wrong_argument(name, function, span)
    if isinstance(type_, TupleType):
        items = tuple_items(entity, len(type_.fields), fill=True)
        if items is None:
            raise complain(matching.signature.shown(type_), describe(entity))
        parts = [
            _match_value(context, matching, e, t, span, name, function)
            for e, t in zip(items, type_.fields, strict=True)
        ]
        return TupleValue(tuple(parts), type_.names)
    if not isinstance(type_, TensorType):
        return fit(context, entity, type_, span, complain)
    return _match_tensor(context, matching, entity, type_, span, name, function)


def _match_tensor(
    context: Context, matching: Matching, entity: Entity, type_: TensorType, span: Span, name: str, function: str
) -> Tensor:
    complain = wrong_argument(name, function, span)
    dtype = type_.dtype
    if isinstance(dtype, DTypeVariable):
        dtype = matching.dtypes.get(dtype, dtype)
        if dtype in matching.signature.dtypes.values() and dtype not in matching.dtypes:
            dtype = default_type(entity)
    value = tensor(context, entity, span, dtype if element_type(entity) is None else None)
    got = value.tensor
    if not matching.match_dtype(type_.dtype, got.dtype):
        expected = matching.tensor_type(type_)
        if isinstance(type_.dtype, DTypeVariable) and not in_class(got.dtype, type_.dtype.bound):
            raise _wrong_class(name, function, span, type_.dtype, got)
        if got.rank == type_.rank and not isinstance(expected.dtype, DTypeVariable):
            raise _wrong_element(name, function, span, expected, got)
        raise complain(matching.signature.shown(expected), str(got))
    if not matching.match_shape(type_.shape, got.shape):
        raise complain(matching.signature.shown(type_), str(got))
    mismatch = matching.check()
    if mismatch is not None:
        raise _wrong_size(context, matching, name, function, span, type_, got, mismatch)
    return Tensor(value)


def _wrong_class(name: str, function: str, span: Span, expected: DTypeVariable, got: TensorType) -> Mistake:
    """`T: float`, and the operand is of no such type."""
    title = f"the argument `{name}` of `{function}` must be {CLASS_NAMES[expected.bound]}, not {got.dtype}"
    text = conversion(span, {"float": "f32", "int": "i64", "number": "i32"}.get(expected.bound, "f32"))
    helps = (replacing(f"write `{text}`", span, text),) if "\n" not in span.text and expected.bound != "any" else ()
    return mistake("E0302", title, span, f"this is {got}", helps=helps)


def _wrong_element(name: str, function: str, span: Span, expected: TensorType, got: TensorType) -> Mistake:
    text = conversion(span, expected.dtype)
    return mistake(
        "E0302",
        f"the argument `{name}` of `{function}` must be {expected.dtype}, not {got.dtype}",
        span,
        f"this is {got}",
        notes=("nothing is converted silently in .dfg, not even to a wider type",),
        helps=(replacing(f"write `{text}`", span, text),) if "\n" not in span.text else (),
    )


def _wrong_size(
    context: Context,
    matching: Matching,
    name: str,
    function: str,
    span: Span,
    type_: TensorType,
    got: TensorType,
    mismatch: Mismatch,
) -> Mistake:
    shown = matching.signature.shown(matching.tensor_type(type_))
    if not mismatch.open:
        title = f"the argument `{name}` of `{function}` must be {shown}"
        return mistake("E0305", title, span, f"this is {got}: {mismatch.got} instead of {mismatch.expected}")
    secondary = [
        (b.span, "introduced here")
        for size in (mismatch.expected, mismatch.got)
        if (b := context.scope.find(str(size))) is not None
        and b.role is BindingRole.DIMENSION
        and not b.span.is_nowhere
    ]
    return mistake(
        "E0305",
        f"`{mismatch.expected}` and `{mismatch.got}` are not known to be equal",
        span,
        f"the argument `{name}` of `{function}` must be {shown}, and this is {got}",
        secondary=secondary,
        helps=(f"if they are always equal, add `where {mismatch.expected} == {mismatch.got}`",),
    )


def _constant(context: Context, matching: Matching, bound: Bound, function: str) -> Entity:
    """The value of a `const` parameter."""
    type_, name = bound.type, bound.parameter.name.text
    assert isinstance(type_, ConstType)
    if type_.is_list:
        if isinstance(bound.entity, ListValue):
            return bound.entity
        raise wrong_argument(name, function, bound.span)("a list", describe(bound.entity))
    entity = bound.entity
    if isinstance(entity, Opaque) and context.generic:
        return entity
    if type_.kind == "int" and isinstance(entity, Size):
        matching.bind_size(name, entity.dim)
        return entity
    if isinstance(entity, Size) and entity.adapts and context.generic:
        return Opaque(type_.kind)
    value = _plain(context, bound, function, type_.kind)
    if type_.kind == "int":
        matching.bind_size(name, dim(int(value)))
    return Constant(value)


def _plain(context: Context, bound: Bound, function: str, kind: str) -> bool | int | float | str:
    name = bound.parameter.name.text
    if isinstance(bound.entity, Tensor | VariableValue):
        raise mistake(
            "E0309",
            f"the argument `{name}` of `{function}` must be a constant",
            bound.span,
            "only known when the program runs",
            secondary=_origin(context, bound.span),
        )
    value = constant_of(context, bound.entity, bound.span, f"the argument `{name}` of `{function}`")
    complain = wrong_argument(name, function, bound.span)
    match kind, value:
        case "bool", bool():
            return value
        case "str", str():
            return value
        case "int", int() if not isinstance(value, bool):
            return value
        case "float", int() | float() if not isinstance(value, bool):
            return float(value)
        case _:
            words = {"int": "a whole number", "float": "a number", "bool": "`true` or `false`", "str": "a string"}
            raise complain(words[kind], describe(Constant(value)))


def _origin(context: Context, span: Span) -> list[tuple[Span, str]]:
    binding = context.scope.find(span.text)
    if binding is None or binding.role is not BindingRole.PARAMETER:
        return []
    return [(binding.span, "an ordinary parameter")]


def require_all_known(matching: Matching, name: str, span: Span) -> None:
    missing = matching.missing()
    if not missing:
        return
    helps: list[str] = []
    decisions = matching.shown()
    if decisions is not None:
        open_ones = [text for text, decided in decisions if not decided]
        listed = ", ".join(text if decided else "..." for text, decided in decisions)
        what = "its value" if len(open_ones) == 1 else "their values"
        helps.append(f"give it in brackets: `{name}[{listed}](...)`, with {what} in place of `...`")
    declared = ", ".join(generic.span.text for generic in matching.signature.generics)
    title = f"nothing decides `{missing[0]}` in this call of `{name}`"
    raise mistake("E0316", title, span, notes=(f"it is declared as `{name}[{declared}]`",), helps=helps)


def bind_all(inner: Context, matching: Matching, bound: Sequence[Bound]) -> None:
    """Declares the generic names and parameters of a function in the scope of its body."""
    matching.bind_in(inner.scope)
    for each in bound:
        role = BindingRole.REFERENCE if isinstance(each.parameter, tree.RefParameter) else BindingRole.PARAMETER
        inner.scope.bind(each.parameter.name.text, each.entity, each.parameter.span, role)
