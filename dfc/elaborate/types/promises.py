"""What to type where a body returns something else than its declaration promises (E0307).

Assumes the tree of the declaration, and the value that its body gave. Guarantees that a promise that is offered can be
written there (its types are types, its sizes have names that the declaration knows), keeps the names of the results and
the results that are as promised, and that nothing but a tensor is offered to be converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from dfc.diagnostics.fixes import Help, replacing, text_of
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.names.scope import BindingRole
from dfc.elaborate.statements.inserting import conversion
from dfc.elaborate.types.convert import default_type, element_type, is_operand
from dfc.elaborate.types.declared import DeclaredType, TupleType
from dfc.elaborate.types.entities import Entity, LiteralTensor, Tensor, TupleValue, VariableValue
from dfc.elaborate.types.fitting import Complain
from dfc.syntax.tree import tree

Declared = tree.FunctionItem | tree.ProcedureItem | tree.EntryItem
Offers = Callable[[str, str], Iterator[Help]]
"""Makes the helps from the type that is promised and the one that is there."""

SIZES = (BindingRole.DIMENSION, BindingRole.CONST, BindingRole.PRELUDE)  # what a size in a type is made of
_TENSOR = re.compile(r"(\w+)((?:\[.*\])?)")
_NAMES = ("result", "kept", "wanted", "result_here")


def broken_promise(name: str, promised: Span, returned: Span, offers: Offers) -> Complain:
    """The message that `name` returns another type than it promises."""

    def complain(expected: str, got: str) -> Exception:
        helps = [each for each in offers(expected, got) if "\n" not in text_of(each)]
        title, secondary = f"`{name}` promises {expected} but returns {got}", [(promised, "promised here")]
        return mistake("E0307", title, returned, got, secondary=secondary, helps=helps)

    return complain


def offers_for_one(context: Context, promised: Span, returned: Span) -> Offers:
    """For one result whose type is promised at `promised`, and that has an expression of its own."""

    def offers(expected: str, got: str) -> Iterator[Help]:
        if can_be_promised(context, got):
            yield replacing(f"promise `{got}`", promised, got)
        yield from _converting(expected, got, returned)

    return offers


def offers_for_all(context: Context, item: Declared, result: DeclaredType, value: Entity, returned: Span) -> Offers:
    """For the whole list of results, of which the types stand in one promise."""

    def offers(_expected: str, got: str) -> Iterator[Help]:
        fields = result.fields if isinstance(result, TupleType) else (result,)
        if isinstance(value, TupleValue) and len(fields) == 1:
            yield from _taking(context, item, fields[0], value)
        promise = _promise(context, item, result, value)
        if promise and item.result is not None:
            yield replacing(f"promise `{promise}`", item.result.span, promise)
        if not isinstance(value, TupleValue) and len(fields) == 1:
            yield from _converting(str(fields[0]), got, returned)

    return offers


def _converting(expected: str, got: str, returned: Span) -> Iterator[Help]:
    """A conversion, if the element types differ and nothing else."""
    promised, there = _TENSOR.fullmatch(expected), _TENSOR.fullmatch(got)
    if promised is None or there is None or promised[1] == there[1] or promised[2] != there[2]:
        return
    text = conversion(returned, promised[1])
    yield replacing(f"or convert: `{text}`", returned, text)


# ----------------------------------------------------------------- promises --


def type_of(context: Context, entity: Entity) -> str:
    """The type of a value as it can be promised, or the empty string if it has none, or one without a name here."""
    match entity:
        case TupleValue(items, names):
            texts = [type_of(context, each) for each in items]
            return _listed(texts, names) if texts and all(texts) else ""
        case Tensor(value):
            text = str(value.type)
        case VariableValue(variable) if is_operand(entity):
            text = str(variable.type)
        case LiteralTensor(_, type_):
            text = str(type_)
        case _:
            text = str(element_type(entity) or default_type(entity)) if is_operand(entity) else ""
    return text if can_be_promised(context, text) else ""


def can_be_promised(context: Context, got: str) -> bool:
    """Whether every size in the type of a tensor has a name that the signature knows, and none is found out while
    running."""
    if not _TENSOR.fullmatch(got) or "?" in got:
        return False
    bindings = (context.scope.find(name) for name in re.findall(r"[A-Za-z_]\w*", got.partition("[")[2]))
    return all(each is not None and each.role in SIZES for each in bindings)


def _listed(texts: Sequence[str], names: Sequence[str]) -> str:
    called = [*names, *[""] * len(texts)]
    return f"({', '.join(f'{name}: {text}' if name else text for name, text in zip(called, texts, strict=False))})"


def _promise(context: Context, item: Declared, result: DeclaredType, value: Entity) -> str:
    """The promise that the body keeps, with the author's names, and words where these are kept already."""
    if not isinstance(result, TupleType):
        return type_of(context, value)
    items = value.items if isinstance(value, TupleValue) else (value,)
    texts = [type_of(context, each) for each in items]
    if not texts or not all(texts):
        return ""
    written = item.result.fields if isinstance(item.result, tree.TupleType) else ()
    if len(written) == len(result.fields):
        pairs = zip(texts, result.fields, written, strict=False)
        kept = [_written(field) if str(type_) == text else text for text, type_, field in pairs]
        texts = kept + texts[len(kept) :]
    return _listed(texts, result.names) if len(texts) > 1 or result.names else texts[0]


