"""Prints a graph as `.dfg` text: one `let` a node, all types written out. Building the text gives an equal graph.

    param kernel: f32[784, 10] = graph.random(..) with name = "net.kernel"

    entry train[B](images: f32[B, 784], rate: f32) -> (loss: f32) where B >= 1 {
      let w: f32[784, 10] = graph.read(resource = "net.kernel")
      let logits: f32[B, 10] = images @ w
      ..
      graph.assign(change, resource = "net.kernel", mode = "-=")
      return loss
    }

What the front end has to understand besides the language itself:
- `graph.OP(operands.., FIELD = value, ..)` makes exactly one node, where it stands (`dfc.ir.fields` says how fields are
  written). Tokens are not written: they follow from the order of lines. Several results form a tuple.
- `let [N] i: i64[N] = graph.range(n, most = B)`: the size that is measured is called as in the `let`; its field is not
  written. Sizes of results that are measured are written `?`.
- settings of state: `name` is the full name, `kind = "rng"` makes an rng of a `u64[4]`.
- iterations of a `for` are known if both bounds are results of `dim` or `constant` nodes.
- what is no single expression (an initial value, the condition of a loop) is a call of a function without effects.

Names that are printed are those that the text gives, so that printing what was built of it prints the same text.

Assumes nothing about validity, so that broken graphs can be shown: `notes` are printed behind the nodes they are about.
`spell` may give a node a shorter form than `graph.OP(..)`, if building that gives the same node. Does not recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import ALL
from dfc.ir.fields import encode
from dfc.ir.graph import Block, Entry, Graph, Node, Resource, ResourceKind, Value
from dfc.ir.measured import measured, measured_in
from dfc.ir.names import NameSet, escape, identifier
from dfc.ir.queues import QueueForm
from dfc.ir.regions import ForView, WhileView, for_view, if_view, while_view
from dfc.ir.symbols import symbols_of
from dfc.ir.text.expressions import expression
from dfc.ir.text.notation import check_text, listed, plain_text, queue_field, quoted, type_text, typed
from dfc.ir.types import TensorType, Type

Spell = Callable[[Node, Sequence[str]], "str | None"]
Notes = Mapping[Node, Sequence[str]]
_RESERVED = frozenset({*ALL, "graph", "string", "rng", "mutex", "min", "max", "ceil_div"})


def spell_generic(node: Node, operands: Sequence[str]) -> str:
    """`graph.OP(operands.., FIELD = value, ..)`."""
    named = [(name, value) for name, value in encode(node.attributes) if measured(node) is None or name != "size"]
    fields = [f"{escape(name)} = {plain_text(value)}" for name, value in named]
    return f"graph.{escape(node.op)}({', '.join([*operands, *fields])})"


def print_graph(graph: Graph, spell: Spell | None = None, notes: Notes | None = None) -> str:
    """The whole graph as text."""
    return _Printer(graph, spell, notes or {}).run()


@dataclass(slots=True)
class _Scope:
    """The names of values inside one entry or function."""

    names: NameSet
    prefix: str
    values: dict[Value, str] = field(default_factory=dict[Value, str])

    def of(self, value: Value) -> str:
        name = self.values.get(value)
        return name if name is not None else self.define(value)

    def define(self, value: Value, name: str | None = None) -> str:
        preferred = name if name is not None else identifier(value.name.removeprefix(self.prefix))
        chosen = self.names.fresh(preferred)
        self.values[value] = chosen
        return chosen


class _Printer:
    def __init__(self, graph: Graph, spell: Spell | None, notes: Notes) -> None:
        self._graph = graph
        self._spell = spell
        self._notes = notes
        self._lines: list[str] = []
        self._indent = 0
        self._globals = NameSet(_RESERVED)
        self._state: dict[str, str] = {}

    def run(self) -> str:
        self._reserve()
        self._write("dfg 1")
        for resource in self._graph.resources.values():
            self._blank()
            self._resource(resource)
        for entry in self._graph.entries.values():
            self._blank()
            self._entry(entry)
        for test in self._graph.tests.values():
            self._blank()
            self._test(test)
        return "\n".join(self._lines) + "\n"

    def _reserve(self) -> None:
        """Takes the names that no value may have: entries, state, and the functions that spellings may use."""
        for name in self._graph.entries:
            self._globals.fresh(name)
        for _, block in walk.graph_blocks(self._graph):
            for op in {node.op for node in walk.nodes(block)}:
                if op not in self._globals:
                    self._globals.fresh(op)
        for name in self._graph.resources:
            self._state[name] = self._globals.fresh(identifier(name))

    # --------------------------------------------------------------- lines --

    def _write(self, text: str) -> None:
        self._lines.append("  " * self._indent + text)

    def _blank(self) -> None:
        self._lines.append("")

    def _doc(self, text: str) -> None:
        for line in text.splitlines():
            self._write(f"## {line}".rstrip())

    def _note(self, node: Node | None) -> None:
        for message in self._notes.get(node, ()) if node is not None else ():
            self._write(f"# !! {message}")

    # -------------------------------------------------------- declarations --

    def _queue(self, resource: Resource, form: QueueForm) -> None:
        name = self._state[resource.name]
        stated = [f"name = {quoted(resource.name)}"] if name != resource.name else []
        stated += ["persist = true"] if form.persist else []
        settings = f" with {', '.join(stated)}" if stated else ""
        if form.is_mutex:
            self._doc(resource.doc)
            self._write(f"var {name}: mutex = mutex(){settings}")
            return
        fields = ", ".join(queue_field(form, number) for number in range(form.declared))
        self._doc(resource.doc)
        size = f"capacity = {form.capacity}, window = {form.window}"
        if form.key:
            size += f", by = {quoted(form.key)}"
        if form.bounds:
            size += f", bounds = [{', '.join(map(str, form.bounds))}]"
        self._write(f"queue {name}: ({fields}) = graph.queue_of({size}){settings}")

    def _resource(self, resource: Resource) -> None:
        if resource.queue is not None:
            self._queue(resource, resource.queue)
            return
        name = self._state[resource.name]
        initial = "graph.unset()"
        if resource.initial is not None:
            scope = self._scope((), "")
            initial = self._as_expression(resource.initial, {}, scope, f"initial_{name}")
        settings = [f"name = {quoted(resource.name)}"] if name != resource.name else []
        if resource.kind is ResourceKind.RNG:
            settings.append('kind = "rng"')
        if resource.container != "default":
            settings.append(f"container = {quoted(resource.container)}")
        if not resource.saved:
            settings.append("saved = false")
        tail = f" with {', '.join(settings)}" if settings else ""
        self._doc(resource.doc)
        word = "param" if resource.trained else "var"
        self._write(f"{word} {name}: {type_text(resource.type)} = {initial}{tail}")

    def _scope(self, dims: Sequence[Symbol], prefix: str) -> _Scope:
        others = (name for name in self._globals.taken if name not in self._graph.entries)  # feeds keep their names
        names = NameSet([*others, *map(str, dims)])
        return _Scope(names, prefix)

    def _entry(self, entry: Entry) -> None:
        sizes = frozenset(measured_in(entry.block))
        scope = self._scope((*entry.dims, *sizes), f"{entry.name}/")
        feeds = [v for v in entry.block.parameters if not v.is_token]
        parameters = [
            typed(scope.define(value, name), value) for value, name in zip(feeds, entry.parameter_names, strict=False)
        ]
        results = [v for v in entry.block.outputs if not v.is_token]
        types = [_with_open_sizes(v.type, sizes) for v in results]
        named = [f"{name}: {text}" for name, text in zip(entry.result_names, types, strict=False)]
        arrow = ""
        if results:
            arrow = f" -> {types[0]}" if entry.unnamed_result else f" -> ({', '.join(named)})"
        where = f" where {', '.join(map(check_text, entry.checks))}" if entry.checks else ""
        self._doc(entry.doc)
        if entry.is_runner:
            copies = f" with copies = {entry.copies}" if entry.copies > 1 else ""
            self._write(f"runner {entry.name}{copies} {{")
            self._suite(entry.block, scope, "")
            return
        self._write(
            f"{'readonly ' if entry.readonly else ''}entry {entry.name}{_generics(entry.dims)}({', '.join(parameters)})"
            f"{arrow}{where}{' with concurrent = true' if entry.concurrent else ''} {{"
        )
        self._suite(entry.block, scope, "return ")

    def _test(self, test: Entry) -> None:
        self._write(f"test {quoted(test.name)} {{")
        self._suite(test.block, self._scope((*test.dims, *measured_in(test.block)), "test/"), "return ")

    def _suite(self, block: Block, scope: _Scope, last: str) -> None:
        """The statements of an outermost block and the closing brace."""
        running = [self._block(block, scope, last)]
        while running:
            inner = next(running[-1], None)
            if inner is None:
                running.pop()
            else:
                running.append(inner)
        self._write("}")

    # ---------------------------------------------------------- statements --

    def _block(self, block: Block, scope: _Scope, last: str) -> Iterator[_Steps]:
        """Writes statements; yields the writers of nested blocks where they belong (so that nothing recurses)."""
        self._indent += 1
        for node in block.nodes:
            if node.regions:
                yield self._region_node(node, scope)
            else:
                self._statement(node, scope)
            self._note(node)
        outputs = [scope.of(v) for v in block.outputs if not v.is_token]
        if outputs and last:
            self._write(last + ", ".join(outputs))
        self._indent -= 1

    def _statement(self, node: Node, scope: _Scope) -> None:
        text = self._text(node, [scope.of(v) for v in node.operands if not v.is_token])
        self._write(self._let(node, scope) + text)

    def _text(self, node: Node, operands: Sequence[str]) -> str:
        short = self._spell(node, operands) if self._spell else None
        return short if short is not None else spell_generic(node, operands)

    def _let(self, node: Node, scope: _Scope) -> str:
        plain = [v for v in node.results if not v.is_token]
        if not plain:
            return ""
        name = scope.define(plain[0], identifier(node.name.removeprefix(scope.prefix)))
        behind = [(value, scope.define(value, f"{name}_{value.index}")) for value in plain[1:]]
        symbol = measured(node)
        size = f"[{symbol}] " if symbol is not None else ""
        return f"let {size}{', '.join(typed(text, value) for value, text in [(plain[0], name), *behind])} = "

    def _region_node(self, node: Node, scope: _Scope) -> Iterator[_Steps]:
        """`if`, `while` and `for`; anything else with regions is shown as blocks, which no front end accepts."""
        match node.op, len(node.regions):
            case "if", 2:
                yield from self._if(node, scope)
            case "while", 2:
                yield from self._while(node, scope)
            case "for", 1:
                yield from self._for(node, scope)
            case _:
                yield from self._unknown(node, scope)

    def _if(self, node: Node, scope: _Scope) -> Iterator[_Steps]:
        parts = if_view(node)
        condition = scope.of(parts.condition)
        self._write(f"{self._let(node, scope)}if {condition} {{")
        yield self._block(parts.then, scope, "yield ")
        if parts.otherwise.nodes or parts.after[1].values:
            self._write("} else {")
            yield self._block(parts.otherwise, scope, "yield ")
        self._write("}")

    def _while(self, node: Node, scope: _Scope) -> Iterator[_Steps]:
        parts = while_view(node)
        let = self._let(node, scope)
        carried = self._carries(parts, scope)
        names = {p: scope.of(b) for p, b in zip(parts.condition_inside.all, parts.inside.all, strict=False)}
        text = self._as_expression(parts.condition, names, scope, f"{identifier(node.name)}_condition")
        self._write(f"{let}loop {carried}{' ' if carried else ''}while {text} {{")
        yield self._block(parts.body, scope, "")
        self._rebind(parts, scope)
        self._write("}")

    def _for(self, node: Node, scope: _Scope) -> Iterator[_Steps]:
        parts = for_view(node)
        let = self._let(node, scope)
        index = scope.define(parts.index, "index")  # what the front end calls it
        carried = self._carries(parts, scope)
        head = f"loop {carried} for" if carried else "for"
        bounds = f"{scope.of(parts.start)}..{scope.of(parts.stop)}"
        kept = parts.attributes.recompute
        self._write(f"{let}{head} {index} in {bounds}{f' with recompute = {kept}' if kept else ''} {{")
        yield self._block(parts.body, scope, "")
        emits = [scope.of(v) for v in parts.after.emitted]
        if emits:
            self._indent += 1
            self._write(f"emit {', '.join(emits)}")
            self._indent -= 1
        self._rebind(parts, scope)
        self._write("}")

    def _carries(self, parts: ForView | WhileView, scope: _Scope) -> str:
        carried: list[str] = []
        for parameter, value in zip(parts.inside.values, parts.initial.values, strict=False):
            carried.append(f"{typed(scope.define(parameter), parameter)} = {scope.of(value)}")
        return ", ".join(carried)

    def _rebind(self, parts: ForView | WhileView, scope: _Scope) -> None:
        """The next values of what a loop carries, all at once."""
        next_values = [scope.of(v) for v in parts.after.values]
        scopes = [scope.of(p) for p in parts.inside.values]
        if scopes:
            self._indent += 1
            self._write(f"{', '.join(scopes)} = {listed(next_values)}")
            self._indent -= 1

    def _unknown(self, node: Node, scope: _Scope) -> Iterator[_Steps]:
        operands = ", ".join(scope.of(v) for v in node.operands)
        self._write(f"{self._let(node, scope)}{node.op}({operands}) {{")
        for region in node.regions:
            yield self._block(region, scope, "yield ")
        self._write("}")

    # --------------------------------------------------------- expressions --

    def _as_expression(self, block: Block, names: Mapping[Value, str], scope: _Scope, function: str) -> str:
        """The one result of a block: an expression if its nodes form a tree, else a call of a function written out."""
        known = {
            v: names.get(v) or scope.of(v) for v in (*block.parameters, *walk.free_values(block)) if not v.is_token
        }
        text = expression(block, known, self._text)
        return text if text is not None else self._function(block, known, function, scope.prefix)

    def _function(self, block: Block, known: Mapping[Value, str], name: str, prefix: str) -> str:
        """Writes `fn` above the current declaration and returns the call; what calls it is named with this prefix."""
        name = self._globals.fresh(name)
        own = measured_in(block)
        dims = sorted(_symbols(block) - own.keys(), key=str)
        outer, self._lines, indent, self._indent = self._lines, list[str](), self._indent, 0
        scope = self._scope((*dims, *own), f"{prefix}{name}/")
        parameters = [typed(scope.define(value, text), value) for value, text in known.items()]
        results = [_with_open_sizes(v.type, frozenset(own)) for v in block.outputs if not v.is_token]
        self._write(f"fn {name}{_generics(dims)}({', '.join(parameters)}) -> {listed(results)} {{")
        self._suite(block, scope, "return ")
        self._blank()
        written, self._lines, self._indent = self._lines, outer, indent
        position = len(outer) - next((i for i, line in enumerate(reversed(outer)) if not line), 0)
        outer[position:position] = written
        return f"{name}{_generics(dims)}({', '.join(known.values())})"


_Steps: TypeAlias = "Iterator[_Steps]"


def _with_open_sizes(type_: Type, sizes: frozenset[Symbol]) -> str:
    """The type of a result, with `?` for what is measured."""
    if not isinstance(type_, TensorType) or sizes.isdisjoint(symbols_of(type_)):
        return type_text(type_)
    shape = ("?" if not sizes.isdisjoint(size.symbols()) else str(size) for size in type_.shape)
    return f"{type_.dtype}[{', '.join(shape)}]"


def _generics(dims: Sequence[Symbol]) -> str:
    return f"[{', '.join(map(str, dims))}]" if dims else ""


def _symbols(block: Block) -> frozenset[Symbol]:
    """The sizes that a block mentions."""
    symbols: set[Symbol] = set()
    for inner in walk.blocks(block):
        for value in inner.parameters:
            symbols |= symbols_of(value.type)
        for node in inner.nodes:
            symbols |= symbols_of(node.attributes)
            for value in (*node.operands, *node.results):
                symbols |= symbols_of(value.type)
    return frozenset(symbols)
