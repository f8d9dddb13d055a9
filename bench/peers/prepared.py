"""What a system makes of a case, and how results are compared.

The results of a case are arrays in an order that all systems keep:

- what goes forward: its result; `embed`: the rows that were written; `heat`: the plate;
- gradients: in the order of dfc's entry;
- a step of training: the loss, then each state that was zero (what the step added, to full precision), then the loss
  of a second step. With Adam, whose first steps divide a gradient by its own size, the losses of three steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.cases.case import Array, Case, Data, Sizes

ADAM_STEPS = 3


@dataclass(slots=True)
class Prepared:
    """`call` is what is timed. `results` is called once, before all else: it makes the first calls of the case.
    `amount` is what a call of a limit does, in operations or bytes.
    `compile_seconds` and `compile_processor_seconds` are given by a system that compiles before its first call."""

    call: Callable[[], object]
    results: Callable[[], Sequence[Any]]
    compile_seconds: float | None = None
    compile_processor_seconds: float | None = None
    compile_megabytes: float | None = None
    amount: float | None = None
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Request:
    """A case for a system: its data at the sizes of this run, and what the processor is restricted to."""

    case: Case
    sizes: Sizes
    data: Data
    isa: str | None = None

    @property
    def feeds(self) -> list[Array]:
        return list(self.data.feeds.values())


Prepare = Callable[[Request], Prepared]


def forward(call: Callable[[], Any], fetch: Callable[[Any], Any] = np.asarray) -> Prepared:
    """A call whose one result is what is compared."""
    return Prepared(call, lambda: [fetch(call())])


def gradients(call: Callable[[], Sequence[Any]], fetch: Callable[[Any], Any] = np.asarray) -> Prepared:
    """A call that gives several arrays."""
    return Prepared(call, lambda: [fetch(value) for value in call()])


def training(request: Request, step: Callable[[], Any], state: Callable[[str], Any]) -> Prepared:
    """A call that gives the loss and changes the state, which `state` reads by the names of dfc's program."""

    def results() -> list[Any]:
        first = float(step())
        return [first, *(np.array(state(name)) for name in request.data.zeros), float(step())]

    return Prepared(step, results)


def adam_training(step: Callable[[], Any]) -> Prepared:
    """The same with Adam."""
    return Prepared(step, lambda: [float(step()) for _ in range(ADAM_STEPS)])
