"""The steps of an entry, cut into what the device does by itself and what the host has to do in between.

    steps, host call, steps    ->    segment, host call, segment

A segment becomes one graph and one launch. Loops and branches stay inside of it where the device can decide by itself;
those that hold host work, and all of them on drivers without conditional nodes, are run by the host, which looks at
the condition between two segments.

Guarantees that an entry without host work is one segment where the device decides by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.plans.plan import EntryPlan
from dfc_runtime.plans.steps import For, HostCall, If, Measure, Step, While, operands_of, walk


@dataclass(frozen=True, slots=True)
class FeedsIn:
    """Copies what the caller gave to the device, and clears the error block."""


@dataclass(frozen=True, slots=True)
class ResultsOut:
    """Copies results and the error block to where the host sees them."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Copies buffers and the error block to where the host sees them: the last part of a segment."""

    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Copies buffers that the host has filled to the device."""

    buffers: tuple[int, ...]


Part = Step | FeedsIn | ResultsOut | Fetch | Fill


@dataclass(frozen=True, slots=True)
class Segment:
    """Parts that the device runs in one launch. `waits`: the host looks at what it leaves."""

    number: int
    parts: tuple[Part, ...]
    waits: bool


@dataclass(frozen=True, slots=True)
class Branch:
    condition: int
    then: tuple[Action, ...]
    otherwise: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    condition: tuple[Action, ...]
    test: int
    body: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Count:
    index: int
    start: int
    stop: int
    body: tuple[Action, ...]


Action = Segment | HostCall | Measure | Branch | Repeat | Count


def arrange(entry: EntryPlan, *, conditional_nodes: bool) -> tuple[Action, ...]:
    """What a call of an entry does, in order."""
    maker = _Maker(conditional_nodes=conditional_nodes)
    return maker.actions([FeedsIn(), *entry.steps, ResultsOut()])


def inside_conditions(actions: Sequence[Action]) -> frozenset[int]:
    """The buffers that are used inside of conditional nodes."""
    used: set[int] = set()
    for action in actions:
        match action:
            case Segment():
                for part in action.parts:
                    if isinstance(part, If | While | For):
                        used |= set[int]().union(*map(operands_of, walk([part])))
            case Branch():
                used |= inside_conditions((*action.then, *action.otherwise))
            case Repeat():
                used |= inside_conditions((*action.condition, *action.body))
            case Count():
                used |= inside_conditions(action.body)
            case HostCall() | Measure():
                pass
    return frozenset(used)


def is_hosted(part: Part, *, conditional_nodes: bool) -> bool:
    """Whether the host has to run it."""
    hosted = HostCall | Measure if conditional_nodes else HostCall | Measure | If | While | For
    return any(isinstance(one, hosted) for one in walk([part]))


@dataclass(slots=True)
class _Maker:
    conditional_nodes: bool
    segments: int = 0
    _parts: list[Part] = field(default_factory=list["Part"])
    _done: list[Action] = field(default_factory=list["Action"])

    def actions(self, parts: Sequence[Part]) -> tuple[Action, ...]:
        outer = self._parts, self._done
        self._parts, self._done = list[Part](), list[Action]()
        for part in parts:
            if is_hosted(part, conditional_nodes=self.conditional_nodes):
                self._host(part)
            else:
                self._parts.append(part)
        self._end_segment()
        segments = tuple(self._done)
        self._parts, self._done = outer
        return segments

    def _end_segment(self, fetched: tuple[int, ...] | None = None) -> None:
        """Ends the segment; with `fetched` the host looks at these buffers and at faults."""
        if fetched is not None:
            self._parts.append(Fetch(fetched))
        if self._parts:
            waits = isinstance(self._parts[-1], Fetch | ResultsOut)
            self._done.append(Segment(self.segments, tuple(self._parts), waits))
            self.segments += 1
        self._parts = []

    def _host(self, part: Part) -> None:
        match part:
            case HostCall():
                self._end_segment(part.inputs)
                self._done.append(part)
                self._parts.append(Fill(part.outputs))
            case Measure():
                self._end_segment((part.source,))
                self._done.append(part)
            case If():
                self._end_segment((part.condition,))
                self._done.append(Branch(part.condition, self.actions(part.then), self.actions(part.otherwise)))
            case While():
                self._end_segment()
                condition = self.actions([*part.condition, Fetch((part.test,))])
                self._done.append(Repeat(condition, part.test, self.actions(part.body)))
            case For():
                self._end_segment((part.start, part.stop))
                body = self.actions([Fill((part.index,)), *part.body, Fetch(())])  # no iteration begins after a fault
                self._done.append(Count(part.index, part.start, part.stop, body))
            case _:
                raise AssertionError(part)
