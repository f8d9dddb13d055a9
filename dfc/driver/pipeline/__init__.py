"""Every stage of the compiler, and running them.

In: the text of a program, or what any stage has made. Out: what any later stage makes, a bundle in the end. Read first:
`stages` (the list), then `forms` (what flows between them) and `running`.
"""

from dfc.driver.internal_errors import InternalError, check, guarded
from dfc.driver.pipeline.forms import Context, Divided, Linked, OneRank, Part, Undivided
from dfc.driver.pipeline.kinds import PartStage, Phase, PlugIn, Stage
from dfc.driver.pipeline.running import former, lower, optimise, run, run_phase, scheduled
from dfc.driver.pipeline.stages import PHASES, STAGES, all_phases, all_stages, stage_names
from dfc.driver.watching import Event, Watch, ignore
from dfc.ops.spelling import show

__all__ = [
    "PHASES",
    "STAGES",
    "Context",
    "Divided",
    "Event",
    "InternalError",
    "Linked",
    "OneRank",
    "Part",
    "PartStage",
    "Phase",
    "PlugIn",
    "Stage",
    "Undivided",
    "Watch",
    "all_phases",
    "all_stages",
    "check",
    "former",
    "guarded",
    "ignore",
    "lower",
    "optimise",
    "run",
    "run_phase",
    "scheduled",
    "show",
    "stage_names",
]
