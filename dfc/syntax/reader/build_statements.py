"""Builds the nodes of statements: one method per rule of the grammar, as in `build_expressions`."""

from __future__ import annotations

from typing import Any

from dfc.syntax.reader.build_expressions import ExpressionBuilder, present
from dfc.syntax.reader.layout import check_statements
from dfc.syntax.reader.node_builder import Children
from dfc.syntax.tree import tree


class StatementBuilder(ExpressionBuilder):
    def build_suite(self, children: Children) -> tree.Suite:
        _, *statements, final = children
        self.problems.extend(check_statements(self.file, statements, final))
        return tree.Suite(tuple(statements), final, span=self.span(children))

    def build_many(self, children: Children) -> tuple[Any, ...]:
        return tuple(children)

    def build_return_(self, children: Children) -> tree.Return:
        return tree.Return(values(children[1]), span=self.span(children))

    def build_yield_(self, children: Children) -> tree.Yield:
        return tree.Yield(values(children[1]), span=self.span(children))

    # -------------------------------------------------- simple statements --

    def build_fresh(self, children: Children) -> tuple[tree.Identifier, ...]:
        return self.identifiers(children[1:])

    def build_binder(self, children: Children) -> tree.Binder:
        name, kind = children
        return tree.Binder(self.identifier(name), kind, span=self.span(children))

    def build_let(self, children: Children) -> tree.Let:
        _, fresh, *binders, value, after = children
        span = self.span(children)
        return tree.Let(fresh or (), tuple(binders), value, after or (), span=span)

    def build_target_list(self, children: Children) -> tuple[Any, ...]:
        return tuple(children)

    def build_after(self, children: Children) -> tuple[Any, ...]:
        return tuple(children[1:])

    def build_rebind(self, children: Children) -> tree.Rebind:
        targets, value, after = children
        return tree.Rebind(targets, value, after or (), span=self.span(children))

    def build_update(self, children: Children) -> tree.Update:
        targets, sign, value, after = children
        return tree.Update(
            targets,
            sign.value,
            value,
            after or (),
            span=self.span(children),
            operator_span=self.span_of(sign),
        )

    def build_call_stmt(self, children: Children) -> tree.CallStatement:
        call, after = children
        return tree.CallStatement(call, after or (), span=self.span(children))

    def build_assert_(self, children: Children) -> tree.Assert:
        _, condition, message = children
        text = None if message is None else self.string(message)
        return tree.Assert(condition, text, span=self.span(children))

    def build_emit(self, children: Children) -> tree.Emit:
        return tree.Emit(tuple(children[1:]), span=self.span(children))

    # ------------------------------------------------------- control flow --

    def build_if_(self, children: Children) -> tree.If:
        _, *parts, otherwise = children
        branches = tuple(
            tree.Branch(condition, body, span=condition.span.to(body.span))
            for condition, body in zip(parts[::2], parts[1::2], strict=True)
        )
        return tree.If(branches, otherwise, span=self.span(children))

    def build_binding(self, children: Children) -> tree.Binding:
        name, first, stop = children
        return tree.Binding(self.identifier(name), first, stop, span=self.span(children))

    def build_bindings(self, children: Children) -> tuple[Any, ...]:
        return tuple(children)

    def build_for_(self, children: Children) -> tree.For:
        _, bindings, settings, body = children
        return tree.For(bindings, body, settings or (), span=self.span(children))

    def build_carry(self, children: Children) -> tree.Carry:
        name, kind, value = children
        return tree.Carry(self.identifier(name), kind, value, span=self.span(children))

    def build_while_head(self, children: Children) -> tree.WhileHead:
        return tree.WhileHead(children[1], span=self.span(children))

    def build_for_head(self, children: Children) -> tree.ForHead:
        return tree.ForHead(children[1], span=self.span(children))

    def build_loop(self, children: Children) -> tree.Loop:
        _, *carries, head, settings, body = children
        return tree.Loop(present(carries), head, body, settings or (), span=self.span(children))

    def build_each_stmt(self, children: Children) -> tree.EachStatement:
        _, bindings, body = children
        return tree.EachStatement(bindings, body, span=self.span(children))

    def build_each_map(self, children: Children) -> tree.EachMap:
        _, bindings, value = children
        return tree.EachMap(bindings, value, span=self.span(children))


def values(child: Any) -> tuple[Any, ...]:
    """What stands behind `return` or `yield`: nothing, one value, or several."""
    if child is None:
        return ()
    return child if isinstance(child, tuple) else (child,)  # pyright: ignore[reportUnknownVariableType]
