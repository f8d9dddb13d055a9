"""Looking up names and members, and the messages for those that are not there."""

from __future__ import annotations

from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.foreign import (
    ELSEWHERE_IN_STD,
    FOREIGN_NAMES,
    RENAMED,
    STD,
    has_effect,
    imported,
    known_elsewhere,
)
from dfc.elaborate.names.former import former_name, present_name
from dfc.elaborate.names.scope import Binding, BindingRole, Scope
from dfc.elaborate.statements import inserting
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    Entity,
    Instance,
    ModuleValue,
    PreludeFunction,
    PreludeModule,
    QueueMethod,
    QueueValue,
    ReaderMethod,
    ReaderValue,
    RngMethod,
    Routine,
    TupleValue,
    Unknown,
    VariableValue,
)
from dfc.ir.graph import ResourceKind
from dfc.syntax.tree import tree

MUTEX_METHODS = ("acquire", "release")
QUEUE_METHODS = ("put", "take", "take_up_to", "size", "close")
READER_METHODS = ("next", "position", "skipped")
RNG_METHODS = ("uniform", "normal", "bernoulli", "categorical", "log_uniform", "permutation", "truncated_normal")


def look_up(context: Context, name: str, span: Span) -> Binding:
    binding = context.scope.find(name)
    if binding is None and name in context.frame.root.lost:
        raise Abandoned
    if binding is None:
        raise no_such_name(context, name, span)
    if binding.role is BindingRole.ENTRY and not context.frame.root.in_test:
        return context.scope.outermost.own(name) or binding  # an entry hides no function: only tests call it
    return binding


_ENDED = "bound here, and known until the braces around it end"
_VALUE_OF_IF = "an `if` gives a value by `let name = if ... { yield ... } else { yield ... }`"


def no_such_name(context: Context, name: str, span: Span) -> Mistake:
    inside = context.frame.ended.get(name)
    if inside is not None:
        helps = (_VALUE_OF_IF,) if name in context.frame.of_branches else ()
        return mistake("E0201", f"there is no `{name}` here", span, secondary=[(inside, _ENDED)], helps=helps)
    visible = [b for b in context.scope.bindings() if b.name != context.frame.name or context.frame.kind != "const"]
    own = [b.name for b in visible if b.role is not BindingRole.PRELUDE]
    near = closest(name, own) or ("" if known_elsewhere(name) else closest(name, (b.name for b in visible)))
    if not near:
        return mistake("E0201", f"there is no `{name}` here", span, helps=_elsewhere(context, name, span))
    binding = next(b for b in visible if b.name == near)
    secondary = (
        [(binding.span, "defined here")] if not binding.span.is_nowhere and binding.span.file == span.file else []
    )
    return mistake(
        "E0201",
        f"there is no `{name}` here",
        span,
        did_you_mean(near),
        secondary=secondary,
        helps=(replacing(f"change `{name}` to `{near}`", span, near),) if _fits(binding, span) else (),
    )


def _fits(binding: Binding, span: Span) -> bool:
    """Whether the name of a binding may stand where a word does: a function stands alone only where it is an argument
    or what a pipe leads to, and what else would have to be written behind it is not known."""
    if not isinstance(binding.entity, Routine | PreludeFunction):
        return True
    before, behind = span.file.text[: span.start].rstrip(), span.file.text[span.end :].lstrip()
    return behind.startswith(("(", "[", ".")) or before.endswith(("(", ",", "|>"))


def _elsewhere(context: Context, name: str, span: Span) -> list[Help]:
    """How another language's name is written here."""
    words = known_elsewhere(name)
    if not words:
        return []
    if has_effect(name) and context.frame.kind == "fn":
        return [f"{words}; in a `proc` or an `entry`, not in a `fn`"]
    if has_effect(name) and context.frame.root.readonly is not None:
        return [f"{words}; in an entry that is not `readonly`"]
    if name in RENAMED and name not in FOREIGN_NAMES:
        return [replacing(words, span, RENAMED[name])]
    line = imported(name)
    return [inserting.importing(words, line, span) if line else words]


def member(context: Context, owner: Entity, name: tree.Identifier, whole: tree.Member) -> Entity:
    """`owner.name`"""
    match owner:
        case ModuleValue(module, scope):
            return _module_member(context, module, scope, name)
        case Instance():
            return _instance_member(context, owner, name)
        case PreludeModule(module, members):
            if name.text in members:
                return members[name.text]
            near = closest(name.text, members)
            shown = () if len(members) > 20 else (f"{module} offers {listed(sorted(members))}",)
            raise mistake("E0203", f"`{module}` has no `{name.text}`", name.span, did_you_mean(near), notes=shown)
        case TupleValue(items, names):
            if name.text in names:
                return items[names.index(name.text)]
            raise _no_field(names, name)
        case VariableValue(variable) if variable.kind is ResourceKind.RNG:
            if name.text in RNG_METHODS:
                return RngMethod(variable, name.text)
            near = closest(name.text, RNG_METHODS)
            note = f"an rng offers {listed(RNG_METHODS)}"
            raise mistake("E0203", f"an rng has no `{name.text}`", name.span, did_you_mean(near), notes=(note,))
        case QueueValue(_, form):
            offered, what = (MUTEX_METHODS, "mutex") if form.is_mutex else (QUEUE_METHODS, "queue")
            if name.text in offered:
                return QueueMethod(owner, name.text)
            near = closest(name.text, offered)
            note = f"a {what} offers {listed(offered)}"
            raise mistake("E0203", f"a {what} has no `{name.text}`", name.span, did_you_mean(near), notes=(note,))
        case ReaderValue():
            if name.text in READER_METHODS:
                return ReaderMethod(owner, name.text)
            near = closest(name.text, READER_METHODS)
            note = f"a reader offers {listed(READER_METHODS)}"
            raise mistake("E0203", f"a reader has no `{name.text}`", name.span, did_you_mean(near), notes=(note,))
        case Unknown():
            raise Abandoned
        case _:
            raise _no_members(owner, name, whole)


