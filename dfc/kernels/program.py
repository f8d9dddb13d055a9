"""A scheduled program: kernels launched by structured steps over planned buffers. What a target lowers to machine code.

Everything here is data: no graph, no op name. Names and spans of the source are kept for messages and `dfc show`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.ir.attributes import Literal
from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import DType
from dfc.ir.graph import DimCheck, Resource
from dfc.kernels.form import Kernel
from dfc.kernels.functions import Function


class BufferRole(Enum):
    """Where a buffer lives. ARGUMENT, RESULT: memory of the caller. RESOURCE: state. CONSTANT: read-only section.
    ARENA: at `offset` in the arena of the call. REGISTER: a scalar that lives in the native code (0-d only)."""

    ARGUMENT = "argument"
    RESULT = "result"
    RESOURCE = "resource"
    CONSTANT = "constant"
    ARENA = "arena"
    REGISTER = "register"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A row-major array. `index` is the number of the argument, result or constant; `resource` the full name of state.

    Two arena buffers may overlap when their lifetimes do not. 0-d arguments and results are passed by value.
    """

    dtype: DType
    shape: tuple[Dim, ...]
    role: BufferRole
    name: str
    index: int = -1
    resource: str = ""
    offset: Dim = Dim(())


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel: `kernels[kernel]` of the program with these buffers for its operand slots and these values for
    its symbols d0, d1, ... `names` are the full names of the graph nodes it computes; `reasons` say why it holds
    what it holds ("y uses x at the same point") and what is apart from it ("z is apart: w is used at other points")."""

    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[Dim, ...]
    names: tuple[str, ...] = ()
    span: Span | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies a whole buffer (same type and shape; both may be registers)."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class If:
    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """`condition` runs before each iteration and fills the bool register `test`."""

    condition: tuple[Step, ...]
    test: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`index` is an integer register that runs from `start` to below `stop`: 0-d buffers of the same type, in any role.
    Both are read once, before the first iteration."""

    index: int
    start: int
    stop: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Stops the call with fault site `fault` when the bool (a 0-d buffer in any role) is false."""

    condition: int
    fault: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """Calls the run side, anywhere in an entry: `sites[site]` of the program with these buffers, in any role.
    Afterwards the outputs are filled. Whatever goes wrong there stops the call."""

    site: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """Gives the symbol the value of an i64 (a 0-d buffer in any role); from then on sizes may mention it. Stops the
    call with fault site `fault` when the value is below 0 or above `most`."""

    symbol: Symbol
    source: int
    most: Dim
    fault: int


@dataclass(frozen=True, slots=True)
class Locked:
    """Runs the body while it holds the locks of these containers of state, `exclusive` ones or shared ones. Where locks
    are nested, or there are several, they are taken in the order of `lock_order`. They are given back after a fault."""

    containers: tuple[str, ...]
    exclusive: bool
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches that may run at the same time, each on one thread: none reads or writes what another one writes, and
    none has effects outside of the memory of the call. One after the other, in their order, they do the same.

    `costs` are their predicted times in picoseconds, with sizes that only the call knows at 64. Where `work`, the same
    of all their launches at the sizes of the call, each once, is above `most`, threads had better share out each
    launch by itself. When one fails, the call fails with the fault of the first one that does."""

    branches: tuple[tuple[Step, ...], ...]
    costs: tuple[int, ...]
    work: Dim
    most: int


PARALLEL = "parallel"
"""The form of targets that run branches at the same time: other targets get steps one after the other."""
DEFAULT_CONTAINER = "default"
BACKGROUND = "@background"
"""The lock of what runners share with entries: of its own, so that an entry that holds that of the default container
never keeps a runner waiting."""


OWN_LOCK = "@state "
"""How the names of further locks of a program's own state begin; the first one is that of the default container."""


def is_own_lock(name: str) -> bool:
    """Whether a lock is that of a program's own state, or of a part of it, which no runner uses."""
    return name == DEFAULT_CONTAINER or name.startswith(OWN_LOCK)


def lock_order(containers: Iterable[str]) -> tuple[str, ...]:
    """The order in which all programs take locks, so that none waits for another in a circle: those of a program's own
    state first, then what programs share, by name."""
    return tuple(sorted(set(containers), key=lambda name: (name != DEFAULT_CONTAINER, not is_own_lock(name), name)))


Step = Launch | Copy | If | While | For | Check | Measure | HostCall | Locked | Parallel


@dataclass(frozen=True, slots=True)
class Fault:
    """A place where a program can fail when it runs: `kind` is assert, index, division, power; the user's message."""

    kind: str
    message: str
    span: Span


SiteValue = bool | int | float | str | tuple[str, ...]
SiteType = tuple[DType, tuple[Dim, ...]]


