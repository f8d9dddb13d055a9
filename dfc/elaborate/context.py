"""Where elaboration stands: the program as a whole, the function being elaborated, the block being filled, the names.

The parts of the front end call each other in circles (an expression contains a call, a call runs statements, ...).
They do so through the `Engine` of the program, so that modules import only what lies below them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import NoReturn, Protocol

from dfc.deferred.dataclasses import dataclass, field_names
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import NOWHERE, Span
from dfc.elaborate.mistakes import Mistake, Reporter, mistake
from dfc.elaborate.names.scope import Binding, Scope
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.declared import Signature
from dfc.elaborate.types.entities import BlockClass, Entity, EntryValue, Routine
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.facts import Facts
from dfc.ir.graph import Block, DimCheck, Graph, Node, Value
from dfc.ir.types import TensorType
from dfc.ops.builder import Builder
from dfc.syntax.tree import tree

NODE_LIMIT = 500_000
CALL_COST = 4  # expanding a call, or making an instance, takes as long as this many operations
DEPTH_LIMIT = 120


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call, elaborated or still to be."""

    name: str
    span: Span
    name_span: Span
    expression: tree.Expression | None = None
    entity: Entity | None = None


class Engine(Protocol):
    """The parts of the front end that need each other."""

    def evaluate(self, context: Context, expression: tree.Expression, expected: Expected = None) -> Entity: ...

    def right_hand_side(self, context: Context, value: tree.RightHandSide, expected: Expected = None) -> Entity: ...

    def run_suite(self, context: Context, suite: tree.Suite) -> None: ...

    def choose(self, context: Context, expression: tree.Conditional, expected: Expected) -> Entity: ...

    def call(
        self, context: Context, function: Entity, arguments: Sequence[Argument], span: Span, expected: Expected = None
    ) -> Entity: ...

    def call_prelude(
        self, context: Context, name: str, arguments: Sequence[Argument], span: Span, expected: Expected
    ) -> Entity: ...

    def call_routine(
        self, context: Context, routine: Routine, arguments: Sequence[Argument], span: Span, expected: Expected
    ) -> Entity: ...

    def call_entry(self, context: Context, entry: EntryValue, arguments: Sequence[Argument], span: Span) -> Entity: ...

    def construct(self, context: Context, block: BlockClass, arguments: Sequence[Argument], span: Span) -> Entity: ...


Expected = TensorType | None


@dataclass(slots=True)
class Effect:
    """Something that happened to a resource while a statement was elaborated."""

    verb: str  # writes, draws from, saves, ..
    resource: str
    span: Span
    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedCall:
    """A call in a body that is checked by itself: the nodes and the result that it has made of its arguments."""

    arguments: tuple[Value, ...]
    nodes: tuple[Node, ...]
    result: Value
    cost: int
    facts: Facts


@dataclass(eq=False, slots=True)
class Root:
    """What belongs to one entry, test, initialiser, or body that is checked by itself."""

    name: str
    generic: bool = False
    readonly: tree.EntryItem | None = None
    entry: tree.EntryItem | None = None
    lost: set[str] = field(default_factory=set[str])  # names whose statements were given up
    checks: list[DimCheck] = field(default_factory=list[DimCheck])
    effects: list[Effect] = field(default_factory=list[Effect])
    loop_writes: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict[tuple[str, int], frozenset[str]])
    in_test: bool = False
    calls: dict[object, RepeatedCall] = field(default_factory=dict[object, RepeatedCall])  # if it is `generic`


@dataclass(eq=False, slots=True)
class Frame:
    """A function under elaboration: `kind` is fn, proc, entry, test, initial or const."""

    kind: str
    name: str
    path: str
    span: Span
    root: Root
    parent: Frame | None = None
    call_span: Span = NOWHERE
    routine: Routine | None = None
    depth: int = 0
    variable: Variable | None = None  # the variable whose first value is being elaborated
    draws: int = 0
    ended: dict[str, Span] = field(default_factory=dict[str, Span])  # names of inner braces that have been left,
    of_branches: set[str] = field(default_factory=set[str])  # and those among them that a side of an `if` has bound


