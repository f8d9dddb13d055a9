"""Types as the author wrote them: `DeclaredType`, made from the syntax of a type in a scope.

Tensor types are those of the graph. In the signature of a generic function the generic names are symbols of its own,
and a shape pack `..S` is one dimension whose symbol has the name `..S`; `dfc.elaborate.types.generics` matches such
patterns against the types of arguments.
"""

from __future__ import annotations

from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.names.foreign import CLASSES_OF_NUMBERS, ELEMENT_TYPES
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.statements import inserting
from dfc.elaborate.types.declared import (
    ConstType,
    DeclaredType,
    FunctionType,
    ResourceType,
    TupleType,
    is_unknown,
)
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    AliasValue,
    BlockClass,
    Constant,
    ElementType,
    Entity,
    ModuleValue,
    Opaque,
    Pack,
    Size,
    SpecialType,
    Tensor,
    TypeValue,
    Unknown,
    VariableValue,
)
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import ALL, CLASSES, DTypeVariable
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted

SPECIAL_TYPES = ("int", "float", "str", "string", "rng", "mutex", "vars", "tensors", "quant")
CONST_KINDS = ("int", "float", "bool", "str")
LARGEST_SIZE = 2**62
MOST_AXES = 32
MOST_FIELDS = 1_000


def expected_of(declared: DeclaredType | None) -> TensorType | None:
    """What a declared type says about the value: nothing, if it leaves a size open."""
    if isinstance(declared, TensorType) and not any(map(is_unknown, declared.shape)):
        return declared
    return None


# ------------------------------------------------------------------ types --


def resolve_type(context: Context, written: tree.TypeExpression, *, const: bool = False) -> DeclaredType:
    """The type a piece of syntax stands for; with `const`, that of a `const` parameter."""
    match written:
        case tree.TupleType():
            return _tuple_type(context, written)
        case tree.FunctionType():
            parameters = tuple(resolve_type(context, each) for each in written.parameters)
            return FunctionType(parameters, resolve_type(context, written.result))
        case tree.TensorType():
            return _named_type(context, written, const)


def _tuple_type(context: Context, written: tree.TupleType) -> TupleType:
    names: list[str] = []
    types: list[DeclaredType] = []
    for each in written.fields:
        named = isinstance(each, tree.NamedField)
        names.append(each.name.text if named else "")
        types.append(resolve_type(context, each.type if named else each))
    tuple_type = TupleType(tuple(types), tuple(names) if any(names) else ())
    if tuple_type.leaves > MOST_FIELDS:
        raise mistake(
            "E1002", f"this type has more than {MOST_FIELDS} fields", written.span, f"{tuple_type.leaves} in all"
        )
    return tuple_type


def _named_type(context: Context, written: tree.TensorType, const: bool) -> DeclaredType:
    entity = find_type(context, written.name)
    if const and isinstance(entity, ElementType) and entity.dtype == ALL["bool"]:
        return ConstType("bool", bool(written.dimensions))
    match entity:
        case ElementType(dtype):
            if getattr(dtype, "is_complex", False):
                raise unsupported("complex numbers are", written.span)
            return TensorType(dtype, dimensions(context, written.dimensions))
        case SpecialType("quant"):
            raise unsupported("quantised types are", written.span)
        case SpecialType(name) if name in CONST_KINDS:
            if not const:
                raise only_for_constants(name, written.name.span)
            return ConstType(name, bool(written.dimensions))
        case SpecialType(name):
            return ResourceType(name)
        case AliasValue():
            return _alias_type(context, entity, written)
        case TypeValue(type_):
            return type_
        case Unknown():
            raise Abandoned
        case BlockClass():
            raise mistake(
                "E0316",
                f"`{written.name.text}` is a block, not a type",
                written.name.span,
                helps=(f"an instance is made by `var name = {written.name.text}(...)`",),
            )
        case _:
            raise mistake("E0316", f"`{written.name.text}` is not a type", written.name.span)


def only_for_constants(name: str, span: Span) -> Exception:
    """A type of constants where a tensor's element type is needed."""
    own = CLASSES_OF_NUMBERS.get(name, "")
    if not own:
        return mistake("E0316", f"`{name}` is a type of constants alone", span)
    label = f"`{name}` is the class of all such numbers, for constants"
    fix = replacing(f"write `{own}`", span, own)
    return mistake("E0316", f"`{name}` is no element type", span, label, helps=(fix,))


