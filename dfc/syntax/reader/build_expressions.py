"""Builds the nodes of expressions and types: one method per rule of the grammar.

Assumes children in the order of the grammar, None for optional parts that are absent. Called bottom-up by the
automaton, with the offsets between which the rule's text lies.
"""

from __future__ import annotations

from typing import Any

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.source import SourceFile, Span
from dfc.syntax.reader.automaton import Builder, Children
from dfc.syntax.reader.lexer import Token
from dfc.syntax.reader.literals import float_value, integer_value, string_value
from dfc.syntax.tree import tree
from dfc.syntax.tree.documentation import Documentation


class ExpressionBuilder:
    """Nodes know the file; what is wrong with literals is collected in `problems`."""

    def __init__(self, file: SourceFile, documentation: Documentation) -> None:
        self.file = file
        self.documentation = documentation
        self.problems: list[Diagnostic] = []

    def builders(self) -> dict[str, Builder]:
        """Rule name to method."""
        prefix = "build_"
        return {name[len(prefix) :]: getattr(self, name) for name in dir(self) if name.startswith(prefix)}

    def span_of(self, token: Token) -> Span:
        return Span(self.file, token.start, token.end)

    def identifier(self, token: Token) -> tree.Identifier:
        return tree.Identifier(token.text, span=Span(self.file, token.start, token.end))

    def identifiers(self, tokens: list[Token]) -> tuple[tree.Identifier, ...]:
        return tuple(map(self.identifier, tokens))

    def optional(self, token: Token | None) -> tree.Identifier | None:
        return None if token is None else self.identifier(token)

    # -------------------------------------------------------------- atoms --

    def build_name(self, children: Children, start: int, end: int) -> tree.Name:
        return tree.Name(children[0].text, span=Span(self.file, start, end))

    def build_int(self, children: Children, start: int, end: int) -> tree.IntegerLiteral:
        text, span = children[0].text, Span(self.file, start, end)
        return tree.IntegerLiteral(text, integer_value(text, span, self.problems), span=span)

    def build_float(self, children: Children, start: int, end: int) -> tree.FloatLiteral:
        text, span = children[0].text, Span(self.file, start, end)
        return tree.FloatLiteral(text, float_value(text, span, self.problems), span=span)

    def build_string(self, children: Children, start: int, end: int) -> tree.StringLiteral:
        return self.string(children[0])

    def string(self, token: Token) -> tree.StringLiteral:
        span = self.span_of(token)
        return tree.StringLiteral(token.text, string_value(token.text, span, self.problems), span=span)

    def build_true(self, children: Children, start: int, end: int) -> tree.BooleanLiteral:
        return tree.BooleanLiteral(True, span=Span(self.file, start, end))

    def build_false(self, children: Children, start: int, end: int) -> tree.BooleanLiteral:
        return tree.BooleanLiteral(False, span=Span(self.file, start, end))

    def build_group(self, children: Children, start: int, end: int) -> tree.Group:
        return tree.Group(children[0], span=Span(self.file, start, end))

    def build_tuple(self, children: Children, start: int, end: int) -> tree.Tuple:
        return tree.Tuple(present(children), span=Span(self.file, start, end))

    def build_list(self, children: Children, start: int, end: int) -> tree.ListLiteral:
        return tree.ListLiteral(present(children), span=Span(self.file, start, end))

    def build_record(self, children: Children, start: int, end: int) -> tree.Record:
        fields = tuple(
            tree.RecordField(self.identifier(name), value, span=self.span_of(name).to(value.span))
            for name, value in zip(children[::2], children[1::2], strict=True)
        )
        return tree.Record(fields, span=Span(self.file, start, end))

    def build_path(self, children: Children, start: int, end: int) -> tree.Path:
        return tree.Path(self.identifiers(children), span=Span(self.file, start, end))

    # ---------------------------------------------------------- operators --

    def build_choose(self, children: Children, start: int, end: int) -> tree.Conditional:
        condition, then, otherwise = children
        return tree.Conditional(condition, then, otherwise, span=Span(self.file, start, end))

    def build_piped(self, children: Children, start: int, end: int) -> tree.Pipe:
        value, sign, stage = children
        return tree.Pipe(value, stage, span=Span(self.file, start, end), operator_span=self.span_of(sign))

    def build_or_op(self, children: Children, start: int, end: int) -> tree.LogicalOr:
        left, sign, right = children
        span = Span(self.file, start, end)
        return tree.LogicalOr(left, right, span=span, operator_span=self.span_of(sign))

    def build_and_op(self, children: Children, start: int, end: int) -> tree.LogicalAnd:
        left, sign, right = children
        span = Span(self.file, start, end)
        return tree.LogicalAnd(left, right, span=span, operator_span=self.span_of(sign))

    def build_not_op(self, children: Children, start: int, end: int) -> tree.LogicalNot:
        return tree.LogicalNot(children[0], span=Span(self.file, start, end))

    def build_compare_op(self, children: Children, start: int, end: int) -> tree.Comparison:
        left, sign, right = children
        span = Span(self.file, start, end)
        return tree.Comparison(sign.text, left, right, span=span, operator_span=self.span_of(sign))

    def build_binary(self, children: Children, start: int, end: int) -> tree.Binary:
        left, sign, right = children
        span = Span(self.file, start, end)
        return tree.Binary(sign.text, left, right, span=span, operator_span=self.span_of(sign))

    def build_negate(self, children: Children, start: int, end: int) -> tree.Negate:
        return tree.Negate(children[1], span=Span(self.file, start, end))

    def build_cast_op(self, children: Children, start: int, end: int) -> tree.Cast:
        return tree.Cast(children[0], children[1], span=Span(self.file, start, end))

    # ------------------------------------------------------------ postfix --

    def build_member_of(self, children: Children, start: int, end: int) -> tree.Member:
        operand, name = children
        return tree.Member(operand, self.identifier(name), span=Span(self.file, start, end))

    def build_call(self, children: Children, start: int, end: int) -> tree.Call:
        function, arguments = children
        return tree.Call(function, arguments, span=Span(self.file, start, end))

    def build_index_of(self, children: Children, start: int, end: int) -> tree.Index:
        operand, indices = children
        return tree.Index(operand, indices, span=Span(self.file, start, end))

    def build_arguments(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return present(children)

    def build_indices(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return present(children)

    def build_named(self, children: Children, start: int, end: int) -> tree.NamedArgument:
        name, value = children
        return tree.NamedArgument(self.identifier(name), value, span=Span(self.file, start, end))

    def build_slice(self, children: Children, start: int, end: int) -> tree.Slice:
        first, stop, step = children
        return tree.Slice(first, stop, step, span=Span(self.file, start, end))

    def build_ellipsis(self, children: Children, start: int, end: int) -> tree.EllipsisIndex:
        return tree.EllipsisIndex(span=Span(self.file, start, end))

    def build_pack(self, children: Children, start: int, end: int) -> tree.ShapePack:
        return tree.ShapePack(self.identifier(children[0]), span=Span(self.file, start, end))

    def build_new_axis(self, children: Children, start: int, end: int) -> tree.NewAxis:
        return tree.NewAxis(span=Span(self.file, start, end))

    def build_unknown_dim(self, children: Children, start: int, end: int) -> tree.UnknownDimension:
        return tree.UnknownDimension(span=Span(self.file, start, end))

    # -------------------------------------------------------------- types --

    def build_tensor_type(self, children: Children, start: int, end: int) -> tree.TensorType:
        name, arguments, dimensions = children
        return tree.TensorType(name, arguments or (), dimensions or (), span=Span(self.file, start, end))

    def build_dims(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return present(children)

    def build_tuple_type(self, children: Children, start: int, end: int) -> tree.TupleType:
        return tree.TupleType(present(children), span=Span(self.file, start, end))

    def build_named_field(self, children: Children, start: int, end: int) -> tree.NamedField:
        name, kind = children
        return tree.NamedField(self.identifier(name), kind, span=Span(self.file, start, end))

    def build_fn_type(self, children: Children, start: int, end: int) -> tree.FunctionType:
        *parameters, result = children
        return tree.FunctionType(present(parameters), result, span=Span(self.file, start, end))


def present(children: Children) -> tuple[Any, ...]:
    """All children but the absent ones."""
    return tuple([child for child in children if child is not None])