@dataclass(frozen=True, slots=True)
class HostSite:
    """A site where native code calls the run side. `kind` says which handler it is for, `attributes` what that one
    gets besides the operands (of a checkpoint: the number of the text argument, and the variables); `names` are the
    full names of the graph nodes it stands for."""

    kind: str
    attributes: tuple[tuple[str, SiteValue], ...]
    inputs: tuple[SiteType, ...]
    outputs: tuple[SiteType, ...]
    names: tuple[str, ...]
    span: Span

    @property
    def varying_extents(self) -> tuple[Dim, ...]:
        """The extents of its operands, inputs first, that are no plain numbers."""
        return tuple(d for _, shape in (*self.inputs, *self.outputs) for d in shape if d.constant is None)


@dataclass(slots=True)
class EntryProgram:
    """One entry, scheduled. `arena` is its size in bytes as a formula over `dims`; `largest_live` the lower bound.

    `measured` are the symbols that `Measure` steps give a value, each with a formula over `dims` for the largest it
    can be. They may stand in the shapes of buffers and the sizes of launches; the arena is planned for the largest
    ones, and so is the memory of results, which the elements fill from its start.

    Slots of a call (8 bytes each, in this order): arguments (tensor: address; 0-d: the value, little-endian; text:
    unused), results (tensor: address; 0-d: the value), dims (i64), arena address, measured sizes (i64, for the caller
    to read afterwards).
    """

    name: str
    buffers: list[Buffer]
    steps: tuple[Step, ...]
    arguments: tuple[int, ...]  # buffer numbers; -1 for a text argument
    results: tuple[int, ...]
    dims: tuple[Symbol, ...]
    arena: Dim
    largest_live: Dim
    peak_names: tuple[str, ...] = ()
    measured: tuple[tuple[Symbol, Dim], ...] = ()


@dataclass(slots=True)
class EntrySignature:
    """What a caller needs to know of an entry; goes into the manifest as it is."""

    name: str
    parameter_names: tuple[str, ...]
    result_names: tuple[str, ...]
    dims: tuple[Symbol, ...]
    dim_feeds: tuple[Symbol, ...]
    checks: tuple[DimCheck, ...]
    readonly: bool
    concurrent: bool
    is_test: bool
    unnamed_result: bool
    doc: str
    parameter_docs: tuple[str, ...]
    parameter_types: tuple[tuple[DType, tuple[Dim, ...]] | None, ...]  # None: text
    result_types: tuple[tuple[DType, tuple[Dim, ...]], ...]
    results_over: Mapping[str, tuple[tuple[Symbol, str], ...]]  # name -> for which sizes it is a mean, sum, max or min
    resources_read: tuple[str, ...]
    resources_written: tuple[str, ...]
    span: Span
    copies: int = 0  # of a runner: how many threads repeat it; of an entry that is called, 0


@dataclass(slots=True)
class Program:
    """A whole program ready for a target. `functions` are the kernel functions that its kernels are made of, beside
    primitives; each stands behind those it calls. `background` is the state that runners share with entries,
    `own_locks` the names of locks by variable, for those of the program's own that do not have the first one."""

    name: str
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    entries: list[EntryProgram] = field(default_factory=list[EntryProgram])
    signatures: list[EntrySignature] = field(default_factory=list[EntrySignature])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    constants: list[Literal] = field(default_factory=list[Literal])
    faults: list[Fault] = field(default_factory=list[Fault])
    sites: list[HostSite] = field(default_factory=list[HostSite])
    functions: list[Function] = field(default_factory=list[Function])
    background: frozenset[str] = frozenset()
    own_locks: Mapping[str, str] = field(default_factory=dict[str, str])

    def lock_of(self, resource: str) -> str:
        """The name of the lock of a piece of state: its container, but for what runners share, and for variables that
        no entry changes together with others."""
        container = self.resources[resource].container
        if container != DEFAULT_CONTAINER:
            return container
        return BACKGROUND if resource in self.background else self.own_locks.get(resource, container)

    def fault(self, kind: str, message: str, span: Span) -> int:
        """The number of a new fault site."""
        self.faults.append(Fault(kind, message, span))
        return len(self.faults) - 1

    def host_site(self, site: HostSite) -> int:
        """The number of a new site of calls to the run side."""
        self.sites.append(site)
        return len(self.sites) - 1


def walk(steps: Sequence[Step]) -> list[Step]:
    """All steps, outer before inner, in order; iterative."""
    all_steps: list[Step] = []
    pending: list[Step] = list(reversed(steps))
    while pending:
        step = pending.pop()
        all_steps.append(step)
        pending.extend(reversed(inner_steps(step)))
    return all_steps


def inner_steps(step: Step) -> tuple[Step, ...]:
    """The steps that a step itself holds, in order."""
    if isinstance(step, If):
        return step.then + step.otherwise
    if isinstance(step, While):
        return step.condition + step.body
    if isinstance(step, Parallel):
        return tuple(inner for branch in step.branches for inner in branch)
    return step.body if isinstance(step, For | Locked) else ()
