"""Builds the nodes of statements: one method per rule of the grammar, as in `build_expressions`."""

from __future__ import annotations

from typing import Any

from dfc.diagnostics.source import Span
from dfc.syntax.reader.automaton import Children
from dfc.syntax.reader.build_expressions import ExpressionBuilder, present
from dfc.syntax.reader.layout import check_statements
from dfc.syntax.tree import tree


class StatementBuilder(ExpressionBuilder):
    def build_suite(self, children: Children, start: int, end: int) -> tree.Suite:
        *statements, final = children
        self.problems.extend(check_statements(self.file, statements, final))
        return tree.Suite(tuple(statements), final, span=Span(self.file, start, end))

    def build_many(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_return_(self, children: Children, start: int, end: int) -> tree.Return:
        return tree.Return(values(children[0]), span=Span(self.file, start, end))

    def build_yield_(self, children: Children, start: int, end: int) -> tree.Yield:
        return tree.Yield(values(children[0]), span=Span(self.file, start, end))

    # -------------------------------------------------- simple statements --

    def build_fresh(self, children: Children, start: int, end: int) -> tuple[tree.Identifier, ...]:
        return self.identifiers(children)

    def build_binder(self, children: Children, start: int, end: int) -> tree.Binder:
        name, kind = children
        return tree.Binder(self.identifier(name), kind, span=Span(self.file, start, end))

    def build_let(self, children: Children, start: int, end: int) -> tree.Let:
        fresh, *binders, value, after = children
        span = Span(self.file, start, end)
        return tree.Let(fresh or (), tuple(binders), value, after or (), span=span)

    def build_place_list(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_after(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_rebind(self, children: Children, start: int, end: int) -> tree.Rebind:
        targets, value, after = children
        return tree.Rebind(targets, value, after or (), span=Span(self.file, start, end))

    def build_update(self, children: Children, start: int, end: int) -> tree.Update:
        targets, sign, value, after = children
        return tree.Update(
            targets,
            sign.text,
            value,
            after or (),
            span=Span(self.file, start, end),
            operator_span=self.span_of(sign),
        )

    def build_call_stmt(self, children: Children, start: int, end: int) -> tree.CallStatement:
        call, after = children
        return tree.CallStatement(call, after or (), span=Span(self.file, start, end))

    def build_assert_(self, children: Children, start: int, end: int) -> tree.Assert:
        condition, message = children
        text = None if message is None else self.string(message)
        return tree.Assert(condition, text, span=Span(self.file, start, end))

    def build_emit(self, children: Children, start: int, end: int) -> tree.Emit:
        return tree.Emit(tuple(children), span=Span(self.file, start, end))

    # ------------------------------------------------------- control flow --

    def build_if_(self, children: Children, start: int, end: int) -> tree.If:
        *parts, otherwise = children
        branches = tuple(
            tree.Branch(condition, body, span=condition.span.to(body.span))
            for condition, body in zip(parts[::2], parts[1::2], strict=True)
        )
        return tree.If(branches, otherwise, span=Span(self.file, start, end))

    def build_binding(self, children: Children, start: int, end: int) -> tree.Binding:
        name, first, stop = children
        return tree.Binding(self.identifier(name), first, stop, span=Span(self.file, start, end))

    def build_bindings(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_for_(self, children: Children, start: int, end: int) -> tree.For:
        bindings, settings, body = children
        return tree.For(bindings, body, settings or (), span=Span(self.file, start, end))

    def build_carry(self, children: Children, start: int, end: int) -> tree.Carry:
        name, kind, value = children
        return tree.Carry(self.identifier(name), kind, value, span=Span(self.file, start, end))

    def build_while_head(self, children: Children, start: int, end: int) -> tree.WhileHead:
        return tree.WhileHead(children[0], span=Span(self.file, start, end))

    def build_for_head(self, children: Children, start: int, end: int) -> tree.ForHead:
        return tree.ForHead(children[0], span=Span(self.file, start, end))

    def build_loop(self, children: Children, start: int, end: int) -> tree.Loop:
        *carries, head, settings, body = children
        return tree.Loop(present(carries), head, body, settings or (), span=Span(self.file, start, end))

    def build_each_stmt(self, children: Children, start: int, end: int) -> tree.EachStatement:
        bindings, body = children
        return tree.EachStatement(bindings, body, span=Span(self.file, start, end))

    def build_each_map(self, children: Children, start: int, end: int) -> tree.EachMap:
        bindings, value = children
        return tree.EachMap(bindings, value, span=Span(self.file, start, end))


def values(child: Any) -> tuple[Any, ...]:
    """What stands behind `return` or `yield`: nothing, one value, or several."""
    if child is None:
        return ()
    return child if isinstance(child, tuple) else (child,)  # pyright: ignore[reportUnknownVariableType]
