"""What a declaration is generic over, and finding it out from the arguments of a call.

A `Signature` holds the types of the parameters with symbols of its own (`fresh`) in place of the generic names.
`Matching` binds these while arguments are matched: a bare name takes the size it meets; what is computed from names
(`f32[I + D]`) is compared when all names are known, or solved if one name is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.types.declared import ConstType, DeclaredType, Signature, TupleType, is_pack, is_unknown, pack_symbol
from dfc.elaborate.types.entities import ElementType, Entity, Opaque, Pack, Size
from dfc.elaborate.types.types import generic_dtype, resolve_type
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import DType, DTypeVariable, in_class
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted

PACK_RANK = 2
Element = DType | DTypeVariable


def bind_generics(scope: Scope, signature: Signature, context: Context, *, rigid: bool) -> None:
    """Declares the generic names in `scope`: as fresh symbols, or (`rigid`) under their own names."""
    for generic in signature.generics:
        name = generic.name.text
        if isinstance(generic, tree.GenericPack):
            shape = pack_symbol(name, 0 if rigid else context.program.fresh_number())
            signature.packs[name] = shape
            sizes = tuple(dim(Symbol(name, n + 1)) for n in range(PACK_RANK)) if rigid else (shape,)
            scope.bind(name, Pack(sizes), generic.name.span, BindingRole.DIMENSION)
        elif generic.kind is not None:
            variable = generic_dtype(name, generic.kind)
            signature.dtypes[name] = variable
            scope.bind(name, ElementType(variable), generic.name.span, BindingRole.TYPE)
        else:
            size = dim(Symbol(name)) if rigid else context.program.fresh_symbol(name)
            signature.symbols[name] = size
            scope.bind(name, Size(size), generic.name.span, BindingRole.DIMENSION)


def read_signature(
    context: Context,
    scope: Scope,
    generics: tuple[tree.Generic, ...],
    parameters: tuple[tree.Parameter, ...],
    result: tree.TypeExpression | None,
    *,
    rigid: bool = False,
) -> tuple[Signature, Scope]:
    """The signature of a declaration made in `scope`, and a scope in which its generic names are known."""
    signature = Signature(generics, parameters, (), None, rigid=rigid)
    _refuse_twins([*(g.name for g in generics), *(p.name for p in parameters)])
    inner = Scope(scope)
    bind_generics(inner, signature, context, rigid=rigid)
    types: list[DeclaredType] = []
    typing = context.changed(scope=inner, unknown_sizes=context.frame.kind in ("fn", "proc"))
    for parameter in parameters:
        const = isinstance(parameter, tree.ConstParameter)
        type_ = resolve_type(typing, parameter.type, const=const)
        types.append(type_)
        if const and isinstance(type_, ConstType) and not type_.is_list:
            entity = _unknown_constant(context, signature, parameter.name.text, type_, rigid)
            inner.bind(parameter.name.text, entity, parameter.name.span, BindingRole.PARAMETER)
    signature.types = tuple(types)
    typing = typing.changed(unknown_sizes=True)
    signature.result = resolve_type(typing, result) if result is not None else None
    return signature, inner


def _refuse_twins(names: Sequence[tree.Identifier]) -> None:
    first: dict[str, tree.Identifier] = {}
    for name in names:
        known = first.setdefault(name.text, name)
        if known is not name:
            title = f"there are two parameters called `{name.text}`"
            raise mistake("E0205", title, name.span, secondary=[(known.span, "the first one")])


def _unknown_constant(context: Context, signature: Signature, name: str, type_: ConstType, rigid: bool) -> Entity:
    if type_.kind != "int":
        return Opaque(type_.kind)
    size = dim(Symbol(name)) if rigid else context.program.fresh_symbol(name)
    signature.symbols[name] = size
    return Size(size, adapts=True)


# --------------------------------------------------------------- matching --


@dataclass(slots=True)
class Mismatch:
    """Why a type does not match, as far as the sizes are concerned."""

    expected: Dim
    got: Dim
    open: bool  # not known to be equal, rather than known to be different


class Matching:
    """The generic names found so far."""

    def __init__(self, context: Context, signature: Signature) -> None:
        self.context = context
        self.signature = signature
        self.sizes: dict[Symbol, Dim] = {}
        self.packs: dict[Dim, tuple[Dim, ...]] = {}
        self.dtypes: dict[DTypeVariable, Element] = {}
        self._own = frozenset(s for size in signature.symbols.values() for s in size.symbols())
        self._deferred: list[tuple[Dim, Dim]] = []

    def bind_size(self, name: str, size: Dim) -> None:
        symbol = self.signature.symbols[name].symbol
        assert symbol is not None
        self.sizes[symbol] = size

    def give_explicitly(self, explicit: Sequence[Dim | Element], span: Span, name: str) -> None:
        """`Dense[784, 10]`: the generic names in the order of their declaration."""
        generics = self.signature.generics
        if len(explicit) > len(generics) or any(isinstance(g, tree.GenericPack) for g in generics[: len(explicit)]):
            listed = ", ".join(g.span.text for g in generics)
            title = f"`{name}` is generic over {counted(len(generics), 'name')}, not {len(explicit)}"
            raise mistake("E0316", title, span, notes=(f"it is declared as `{name}[{listed}]`",) if listed else ())
        for generic, value in zip(generics, explicit, strict=False):
            key = generic.name.text
            if key in self.signature.dtypes:
                if isinstance(value, Dim):
                    raise mistake("E0316", f"`{key}` of `{name}` is an element type, not a size", span)
                self.dtypes[self.signature.dtypes[key]] = value
            elif isinstance(value, Dim):
                self.bind_size(key, value)
            else:
                raise mistake("E0316", f"`{key}` of `{name}` is a size, not an element type", span)

    def match_dtype(self, expected: Element, got: Element) -> bool:
        if not isinstance(expected, DTypeVariable) or expected not in self.signature.dtypes.values():
            return expected == got
        if not in_class(got, expected.bound):
            return False
        return self.dtypes.setdefault(expected, got) == got

    def match_shape(self, expected: tuple[Dim, ...], got: tuple[Dim, ...]) -> bool:
        """Whether the ranks fit; sizes are bound or left for `finish`."""
        position = next((i for i, d in enumerate(expected) if is_pack(d) and d in self.signature.packs.values()), None)
        if position is None:
            if len(expected) != len(got):
                return False
            self._match_sizes(expected, got)
            return True
        after = len(expected) - position - 1
        if len(got) < len(expected) - 1:
            return False
        middle = got[position : len(got) - after]
        known = self.packs.setdefault(expected[position], middle)
        if len(known) != len(middle):
            return False
        self._deferred += zip(known, middle, strict=True)
        self._match_sizes(expected[:position], got[:position])
        self._match_sizes(expected[position + 1 :], got[len(got) - after :])
        return True

    def _match_sizes(self, expected: Sequence[Dim], got: Sequence[Dim]) -> None:
        for pattern, actual in zip(expected, got, strict=True):
            symbol = pattern.symbol
            if is_unknown(pattern):
                continue
            if symbol is not None and symbol in self._own and symbol not in self.sizes:
                self.sizes[symbol] = actual
            else:
                self._deferred.append((pattern, actual))

    def check(self) -> Mismatch | None:
        """Compares the sizes seen so far, as far as their names are known; the first one that does not fit."""
        waiting: list[tuple[Dim, Dim]] = []
        for pattern, actual in self._deferred:
            unknown = [s for s in pattern.symbols() if s in self._own and s not in self.sizes]
            if unknown and not self._solve(pattern, actual, unknown):
                waiting.append((pattern, actual))
                continue
            expected = pattern.substitute(self.sizes)
            equal = self.context.facts.equal(expected, actual)
            if equal is not True:
                self._deferred = waiting
                return Mismatch(expected, actual, equal is None)
        self._deferred = waiting
        return None

    def _solve(self, pattern: Dim, actual: Dim, unknown: Sequence[Symbol]) -> bool:
        """`I + 1` against 5: one missing name that occurs once, alone in its term."""
        if len(unknown) != 1:
            return False
        symbol = unknown[0]
        mentions = [(m, c) for m, c in pattern.terms if symbol in Dim(((m, 1),)).symbols()]
        if len(mentions) != 1 or mentions[0][0] != (symbol,):
            return False
        coefficient = mentions[0][1]
        rest = (pattern - dim(symbol) * coefficient).substitute(self.sizes)
        quotient = (actual - rest) // coefficient
        if quotient * coefficient != actual - rest:
            return False
        self.sizes[symbol] = quotient
        return True

    # ------------------------------------------------------------- results --

    def missing(self) -> list[str]:
        """The generic names that nothing has decided."""
        sizes = [n for n, d in self.signature.symbols.items() if d.symbol not in self.sizes]
        packs = [n for n, d in self.signature.packs.items() if d not in self.packs]
        return [*sizes, *packs, *(n for n, t in self.signature.dtypes.items() if t not in self.dtypes)]

    def shown(self) -> list[tuple[str, bool]] | None:
        """Each generic name as a call would give it in brackets, and whether it is decided; None where a pack makes
        that impossible. A name that nothing decides stands for itself."""
        bindings: list[tuple[str, bool]] = []
        for generic in self.signature.generics:
            name = generic.name.text
            if name in self.signature.packs:
                return None
            if name in self.signature.dtypes:
                known = self.dtypes.get(self.signature.dtypes[name])
            else:
                symbol = self.signature.symbols[name].symbol
                known = self.sizes.get(symbol) if symbol is not None else None
            bindings.append((str(known) if known is not None else name, known is not None))
        return bindings

    def instantiate(self, type_: DeclaredType) -> DeclaredType:
        """A type of the signature with what was found in place of the generic names."""
        match type_:
            case TensorType():
                return self.tensor_type(type_)
            case TupleType(fields, names):
                return TupleType(tuple(self.instantiate(f) for f in fields), names)
            case _:
                return type_

    def tensor_type(self, type_: TensorType) -> TensorType:
        shape: list[Dim] = []
        for size in type_.shape:
            if size in self.packs:
                shape += self.packs[size]
            else:
                shape.append(self.context.facts.canonical(size.substitute(self.sizes)))
        dtype = self.dtypes.get(type_.dtype, type_.dtype) if isinstance(type_.dtype, DTypeVariable) else type_.dtype
        return TensorType(dtype, tuple(shape))

    def bind_in(self, scope: Scope) -> None:
        """Declares the generic names with the values found."""
        for generic in self.signature.generics:
            name = generic.name.text
            if name in self.signature.packs:
                shape = self.packs.get(self.signature.packs[name], ())
                scope.bind(name, Pack(shape), generic.name.span, BindingRole.DIMENSION)
            elif name in self.signature.dtypes:
                variable = self.signature.dtypes[name]
                scope.bind(name, ElementType(self.dtypes.get(variable, variable)), generic.name.span, BindingRole.TYPE)
            else:
                symbol = self.signature.symbols[name].symbol
                assert symbol is not None
                scope.bind(name, Size(self.sizes.get(symbol, dim(symbol))), generic.name.span, BindingRole.DIMENSION)
