"""Names of the library that have another one now: for one edition they still work, and a warning says the new one.

`FORMER` lists them by the file that they belong to. A name that a program may use for something of its own is never
taken for a former one: this is only asked when a name is not there, or when it is the library's own.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, warning
from dfc.diagnostics.fixes import replacing
from dfc.diagnostics.source import Span


@dataclass(frozen=True, slots=True)
class Present:
    """What a former name is called now. `differs` says how the new one differs, if it does: then no edit is offered."""

    name: str
    differs: str = ""


FORMER = {
    "std/lbfgs.dfg": {"LbfgsSlot.slope": Present("last_gradient")},
    "std/nn.dfg": {
        "BatchNorm.usual_mean": Present("running_mean"),
        "BatchNorm.usual_spread": Present("running_variance"),
    },
    "std/optim.dfg": {
        "clip_by_length": Present("clip_by_global_norm", "takes gradients of any float type, and its limit is f64"),
    },
}
"""File of the library -> name, or block and member -> what to write instead."""


def present_name(file: str, name: str) -> Present | None:
    """What this name of a file of the library is called now; None if it never had another one."""
    return FORMER.get(file, {}).get(name)


def former_name(shown: str, span: Span, present: Present) -> Diagnostic:
    """W0203: a name that will go."""
    words = f"write `{present.name}`"
    return warning(
        "W0203",
        f"`{shown}` is now called `{present.name}`",
        span,
        "the next edition does not know this name",
        notes=(f"`{present.name}` {present.differs}",) if present.differs else (),
        helps=(f"{words} here and wherever it is called" if present.differs else replacing(words, span, present.name),),
    )
