"""How large a program becomes, counted before it is expanded.

Every call puts the body of the function into its place, and every instance of a block has state of its own. Thirty
functions that each call the next one twice are a billion bodies: `least_steps` finds that out by reading each body
once. It counts what is expanded in any case: of an `if` that may be decided now the smaller side, of a list only the
elements that stand in the text, of a name only what is known already. So no program is refused for calls that it
would not have made. Of lists within lists, all combinations are counted, even those that an `if` skips.
"""

from __future__ import annotations

from typing import NoReturn

from dfc.diagnostics.source import Span
from dfc.elaborate import context as limits
from dfc.elaborate.context import CALL_COST, Context, Program
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.names.scope import Binding, BindingRole, Scope
from dfc.elaborate.types.entities import BlockClass, Entity, Instance, ListValue, ModuleValue, Routine, TupleValue
from dfc.syntax.tree import tree

MOST_NESTED = 400  # deeper bodies count as nothing; elaboration refuses them by their depth
SHOWN = 6  # names of a chain that a message shows

Expanded = tree.FunctionItem | tree.ProcedureItem | tree.BlockItem


def refuse_cost(program: Program, called: Routine | BlockClass, span: Span) -> None:
    """Ends the run if expanding this call would go beyond the limit (E1002)."""
    counter = _Counter(program)
    steps = counter.of(called.item, called.scope)
    if steps > limits.NODE_LIMIT:
        _too_large(program, counter, called, steps, span)


def refuse_iterations(context: Context, count: int, span: Span) -> None:
    """Ends the run if the lists that surround this one have too many combinations of elements (E1002)."""
    if context.repetitions * count > limits.NODE_LIMIT:
        title = f"the program grows beyond {limits.NODE_LIMIT} operations"
        label = f"{context.repetitions * count:,} iterations of lists within lists"
        context.program.give_up(mistake("E1002", title, span, label))


def _too_large(program: Program, counter: _Counter, called: Routine | BlockClass, steps: int, span: Span) -> NoReturn:
    names = counter.heaviest(called)
    shown = names if len(names) <= 2 * SHOWN else [*names[:SHOWN], "...", *names[-SHOWN:]]
    what = "calls" if isinstance(called, Routine) else "makes"
    note = f"every `{names[0]}` {what} its parts anew: {' -> '.join(shown)}"
    title = f"the program grows beyond {limits.NODE_LIMIT} operations"
    label = f"{_rounded(steps // CALL_COST)} bodies when this is expanded"
    helps = ("bind a value that is needed twice with `let`, or repeat with `loop` or `for`",)
    program.give_up(mistake("E1002", title, span, label, notes=(note,), helps=helps))


