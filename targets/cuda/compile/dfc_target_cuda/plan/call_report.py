"""What `dfc inspect` tells of the calls of a bundle: launches, kernels, and bytes on their way.

Assumes a program and the plan that was made of it. Guarantees plain JSON for the notes of the bundle, as
`dfc_runtime.observe.kernel_reports` reads it, with sizes as formulas of the entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.bundle.formulas import formula, name_symbols
from dfc.kernels.program import Program
from dfc.kernels.traffic import call_traffic
from dfc_runtime.plans.plan import read_plan
from dfc_runtime.plans.segments import Action, Branch, Count, Repeat, Segment, arrange


def call_report(program: Program, plan: object) -> list[dict[str, object]]:
    """One record an entry. `launches` is how often a driver with conditional nodes is asked for work, each iteration
    of a loop that the host runs counted once."""
    calls: list[dict[str, object]] = []
    for entry, planned in zip(program.entries, read_plan(plan).entries, strict=True):
        traffic = call_traffic(program, entry)
        sizes = {
            "feeds": traffic.feeds,
            "results": traffic.results,
            "moved": traffic.once.size,
            "round_moved": traffic.in_iterations.size,
        }
        names = name_symbols({*entry.dims, *(symbol for size in sizes.values() for symbol in size.symbols())})
        calls.append(
            {
                "entry": entry.name,
                "launches": _launches(arrange(planned, conditional_nodes=True)),
                "steps": traffic.once.steps,
                "round_steps": traffic.in_iterations.steps,
                **{key: list(formula(size, names).tokens) for key, size in sizes.items()},
            }
        )
    return calls


def _launches(actions: Sequence[Action]) -> int:
    count = 0
    for action in actions:
        match action:
            case Segment():
                count += 1
            case Branch():
                count += _launches((*action.then, *action.otherwise))
            case Repeat():
                count += _launches((*action.condition, *action.body))
            case Count():
                count += _launches(action.body)
            case _:
                pass
    return count
