"""Builds the nodes of items: one method per rule of the grammar, as in `build_expressions`."""

from __future__ import annotations

from typing import Any

from dfc.diagnostics.source import Span
from dfc.syntax.reader.automaton import Children
from dfc.syntax.reader.build_expressions import present
from dfc.syntax.reader.build_statements import StatementBuilder
from dfc.syntax.reader.layout import check_items
from dfc.syntax.reader.literals import integer_value
from dfc.syntax.tree import tree


class TreeBuilder(StatementBuilder):
    """The nodes of a whole file."""

    def about(self, start: int) -> str:
        """The documentation above the item that begins here."""
        return self.documentation.above.get(start, "")

    def behind(self, end: int) -> str:
        """The documentation that trails the parameter that ends here."""
        return self.documentation.behind.get(end, "")

    def build_start(self, children: Children, start: int, end: int) -> tree.Module:
        edition, *items = children
        self.problems.extend(check_items(self.file, items))
        span = Span(self.file, start, end)
        return tree.Module(edition, tuple(items), documentation=self.documentation.module, span=span)

    def build_edition(self, children: Children, start: int, end: int) -> tree.Edition:
        span = self.span_of(children[0])
        number = integer_value(span.text, span, self.problems)
        return tree.Edition(number, span=Span(self.file, start, end))

    # ------------------------------------------------------------ modules --

    def build_module(self, children: Children, start: int, end: int) -> tree.ModulePath:
        return tree.ModulePath(self.identifiers(children), False, span=Span(self.file, start, end))

    def build_sibling_module(self, children: Children, start: int, end: int) -> tree.ModulePath:
        return tree.ModulePath(self.identifiers(children), True, span=Span(self.file, start, end))

    def build_import_name(self, children: Children, start: int, end: int) -> tree.ImportedName:
        name, alias = children
        span = Span(self.file, start, end)
        return tree.ImportedName(self.identifier(name), self.optional(alias), span=span)

    def build_import_item(self, children: Children, start: int, end: int) -> tree.ImportItem:
        module, alias = children
        span = Span(self.file, start, end)
        return tree.ImportItem(module, self.optional(alias), documentation=self.about(start), span=span)

    def build_from_item(self, children: Children, start: int, end: int) -> tree.FromItem:
        module, *names = children
        span = Span(self.file, start, end)
        return tree.FromItem(module, tuple(names), documentation=self.about(start), span=span)

    # -------------------------------------------------------------- parts --

    def build_dim_or_dtype(self, children: Children, start: int, end: int) -> tree.GenericName:
        name, kind = children
        return tree.GenericName(self.identifier(name), kind, span=Span(self.file, start, end))

    def build_shape_pack(self, children: Children, start: int, end: int) -> tree.GenericPack:
        return tree.GenericPack(self.identifier(children[0]), span=Span(self.file, start, end))

    def build_generics(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return present(children)

    def build_params(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return present(children)

    def build_value_param(self, children: Children, start: int, end: int) -> tree.ValueParameter:
        name, kind, default = children
        span = Span(self.file, start, end)
        return tree.ValueParameter(self.identifier(name), kind, default, documentation=self.behind(end), span=span)

    def build_const_param(self, children: Children, start: int, end: int) -> tree.ConstParameter:
        name, kind, default = children
        span = Span(self.file, start, end)
        return tree.ConstParameter(self.identifier(name), kind, default, documentation=self.behind(end), span=span)

    def build_ref_param(self, children: Children, start: int, end: int) -> tree.RefParameter:
        name, kind = children
        span = Span(self.file, start, end)
        return tree.RefParameter(self.identifier(name), kind, documentation=self.behind(end), span=span)

    def build_where_(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_with_(self, children: Children, start: int, end: int) -> tuple[Any, ...]:
        return tuple(children)

    def build_setting(self, children: Children, start: int, end: int) -> tree.Setting:
        name, value = children
        return tree.Setting(self.identifier(name), value, span=Span(self.file, start, end))

    def build_short_body(self, children: Children, start: int, end: int) -> tree.ShortBody:
        return tree.ShortBody(children[0], span=Span(self.file, start, end))

    def build_gradient(self, children: Children, start: int, end: int) -> tree.Gradient:
        *names, body = children
        return tree.Gradient(self.identifiers(names), body, span=Span(self.file, start, end))

    # -------------------------------------------------------------- items --

    def build_const_item(self, children: Children, start: int, end: int) -> tree.ConstItem:
        name, kind, value = children
        span = Span(self.file, start, end)
        return tree.ConstItem(self.identifier(name), kind, value, documentation=self.about(start), span=span)

    def build_type_item(self, children: Children, start: int, end: int) -> tree.TypeItem:
        name, generics, kind = children
        return tree.TypeItem(
            self.identifier(name),
            generics or (),
            kind,
            documentation=self.about(start),
            span=Span(self.file, start, end),
        )

    def build_fn_item(self, children: Children, start: int, end: int) -> tree.FunctionItem:
        name, generics, parameters, result, where, body, gradient = children
        return tree.FunctionItem(
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            body,
            gradient,
            documentation=self.about(start),
            span=Span(self.file, start, end),
        )

    def build_proc_item(self, children: Children, start: int, end: int) -> tree.ProcedureItem:
        name, generics, parameters, result, where, body = children
        return tree.ProcedureItem(
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            body,
            documentation=self.about(start),
            span=Span(self.file, start, end),
        )

    def build_entry_item(self, children: Children, start: int, end: int) -> tree.EntryItem:
        readonly, name, generics, parameters, result, where, settings, body = children
        return tree.EntryItem(
            readonly is not None,
            self.identifier(name),
            generics or (),
            parameters,
            result,
            where or (),
            settings or (),
            body,
            documentation=self.about(start),
            span=Span(self.file, start, end),
        )

    def build_block_item(self, children: Children, start: int, end: int) -> tree.BlockItem:
        name, generics, parameters, where, *members = children
        self.problems.extend(check_items(self.file, members))
        return tree.BlockItem(
            self.identifier(name),
            generics or (),
            parameters or (),
            where or (),
            tuple(members),
            documentation=self.about(start),
            span=Span(self.file, start, end),
        )

    def build_param_item(self, children: Children, start: int, end: int) -> tree.ParamItem:
        name, kind, value, settings = children
        span, text = Span(self.file, start, end), self.about(start)
        return tree.ParamItem(self.identifier(name), kind, value, settings or (), documentation=text, span=span)

    def build_var_item(self, children: Children, start: int, end: int) -> tree.VarItem:
        name, kind, value, settings = children
        span, text = Span(self.file, start, end), self.about(start)
        return tree.VarItem(self.identifier(name), kind, value, settings or (), documentation=text, span=span)

    def build_queue_item(self, children: Children, start: int, end: int) -> tree.QueueItem:
        name, kind, value, settings = children
        span, text = Span(self.file, start, end), self.about(start)
        return tree.QueueItem(self.identifier(name), kind, value, settings or (), documentation=text, span=span)

    def build_runner_item(self, children: Children, start: int, end: int) -> tree.RunnerItem:
        name, settings, body = children
        span, text = Span(self.file, start, end), self.about(start)
        return tree.RunnerItem(self.identifier(name), settings or (), body, documentation=text, span=span)

    def build_test_item(self, children: Children, start: int, end: int) -> tree.TestItem:
        title, body = children
        span = Span(self.file, start, end)
        return tree.TestItem(self.string(title), body, documentation=self.about(start), span=span)
