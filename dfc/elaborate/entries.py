"""Entries and tests: from a signature and a body to a block of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import warning
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import NOWHERE, Span
from dfc.elaborate.context import Argument, Context, Frame, Outcome, Program, Root
from dfc.elaborate.expressions.routines import call_routine, finish
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake, unsupported
from dfc.elaborate.names.scope import BindingRole, Scope
from dfc.elaborate.shapes.obligations import add_check, assume_all, where_conditions
from dfc.elaborate.state.state_calls import run_initialize
from dfc.elaborate.statements.branches import leaves
from dfc.elaborate.statements.effects import readonly_violations
from dfc.elaborate.statements.regions import Region, parameter, touched, unique_names
from dfc.elaborate.types.convert import constant_of, tensor
from dfc.elaborate.types.declared import DeclaredType, ResourceType, Signature, TupleType
from dfc.elaborate.types.entities import Entity, EntryValue, ProgramValue, Routine, Tensor, Text, Unknown
from dfc.elaborate.types.generics import read_signature
from dfc.elaborate.types.types import dimension
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DTypeVariable
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import Block, Entry, Value
from dfc.ir.types import TensorType, TextType
from dfc.ops.control.earlier_iterations import ambiguous_gradients
from dfc.syntax.tree import tree


def build_entry(program: Program, scope: Scope, item: tree.EntryItem) -> Entry | None:
    """The entry, or None if it has mistakes (which are reported)."""
    name = item.name.text
    root = Root(name, readonly=item if item.readonly else None, entry=item)
    frame = Frame("entry", name, name, item.name.span, root)
    context = Context(program, frame, Region(), scope, NO_FACTS, label=name)
    before = program.reporter.error_count
    try:
        entry = _build(context, item)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
        return None
    except Abandoned:
        return None
    for diagnostic in readonly_violations(root):
        program.reporter.report(diagnostic)
    return entry if program.reporter.error_count == before else None


def _build(context: Context, item: tree.EntryItem) -> Entry:
    concurrent = _read_settings(context, item)
    signature, scope = read_signature(context, context.scope, item.generics, item.parameters, item.result, rigid=True)
    for generic in item.generics:
        if isinstance(generic, tree.GenericPack) or generic.kind is not None:
            raise unsupported("entries generic over shapes or element types are", generic.span)
    inner = context.changed(scope=scope)
    context.region.sizes.taken |= {str(symbol) for size in signature.symbols.values() for symbol in size.symbols()}
    _bind_feeds(inner, item, signature)
    _assume_where(inner, item.where)
    names = result_names(signature.result)
    outcome = Outcome("return", names=names)
    inner.outcome = outcome
    context.engine.run_suite(inner, item.body)
    entity = finish(inner, outcome, signature.result, item, item.name.span)
    _warn_about_order(inner, item, signature.result)
    return replace(_finish(inner, item, signature, names, entity), concurrent=concurrent)


def _read_settings(context: Context, item: tree.EntryItem) -> bool:
    """Whether the entry is concurrent, which is the only setting an entry has so far."""
    concurrent = False
    for setting in item.settings:
        name = setting.name.text
        if name != "concurrent":
            if name == "exclusive":
                raise unsupported("the setting `exclusive` of an entry is", setting.span)
            helps = ("the only setting of an entry is `concurrent = true`",)
            raise mistake("E0204", f"an entry has no setting `{name}`", setting.name.span, helps=helps)
        entity = context.engine.evaluate(context, setting.value)
        value = constant_of(context, entity, setting.value.span, f"the setting `{name}`")
        if not isinstance(value, bool):
            raise mistake("E0315", f"the setting `{name}` must be `true` or `false`", setting.value.span)
        concurrent = value
    return concurrent


def _bind_feeds(context: Context, item: tree.EntryItem, signature: Signature) -> None:
    for each, type_ in zip(item.parameters, signature.types, strict=True):
        if isinstance(each, tree.RefParameter):
            title = "the host cannot pass a variable: the parameters of an entry are values"
            raise mistake("E0316", title, each.span)
        if isinstance(each, tree.ConstParameter) or each.default is not None:
            raise unsupported("constants and default values among the parameters of an entry are", each.span)
        entity = _feed(context, each, type_)
        role = BindingRole.PARAMETER
        binding = context.scope.parent.find(each.name.text) if context.scope.parent is not None else None
        if binding is not None and binding.role in (
            BindingRole.STATE,
            BindingRole.FUNCTION,
            BindingRole.BLOCK,
            BindingRole.IMPORT,
        ):
            raise mistake(
                "E0205",
                f"`{each.name.text}` is the name of {binding.role.one} already",
                each.name.span,
                secondary=[(binding.span, f"the {binding.role.value}")],
                helps=(f"choose another name, such as `{each.name.text}_here`",),
            )
        context.scope.bind(each.name.text, entity, each.span, role)


def _feed(context: Context, each: tree.ValueParameter, type_: DeclaredType) -> Entity:
    name = each.name.text
    match type_:
        case TensorType():
            if isinstance(type_.dtype, DTypeVariable):
                raise unsupported("entries generic over element types are", each.span)
            return Tensor(parameter(context.region, type_, name))
        case ResourceType("string"):
            return Text(parameter(context.region, TextType(), name))
        case _:
            raise unsupported(f"a feed of type {type_} is", each.span)


def _assume_where(context: Context, where: tuple[tree.Expression, ...]) -> None:
    """The `where` of an entry: checked when it is called, known from then on."""
    for (left, relation, right), span in where_conditions(context, where):
        answer = NO_FACTS.holds(left, relation, right)
        if answer is False:
            raise mistake("E0305", "this can never hold", span)
        if answer is None:
            add_check(context, left, relation, right, "declared with `where`", span)
        assume_all(context, [(left, relation, right)])


def result_names(result: DeclaredType | None) -> tuple[str, ...]:
    match result:
        case None:
            return ()
        case TupleType(fields, names):
            return names if names else tuple(f"result_{n}" for n in range(len(fields)))
        case _:
            return ("result",)


def _finish(
    context: Context, item: tree.EntryItem, signature: Signature, names: tuple[str, ...], entity: Entity
) -> Entry:
    values: list[Value] = []
    for leaf in leaves(entity):
        if isinstance(leaf, Unknown):
            raise Abandoned
        values.append(tensor(context, leaf, item.name.span))
    if len(values) != len(names):
        raise unsupported("tuples inside the results of an entry are", item.name.span)
    feeds = list(context.region.parameters)
    dims = tuple(s for size in signature.symbols.values() if (s := size.symbol) is not None)
    decided = {s for f in feeds if isinstance(f.type, TensorType) for d in f.tensor.shape if (s := d.symbol)}
    block = context.region.close(values, touched([context.region]))
    entry = Entry(
        name=item.name.text,
        block=block,
        parameter_names=tuple(p.name.text for p in item.parameters),
        result_names=names,
        dims=dims,
        dim_feeds=tuple(s for s in dims if s not in decided),
        checks=tuple(context.frame.root.checks),
        span=item.name.span,
        readonly=item.readonly,
        doc=item.documentation,
        parameter_docs=tuple(p.documentation for p in item.parameters),
        unnamed_result=signature.result is not None and not isinstance(signature.result, TupleType),
    )
    unique_names(entry.block, context.program.graph.bound)
    _report_ambiguous_gradients(context.program, entry.block)
    return entry


def _report_ambiguous_gradients(program: Program, block: Block) -> None:
    for diagnostic in ambiguous_gradients(block):
        program.reporter.report(diagnostic)


def _warn_about_order(context: Context, item: tree.EntryItem, result: DeclaredType | None) -> None:
    """W0310: results that bear the declared names in another order."""
    final = item.body.final
    if not isinstance(result, TupleType) or not isinstance(final, tree.Return) or item.result is None:
        return
    returned = [value.text for value in final.values if isinstance(value, tree.Name)]
    if len(returned) != len(result.names) or returned == list(result.names) or set(returned) != set(result.names):
        return
    span = final.values[0].span.to(final.values[-1].span)
    declared = item.result.span
    inside = Span(declared.file, declared.start + 1, declared.end - 1)
    context.program.reporter.report(
        warning(
            "W0310",
            "these results look swapped",
            span,
            f"returned as `{', '.join(returned)}`",
            secondary=[(inside, "declared in this order")],
            helps=(replacing(f"write `return {', '.join(result.names)}`", span, ", ".join(result.names)),),
        )
    )


# ---------------------------------------------------------------- the others --


def build_init(program: Program) -> Entry | None:
    """What a program with state and no `init` gets."""
    root = Root("init")
    frame = Frame("entry", "init", "init", NOWHERE, root)
    context = Context(program, frame, Region(), program.main, NO_FACTS, label="init")
    try:
        run_initialize(context, {"what": Argument("", NOWHERE, NOWHERE, None, ProgramValue())}, NOWHERE, None)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
        return None
    except Abandoned:
        return None
    block = context.region.close([], touched([context.region]))
    entry = Entry("init", block, (), (), (), (), (), NOWHERE)
    unique_names(entry.block, {})
    return entry


def build_test(program: Program, scope: Scope, item: tree.TestItem) -> Entry | None:
    title = item.title.value
    root = Root(title, in_test=True)
    frame = Frame("test", title, "test", item.title.span, root)
    context = Context(program, frame, Region(), Scope(scope), NO_FACTS, label="test")
    before = program.reporter.error_count
    context.engine.run_suite(context, item.body)
    if program.reporter.error_count != before:
        return None
    block = context.region.close([], touched([context.region]))
    entry = Entry(
        title, block, (), (), (), (), tuple(root.checks), item.title.span, is_test=True, doc=item.documentation
    )
    unique_names(entry.block, {})
    _report_ambiguous_gradients(program, entry.block)
    return entry


def call_entry(context: Context, entry: EntryValue, arguments: Sequence[Argument], span: Span) -> Entity:
    """A test may call an entry, as the host would."""
    item = entry.item
    if not context.frame.root.in_test:
        raise mistake(
            "E0207",
            f"`{item.name.text}` is an entry: it is called by the host",
            span,
            secondary=[(item.name.span, "declared here")],
            helps=("put what both need into a `fn` or `proc`",),
        )
    program = context.program
    routine = program.entry_routines.get(item.name.text)
    if routine is None:
        routine = Routine(_as_procedure(item), entry.scope)
        program.entry_routines[item.name.text] = routine
    dims = [g.name.text for g in item.generics]
    named_dims = {a.name: a for a in arguments if a.name in dims}
    if named_dims:
        sizes = [_size(context, named_dims[name]) for name in dims if name in named_dims]
        routine = replace(routine, explicit=tuple(sizes)) if list(named_dims) == dims[: len(named_dims)] else routine
    rest = [a for a in arguments if a.name not in named_dims]
    return call_routine(context, routine, rest, span, None)


def _size(context: Context, argument: Argument) -> Dim:
    assert argument.expression is not None
    return dimension(context, argument.expression)


def _as_procedure(item: tree.EntryItem) -> tree.ProcedureItem:
    return tree.ProcedureItem(
        item.name,
        item.generics,
        item.parameters,
        item.result,
        item.where,
        item.body,
        span=item.span,
    )
