"""Which effects are allowed where: `fn` has none, a `readonly entry` writes nothing, an operand has none."""

from __future__ import annotations

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.fixes import Help, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Effect, Frame, Root
from dfc.elaborate.mistakes import Mistake, mistake
from dfc.syntax.tree import tree

HARMLESS_VERBS = frozenset({"saves", "reads"})


def record_effect(context: Context, verb: str, resource: str, span: Span) -> None:
    """Notes that the statement at `span` changes a resource; E0401 inside a `fn`."""
    context.frame.root.effects.append(Effect(verb, resource, span, context.frame))
    frame: Frame | None = context.frame
    effect_span, direct = span, True
    while frame is not None:
        if frame.kind == "fn":
            raise _effect_in_function(frame, verb, resource, effect_span, direct)
        effect_span, direct, frame = frame.call_span, False, frame.parent


def _effect_in_function(frame: Frame, verb: str, resource: str, span: Span, direct: bool) -> Mistake:
    title = "a `fn` cannot write to a variable" if verb == "writes" else "a `fn` cannot have an effect"
    if not direct:
        title = "a `fn` cannot call something that has an effect"
    return mistake(
        "E0401",
        title,
        span,
        f"{verb} `{resource}`",
        secondary=[(frame.span, "this promises to have no effect")],
        helps=(_as_procedure(frame),),
    )


def _as_procedure(frame: Frame) -> Help:
    words = "make it a `proc`: its calls then happen in the order in which they are written"
    item = frame.routine.item if frame.routine is not None else None
    if not isinstance(item, tree.FunctionItem) or item.gradient is not None:
        return words
    return replacing(words, Span(item.span.file, item.span.start, item.span.start + len("fn")), "proc")


def effect_in_operand(span: Span, effect: Effect) -> Mistake:
    """E0403: the order of effects is the order of lines."""
    return mistake(
        "E0403",
        "a call with effects must stand on a line of its own",
        span,
        f"{effect.verb} `{effect.resource}`",
        notes=("the order of effects is the order of lines; inside an expression there would be none",),
    )


def with_remedy(diagnostic: Diagnostic, statement: tree.Node) -> Diagnostic:
    """E0403 with the statement written out on several lines, once the statement is known."""
    if diagnostic.code != "E0403" or diagnostic.helps:
        return diagnostic
    help_ = separate_lines(diagnostic.span, statement)
    return diagnostic.with_helps([help_]) if help_ else diagnostic


def separate_lines(span: Span, statement: tree.Node) -> Help:
    """`let a = f(x)`, `let b = f(y)` and the statement with `a` and `b` in their place."""
    culprit = next((n for n in tree.walk(statement) if isinstance(n, tree.Call) and n.span == span), None)
    if culprit is None or "\n" in statement.span.text:
        return ""
    same = [n for n in tree.walk(statement) if isinstance(n, tree.Call) and n.function == culprit.function]
    same = [n for n in same if not any(m is not n and _inside(n.span, m.span) for m in same)][:3]
    used = {n.text for n in tree.walk(statement) if isinstance(n, tree.Name)}
    names = [name for name in "abcdeuvw" if name not in used]
    text, start = statement.span.text, statement.span.start
    lets: list[str] = []
    file = statement.span.file
    above = file.text.rfind("\n", 0, start) + 1
    indent = file.text[above:start]
    for call, name in sorted(zip(same, names, strict=False), key=lambda pair: -pair[0].span.start):
        text = text[: call.span.start - start] + name + text[call.span.end - start :]
        lets.insert(0, f"let {name} = {call.span.text}")
    words = f"write {', '.join(f'`{each}`' for each in lets)} and `{text}`"
    if indent.strip():
        return words  # it does not stand on a line of its own
    return replacing(words, statement.span, f"\n{indent}".join([*lets, text]))


def _inside(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


# --------------------------------------------------------------- readonly --


def readonly_violations(root: Root) -> list[Diagnostic]:
    """E0402: one message for each statement of a readonly entry that changes something."""
    entry = root.readonly
    if entry is None:
        return []
    by_span: dict[Span, list[Effect]] = {}
    for effect in root.effects:
        if effect.verb not in HARMLESS_VERBS:
            by_span.setdefault(_outermost(effect), []).append(effect)
    return [_readonly_violation(entry, span, effects) for span, effects in by_span.items()]


def _outermost(effect: Effect) -> Span:
    frame, span = effect.frame, effect.span
    while frame.parent is not None:
        frame, span = frame.parent, frame.call_span
    return span


def _readonly_violation(entry: tree.EntryItem, span: Span, effects: list[Effect]) -> Diagnostic:
    first = effects[0]
    others = len({(e.verb, e.resource) for e in effects}) - 1
    more = f" and {others} more" if others else ""
    title = "a readonly entry cannot have an effect" if first.verb == "calls" else "a readonly entry may not write"
    promise = Span(entry.span.file, entry.span.start, entry.span.start + len("readonly"))
    return error(
        "E0402",
        title,
        span,
        f"{first.verb} {first.resource}{more}",
        secondary=[(promise, "the promise")],
        notes=_trace(first),
        helps=_remedy(span, entry),
    )


def _trace(effect: Effect) -> tuple[str, ...]:
    frames: list[Frame] = []
    frame = effect.frame
    while frame.parent is not None:
        frames.append(frame)
        frame = frame.parent
    if not frames:
        return ()
    path = " -> ".join(each.name for each in reversed(frames))
    short = effect.resource.rsplit(".", 1)[-1]
    return (f"{path} {effect.verb} {short} at {effect.span.name}:{effect.span.line}",)


def _remedy(span: Span, entry: tree.EntryItem) -> tuple[Help, ...]:
    text, training = "training = true", "training = false"
    if text in span.text:
        start = span.start + span.text.index(text)
        return (replacing(f"write `{training}`", Span(span.file, start, start + len(text)), training),)
    promise = Span(entry.span.file, entry.span.start, entry.span.start + len("readonly "))
    return (replacing(f"drop `readonly`: `entry {entry.name.text}` may write", promise, ""),)
