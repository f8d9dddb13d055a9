"""Builds the nodes of expressions and types: one method per rule of the grammar, as `node_builder` says."""

from __future__ import annotations

from typing import Any

from dfc.diagnostics.source import SourceFile
from dfc.syntax.reader.literals import float_value, integer_value, string_value
from dfc.syntax.reader.node_builder import Children, NodeBuilder
from dfc.syntax.reader.tokens import Token
from dfc.syntax.tree import tree
from dfc.syntax.tree.documentation import Documentation


class ExpressionBuilder(NodeBuilder):
    """The nodes of expressions and types, and the documentation for those of items."""

    def __init__(self, file: SourceFile, documentation: Documentation) -> None:
        super().__init__(file)
        self.documentation = documentation

    def identifier(self, token: Token) -> tree.Identifier:
        return tree.Identifier(token.value, span=self.span_of(token))

    def identifiers(self, tokens: list[Token]) -> tuple[tree.Identifier, ...]:
        return tuple(map(self.identifier, tokens))

    def optional(self, token: Token | None) -> tree.Identifier | None:
        return None if token is None else self.identifier(token)

    # -------------------------------------------------------------- atoms --

    def build_name(self, children: Children) -> tree.Name:
        return tree.Name(children[0].value, span=self.span(children))

    def build_int(self, children: Children) -> tree.IntegerLiteral:
        text, span = children[0].value, self.span(children)
        return tree.IntegerLiteral(text, integer_value(text, span, self.problems), span=span)

    def build_float(self, children: Children) -> tree.FloatLiteral:
        text, span = children[0].value, self.span(children)
        return tree.FloatLiteral(text, float_value(text, span, self.problems), span=span)

    def build_string(self, children: Children) -> tree.StringLiteral:
        return self.string(children[0])

    def string(self, token: Token) -> tree.StringLiteral:
        span = self.span_of(token)
        return tree.StringLiteral(token.value, string_value(token.value, span, self.problems), span=span)

    def build_true(self, children: Children) -> tree.BooleanLiteral:
        return tree.BooleanLiteral(True, span=self.span(children))

    def build_false(self, children: Children) -> tree.BooleanLiteral:
        return tree.BooleanLiteral(False, span=self.span(children))

    def build_group(self, children: Children) -> tree.Group:
        return tree.Group(children[1], span=self.span(children))

    def build_tuple(self, children: Children) -> tree.Tuple:
        return tree.Tuple(present(children[1:]), span=self.span(children))

    def build_list(self, children: Children) -> tree.ListLiteral:
        return tree.ListLiteral(present(children[1:]), span=self.span(children))

    def build_record(self, children: Children) -> tree.Record:
        fields = tuple(
            tree.RecordField(self.identifier(name), value, span=self.span_of(name).to(value.span))
            for name, value in zip(children[1::2], children[2::2], strict=True)
        )
        return tree.Record(fields, span=self.span(children))

    def build_path(self, children: Children) -> tree.Path:
        return tree.Path(self.identifiers(children), span=self.span(children))

    # ---------------------------------------------------------- operators --

    def build_choose(self, children: Children) -> tree.Conditional:
        _, condition, then, otherwise = children
        return tree.Conditional(condition, then, otherwise, span=self.span(children))

    def build_piped(self, children: Children) -> tree.Pipe:
        value, sign, stage = children
        return tree.Pipe(value, stage, span=self.span(children), operator_span=self.span_of(sign))

    def build_or_op(self, children: Children) -> tree.LogicalOr:
        left, sign, right = children
        span = self.span(children)
        return tree.LogicalOr(left, right, span=span, operator_span=self.span_of(sign))

    def build_and_op(self, children: Children) -> tree.LogicalAnd:
        left, sign, right = children
        span = self.span(children)
        return tree.LogicalAnd(left, right, span=span, operator_span=self.span_of(sign))

    def build_not_op(self, children: Children) -> tree.LogicalNot:
        return tree.LogicalNot(children[1], span=self.span(children))

    def build_compare_op(self, children: Children) -> tree.Comparison:
        left, sign, right = children
        span = self.span(children)
        return tree.Comparison(sign.value, left, right, span=span, operator_span=self.span_of(sign))

    def build_binary(self, children: Children) -> tree.Binary:
        left, sign, right = children
        span = self.span(children)
        return tree.Binary(sign.value, left, right, span=span, operator_span=self.span_of(sign))

    def build_negate(self, children: Children) -> tree.Negate:
        return tree.Negate(children[1], span=self.span(children))

    def build_cast_op(self, children: Children) -> tree.Cast:
        return tree.Cast(children[0], children[1], span=self.span(children))

    # ------------------------------------------------------------ postfix --

    def build_member_of(self, children: Children) -> tree.Member:
        operand, name = children
        return tree.Member(operand, self.identifier(name), span=self.span(children))

    def build_call(self, children: Children) -> tree.Call:
        function, arguments = children
        return tree.Call(function, arguments, span=self.span(children))

    def build_index_of(self, children: Children) -> tree.Index:
        operand, indices = children
        return tree.Index(operand, indices, span=self.span(children))

    def build_arguments(self, children: Children) -> tuple[Any, ...]:
        return present(children[1:])

    def build_indices(self, children: Children) -> tuple[Any, ...]:
        return present(children[1:])

    def build_named(self, children: Children) -> tree.NamedArgument:
        name, value = children
        return tree.NamedArgument(self.identifier(name), value, span=self.span(children))

    def build_slice(self, children: Children) -> tree.Slice:
        first, _, stop, step = children
        return tree.Slice(first, stop, step, span=self.span(children))

    def build_ellipsis(self, children: Children) -> tree.EllipsisIndex:
        return tree.EllipsisIndex(span=self.span(children))

    def build_pack(self, children: Children) -> tree.ShapePack:
        return tree.ShapePack(self.identifier(children[1]), span=self.span(children))

    def build_new_axis(self, children: Children) -> tree.NewAxis:
        return tree.NewAxis(span=self.span(children))

    def build_unknown_dim(self, children: Children) -> tree.UnknownDimension:
        return tree.UnknownDimension(span=self.span(children))

    # -------------------------------------------------------------- types --

    def build_tensor_type(self, children: Children) -> tree.TensorType:
        name, arguments, dimensions = children
        return tree.TensorType(name, arguments or (), dimensions or (), span=self.span(children))

    def build_dims(self, children: Children) -> tuple[Any, ...]:
        return present(children[1:])

    def build_tuple_type(self, children: Children) -> tree.TupleType:
        return tree.TupleType(present(children[1:]), span=self.span(children))

    def build_named_field(self, children: Children) -> tree.NamedField:
        name, kind = children
        return tree.NamedField(self.identifier(name), kind, span=self.span(children))

    def build_fn_type(self, children: Children) -> tree.FunctionType:
        _, *parameters, result = children
        return tree.FunctionType(present(parameters), result, span=self.span(children))


def present(children: Children) -> tuple[Any, ...]:
    """All children but the absent ones."""
    return tuple([child for child in children if child is not None])