@dataclass(slots=True)
class Context:
    """Passed along everywhere; a change for a part of the program is a changed copy."""

    program: Program
    frame: Frame
    region: Region
    scope: Scope
    facts: Facts
    label: str = ""
    may_affect: bool = False  # whether a call with effects may stand here
    after: tuple[Value, ...] = ()  # what is there before the statement runs: `after`
    outcome: Outcome | None = None
    loop: LoopState | None = None
    fresh: list[str] | None = None  # what `let [N] ..` wants sizes to be called that are found out in it
    unknown_sizes: bool = False  # whether a type may have `?` for a size
    instance: str = ""  # in the initialiser of a `var`: the full name an instance made there gets
    repetitions: int = 1  # how often the lists of the surrounding `each` repeat this

    @property
    def engine(self) -> Engine:
        return self.program.engine

    @property
    def generic(self) -> bool:
        """Whether this is the check of a body by itself, whose nodes are thrown away."""
        return self.frame.root.generic

    def at(self, span: Span) -> Builder:
        """The builder at the end of the current block; nodes get this place and the name of the statement."""
        self.program.grow(1, span)
        builder = self.region.builder
        builder.span = span
        builder.name = self.label or self.frame.path
        return builder

    def operand(self) -> Context:
        """The same place, where a call may have no effect."""
        return self.changed(may_affect=False) if self.may_affect else self

    def nested(self) -> Context:
        """The same block with a scope of its own."""
        return self.changed(scope=Scope(self.scope))

    def changed(self, **changes: object) -> Context:
        """A copy with other values of some fields; what `dataclasses.replace` does, in a quarter of the time."""
        copy = Context(*_fields(self))
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy


_fields = attrgetter(*field_names(Context))


@dataclass(slots=True)
class Outcome:
    """How a suite ended: the value of its `return` or `yield`, and where that stands."""

    allows: str  # return or yield
    value: Entity | None = None
    span: Span = NOWHERE
    spans: tuple[Span, ...] = ()  # of each value, where several stand in a list
    expected: Expected = None
    names: tuple[str, ...] = ()  # what the results of an entry are called


EMITTED = "emit"
"""Stands for what a loop emits among the names of its variables; a keyword, so none of them is called so."""


@dataclass(slots=True)
class LoopState:
    """The loop whose body is elaborated: what it carries and emits."""

    suite: tree.Suite
    carries: dict[str, Binding] = field(default_factory=dict[str, Binding])
    rebound: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])  # those whose next value has a mistake
    emitted: tuple[Value, ...] = ()
    emit_span: Span | None = None


FirstValue = Callable[[Context], Entity]
"""Elaborates the first value of a variable where the context stands."""


@dataclass(eq=False, slots=True)
class Program:
    """One run of the front end."""

    engine: Engine
    reporter: Reporter
    graph: Graph
    settings: Mapping[str, int | float | bool | str]
    search: tuple[Path, ...]
    main: Scope
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    first_values: dict[Variable, FirstValue] = field(default_factory=dict[Variable, FirstValue])
    modules: dict[str, Scope] = field(default_factory=dict[str, Scope])
    signatures: dict[tuple[int, Scope], Signature] = field(default_factory=dict[tuple[int, Scope], Signature])
    broken: set[int] = field(default_factory=set[int])
    state_bindings: list[Binding] = field(default_factory=list[Binding])
    resolving: set[str] = field(default_factory=set[str])
    initial_blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    block_facts: dict[int, Facts] = field(default_factory=dict[int, Facts])
    open_types: list[tree.TypeItem] = field(default_factory=list[tree.TypeItem])
    open_blocks: list[tree.BlockItem] = field(default_factory=list[tree.BlockItem])
    entry_routines: dict[str, Routine] = field(default_factory=dict[str, Routine])
    node_count: int = 0
    least_steps: dict[tuple[int, Scope], int] = field(default_factory=dict[tuple[int, Scope], int])
    fresh_symbols: int = 0

    def grow(self, count: int, span: Span) -> None:
        """Counts what is expanded, and ends the run beyond the limit (E1002)."""
        self.node_count += count
        if self.node_count > NODE_LIMIT:
            title = f"the program grows beyond {NODE_LIMIT} operations"
            self.give_up(mistake("E1002", title, span, "while expanding this"))

    def give_up(self, problem: Mistake) -> NoReturn:
        """Ends the whole run: the statements that are still to come would grow just as fast."""
        self.reporter.report(problem.diagnostic)
        raise CompileError(self.reporter.sorted())

    def fresh_number(self) -> int:
        self.fresh_symbols += 1
        return self.fresh_symbols

    def fresh_symbol(self, name: str) -> Dim:
        """A size that is different from every other one of its name."""
        return dim(Symbol(name, self.fresh_number()))

    def resolve_state(self) -> None:
        """Makes sure that every variable of the program is known, in the order of the declarations."""
        for binding in self.state_bindings:
            if not binding.is_resolved and binding.name not in self.resolving:
                _ = binding.value

    @property
    def seed(self) -> int:
        seed = self.settings.get("SEED", 0)
        return seed if isinstance(seed, int) else 0
