"""Checks that a graph is well formed. What it guarantees, by number:

 1. A value is defined before it is used: above it in its block, or above the node that holds its region.
 2. A node stands in one place, a parameter belongs to one block, and results point back at their node.
 3. Within an entry every node has a name and no two nodes share one.
 4. A token is used exactly once, in the block that defines it.
 5. The tokens of a block are its last parameters and its last outputs, sorted by resource, the same in both.
 6. The tokens of a node are its last operands and its last results, sorted by resource, the same in both, and its
    regions receive exactly these.
 7. Tokens name resources of the graph (or pseudo-resources, which begin with `@`).
 8. Element types are machine types: nothing generic is left in a type or an attribute.
 9. Sizes mention only the symbols of the entry (outside entries there are none), and those that a node above in the
    block, or above the node that holds the region, has measured.
10. An entry names every parameter and every result; `dim_feeds` are some of its `dims`.
11. An op is known, its attributes, operands, results and regions are as its record says (`check`, injected).
12. A token is there for an effect: an outermost block, or all regions of a node, never just hand it on.
13. A node measures a symbol of its own: no size of the entry, and with one bound wherever it is measured.

Collects every violation; `VerifyError` shows the graph with the messages in place. Never recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir import walk
from dfc.ir.attributes import MeasuredAttributes
from dfc.ir.dims import Symbol
from dfc.ir.graph import NO_ATTRIBUTES, Block, DimCheck, Entry, Graph, Node, Resource, Value
from dfc.ir.measured import NO_SYMBOLS, measured, measured_in
from dfc.ir.symbols import generic_in, held_by, symbols_of
from dfc.ir.types import TokenType, Type


@dataclass(frozen=True, slots=True)
class Situation:
    """Where a node stands: the state it may name, what was checked about sizes, whether it is inside a branch, and the
    sizes that are measured somewhere in its outermost block."""

    resources: Mapping[str, Resource]
    checks: tuple[DimCheck, ...] = ()
    in_branch: bool = False
    measured: frozenset[Symbol] = frozenset()


Check = Callable[[Node, Situation], Iterable[str]]
"""What is wrong with a node, in words. Where it has no regions, its op, its attributes and its types say it all."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: its number, the outermost block and the node it was found at."""

    number: int
    where: str
    node: Node | None
    message: str

    def __str__(self) -> str:
        where = f"{self.where}: {self.node.name or self.node.op}" if self.node else self.where
        return f"[{self.number}] {where}: {self.message}"


class VerifyError(Exception):
    """A pass left a graph that is not well formed: a bug of the compiler."""

    def __init__(self, phase: str, violations: Sequence[Violation], text: str = "") -> None:
        self.phase = phase
        self.violations = tuple(violations)
        self.text = text
        lines = [f"the graph after {phase} is not well formed:", *map(str, self.violations[:20])]
        super().__init__("\n".join([*lines, text] if text else lines))


def no_check(node: Node, situation: Situation) -> Iterable[str]:
    """For graphs of made-up ops."""
    del node, situation
    return ()


def violations(graph: Graph, check: Check = no_check) -> list[Violation]:
    """Every broken invariant of a graph."""
    violations: list[Violation] = []
    owners: dict[int, str] = {}
    state, known = Situation(graph.resources), _Known()
    for resource in graph.resources.values():
        for symbol in sorted(symbols_of(resource.type), key=str):
            violations.append(Violation(9, resource.name, None, f"unknown size `{symbol}`"))
        if resource.initial is not None:
            where = f"initial value of {resource.name}"
            violations += _Checker(where, state, frozenset(), check, owners, known).run(resource.initial)
    for entry in walk.entries(graph):
        violations += _entry_violations(entry)
        situation = Situation(graph.resources, entry.checks)
        violations += _Checker(entry.name, situation, frozenset(entry.dims), check, owners, _Known()).run(entry.block)
    return violations


def verify(graph: Graph, phase: str, check: Check = no_check, show: Callable[..., str] | None = None) -> None:
    """Raises `VerifyError` if anything is wrong; `show(graph, notes)` prints the graph with notes per node."""
    broken = violations(graph, check)
    if broken:
        raise VerifyError(phase, broken, _shown(graph, broken, show) if show else "")


def _shown(graph: Graph, broken: Sequence[Violation], show: Callable[..., str]) -> str:
    """The graph with notes, as far as a broken graph can be printed."""
    try:
        return show(graph, _notes(broken))
    except Exception as problem:
        return f"(the graph cannot be printed: {problem!r})"


def _notes(broken: Iterable[Violation]) -> dict[Node, list[str]]:
    notes: dict[Node, list[str]] = {}
    for violation in broken:
        if violation.node is not None:
            notes.setdefault(violation.node, []).append(f"[{violation.number}] {violation.message}")
    return notes


