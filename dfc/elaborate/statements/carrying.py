"""What to type where a name outside of a loop, an `each` or an `if` is given a new value inside of it.

Assumes the tree of the function that is being elaborated. Guarantees that every edit gives a program in which the value
leaves the construct it is made in: no `let` inside of it, which would be forgotten at its end. Where that cannot be
written without rewriting more than the construct, only words are offered, or nothing.

    for x in xs { total = total + x }    ->    let total = loop total = total for x in xs { total = total + x }
    if c { y = 2 * y }                   ->    let y = if c { yield 2 * y } else { yield y }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dfc.diagnostics.fixes import Edit, Help, editing
from dfc.diagnostics.source import Span
from dfc.syntax.tree import tree

Construct = tree.For | tree.Loop | tree.EachStatement | tree.If
CONSTRUCTS = (tree.For, tree.Loop, tree.EachStatement, tree.If)
TypeOf = Callable[[str], str | None]
"""What to write behind a carried name: ``, `: f32`; None if that is not known."""


class Unwritten(Exception):
    """There is no short way to write it."""


def path_to(root: tree.Node, target: tree.Node) -> list[tree.Node]:
    """The nodes from `root` down to `target`, both included; empty if it is not below."""
    waiting: list[tuple[tree.Node, ...]] = [(root,)]
    while waiting:
        path = waiting.pop()
        if path[-1] is target:
            return list(path)
        inside = (each for each in tree.children(path[-1]) if _covers(each.span, target.span))
        waiting.extend((*path, each) for each in inside)
    return []


def _covers(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def crossed(path: Sequence[tree.Node], name: str, is_outside: bool) -> list[tree.Node]:
    """The part of a path below the statement list in which a name is bound, from the statement there on.

    `is_outside`: it is bound by no `let` of the function, but by a parameter or further out.
    """
    start = 0
    for number, node in enumerate(path[:-1]):
        if isinstance(node, tree.Suite):
            earlier = _before(node.statements, path[number + 1])
            if (is_outside and start == 0) or any(_binds(each, name) for each in earlier):
                start = number + 1
    return list(path[start:])


def _before(statements: Sequence[tree.Node], last: tree.Node) -> list[tree.Node]:
    position = next((number for number, each in enumerate(statements) if each is last), len(statements))
    return list(statements[:position])


def _binds(statement: tree.Node, name: str) -> bool:
    return isinstance(statement, tree.Let) and any(binder.name.text == name for binder in statement.binders)


def outermost(below: Sequence[tree.Node]) -> Construct | None:
    return next((node for node in below if isinstance(node, CONSTRUCTS)), None)


def rebound(construct: tree.Node) -> list[str]:
    """The names outside of a construct that lines inside of it give new values to, each once."""
    own = {binder.name.text for node in tree.walk(construct) if isinstance(node, tree.Let) for binder in node.binders}
    own |= {carry.name.text for node in tree.walk(construct) if isinstance(node, tree.Loop) for carry in node.carries}
    names: dict[str, None] = {}
    for node in tree.walk(construct):
        if isinstance(node, tree.Rebind):
            names.update((target.text, None) for target in node.targets if isinstance(target, tree.Name))
    return [name for name in names if name not in own]


def carrying(below: Sequence[tree.Node], type_of: TypeOf) -> list[Help]:
    """The helps for what is crossed: a loop that carries the names, or an `if` that gives them."""
    construct = outermost(below)
    if construct is None or isinstance(below[0], tree.Rebind):
        return []
    names = rebound(construct)
    try:
        match construct:
            case tree.If():
                return [_giving(below[0], construct, names)]
            case tree.EachStatement():
                return [_around(construct, names, type_of)]
            case _:
                return [_through(below[0], construct, names, type_of)]
    except Unwritten:
        return _in_words(construct, names)


def _in_words(construct: Construct, names: Sequence[str]) -> list[Help]:
    if not names:
        return []
    listed, carries = ", ".join(names), ", ".join(f"{name} = {name}" for name in names)
    if isinstance(construct, tree.If):
        return [f"let the `if` give the value: `let {listed} = if ... {{ yield ... }} else {{ yield {listed} }}`"]
    if isinstance(construct, tree.EachStatement):
        return ["`each` carries nothing from one element to the next: write the steps one after the other"]
    return [f"carry it through the loop: `loop {carries} {_head(construct)} ...`"]


def _head(loop: tree.Node) -> str:
    return "while" if isinstance(loop, tree.Loop) and isinstance(loop.head, tree.WhileHead) else "for"


def giving(below: Sequence[tree.Node], name: str) -> list[Help]:
    """For a name that every side of an `if` gives a first value to, and that is used behind it."""
    construct = outermost(below)
    if not isinstance(construct, tree.If) or construct.otherwise is None:
        return []
    names = rebound(construct)
    sides = [*(branch.body for branch in construct.branches), construct.otherwise]
    if name not in names or any(set(rebound(side)) != set(names) for side in sides):
        return []
    try:
        return [_giving(below[0], construct, names)]
    except Unwritten:
        return []


# -------------------------------------------------------------------- loops --


def _through(statement: tree.Node, loop: tree.For | tree.Loop, names: Sequence[str], type_of: TypeOf) -> Help:
    carries = _carries(names, type_of)
    edits = [*_bound(statement, loop, names), *_carry(loop, carries), *_inner(loop, names)]
    head = loop.span.text.partition("{")[0].strip().removeprefix("loop").strip()
    kept = ", ".join(["_"] * _count(loop) + list(names)) if statement is loop else ", ".join(names)
    shown = f"let {kept} = loop {carries} {head} {{ ... }}"
    if (isinstance(loop, tree.Loop) and loop.carries) or "\n" in shown or len(shown) > 90:
        shown = f"loop {carries} {_head(loop)} ..."
    return editing(f"carry it through the loop: `{shown}`", edits)


def _carries(names: Sequence[str], type_of: TypeOf) -> str:
    types = [type_of(name) for name in names]
    if not names or any(each is None for each in types):
        raise Unwritten
    return ", ".join(f"{name}{type_} = {name}" for name, type_ in zip(names, types, strict=True))


def _count(loop: tree.For | tree.Loop) -> int:
    return len(loop.carries) if isinstance(loop, tree.Loop) else 0


def _carry(loop: tree.For | tree.Loop, carries: str) -> Iterator[Edit]:
    """The loop with more carried values."""
    start = Span(loop.span.file, loop.span.start, loop.span.start)
    if isinstance(loop, tree.For):
        yield Edit(start, f"loop {carries} ")
    elif loop.carries:
        yield Edit(loop.carries[-1].span.after(), f", {carries}")
    else:
        offset = loop.span.start + len("loop")
        yield Edit(Span(loop.span.file, offset, offset), f" {carries}")


def _bound(statement: tree.Node, loop: tree.For | tree.Loop, names: Sequence[str]) -> Iterator[Edit]:
    """The names on the left: final values stand before what is emitted."""
    listed, before = ", ".join(names), _count(loop)
    if statement is loop:
        kept = "".join(["_, "] * before)
        emitted = "".join(", _" for _ in _emitted(loop))
        yield Edit(Span(loop.span.file, loop.span.start, loop.span.start), f"let {kept}{listed}{emitted} = ")
        return
    if not isinstance(statement, tree.Let) or statement.value is not loop:
        raise Unwritten
    if len(statement.binders) != before + len(_emitted(loop)):
        raise Unwritten
    if before:
        yield Edit(statement.binders[before - 1].span.after(), f", {listed}")
    else:
        first = statement.binders[0].span
        yield Edit(Span(first.file, first.start, first.start), f"{listed}, ")


def _emitted(loop: tree.For | tree.Loop) -> tuple[tree.Node, ...]:
    return next((each.values for each in loop.body.statements if isinstance(each, tree.Emit)), ())


def _inner(loop: tree.Node, names: Sequence[str]) -> Iterator[Edit]:
    """Loops inside of the loop carry these names too, and give them back with `=`."""
    for node in tree.walk(loop):
        if node is loop or not isinstance(node, tree.For | tree.Loop):
            continue
        own = [name for name in rebound(node) if name in names]
        if not own:
            continue
        parent = path_to(loop, node)[-2]
        if not isinstance(parent, tree.Suite) or _count(node) or _emitted(node):
            raise Unwritten
        carries = ", ".join(f"{name} = {name}" for name in own)
        start = Span(node.span.file, node.span.start, node.span.start)
        if isinstance(node, tree.For):
            yield Edit(start, f"{', '.join(own)} = loop {carries} ")
        else:
            yield Edit(start, f"{', '.join(own)} = ")
            offset = node.span.start + len("loop")
            yield Edit(Span(node.span.file, offset, offset), f" {carries}")


def _around(each: tree.EachStatement, names: Sequence[str], type_of: TypeOf) -> Help:
    """An `each` inside of a loop of one iteration, which carries the names from one element to the next."""
    carries = _carries(names, type_of)
    if any(True for _ in _inner(each, names)):
        raise Unwritten
    span = each.span
    head = f"let {', '.join(names)} = loop {carries} for _ in 0..1 {{ "
    return editing(
        f"carry it from one element to the next: `{head}each ... {{ ... }} }}`",
        [Edit(Span(span.file, span.start, span.start), head), Edit(span.after(), " }")],
    )


# ----------------------------------------------------------------- branches --


def _giving(statement: tree.Node, branches: tree.If, names: Sequence[str]) -> Help:
    """`let y = if c { ... yield v } else { yield y }`, if the new values are the last lines of every side."""
    if statement is not branches or not names:
        raise Unwritten
    suites = [branch.body for branch in branches.branches]
    suites += [branches.otherwise] if branches.otherwise is not None else []
    edits = [edit for suite in suites for edit in _yielding(suite, names)]
    start = branches.span.start
    edits.append(Edit(Span(branches.span.file, start, start), f"let {', '.join(names)} = "))
    listed = ", ".join(names)
    if branches.otherwise is None:
        edits.append(Edit(branches.span.after(), f" else {{ yield {listed} }}"))
    shown = f"let {listed} = if ... {{ yield ... }} else {{ yield ... }}"
    return editing(f"let the `if` give the value: `{shown}`", edits)


def _yielding(suite: tree.Suite, names: Sequence[str]) -> Iterator[Edit]:
    """One side of an `if` that ends with the values of these names."""
    last: list[tree.Rebind] = []
    for statement in reversed(suite.statements):
        if not isinstance(statement, tree.Rebind):
            break
        last.insert(0, statement)
    inside = [node for node in tree.walk(suite) if isinstance(node, tree.Rebind)]
    values = {each.targets[0].text: each.value for each in last if isinstance(each.targets[0], tree.Name)}
    plain = all(len(each.targets) == 1 and not each.after for each in last) and len(values) == len(last)
    used = {n.text for each in last[1:] for n in tree.walk(each.value) if isinstance(n, tree.Name)}
    if suite.final is not None or len(inside) != len(last) or not plain or used & set(values):
        raise Unwritten
    if len(names) > 1 and any(isinstance(value, tree.If | tree.For | tree.Loop) for value in values.values()):
        raise Unwritten
    text = "yield " + ", ".join(values[name].span.text if name in values else name for name in names)
    if last:
        yield Edit(last[0].span.to(last[-1].span), text)
    else:
        end = suite.span.end - 1
        yield Edit(Span(suite.span.file, end, end), f"{text} " if suite.statements else f" {text} ")
