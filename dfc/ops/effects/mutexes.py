"""Mutexes: critical sections of calls and runners that run at the same time.

    mutex_acquire(MutexAttributes): t, *g -> t, *g    waits until nobody else holds it
    mutex_release(MutexAttributes): t, *g -> t, *g    lets the next one in

`t` is the token of the mutex, `g` are those of all other state of the program, all sorted by name: so no effect on it
passes a node of these. They are calls of the host to all passes, as those of queues are.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.types import TensorType
from dfc.ops.effects.queues import QUEUES, RULES, evaluate_queue
from dfc.ops.record import Effect, HostCall, OpRecord
from dfc.ops.registry import register

ACQUIRE, RELEASE = "mutex_acquire", "mutex_release"


@dataclass(frozen=True, slots=True)
class MutexAttributes(Attributes):
    """The full name of a mutex, and of the state whose effects do not pass."""

    resource: str
    guarded: tuple[str, ...]


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    del types, attributes
    return ()


def _register(name: str, summary: str) -> None:
    register(
        OpRecord(
            name=name,
            family="queues",
            summary=summary,
            signature=f"proc {name}(const resource: str, const guarded: str)",
            parameters=(),
            infer=_infer,
            evaluate=evaluate_queue,
            lowering=HostCall(name, QUEUES),
            attributes=MutexAttributes,
            constraints=("no effect on the state that `guarded` names passes it.",),
            no_gradient="a gradient does not pass through a mutex",
            effect=Effect.HOST,
            in_prelude=False,
            rules=RULES,
        )
    )


_register(ACQUIRE, "Waits until nobody else holds a mutex, and holds it.")
_register(RELEASE, "Gives a mutex back, and lets the next one hold it.")