def _entry_violations(entry: Entry) -> Iterator[Violation]:
    feeds = sum(1 for value in entry.block.parameters if not value.is_token)
    results = sum(1 for value in entry.block.outputs if not value.is_token)
    if feeds != len(entry.parameter_names):
        yield Violation(10, entry.name, None, f"{feeds} feeds but {len(entry.parameter_names)} names for them")
    if results != len(entry.result_names):
        yield Violation(10, entry.name, None, f"{results} results but {len(entry.result_names)} names for them")
    if not set(entry.dim_feeds) <= set(entry.dims) or len(set(entry.dims)) != len(entry.dims):
        yield Violation(10, entry.name, None, "sizes that are fed are not sizes of the signature")
    known = frozenset(entry.dims)
    for check in entry.checks:
        for symbol in sorted((check.left.symbols() | check.right.symbols()) - known, key=str):
            yield Violation(9, entry.name, None, f"a check mentions the unknown size `{symbol}`")


@dataclass(slots=True)
class _Frame:
    """A block that is being walked, the values it has defined, and where the walk stands."""

    block: Block
    owner: Node | None
    defined: list[Value]
    tokens: dict[Value, int]
    position: int = 0
    region: int = 0


@dataclass(frozen=True, slots=True)
class _Findings:
    """Of a node: the sizes that its attributes mention, and what is wrong with it wherever it stands."""

    symbols: frozenset[Symbol]
    problems: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Known:
    """What was found out of types and nodes in one situation: a program has hundreds of initial values, which are made
    of a few kinds of nodes."""

    types: dict[Type, tuple[int, bool, frozenset[Symbol]]] = field(
        default_factory=dict["Type", "tuple[int, bool, frozenset[Symbol]]"]
    )
    nodes: dict[object, _Findings] = field(default_factory=dict["object", "_Findings"])


