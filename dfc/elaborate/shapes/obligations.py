"""Conditions on sizes: proved from the facts at hand, refuted, or left to the entry to check when it is called."""

from __future__ import annotations

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.operators import as_size
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.convert import tensor
from dfc.elaborate.types.entities import Constant, Entity, SizeCondition, Tensor
from dfc.ir.dims import Dim, dim
from dfc.ir.facts import OPPOSITE, Facts
from dfc.ir.graph import DimCheck, Value
from dfc.ir.types import TokenType
from dfc.ops.attributes import ASSERT_RESOURCE, AssertAttributes
from dfc.ops.control.iterations import size_of
from dfc.ops.operators import relation_of
from dfc.ops.sizes.checks import failing
from dfc.syntax.tree import tree

Comparison = tuple[Dim, str, Dim]


def require(context: Context, left: Dim, relation: str, right: Dim | int, reason: str, span: Span) -> bool | None:
    """Whether a condition holds; one that is open becomes a check of the entry, and a fact from here on."""
    right_dim = dim(right)
    answer = _with_bounds(context, left, right_dim).holds(left, relation, right_dim)
    if answer is None and not context.generic:
        add_check(context, left, relation, right_dim, reason, span)
        if not measured_among(
            context, SizeCondition(left, relation, right_dim)
        ):  # a partial run may leave that check out
            context.facts = context.facts.assume(left, relation, right_dim)
    return answer


def is_open(context: Context, left: Dim, relation: str, right: Dim | int) -> bool:
    """Whether only the run can tell if a condition holds, since it is about sizes found out there."""
    right_dim = dim(right)
    answer = _with_bounds(context, left, right_dim).holds(left, relation, right_dim)
    return answer is None and measured_among(context, SizeCondition(left, relation, right_dim))


def add_check(context: Context, left: Dim, relation: str, right: Dim, reason: str, span: Span) -> None:
    if relation in ("<", "<="):
        left, relation, right = right, {"<": ">", "<=": ">="}[relation], left
    if right.constant is not None:  # `N - 1 >= 1` reads better as `N >= 2`
        offset = next((coefficient for monomial, coefficient in left.terms if not monomial), 0)
        left, right = left - offset, right - offset
    condition = SizeCondition(left, relation, right)
    if measured_among(context, condition):
        text = f"{left} {relation} {right}"
        attributes = AssertAttributes(failing(text) + reason if reason else "", text)
        append_assert(context, tensor(context, condition, span), attributes, span)
        return
    check = DimCheck(left, relation, right, reason, span)
    checks = context.frame.root.checks
    if not any((c.left, c.relation, c.right) == (left, relation, right) for c in checks):
        checks.append(check)


def measured_among(context: Context, condition: SizeCondition) -> bool:
    """Whether a condition is about sizes that are found out while the entry runs: it is checked where it stands."""
    sizes = context.region.sizes.most.keys()
    return bool(sizes) and not sizes.isdisjoint(condition.left.symbols() | condition.right.symbols())


def _with_bounds(context: Context, left: Dim, right: Dim) -> Facts:
    """The facts, and how large sizes can be that are found out while the entry runs."""
    facts, most = context.facts, context.region.sizes.most
    pending = list(left.symbols() | right.symbols()) if most else []
    while pending:
        bound = most.get(symbol := pending.pop())
        if bound is not None:
            facts = facts.assume(bound, ">=", symbol)
            pending += bound.symbols()
    return facts


def append_assert(context: Context, condition: Value, attributes: AssertAttributes, span: Span) -> None:
    """A check that stops the call where it stands."""
    region = context.region
    token = region.token(ASSERT_RESOURCE)
    node = context.at(span).add("assert", (condition, token), (TokenType(ASSERT_RESOURCE),), attributes)
    region.advance(ASSERT_RESOURCE, node.result)