def _no_members(owner: Entity, name: tree.Identifier, whole: tree.Member) -> Mistake:
    text = whole.operand.span.text
    remedies = {
        "shape": "a size is a dimension: declare it, as in `fn f[N](x: f32[N])`, and use `N`",
        "T": f"write `transpose({text})`",
        "astype": f"write `{text} as f32`",
        "grad": "write `grad(loss, w)`",
    }
    prelude = {"sum", "mean", "max", "min", "reshape", "transpose", "argmax", "prod", "all", "any"}
    if name.text in prelude:
        remedies[name.text] = f"write `{name.text}({text})`"
    elif name.text in RENAMED and name.text not in remedies:
        remedies[name.text] = f"it is a function: `{RENAMED[name.text]}({text}, ...)`"
    helps = (remedies[name.text],) if name.text in remedies else ()
    return mistake("E0203", f"{describe(owner)} has no members", name.span, f"no `{name.text}`", helps=helps)


def _no_field(names: tuple[str, ...], name: tree.Identifier) -> Mistake:
    known = [n for n in names if n]
    note = f"its fields are {listed(known)}" if known else "its fields have no names: write `let a, b = ...`"
    near = closest(name.text, known)
    return mistake("E0203", f"the tuple has no field `{name.text}`", name.span, did_you_mean(near), notes=(note,))


def exported(scope: Scope) -> list[str]:
    """The names a module offers to others."""
    roles = (BindingRole.IMPORT, BindingRole.PRELUDE)
    return sorted(
        (n for n, b in scope.names.items() if not n.startswith("_") and b.role not in roles),
        key=lambda n: (n[0].islower(), n),
    )


def missing_export(module: str, scope: Scope, name: tree.Identifier) -> Mistake:
    names = exported(scope)
    near = closest(name.text, names)
    notes = (f"{module} offers {listed(names)}",) if names else (f"{module} offers nothing",)
    title = f"`{module}` has no `{name.text}`"
    if module == "std" and (STD / f"{name.text}.dfg").is_file():
        words = f"write `import std.{name.text}` at the top of the file"
        helps = (inserting.importing(words, f"import std.{name.text}", name.span),)
        return mistake("E0203", title, name.span, "not imported", helps=helps)
    own_module, own = ELSEWHERE_IN_STD.get(name.text, ("", ""))
    text = f"{own} as {name.text}"
    is_there = own_module == module and own in names
    helps = (replacing(f"it is called `{own}`: write `{text}`", name.span, text),) if is_there else ()
    return mistake(
        "E0203", title, name.span, did_you_mean(near if near == own or not is_there else ""), notes=notes, helps=helps
    )


def _module_member(context: Context, module: str, scope: Scope, name: tree.Identifier) -> Entity:
    binding = scope.own(name.text)
    if binding is None or name.text not in exported(scope):
        if binding is not None and name.text.startswith("_"):
            raise mistake("E0203", f"`{name.text}` is private to `{module}`", name.span)
        raise missing_export(module, scope, name)
    present = present_name(binding.span.file.name, name.text)
    if present is not None:
        context.program.reporter.report(former_name(name.text, name.span, present))
    return binding.value


def _instance_member(context: Context, instance: Instance, name: tree.Identifier) -> Entity:
    binding = instance.scope.own(name.text)
    item = instance.item
    present = None if binding else present_name(item.span.file.name, f"{item.name.text}.{name.text}")
    if present is not None:
        context.program.reporter.report(former_name(name.text, name.span, present))
        binding = instance.scope.own(present.name)
    generic = {g.name.text for g in item.generics}
    if binding is None or name.text.startswith("_"):
        names = [n for n in instance.scope.names if not n.startswith("_") and n not in generic]
        near = closest(name.text, names)
        title = f"`{item.name.text}` has no `{name.text}`"
        note = (f"it has {listed(names)}",) if names else ()
        raise mistake("E0203", title, name.span, did_you_mean(near), notes=note)
    entity = binding.value
    if isinstance(entity, Routine) and entity.owner is None:
        return Routine(entity.item, entity.scope, instance, entity.explicit)
    return entity