def find_type(context: Context, path: tree.Path) -> Entity:
    """What a path of names in a type stands for."""
    first, *rest = path.parts
    binding = context.scope.find(first.text)
    if binding is None:
        raise _no_such_type(context, path)
    entity = binding.value
    for part in rest:
        if not isinstance(entity, ModuleValue):
            raise _no_such_type(context, path)
        inner = entity.scope.own(part.text)
        if inner is None:
            raise _no_such_type(context, path)
        entity = inner.value
    return entity


def _no_such_type(context: Context, path: tree.Path) -> Exception:
    own = ELEMENT_TYPES.get(path.text, "")
    if own:
        fix = replacing(f"write `{own}`", path.span, own)
        return mistake("E0201", f"there is no type `{path.text}`", path.span, helps=(fix,))
    kinds = (ElementType, SpecialType, AliasValue)
    names = [
        each.name
        for each in context.scope.bindings()
        if each.role is BindingRole.TYPE or (each.is_resolved and isinstance(each.entity, kinds))
    ]
    near = closest(path.text, names)
    note = () if near else ("element types are bool, i8 to i64, u8 to u64, f16, bf16, f32 and f64",)
    return mistake("E0201", f"there is no type `{path.text}`", path.span, did_you_mean(near), notes=note)


def _alias_type(context: Context, alias: AliasValue, written: tree.TensorType) -> DeclaredType:
    item, open_types = alias.item, context.program.open_types
    if any(each is item for each in open_types):
        raise mistake("E0209", f"the type `{item.name.text}` contains itself", written.span)
    open_types.append(item)
    try:
        return _expanded(context, alias, written)
    finally:
        open_types.pop()


def _expanded(context: Context, alias: AliasValue, written: tree.TensorType) -> DeclaredType:
    item = alias.item
    if not item.generics:
        inner = resolve_type(context.changed(scope=Scope(alias.scope)), item.type)
        if written.dimensions and isinstance(inner, TensorType) and not inner.shape:
            return inner.with_shape(dimensions(context, written.dimensions))
        if written.dimensions:
            raise mistake("E0316", f"`{item.name.text}` takes no dimensions", written.span)
        return inner
    if len(written.dimensions) != len(item.generics):
        raise mistake(
            "E0316",
            f"`{item.name.text}` needs {counted(len(item.generics), 'dimension')}, not {len(written.dimensions)}",
            written.span,
            secondary=[(item.name.span, "declared here")],
        )
    scope = Scope(alias.scope)
    for generic, each in zip(item.generics, written.dimensions, strict=True):
        if isinstance(generic, tree.GenericPack) or generic.kind is not None or isinstance(each, tree.ShapePack):
            raise unsupported("types generic over shapes or element types are", written.span)
        size = dimension(context, each)
        scope.bind(generic.name.text, Size(size), generic.span, BindingRole.DIMENSION)
    return resolve_type(context.changed(scope=scope), item.type)


# ------------------------------------------------------------- dimensions --


def dimensions(context: Context, written: tuple[tree.Dimension, ...]) -> tuple[Dim, ...]:
    """The sizes of a shape as written, with what packs stand for in their places."""
    shape: list[Dim] = []
    for each in written:
        if isinstance(each, tree.ShapePack):
            shape += pack(context, each)
        else:
            shape.append(dimension(context, each))
    if len(shape) > MOST_AXES:
        raise mistake("E1002", f"a tensor has at most {MOST_AXES} axes", written[-1].span, f"{len(shape)} axes")
    return tuple(shape)


def pack(context: Context, written: tree.ShapePack) -> tuple[Dim, ...]:
    """The sizes behind `..S`."""
    binding = context.scope.find(written.name.text)
    entity = binding.value if binding is not None else None
    if isinstance(entity, Unknown):
        raise Abandoned
    if not isinstance(entity, Pack):
        raise undeclared_dimension(context, f"..{written.name.text}", written.span)
    return entity.shape


