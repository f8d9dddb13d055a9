"""Prelude functions whose operands are no fixed list of parameters: `einsum`."""

from __future__ import annotations

from collections.abc import Mapping

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import value_of
from dfc.elaborate.expressions.makers import stacked_operands
from dfc.elaborate.expressions.operation_spans import OperationSpans
from dfc.elaborate.expressions.operations import operate
from dfc.elaborate.expressions.prelude_records import require_sizes
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.entities import Entity, Tensor
from dfc.ops import binding, registry
from dfc.ops.linalg.equations import RULE

Arguments = Mapping[str, Argument]
EINSUM = "einsum(const rule: str, a, b, c, d)"


def make_einsum(context: Context, assigned: Arguments, span: Span, expected: Expected) -> Entity:
    """`einsum("ij,jk->ik", a, b)`"""
    del expected
    argument = assigned[RULE]
    rule = constant_of(context, value_of(context, argument), argument.span, "the rule of `einsum`")
    if not isinstance(rule, str):
        raise mistake("E0315", "the rule of `einsum` is a text", argument.span, helps=('write `"ij,jk->ik"`',))
    arguments = [assigned[name] for name in ("a", "b", "c", "d") if name in assigned]
    operands = stacked_operands(context, [value_of(context, one) for one in arguments], span)
    spans = OperationSpans("einsum", span, [one.span for one in arguments], arguments={RULE: argument.span})
    record = registry.record("einsum")
    result = operate(context, spans, lambda b: binding.call(b, record, operands, {RULE: rule}))
    require_sizes(context, "einsum", operands, [result], span)
    return Tensor(result)
