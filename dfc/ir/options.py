"""Typed options of a compilation. Each field is what a command-line flag of `dfc compile` sets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc_runtime.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a target is asked for. `isas` are variant names (`x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `aarch64`; `sm_80`,
    `sm_90`, ... of the target cuda); empty means the variant of this machine, or those a target makes by default.
    `listing` is the text that is wanted beside the code: `llvm`, `kernels` or `ptx`, where the target has it."""

    isas: tuple[str, ...] = ()
    listing: str = ""


def is_gpu_variant(name: str) -> bool:
    """Whether a variant is an architecture of GPUs."""
    return name.startswith(("sm_", "compute_")) or name == "simulator"


def unknown_variant(name: str, known: Collection[str]) -> UnsupportedError:
    """The error for a variant that a target does not have."""
    near = did_you_mean(closest(name, known))
    text = f"there is no instruction-set variant {name!r}{': ' + near if near else ''}; known: {', '.join(known)}"
    return UnsupportedError(text, code="E1002")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Everything `dfc compile` can be told apart from the program itself. `entries` are those that are wanted; none
    stands for all."""

    target: str = "cpu"
    settings: tuple[tuple[str, int | float | bool | str], ...] = ()
    verify_each: bool = False
    print_after: frozenset[str] = frozenset()
    print_after_all: bool = False
    time_passes: bool = False
    pass_limit: int | None = None
    stop_after: str | None = None
    with_tests: bool = False
    check_finite: bool = False
    timed: bool = False
    entries: tuple[str, ...] = ()
    target_options: TargetOptions = field(default_factory=TargetOptions)