class _Checker:
    """Walks one outermost block with the set of visible values."""

    def __init__(
        self,
        where: str,
        situation: Situation,
        symbols: frozenset[Symbol],
        check: Check,
        owners: dict[int, str],
        known: _Known,
    ) -> None:
        self._situation = situation
        self._inside = replace(situation, in_branch=True)
        self._measured: dict[Symbol, int] = {}
        self._bounds: dict[Symbol, object] = {}
        self._branches = 0
        self._where = where
        self._symbols = symbols
        self._check = check
        self._owners = owners
        self._visible: set[Value] = set()
        self._names: set[str] = set()
        self._violations: list[Violation] = []
        self._known = known
        self._type_numbers: dict[Value, int] = {}

    def run(self, block: Block) -> list[Violation]:
        sizes = frozenset(measured_in(block))
        if sizes:  # which no other block knows
            self._known = _Known()
            self._situation, self._inside = (replace(s, measured=sizes) for s in (self._situation, self._inside))
        frames = [self._open(block, None)]
        while frames:
            frame = frames[-1]
            if frame.position == len(frame.block.nodes):
                self._close(frames.pop())
                continue
            node = frame.block.nodes[frame.position]
            if frame.region == 0:
                self._node(node, frame)
            if frame.region < len(node.regions):
                frame.region += 1
                frames.append(self._open(node.regions[frame.region - 1], node))
                continue
            self._define(frame, node.results)
            frame.position += 1
            frame.region = 0
        return self._violations

    def _report(self, number: int, node: Node | None, message: str) -> None:
        self._violations.append(Violation(number, self._where, node, message))

    def _open(self, block: Block, owner: Node | None) -> _Frame:
        frame = _Frame(block, owner, [], {})
        self._branches += owner is not None and owner.op == "if"
        for index, value in enumerate(block.parameters):
            self._owned(value, owner, f"parameter {index}")
            self._type(value, owner)
        self._define(frame, block.parameters)
        problem = _token_order(block.parameters) or _token_order(block.outputs)
        if problem:
            self._report(5, owner, f"a block's {problem}")
        elif _resources(block.parameters) != _resources(block.outputs):
            self._report(5, owner, "a block does not return the tokens it received")
        for name in _idle([block]) if owner is None else ():
            self._report(12, owner, f"nothing uses the token of `{name}`")
        return frame

    def _define(self, frame: _Frame, values: Sequence[Value]) -> None:
        frame.defined.extend(values)
        self._visible.update(values)
        frame.tokens.update((value, 0) for value in values if value.is_token)

    def _close(self, frame: _Frame) -> None:
        self._branches -= frame.owner is not None and frame.owner.op == "if"
        for value in frame.block.outputs:
            self._use(value, frame, frame.owner)
        for value, uses in frame.tokens.items():
            if uses != 1:
                self._report(4, value.node or frame.owner, f"the token of `{value.type}` is used {uses} times")
        self._visible.difference_update(frame.defined)
        for node in frame.block.nodes:
            symbol = measured(node)
            if symbol is not None:
                self._measured[symbol] -= 1

    def _use(self, value: Value, frame: _Frame, node: Node | None) -> None:
        if value not in self._visible:
            self._report(1, node, f"uses `{value.name}`, which is not defined above it")
        if value in frame.tokens:
            frame.tokens[value] += 1
        elif value.is_token:
            self._report(4, node, f"takes {value.type} from outside its block")

    def _node(self, node: Node, frame: _Frame) -> None:
        self._owned(node, node, "node")
        if not node.name:
            self._report(3, node, "has no name")
        elif node.name in self._names:
            self._report(3, node, f"another node is called `{node.name}`")
        self._names.add(node.name)
        for value in node.operands:
            self._use(value, frame, node)
        self._measure(node)
        for index, value in enumerate(node.results):
            if value.node is not node or value.index != index:
                self._report(2, node, f"result {index} does not point back at its node")
            self._owned(value, node, f"result {index}")
            self._type(value, node)
        findings = self._findings(node)
        if findings.symbols:
            self._unknown(node, findings.symbols, node.attributes)
        for number, message in findings.problems:
            self._report(number, node, message)

    def _findings(self, node: Node) -> _Findings:
        """Once for nodes that have all in common that is asked for: most are like another one."""
        situation = self._inside if self._branches else self._situation
        numbers = self._type_numbers
        operands = tuple([numbers.get(value) for value in node.operands])
        if node.regions or None in operands:  # a value from nowhere
            return self._inspect(node, situation)
        results = tuple([numbers[value] for value in node.results])
        key = node.op, situation.in_branch, operands, results, node.attributes
        known = self._known.nodes.get(key)
        if known is None:
            known = self._known.nodes[key] = self._inspect(node, situation)
        return known

    def _inspect(self, node: Node, situation: Situation) -> _Findings:
        generic, symbols = (False, NO_SYMBOLS) if node.attributes is NO_ATTRIBUTES else held_by(node.attributes)
        problems = [(8, f"generic element type in `{node.attributes}`")] if generic else []
        problems += self._tokens(node)
        problems += [(11, message) for message in self._check(node, situation)]
        return _Findings(symbols, tuple(problems))

    def _owned(self, thing: Value | Node, node: Node | None, words: str) -> None:
        first = self._owners.get(id(thing))
        if first is not None:
            self._report(2, node, f"{words} also stands elsewhere, in {first}")
        self._owners[id(thing)] = self._where

    def _tokens(self, node: Node) -> Iterator[tuple[int, str]]:
        problem = _token_order(node.operands) or _token_order(node.results)
        if problem:
            yield 6, f"a node's {problem}"
            return
        tokens = _resources(node.operands)
        if tokens != _resources(node.results):
            yield 6, "does not return the tokens it received"
        for region in node.regions:
            if _resources(region.parameters) != tokens:
                yield 6, "a region does not receive the tokens of its node"
        for name in _idle(node.regions):
            yield 12, f"nothing inside uses the token of `{name}`"
        for name in tokens:
            if name not in self._situation.resources and not name.startswith("@"):
                yield 7, f"there is no resource `{name}`"

    def _measure(self, node: Node) -> None:
        """Lets the symbol that a node measures be known from here on."""
        symbol = measured(node)
        if symbol is None:
            return
        assert isinstance(node.attributes, MeasuredAttributes)
        most = node.attributes.most
        if symbol in self._symbols:
            self._report(13, node, f"measures `{symbol}`, a size of the entry")
        if self._bounds.setdefault(symbol, most) != most:
            self._report(13, node, f"measures `{symbol}` with another bound than before")
        self._unknown(node, most.symbols(), most)
        self._measured[symbol] = self._measured.get(symbol, 0) + 1

    def _type(self, value: Value, node: Node | None) -> None:
        known = self._known.types.get(value.type)
        if known is None:
            others = symbols_of(value.type) - self._symbols
            known = self._known.types[value.type] = len(self._known.types), generic_in(value.type), others
        self._type_numbers[value], generic, others = known
        if generic:
            self._report(8, node, f"generic element type in `{value.type}`")
        if others:
            self._unknown(node, others, value.type)

    def _unknown(self, node: Node | None, symbols: frozenset[Symbol], thing: object) -> None:
        for symbol in sorted(symbols - self._symbols, key=str):
            if not self._measured.get(symbol):
                self._report(9, node, f"unknown size `{symbol}` in `{thing}`")


def _resources(values: Iterable[Value]) -> list[str]:
    return [value.type.resource for value in values if isinstance(value.type, TokenType)]


def _idle(blocks: Sequence[Block]) -> list[str]:
    """The resources whose token every block returns as it received it."""
    returned = [set(block.outputs) for block in blocks]
    idle = [set(_resources(v for v in b.parameters if v in out)) for b, out in zip(blocks, returned, strict=True)]
    return sorted(name for name in idle[0] if all(name in other for other in idle)) if idle else []


def _token_order(values: Sequence[Value]) -> str | None:
    """What is wrong with the tokens among parameters, operands, results or outputs; None if nothing."""
    names = _resources(values)
    if not names:
        return None
    if any(value.is_token for value in values[: len(values) - len(names)]):
        return "tokens do not come last"
    if names != sorted(set(names)):
        return "tokens are not sorted by resource"
    return None
