"""First values of variables: a block for each resource, and the order in which they can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Frame, Program, Root
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.regions import Region, touched, unique_names
from dfc.elaborate.types.fitting import Complain, fit_tensor
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import Block, Value


def first_value(context: Context, variable: Variable) -> Value | None:
    """Elaborates the initial value of a variable here; None if the variable has none."""
    initial = context.program.first_values.get(variable)
    if initial is None:
        return None
    frame = Frame(
        "initial",
        variable.name,
        f"{context.frame.path}/{variable.name}",
        variable.span,
        context.frame.root,
        context.frame,
        variable.span,
        depth=context.frame.depth + 1,
        variable=variable,
    )
    inner = context.changed(
        frame=frame,
        scope=Scope(context.scope),
        label=frame.path,
        may_affect=False,
        outcome=None,
        loop=None,
        instance="",
    )
    entity = initial(inner)
    return fit_tensor(inner, entity, variable.type, variable.span, _complain(variable), fill=True)


def _complain(variable: Variable) -> Complain:
    def complain(expected: str, got: str) -> Exception:
        return mistake(
            "E0407", f"the first value of `{variable.short_name}` must be {expected}, and this is {got}", variable.span
        )

    return complain


def initial_block(program: Program, variable: Variable) -> Block | None:
    """The block of a resource: what it reads comes in and goes out as tokens."""
    known = program.initial_blocks.get(variable.name)
    if known is not None or variable not in program.first_values:
        return known
    root = Root(variable.name)
    frame = Frame("initial", variable.name, "initial", variable.span, root)
    region = Region()
    context = Context(program, frame, region, program.main, NO_FACTS, label=variable.name)
    try:
        value = first_value(context, variable)
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)
        del program.first_values[variable]
        return None
    except Abandoned:
        del program.first_values[variable]
        return None
    assert value is not None
    block = region.close([value], touched([region]))
    unique_names(block, {})
    program.initial_blocks[variable.name] = block
    return block


def reads(program: Program, variable: Variable) -> list[str]:
    """The variables an initial value depends on."""
    block = initial_block(program, variable)
    return [v.name for v in block.parameters if v.is_token] if block is not None else []


def in_order(program: Program, variables: Sequence[Variable]) -> list[Variable]:
    """The variables in an order in which each finds what it reads; a cycle is E0408."""
    by_name = {variable.name: variable for variable in variables}
    done: dict[str, None] = {}
    for variable in variables:
        _visit(program, by_name, variable, done)
    return [by_name[name] for name in done]


def _visit(program: Program, by_name: dict[str, Variable], start: Variable, done: dict[str, None]) -> None:
    path: list[tuple[Variable, Iterator[str]]] = [(start, iter(reads(program, start)))]
    open_names = {start.name: None}
    if start.name in done:
        return
    while path:
        variable, pending = path[-1]
        following = next((n for n in pending if n in by_name and n not in done), None)
        if following is None:
            path.pop()
            open_names.pop(variable.name, None)
            done[variable.name] = None
        elif following in open_names:
            raise _cycle([v.name for v, _ in path], by_name, following)
        else:
            open_names[following] = None
            path.append((by_name[following], iter(reads(program, by_name[following]))))


def _cycle(path: list[str], by_name: dict[str, Variable], again: str) -> Mistake:
    circle = [*path[path.index(again) :], again]
    span: Span = by_name[again].span
    return mistake(
        "E0408",
        f"the first value of `{again}` depends on itself",
        span,
        secondary=[(by_name[name].span, "part of the circle") for name in circle[1:-1]],
        notes=(" -> ".join(circle),),
    )