def dimension(context: Context, written: tree.Expression | tree.UnknownDimension) -> Dim:
    """One size of a shape; `?` is a symbol of its own, where sizes may be unknown."""
    if isinstance(written, tree.UnknownDimension):
        if context.unknown_sizes:
            return context.program.fresh_symbol("?")
        raise _open_size(context, written.span)
    for node in tree.walk(written):
        if isinstance(node, tree.Name) and context.scope.find(node.text) is None:
            raise undeclared_dimension(context, node.text, node.span)
    entity = context.engine.evaluate(context.operand(), written)
    return size_of(context, entity, written.span)


def _open_size(context: Context, span: Span) -> Exception:
    if context.frame.kind == "entry":
        helps = (f"give it a name: `entry {context.frame.name}[N](...)`, and `N` in place of `?`",)
        return mistake("E0320", "the size of a feed has a name", span, "any size", helps=helps)
    helps = ("write the size",)
    return mistake("E0320", "the size must be known here", span, "`?` fits any size, and says none", helps=helps)


def size_of(context: Context, entity: Entity, span: Span) -> Dim:
    """An entity as a dimension."""
    match entity:
        case Size(size):
            result = context.facts.canonical(size)
        case Constant(int(value)) if not isinstance(value, bool):
            result = dim(value)
        case Constant():
            raise mistake("E0309", "a dimension is a whole number", span)
        case Unknown():
            raise Abandoned
        case Opaque():
            raise Abandoned
        case Tensor() | VariableValue():
            raise mistake(
                "E0309",
                "a dimension must be known when the program is compiled",
                span,
                "only known when the program runs",
                helps=("make it a dimension of the entry, `entry name[N](...)`: the caller then passes `N = ..`",),
            )
        case _:
            helps = ("brackets hold sizes and types; what else it is made with stands in parentheses",)
            raise mistake("E0309", "this is not a dimension", span, f"this is {describe(entity)}", helps=helps)
    if context.facts.holds(result, ">=", 0) is False:
        raise mistake("E0309", f"a dimension cannot be negative, and this is {result}", span)
    if result.constant is not None and result.constant > LARGEST_SIZE:
        raise mistake("E0309", f"a dimension of {result} is too large", span)
    return result


def undeclared_dimension(context: Context, name: str, span: Span) -> Exception:
    """The message about a size that nothing declares, with where to declare it."""
    frame = context.frame
    near = closest(
        name, [b.name for b in context.scope.bindings() if b.role in (BindingRole.DIMENSION, BindingRole.CONST)]
    )
    if frame.kind in ("fn", "proc", "entry", "block", "type"):
        what = {"fn": "a function", "proc": "a function", "entry": "an entry", "block": "a block", "type": "a type"}
        notes = [f"{what[frame.kind]} is generic over the dimensions listed after its name"]
        listed = ", ".join([*_declared_dimensions(context), name])
        tail = "(...)" if frame.kind in ("fn", "proc", "entry") else ""
        words = f"write `{frame.kind} {frame.name}[{listed}]{tail}`"
        helps = [inserting.generic(words, name, frame.name, frame.span)]
    else:
        notes, helps = list[str](), [f"write `const {name} = ...` above it"]
    if near:
        helps = [replacing(f"change `{name}` to `{near}`", span, near)]
    label = did_you_mean(near) or "first use"
    return mistake("E0202", f"the dimension `{name}` is not declared", span, label, notes=notes, helps=helps)


def _declared_dimensions(context: Context) -> list[str]:
    """The generic names of the item whose signature is being read, in the order they are written."""
    scope: Scope | None = context.scope
    while scope is not None:
        names = [b.name for b in scope.names.values() if b.role is BindingRole.DIMENSION]
        if names:
            return names
        scope = scope.parent
    return []


def element_class(kind: tree.Path) -> str:
    """The class in `[T: float]`."""
    if kind.text not in CLASSES:
        raise mistake(
            "E0201",
            f"there is no class of element types `{kind.text}`",
            kind.span,
            did_you_mean(closest(kind.text, list(CLASSES))),
            notes=(f"the classes are {', '.join(sorted(CLASSES))}",),
        )
    return kind.text


def generic_dtype(name: str, kind: tree.Path) -> DTypeVariable:
    return DTypeVariable(name, element_class(kind))