def _rounded(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 10**{len(str(count)) - 1}"


class _Counter:
    """Reads each body once for each scope it lives in."""

    def __init__(self, program: Program) -> None:
        self._known = program.least_steps
        self._busy: set[tuple[int, Scope]] = set()
        self._depth = 0

    def of(self, item: Expanded, scope: Scope) -> int:
        key = (id(item), scope)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._busy or self._depth >= MOST_NESTED:
            return CALL_COST
        self._busy.add(key)
        count = CALL_COST + sum(self._count(part, scope, item) for part in _parts(item))
        self._busy.discard(key)
        self._known[key] = count
        return count

    def heaviest(self, called: Routine | BlockClass) -> list[str]:
        """The names of a chain of calls, each the largest one in the body of the one before."""
        names: list[str] = []
        current: Routine | BlockClass | None = called
        while current is not None and len(names) < MOST_NESTED:
            names.append(current.item.name.text)
            item, scope = current.item, current.scope
            inner = [
                callee
                for part in _parts(item)
                for node in tree.walk(part)
                if (callee := _callee(node, scope, item)) is not None
            ]
            current = max(inner, key=lambda each: self.of(each.item, each.scope), default=None)
        return names

    def _count(self, node: tree.Node, scope: Scope, item: Expanded) -> int:
        """What expanding a piece of a body takes, without its own operations."""
        if self._depth >= MOST_NESTED:
            return 0
        self._depth += 1
        total = 0
        waiting = [node]
        while waiting:
            current = waiting.pop()
            called = _callee(current, scope, item)
            if called is not None:
                total += self.of(called.item, called.scope)
            match current:
                case tree.If() | tree.Conditional() if not _is_decided_later(_condition(current), item):
                    waiting.append(_condition(current))
                    total += min(self._count(side, scope, item) if side else 0 for side in _sides(current))
                case tree.LogicalAnd() | tree.LogicalOr():
                    waiting.append(current.left)
                case tree.EachStatement() | tree.EachMap():
                    waiting += current.bindings
                    body = current.body if isinstance(current, tree.EachStatement) else current.value
                    total += _length(current.bindings[0].start, scope) * self._count(body, scope, item)
                case _:
                    waiting += tree.children(current)
        self._depth -= 1
        return total


def _condition(node: tree.If | tree.Conditional) -> tree.Expression:
    return node.condition if isinstance(node, tree.Conditional) else node.branches[0].condition


def _sides(node: tree.If | tree.Conditional) -> tuple[tree.Node | None, ...]:
    if isinstance(node, tree.Conditional):
        return node.then, node.otherwise
    return *(branch.body for branch in node.branches), node.otherwise


def _parts(item: Expanded) -> tuple[tree.Node, ...]:
    """What is elaborated whenever a function is called, or an instance of a block is made."""
    if isinstance(item, tree.BlockItem):
        return tuple(member.value for member in item.members if isinstance(member, tree.ParamItem | tree.VarItem))
    return (item.body,)


def _parameters(item: Expanded) -> frozenset[str]:
    return frozenset(parameter.name.text for parameter in item.parameters)


def _is_decided_later(condition: tree.Expression, item: Expanded) -> bool:
    """Whether a condition compares with what is fed, so that both sides of its `if` are expanded."""
    fed = {each.name.text for each in item.parameters if isinstance(each, tree.ValueParameter)}
    nodes = list(tree.walk(condition)) if isinstance(condition, tree.Comparison) else []
    names = {node.text for node in nodes if isinstance(node, tree.Name)}
    return bool(names & fed) and not any(isinstance(node, tree.Postfix) for node in nodes)


def _callee(node: tree.Node, scope: Scope, item: Expanded) -> Routine | BlockClass | None:
    """What is called by a node, if that is known before anything is elaborated."""
    match node:
        case tree.Call():
            function = node.function
        case tree.Pipe() if not isinstance(node.stage, tree.Call):
            function = node.stage
        case _:
            return None
    if isinstance(function, tree.Index):
        function = function.operand
    entity = _known(function, scope, item)
    if isinstance(entity, Instance):
        entity = _entity_of(entity.scope.own("apply"))
    return entity if isinstance(entity, Routine | BlockClass) else None


def _known(expression: tree.Expression, scope: Scope, item: Expanded) -> Entity | None:
    match expression:
        case tree.Name(text):
            return None if text in _parameters(item) else _entity_of(scope.find(text))
        case tree.Member(operand, name):
            outer = _known(operand, scope, item)
            return _entity_of(outer.scope.own(name.text)) if isinstance(outer, ModuleValue | Instance) else None
        case _:
            return None


def _entity_of(binding: Binding | None) -> Entity | None:
    if binding is None or not (binding.is_resolved or binding.role in (BindingRole.FUNCTION, BindingRole.BLOCK)):
        return None
    return binding.value


def _length(expression: tree.Expression, scope: Scope) -> int:
    match expression:
        case tree.ListLiteral(elements) | tree.Tuple(elements):
            return len(elements)
        case tree.Name(text):
            binding = scope.find(text)
            entity = _entity_of(binding) if binding is not None and binding.role is BindingRole.CONST else None
            return len(entity.items) if isinstance(entity, ListValue | TupleValue) else 0
        case _:
            return 0