def first(context: Context, item: Declared, value: Entity) -> list[Help]:
    """For a declaration without a promise: the one to write behind its parameters."""
    type_, body = type_of(context, value), item.body
    if not type_:
        return []
    text = item.span.file.text
    offset = body.span.start if isinstance(body, tree.Suite) else text.rindex("=", 0, body.value.span.start)
    if item.where:
        offset = text.rindex("where", 0, item.where[0].span.start)
    return [replacing(f"promise it: `-> {type_}`", Span(item.span.file, offset, offset), f"-> {type_} ")]


def _written(field: tree.TypeExpression | tree.NamedField) -> str:
    return field.type.span.text if isinstance(field, tree.NamedField) else field.span.text


# ------------------------------------------------------------ taking one --


def _taking(context: Context, item: Declared, promised: DeclaredType, value: TupleValue) -> Iterator[Help]:
    """The one value that is promised, of several that one expression gives."""
    texts = [type_of(context, each) for each in value.items]
    body = item.body
    if str(promised) not in texts or (isinstance(body, tree.Suite) and not _gives_one(body)):
        return
    if len(texts) == 1:
        yield from _member(body, value)
        return
    index = texts.index(str(promised))
    names = ["_"] * len(texts)
    binder = _only_use(body) if isinstance(body, tree.Suite) else None
    if binder is not None:
        names[index] = binder.text
        words = f"take one of its {len(texts)} values: `let {', '.join(names)} = ...`"
        yield replacing(words, binder.span, ", ".join(names))
        return
    name = next((each for each in _NAMES if context.scope.find(each) is None), "")
    if name:
        names[index] = name
        words = f"take one of its {len(texts)} values: `let {', '.join(names)} = ...`, and return `{name}`"
        yield replacing(words, *_returning(body, ", ".join(names), name))


def _member(body: tree.Body, value: TupleValue) -> Iterator[Help]:
    """The only value of a tuple that has a name, and is returned by one."""
    returned = body.final.values[0] if isinstance(body, tree.Suite) and body.final is not None else None
    if isinstance(returned, tree.Name) and value.names:
        member = f"{returned.text}.{value.names[0]}"
        yield replacing(f"take its value: `{member}`", returned.span, member)


def _gives_one(body: tree.Suite) -> bool:
    return body.final is not None and len(body.final.values) == 1


def _only_use(body: tree.Suite) -> tree.Identifier | None:
    """What a `let` calls the value that is returned, if nothing else uses it."""
    value = body.final.values[0] if body.final is not None else None
    if not isinstance(value, tree.Name):
        return None
    uses = [node for node in tree.walk(body) if isinstance(node, tree.Name) and node.text == value.text]
    lets = [each for each in body.statements if isinstance(each, tree.Let) and len(each.binders) == 1]
    binders = [each.binders[0] for each in lets if each.binders[0].name.text == value.text]
    plain = len(uses) == 1 and len(binders) == 1 and binders[0].type is None
    return binders[0].name if plain else None


def _returning(body: tree.Body, names: str, name: str) -> tuple[Span, str]:
    """Where a `let` of these names and the `return` of one of them stand, and their text."""
    if isinstance(body, tree.Suite):
        assert body.final is not None
        span = body.final.span
        start = span.file.text.rfind("\n", 0, span.start) + 1
        before = span.file.text[start : span.start]
        indent = before if not before.strip() else "  "
        return span, f"let {names} = {body.final.values[0].span.text}\n{indent}return {name}"
    span = body.value.span
    sign = span.file.text.rindex("=", 0, span.start)
    return Span(span.file, sign, span.end), f"{{\n  let {names} = {span.text}\n  return {name}\n}}"
