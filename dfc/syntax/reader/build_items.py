"""Builds the nodes of items: one method per rule of the grammar, as in `build_expressions`."""

from __future__ import annotations

from typing import Any

from dfc.diagnostics.source import Span
from dfc.syntax.reader.build_expressions import present
from dfc.syntax.reader.build_statements import StatementBuilder
from dfc.syntax.reader.layout import check_items
from dfc.syntax.reader.literals import integer_value
from dfc.syntax.reader.node_builder import Children
from dfc.syntax.tree import tree


class TreeBuilder(StatementBuilder):
    """The nodes of a whole file."""

    def about(self, item: Span) -> str:
        """The documentation above an item."""
        return self.documentation.above.get(item.start, "")

    def behind(self, parameter: Span) -> str:
        """The documentation that trails a parameter."""
        return self.documentation.behind.get(parameter.end, "")

    def build_start(self, children: Children) -> tree.Module:
        edition, *items = children
        self.problems.extend(check_items(self.file, items))
        span = self.span(children)
        return tree.Module(edition, tuple(items), documentation=self.documentation.module, span=span)

    def build_edition(self, children: Children) -> tree.Edition:
        span = self.span_of(children[1])
        number = integer_value(span.text, span, self.problems)
        return tree.Edition(number, span=self.span(children))

    # ------------------------------------------------------------ modules --

    def build_module(self, children: Children) -> tree.ModulePath:
        return tree.ModulePath(self.identifiers(children), False, span=self.span(children))

    def build_sibling_module(self, children: Children) -> tree.ModulePath:
        return tree.ModulePath(self.identifiers(children[1:]), True, span=self.span(children))

    def build_import_name(self, children: Children) -> tree.ImportedName:
        name, alias = children
        span = self.span(children)
        return tree.ImportedName(self.identifier(name), self.optional(alias), span=span)

    def build_import_item(self, children: Children) -> tree.ImportItem:
        _, module, alias = children
        span = self.span(children)
        return tree.ImportItem(module, self.optional(alias), documentation=self.about(span), span=span)

    def build_from_item(self, children: Children) -> tree.FromItem:
        _, module, *names = children
        span = self.span(children)
        return tree.FromItem(module, tuple(names), documentation=self.about(span), span=span)

    # -------------------------------------------------------------- parts --

    def build_dim_or_dtype(self, children: Children) -> tree.GenericName:
        name, kind = children
        return tree.GenericName(self.identifier(name), kind, span=self.span(children))

    def build_shape_pack(self, children: Children) -> tree.GenericPack:
        return tree.GenericPack(self.identifier(children[1]), span=self.span(children))

    def build_generics(self, children: Children) -> tuple[Any, ...]:
        return present(children[1:])

    def build_params(self, children: Children) -> tuple[Any, ...]:
        return present(children[1:])

    def build_value_param(self, children: Children) -> tree.ValueParameter:
        name, kind, default = children
        span = self.span(children)
        return tree.ValueParameter(self.identifier(name), kind, default, documentation=self.behind(span), span=span)

    def build_const_param(self, children: Children) -> tree.ConstParameter:
        _, name, kind, default = children
        span = self.span(children)
        return tree.ConstParameter(self.identifier(name), kind, default, documentation=self.behind(span), span=span)

    def build_ref_param(self, children: Children) -> tree.RefParameter:
        _, name, kind = children
        span = self.span(children)
        return tree.RefParameter(self.identifier(name), kind, documentation=self.behind(span), span=span)

    def build_where_(self, children: Children) -> tuple[Any, ...]:
        return tuple(children[1:])

    def build_with_(self, children: Children) -> tuple[Any, ...]:
        return tuple(children[1:])

    def build_setting(self, children: Children) -> tree.Setting:
        name, value = children
        return tree.Setting(self.identifier(name), value, span=self.span(children))

    def build_short_body(self, children: Children) -> tree.ShortBody:
        return tree.ShortBody(children[1], span=self.span(children))

    def build_gradient(self, children: Children) -> tree.Gradient:
        _, *names, body = children
        return tree.Gradient(self.identifiers(names), body, span=self.span(children))

    # -------------------------------------------------------------- items --

    def build_const_item(self, children: Children) -> tree.ConstItem:
        _, name, kind, value = children
        span = self.span(children)
        return tree.ConstItem(self.identifier(name), kind, value, documentation=self.about(span), span=span)

    def build_type_item(self, children: Children) -> tree.TypeItem:
        _, name, generics, kind = children
        span = self.span(children)
        return tree.TypeItem(
            self.identifier(name),
            generics or (),
            kind,
            documentation=self.about(span),
            span=span,
        )

    def build_fn_item(self, children: Children) -> tree.FunctionItem:
        _, name, generics, parameters, result, where, body, gradient = children
        span = self.span(children)
        return tree.FunctionItem(
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            body,
            gradient,
            documentation=self.about(span),
            span=span,
        )

    def build_proc_item(self, children: Children) -> tree.ProcedureItem:
        _, name, generics, parameters, result, where, body = children
        span = self.span(children)
        return tree.ProcedureItem(
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            body,
            documentation=self.about(span),
            span=span,
        )

    def build_entry_item(self, children: Children) -> tree.EntryItem:
        readonly, _, name, generics, parameters, result, where, settings, body = children
        span = self.span(children)
        return tree.EntryItem(
            readonly is not None,
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            settings or (),
            body,
            documentation=self.about(span),
            span=span,
        )

    def build_block_item(self, children: Children) -> tree.BlockItem:
        _, name, generics, parameters, where, *members = children
        self.problems.extend(check_items(self.file, members))
        span = self.span(children)
        return tree.BlockItem(
            self.identifier(name),
            generics or (),
            parameters or (),
            where or (),
            tuple(members),
            documentation=self.about(span),
            span=span,
        )

    def build_param_item(self, children: Children) -> tree.ParamItem:
        _, name, kind, value, settings = children
        span = self.span(children)
        return tree.ParamItem(
            self.identifier(name), kind, value, settings or (), documentation=self.about(span), span=span
        )

    def build_var_item(self, children: Children) -> tree.VarItem:
        _, name, kind, value, settings = children
        span = self.span(children)
        return tree.VarItem(
            self.identifier(name), kind, value, settings or (), documentation=self.about(span), span=span
        )

    def build_queue_item(self, children: Children) -> tree.QueueItem:
        _, name, kind, value, settings = children
        span = self.span(children)
        return tree.QueueItem(
            self.identifier(name), kind, value, settings or (), documentation=self.about(span), span=span
        )

    def build_runner_item(self, children: Children) -> tree.RunnerItem:
        _, name, settings, body = children
        span = self.span(children)
        return tree.RunnerItem(self.identifier(name), settings or (), body, documentation=self.about(span), span=span)

    def build_test_item(self, children: Children) -> tree.TestItem:
        _, title, body = children
        span = self.span(children)
        return tree.TestItem(self.string(title), body, documentation=self.about(span), span=span)
