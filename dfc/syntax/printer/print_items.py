"""Prints declarations, and whole modules."""

from __future__ import annotations

from itertools import pairwise

from dfc.syntax.printer.print_statements import braces
from dfc.syntax.printer.printing import LayoutToken, Piece, Printers, listed, optional, separated
from dfc.syntax.tree.tree import (
    BlockItem,
    ConstItem,
    ConstParameter,
    Edition,
    EntryItem,
    FromItem,
    FunctionItem,
    GenericName,
    GenericPack,
    Gradient,
    ImportedName,
    ImportItem,
    Item,
    Module,
    ModulePath,
    Parameter,
    ParamItem,
    ProcedureItem,
    QueueItem,
    RefParameter,
    RunnerItem,
    Setting,
    ShortBody,
    Suite,
    TestItem,
    TypeItem,
    ValueParameter,
    VarItem,
)

CLOSE_TOGETHER = (ImportItem, FromItem, ConstItem, TypeItem, ParamItem, VarItem, QueueItem)


def documented(text: str, pieces: list[Piece]) -> list[Piece]:
    """`##` lines above."""
    lines: list[Piece] = []
    for line in text.split("\n") if text else ():
        lines += [f"## {line}".rstrip(), LayoutToken.NEWLINE]
    return [*lines, *pieces]


def parameters(nodes: tuple[Parameter, ...]) -> list[Piece]:
    """On one line, or one on each line if any of them is documented."""
    if not any(node.documentation for node in nodes):
        return ["(", *separated(nodes), ")"]
    lines: list[Piece] = []
    for node in nodes:
        comment = f"  ## {node.documentation}" if node.documentation else ""
        lines += [LayoutToken.NEWLINE, node, ",", comment]
    return ["(", LayoutToken.INDENT, *lines, LayoutToken.DEDENT, LayoutToken.NEWLINE, ")"]


def print_default(node: ValueParameter | ConstParameter) -> list[Piece]:
    word = "const " if isinstance(node, ConstParameter) else ""
    return [word, node.name, ": ", node.type, *optional(" = ", node.default)]


def header(word: str, node: FunctionItem | ProcedureItem | EntryItem) -> list[Piece]:
    return [
        word,
        node.name,
        *listed("[", node.generics, "]"),
        *parameters(node.parameters),
        *optional(" -> ", node.result),
        *listed(" where ", node.where),
    ]


def body(node: Suite | ShortBody) -> list[Piece]:
    return [node] if isinstance(node, ShortBody) else [" ", node]


def print_function(node: FunctionItem) -> list[Piece]:
    pieces = [*header("fn ", node), *body(node.body)]
    if node.gradient is not None:
        pieces += [LayoutToken.NEWLINE if isinstance(node.body, ShortBody) else " ", node.gradient]
    return documented(node.documentation, pieces)


def print_procedure(node: ProcedureItem) -> list[Piece]:
    return documented(node.documentation, [*header("proc ", node), *body(node.body)])


def print_entry(node: EntryItem) -> list[Piece]:
    word = "readonly entry " if node.readonly else "entry "
    settings = listed(" with ", node.settings)
    return documented(node.documentation, [*header(word, node), *settings, " ", node.body])


def print_block(node: BlockItem) -> list[Piece]:
    names = [node.name, *listed("[", node.generics, "]")]
    arguments = parameters(node.parameters) if node.parameters else []
    pieces = ["block ", *names, *arguments, *listed(" where ", node.where), " ", *braces(node.members)]
    return documented(node.documentation, pieces)


def print_gradient(node: Gradient) -> list[Piece]:
    return ["gradient (", *separated(node.names), ")", *body(node.body)]


def print_import(node: ImportItem) -> list[Piece]:
    return documented(node.documentation, ["import ", node.module, *optional(" as ", node.alias)])


def print_from(node: FromItem) -> list[Piece]:
    return documented(node.documentation, ["from ", node.module, " import ", *separated(node.names)])


def print_const(node: ConstItem) -> list[Piece]:
    pieces = ["const ", node.name, *optional(": ", node.type), " = ", node.value]
    return documented(node.documentation, pieces)


def print_type(node: TypeItem) -> list[Piece]:
    pieces = ["type ", node.name, *listed("[", node.generics, "]"), " = ", node.type]
    return documented(node.documentation, pieces)


def _state(word: str, node: ParamItem | VarItem | QueueItem) -> list[Piece]:
    settings = listed(" with ", node.settings)
    pieces = [word, node.name, *optional(": ", node.type), " = ", node.value, *settings]
    return documented(node.documentation, pieces)


def print_runner(node: RunnerItem) -> list[Piece]:
    pieces: list[Piece] = ["runner ", node.name, *listed(" with ", node.settings), " ", node.body]
    return documented(node.documentation, pieces)


def print_test(node: TestItem) -> list[Piece]:
    return documented(node.documentation, ["test ", node.title, " ", node.body])


def print_module(node: Module) -> list[Piece]:
    """Items of one short kind close together, an empty line between all others."""
    sections: list[list[Piece]] = []
    if node.edition is not None:
        sections.append([node.edition, LayoutToken.NEWLINE])
    if node.documentation:
        sections.append(documented(node.documentation, []))
    if node.items:
        sections.append(_items(node.items))
    pieces: list[Piece] = []
    for section in sections:
        pieces += [LayoutToken.NEWLINE, *section] if pieces else section
    return pieces


def _items(items: tuple[Item, ...]) -> list[Piece]:
    pieces: list[Piece] = [items[0], LayoutToken.NEWLINE]
    for first, second in pairwise(items):
        close = isinstance(second, CLOSE_TOGETHER) and type(first) is type(second)
        if not close or second.documentation:
            pieces.append(LayoutToken.NEWLINE)
        pieces += [second, LayoutToken.NEWLINE]
    return pieces


ITEM_PRINTERS: Printers = {
    GenericName: lambda node: [node.name, *optional(": ", node.kind)],
    GenericPack: lambda node: ["..", node.name],
    ValueParameter: print_default,
    ConstParameter: print_default,
    RefParameter: lambda node: ["ref ", node.name, ": ", node.type],
    Setting: lambda node: [node.name, " = ", node.value],
    ShortBody: lambda node: [" = ", node.value],
    Gradient: print_gradient,
    ModulePath: lambda node: [node.text],
    ImportedName: lambda node: [node.name, *optional(" as ", node.alias)],
    ImportItem: print_import,
    FromItem: print_from,
    ConstItem: print_const,
    TypeItem: print_type,
    FunctionItem: print_function,
    ProcedureItem: print_procedure,
    EntryItem: print_entry,
    BlockItem: print_block,
    ParamItem: lambda node: _state("param ", node),
    VarItem: lambda node: _state("var ", node),
    QueueItem: lambda node: _state("queue ", node),
    RunnerItem: print_runner,
    TestItem: print_test,
    Edition: lambda node: [f"dfg {node.number}"],
    Module: print_module,
}
