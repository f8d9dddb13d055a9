"""Typed options of a compilation. Each field is what a command-line flag of `dfc compile` sets."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a target is asked for. `isas` are variant names (`x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `aarch64`); empty
    means the variant of this machine."""

    isas: tuple[str, ...] = ()
    dump_llvm: bool = False


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Everything `dfc compile` can be told apart from the program itself."""

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
    target_options: TargetOptions = field(default_factory=TargetOptions)
