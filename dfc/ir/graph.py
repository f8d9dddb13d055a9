"""The graph: nodes in SSA form, blocks, entries, resources.

Guarantees a verified graph gives (see `dfc.ir.verify` for the numbered list):
- Nodes of a block stand in a valid execution order; a node uses only values defined above it in its block or in an
  enclosing block (regions capture outer values; they receive only carried values and tokens as parameters).
- Every effect on a resource consumes that resource's current token and yields the next one. Tokens enter an entry as
  the last parameters of its block (sorted by resource name) and leave as its last outputs, in the same order. A
  region whose body has effects takes the tokens as its last operands and returns them as its last results.
- Every node keeps its full name (`train/hidden`) and source span through all passes.

A pass never changes a graph it was given: it builds a new one (`dfc.ir.rewrite`). Nodes and values compare by identity;
`dfc.ir.equality.equal` compares structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import Dim, Symbol
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType, TokenType, Type


class Value:
    """One result of a node, or one parameter of a block (then `node` is None)."""

    __slots__ = ("index", "name", "node", "type")

    def __init__(self, type_: Type, name: str = "", node: Node | None = None, index: int = 0) -> None:
        self.type = type_
        self.name = name
        self.node = node
        self.index = index

    @property
    def tensor(self) -> TensorType:
        """Its type, known to be a tensor."""
        assert isinstance(self.type, TensorType), self
        return self.type

    @property
    def is_token(self) -> bool:
        return isinstance(self.type, TokenType)

    @property
    def resource(self) -> str:
        """Of a token: the full name of the state whose effects it orders."""
        assert isinstance(self.type, TokenType), self
        return self.type.resource

    def __repr__(self) -> str:
        return f"<{self.name or '?'}: {self.type}>"


class Node:
    """An application of the op named `op`. `name` is its full name; results are `name` or `name:0`, `name:1` ..."""

    __slots__ = ("attributes", "name", "op", "operands", "regions", "results", "span")

    def __init__(
        self,
        op: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        *,
        attributes: Attributes | None = None,
        regions: Sequence[Block] = (),
        name: str = "",
        span: Span | None = None,
    ) -> None:
        self.op = op
        self.operands = tuple(operands)
        self.attributes: Attributes = attributes if attributes is not None else NO_ATTRIBUTES
        self.regions = tuple(regions)
        self.name = name
        self.span = span if span is not None else Span.nowhere()
        many = len(result_types) > 1
        self.results = tuple(Value(t, f"{name}:{i}" if many else name, self, i) for i, t in enumerate(result_types))

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    def __repr__(self) -> str:
        return f"<{self.op} {self.name}>"


NO_ATTRIBUTES = NoAttributes()


class Block:
    """Straight-line nodes with parameters and outputs: the body of an entry, or a region of a node."""

    __slots__ = ("nodes", "outputs", "parameters")

    def __init__(
        self, parameters: Sequence[Value] = (), nodes: Sequence[Node] = (), outputs: Sequence[Value] = ()
    ) -> None:
        self.parameters = tuple(parameters)
        self.nodes: list[Node] = list(nodes)
        self.outputs = tuple(outputs)


class ResourceKind(Enum):
    VARIABLE = "variable"
    RNG = "rng"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Resource:
    """State that outlives a call. An rng is stored as u64[4]: two key words, the number of draws so far, zero; a queue
    as bytes (`dfc.ir.queues`), laid out as its form says."""

    name: str
    kind: ResourceKind
    type: TensorType
    trained: bool
    initial: Block | None
    span: Span
    container: str = "default"
    saved: bool = True
    doc: str = ""
    queue: QueueForm | None = None


@dataclass(frozen=True, slots=True)
class DimCheck:
    """A condition on sizes that an entry checks when it is called: `left relation right`, relation in `== >= > !=`."""

    left: Dim
    relation: str
    right: Dim
    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class Apart:
    """Of an entry that has been taken apart: it computes, on any task, what the entry `update` does to state where that
    lies. `whole` is the entry of the author, whose feeds come first; behind them come values of `variables`, and
    behind its results what the update is fed, and `handed` says what several tasks make of each: first, mean or sum.
    Where steps take from queues, the entry `take` does, and gives the feeds `taken`, before the variables."""

    update: str
    whole: Entry
    variables: tuple[str, ...]
    handed: tuple[str, ...] = ()
    take: str = ""
    taken: tuple[str, ...] = ()


@dataclass(slots=True)
class Entry:
    """A feed/fetch signature. The block's parameters are the feeds, then the tokens; its outputs the results, then the
    tokens. `dims` are the symbols of the signature; `dim_feeds` those of them that no feed's shape decides. With
    `copies` it is the body of a runner: nobody calls it, and so many threads repeat it in the background."""

    name: str
    block: Block
    parameter_names: tuple[str, ...]
    result_names: tuple[str, ...]
    dims: tuple[Symbol, ...]
    dim_feeds: tuple[Symbol, ...]
    checks: tuple[DimCheck, ...]
    span: Span
    readonly: bool = False
    is_test: bool = False
    doc: str = ""
    parameter_docs: tuple[str, ...] = ()
    concurrent: bool = False
    unnamed_result: bool = False
    copies: int = 0
    apart: Apart | None = None

    @property
    def is_runner(self) -> bool:
        return self.copies > 0


@dataclass(slots=True)
class Graph:
    """A whole program: state and entries by full name, in the order of their declaration.

    Only as the front end makes it: `modules` are the texts of imported files by relative path, `bound` the values that
    the author has named, by full name (a value may have several names, and node names follow other rules)."""

    name: str
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    tests: dict[str, Entry] = field(default_factory=dict[str, Entry])
    settings: dict[str, int | float | bool | str] = field(default_factory=dict[str, "int | float | bool | str"])
    source: str = ""
    modules: dict[str, str] = field(default_factory=dict[str, str])
    bound: dict[str, Value] = field(default_factory=dict[str, Value])
