"""Mutexes: critical sections of calls and runners that run at the same time.

    mutex_acquire(MutexAttributes): t, *g -> t, *g    waits until nobody else holds it
    mutex_release(MutexAttributes): t, *g -> t, *g    lets the next one in

`t` is the token of the mutex, `g` are those of all other state of the program, all sorted by name: so no effect on it
passes a node of these. They are calls of the host to all passes, as those of queues are.
"""

from __future__ import annotations

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ops.effects.host_ops import no_results
from dfc.ops.effects.queues import OPS

ACQUIRE, RELEASE = "mutex_acquire", "mutex_release"


@dataclass(frozen=True, slots=True)
class MutexAttributes(Attributes):
    """The full name of a mutex, and of the state whose effects do not pass."""

    resource: str
    guarded: tuple[str, ...]


_OPS = replace(OPS, no_gradient="a gradient does not pass through a mutex")
for _name, _summary in (
    (ACQUIRE, "Waits until nobody else holds a mutex, and holds it."),
    (RELEASE, "Gives a mutex back, and lets the next one hold it."),
):
    _OPS.register(
        _name,
        _summary,
        f"proc {_name}(const resource: str, const guarded: str)",
        (),
        no_results,
        MutexAttributes,
        ("no effect on the state that `guarded` names passes it.",),
    )
