"""Random syntax trees without groups: printing must add parentheses where precedence needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from dfc.syntax.tree import tree
from dfc.syntax.tree.make import floating, integer, string

T = TypeVar("T")
NAMES = ("a", "b", "loss", "W1", "_", "_private", "newest", "f32")
TEXTS = ("", "words", 'a "b" \\ \n\t', "é日", "# no comment")
DOCUMENTATION = ("", "", "One line.", "Two\nlines.", "An empty\n\n  indented one")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
BINARIES = ("+", "-", "*", "/", "//", "%", "@", "**")
UPDATES = (":=", "+=", "-=", "*=", "/=")


class RandomTrees:
    """`size` bounds the depth of expressions and of nested statements."""

    def __init__(self, random: Random, size: int = 4) -> None:
        self.random = random
        self.size = size

    def some(self, make: Callable[[], T], least: int = 0, most: int = 3) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.random.randint(least, most)))

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.random.random() < 0.5 else None

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.random.randrange(len(choices))]

    def deeper(self) -> RandomTrees:
        return RandomTrees(self.random, self.size - 1)

    # --------------------------------------------------------- expressions --

    def identifier(self) -> tree.Identifier:
        return tree.Identifier(self.pick(NAMES))

    def path(self) -> tree.Path:
        return tree.Path(self.some(self.identifier, 1))

    def name(self) -> tree.Name:
        return tree.Name(self.pick(NAMES))

    def atom(self) -> tree.Expression:
        return self.pick(
            (
                self.name(),
                integer(self.random.randrange(1000)),
                floating(self.random.randrange(1000) / 8),
                string(self.pick(TEXTS)),
                tree.BooleanLiteral(True),
                tree.BooleanLiteral(False),
            )
        )

    def expression(self) -> tree.Expression:
        if self.size <= 0:
            return self.atom()
        d = self.deeper()
        e = d.expression
        makers: tuple[Callable[[], tree.Expression], ...] = (
            self.atom,
            lambda: tree.Tuple(d.some(e, 1)),
            lambda: tree.Record(d.some(lambda: tree.RecordField(d.identifier(), e()), 1)),
            lambda: tree.ListLiteral(d.some(e)),
            lambda: tree.Conditional(e(), e(), e()),
            lambda: tree.Pipe(e(), e()),
            lambda: tree.LogicalOr(e(), e()),
            lambda: tree.LogicalAnd(e(), e()),
            lambda: tree.LogicalNot(e()),
            lambda: tree.Comparison(self.pick(COMPARISONS), e(), e()),
            lambda: tree.Binary(self.pick(BINARIES), e(), e()),
            lambda: tree.Negate(e()),
            lambda: tree.Cast(e(), d.path()),
            lambda: d.postfix(e()),
        )
        return self.pick(makers)()

    def postfix(self, operand: tree.Expression) -> tree.Expression:
        choice = self.random.randrange(3)
        if choice == 0:
            return tree.Member(operand, self.identifier())
        if choice == 1:
            return tree.Call(operand, self.some(self.argument))
        return tree.Index(operand, self.some(self.index))

    def argument(self) -> tree.Argument:
        if self.random.random() < 0.3:
            return tree.NamedArgument(self.identifier(), self.expression())
        return self.expression()

    def index(self) -> tree.IndexItem:
        makers: tuple[Callable[[], tree.IndexItem], ...] = (
            self.expression,
            lambda: tree.Slice(*(self.maybe(self.expression) for _ in range(3))),
            tree.EllipsisIndex,
            lambda: tree.ShapePack(self.identifier()),
            tree.NewAxis,
            tree.UnknownDimension,
        )
        return self.pick(makers)()

    def target(self) -> tree.Target:
        target: Any = self.name()
        for _ in range(self.random.randrange(3)):
            target = self.deeper().postfix(target)
        return target

    # --------------------------------------------------------------- types --

    def type(self) -> tree.TypeExpression:
        if self.size <= 0 or self.random.random() < 0.6:
            d = RandomTrees(self.random, min(self.size, 1))
            return tree.TensorType(self.path(), d.some(d.argument, 0, 1), d.some(d.dimension))
        d = self.deeper()
        if self.random.random() < 0.3:
            return tree.FunctionType(d.some(d.type), d.type())
        return tree.TupleType(d.some(d.field))

    def field(self) -> tree.TypeField:
        return tree.NamedField(self.identifier(), self.type()) if self.random.random() < 0.5 else self.type()

    def dimension(self) -> tree.Dimension:
        return self.pick((self.expression(), tree.UnknownDimension(), tree.ShapePack(self.identifier())))

    # ---------------------------------------------------------- statements --

    def suite(self) -> tree.Suite:
        finals: tuple[Callable[[], tree.Final | None], ...] = (
            lambda: None,
            lambda: tree.Return(self.values(0)),
            lambda: tree.Yield(self.values(1)),
        )
        return tree.Suite(self.some(self.deeper().statement), self.pick(finals)())

    def values(self, least: int) -> tuple[tree.RightHandSide, ...]:
        if self.random.random() < 0.5:
            return (self.value(),)
        return self.some(self.expression, least)

    def value(self) -> tree.RightHandSide:
        if self.size <= 0 or self.random.random() < 0.6:
            return self.expression()
        return self.pick((self.if_, self.for_, self.loop, self.each_map))()

    def statement(self) -> tree.Statement:
        after = self.some(self.path, 0, 1)
        simple: tuple[Callable[[], tree.Statement], ...] = (
            lambda: tree.Let(self.some(self.identifier, 0, 1), self.some(self.binder, 1), self.value(), after),
            lambda: tree.Rebind(self.some(self.target, 1, 2), self.value(), after),
            lambda: tree.Update(self.some(self.target, 1, 2), self.pick(UPDATES), self.value(), after),
            lambda: tree.CallStatement(tree.Call(self.target(), self.some(self.argument)), after),
            lambda: tree.Assert(self.expression(), self.maybe(lambda: string(self.pick(TEXTS)))),
            lambda: tree.Emit(self.some(self.expression, 1)),
        )
        nested: tuple[Callable[[], tree.Statement], ...] = (
            self.if_,
            self.for_,
            self.loop,
            lambda: tree.EachStatement(self.some(self.binding, 1), self.suite()),
        )
        return self.pick(simple + nested if self.size > 0 else simple)()

    def binder(self) -> tree.Binder:
        return tree.Binder(self.identifier(), self.maybe(self.type))

    def binding(self) -> tree.Binding:
        return tree.Binding(self.identifier(), self.expression(), self.maybe(self.expression))

    def if_(self) -> tree.If:
        branches = self.some(lambda: tree.Branch(self.expression(), self.suite()), 1)
        return tree.If(branches, self.maybe(self.suite))

    def for_(self) -> tree.For:
        return tree.For(self.some(self.binding, 1), self.suite())

    def loop(self) -> tree.Loop:
        carries = self.some(lambda: tree.Carry(self.identifier(), self.maybe(self.type), self.expression()))
        heads: tuple[Callable[[], tree.LoopHead], ...] = (
            lambda: tree.WhileHead(self.expression()),
            lambda: tree.ForHead(self.some(self.binding, 1)),
        )
        return tree.Loop(carries, self.pick(heads)(), self.suite())

    def each_map(self) -> tree.EachMap:
        return tree.EachMap(self.some(self.binding, 1), self.expression())

    # --------------------------------------------------------------- items --

    def documentation(self) -> str:
        return self.pick(DOCUMENTATION)

    def generic(self) -> tree.Generic:
        if self.random.random() < 0.3:
            return tree.GenericPack(self.identifier())
        return tree.GenericName(self.identifier(), self.maybe(self.path))

    def parameter(self) -> tree.Parameter:
        text = self.pick(("", "", "what it means"))
        if self.random.random() < 0.3:
            return tree.RefParameter(self.identifier(), self.type(), documentation=text)
        kind = self.pick((tree.ValueParameter, tree.ConstParameter))
        return kind(self.identifier(), self.type(), self.maybe(self.expression), documentation=text)

    def setting(self) -> tree.Setting:
        return tree.Setting(self.identifier(), self.expression())

    def body(self) -> tree.Body:
        return self.suite() if self.random.random() < 0.5 else tree.ShortBody(self.value())

    def module_path(self) -> tree.ModulePath:
        return tree.ModulePath(self.some(self.identifier, 1), self.random.random() < 0.5)

    def signature(self) -> tuple[Any, ...]:
        return (
            self.identifier(),
            self.some(self.generic),
            self.some(self.parameter),
            self.maybe(self.type),
            self.some(self.expression, 0, 1),
        )

    def member(self) -> tree.BlockMember:
        doc = self.documentation()
        settings = self.some(self.setting, 0, 2)
        name, value = self.identifier(), self.value()
        gradient = self.maybe(lambda: tree.Gradient(self.some(self.identifier, 1), self.body()))
        makers: tuple[Callable[[], tree.BlockMember], ...] = (
            lambda: tree.ConstItem(name, self.maybe(self.type), self.expression(), documentation=doc),
            lambda: tree.ParamItem(name, self.type(), value, settings, documentation=doc),
            lambda: tree.VarItem(name, self.maybe(self.type), value, settings, documentation=doc),
            lambda: tree.QueueItem(name, self.type(), self.expression(), settings, documentation=doc),
            lambda: tree.FunctionItem(*self.signature(), self.body(), gradient, documentation=doc),
            lambda: tree.ProcedureItem(*self.signature(), self.body(), documentation=doc),
            lambda: tree.RunnerItem(name, settings, self.suite(), documentation=doc),
        )
        return self.pick(makers)()

    def item(self) -> tree.Item:
        doc = self.documentation()
        settings = self.some(self.setting, 0, 2)
        name = self.identifier()
        generics = self.some(self.generic)
        imported = self.some(lambda: tree.ImportedName(self.identifier(), self.maybe(self.identifier)), 1)
        makers: tuple[Callable[[], tree.Item], ...] = (
            self.member,
            lambda: tree.ImportItem(self.module_path(), self.maybe(self.identifier), documentation=doc),
            lambda: tree.FromItem(self.module_path(), imported, documentation=doc),
            lambda: tree.TypeItem(name, generics, self.type(), documentation=doc),
            lambda: tree.EntryItem(
                self.random.random() < 0.5, *self.signature(), settings, self.suite(), documentation=doc
            ),
            lambda: tree.BlockItem(
                name,
                generics,
                self.some(self.parameter),
                self.some(self.expression, 0, 1),
                self.some(self.member),
                documentation=doc,
            ),
            lambda: tree.TestItem(string(self.pick(TEXTS)), self.suite(), documentation=doc),
        )
        return self.pick(makers)()

    def module(self) -> tree.Module:
        edition = tree.Edition(1) if self.random.random() < 0.8 else None
        items = self.some(self.item, 0, 4)
        return tree.Module(edition, items, documentation=self.documentation())


def without_groups(node: Any) -> Any:
    """The tree without its groups, as if precedence were all that counts."""
    if isinstance(node, tree.Group):
        return without_groups(node.inner)
    if isinstance(node, tuple):
        return tuple(map(without_groups, node))
    if not isinstance(node, tree.Node):
        return node
    changes = {name: without_groups(getattr(node, name)) for name in tree.content_fields(type(node))}
    return dataclasses.replace(node, **changes)