def comparisons(context: Context, condition: tree.Expression) -> list[Comparison]:
    """The comparisons of sizes that must all hold where a condition holds; others are left out."""
    match condition:
        case tree.Group():
            return comparisons(context, condition.inner)
        case tree.LogicalAnd():
            return comparisons(context, condition.left) + comparisons(context, condition.right)
        case tree.Comparison():
            comparison = _comparison(context, condition)
            return [comparison] if comparison is not None else []
        case tree.Name():
            return of_value(_in_scratch(context, condition), "and")
        case _:
            return []


def refused(context: Context, condition: tree.Expression) -> list[Comparison]:
    """The comparisons that hold where a condition does not."""
    match condition:
        case tree.Group():
            return refused(context, condition.inner)
        case tree.LogicalOr():
            return refused(context, condition.left) + refused(context, condition.right)
        case tree.LogicalNot():
            return comparisons(context, condition.operand)
        case tree.Comparison():
            return [(a, OPPOSITE[r], b) for a, r, b in comparisons(context, condition)]
        case tree.Name():
            return [(a, OPPOSITE[r], b) for a, r, b in of_value(_in_scratch(context, condition), "or")]
        case _:
            return []


def _in_scratch(context: Context, expression: tree.Expression) -> Entity:
    """What an expression stands for; the nodes it makes are thrown away."""
    scratch = context.changed(region=Region(context.region), scope=Scope(context.scope), may_affect=False)
    return context.engine.evaluate(scratch, expression)


def of_value(entity: Entity, joined_by: str) -> list[Comparison]:
    """The comparisons of sizes behind a truth value with a name of its own, as printed graphs have them."""
    comparisons: list[Comparison] = []
    pending = [entity.value] if isinstance(entity, Tensor) else []
    while pending:
        node = pending.pop().node
        if node is not None and node.op == joined_by:
            pending += reversed(node.operands)
        elif node is not None and (relation := relation_of(node)) is not None:
            left, right = map(size_of, node.operands)
            comparisons += [(left, relation, right)] if left is not None and right is not None else []
    return comparisons


def _comparison(context: Context, condition: tree.Comparison) -> Comparison | None:
    if not (_may_be_size(condition.left) and _may_be_size(condition.right)):
        return None
    left = as_size(_in_scratch(context, condition.left))
    right = as_size(_in_scratch(context, condition.right))
    if left is None or right is None:
        return None
    return left, condition.operator, right


def _may_be_size(expression: tree.Expression) -> bool:
    allowed = (tree.Name, tree.IntegerLiteral, tree.Binary, tree.Group, tree.Negate, tree.Call, tree.Identifier)
    return all(isinstance(node, allowed) for node in tree.walk(expression))


def where_conditions(context: Context, conditions: tuple[tree.Expression, ...]) -> list[tuple[Comparison, Span]]:
    """What the `where` of a declaration says about sizes, in the scope where its generic names are known."""
    pairs: list[tuple[Comparison, Span]] = []
    for condition in conditions:
        for part in _conjuncts(condition):
            comparison = _comparison(context, part) if isinstance(part, tree.Comparison) else None
            if comparison is not None:
                pairs.append((comparison, part.span))
                continue
            entity = context.engine.evaluate(context.operand(), part)
            if isinstance(entity, SizeCondition):
                pairs.append(((entity.left, entity.relation, entity.right), part.span))
            elif not isinstance(entity, Constant) or not isinstance(entity.value, bool):
                raise mistake(
                    "E0309",
                    "`where` compares dimensions",
                    part.span,
                    "this is not a comparison of dimensions",
                    helps=("what depends on values is checked by `assert` in the body",),
                )
    return pairs


def _conjuncts(condition: tree.Expression) -> list[tree.Expression]:
    if isinstance(condition, tree.Group):
        return _conjuncts(condition.inner)
    if isinstance(condition, tree.LogicalAnd):
        return _conjuncts(condition.left) + _conjuncts(condition.right)
    return [condition]


def assume_all(context: Context, comparisons: list[Comparison]) -> None:
    for left, relation, right in comparisons:
        context.facts = context.facts.assume(left, relation, right)
