"""What a target is. Targets are found through the entry point group `dfc.targets` and make code images of programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Protocol

from dfc.deferred.dataclasses import dataclass
from dfc.deferred.plug_ins import EntryPoint, entry_points
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc_runtime.errors import UnsupportedError

if TYPE_CHECKING:  # nothing of it is needed to ask a target to get ready
    from dfc.ir.options import TargetOptions
    from dfc.kernels.form import Kernel
    from dfc.kernels.program import Program

INCOMPLETE = "E1004"
"""The code of the message that a target lacks a package."""


@dataclass(frozen=True, slots=True)
class CodeImage:
    """Machine code for one instruction-set variant: flat bytes, where each symbol starts, the ISA bits it needs.

    `symbols` holds at least `entry_<i>_0` (the native function of entry number i) and whatever else the driver of the
    target asks for.
    """

    isa: str
    code: bytes
    symbols: Mapping[str, int]
    required_bits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a target made of a program. `driver` is the name of the driver that runs it; `notes` are plain JSON values
    the driver reads back (for example workspace sizes). `listings` are texts for `dfc show`, when asked for.
    `compilers` are the tools that made the code, with their versions."""

    driver: str
    images: tuple[CodeImage, ...]
    constants: bytes
    constant_offsets: tuple[int, ...]
    notes: Mapping[str, object] = field(default_factory=dict[str, object])
    listings: tuple[str, ...] = ()
    compilers: Mapping[str, str] = field(default_factory=dict[str, str])


class Generated(Protocol):
    """Code of a program before it is linked."""

    def text(self) -> str:
        """The code for people to read."""
        ...

    def link(self) -> Lowered:
        """Images of it, which import nothing."""
        ...


class Target(Protocol):
    """The compile half of a target. One that has no code for some ops says so in a mapping `lacks`, from their names to
    the reasons. One that links what it has generated in a step of its own has a method
    `generate(program, options) -> Generated` as well, and `lower` is both. One that has code for kernel forms besides
    loops and contractions says their names in `forms`. One that takes long to load has a method
    `prepare(program, options) -> AbstractContextManager[None]`, which is entered while the program is read. One that
    can measure what its machine can do at most has a method `limits(variant, threads) -> Limits`. One that chooses
    between ways to make a kernel says which in a method `schedule(kernel, options) -> str`."""

    name: str

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        """Machine code for every entry of the program."""
        ...


class Limits(Protocol):
    """What a machine can do at most, measured."""

    @property
    def operations(self) -> float:
        """Floating-point operations a second: multiply-adds of f32, two each."""
        ...

    def bandwidth(self, size: float) -> float:
        """Bytes a second, read and written ones together, of copies that move this many bytes."""
        ...


def limits(name: str, variant: str, threads: int) -> Limits | None:
    """The limits of a variant of a target on so many threads of this machine; None where they cannot be measured."""
    own: Callable[[str, int], Limits] | None = getattr(load_target(name), "limits", None)
    return None if own is None else own(variant, threads)


def kernel_schedule(name: str, options: TargetOptions) -> Callable[[Kernel], str]:
    """How a target makes a kernel, as the end of a sentence about it; "" where it says nothing."""
    own: Callable[[Kernel, TargetOptions], str] | None = getattr(load_target(name), "schedule", None)
    return lambda kernel: "" if own is None else own(kernel, options)


@dataclass(frozen=True, slots=True)
class Whole:
    """What a target has made that does not tell generating from linking."""

    lowered: Lowered

    def text(self) -> str:
        """Its listings, if it has any without being asked."""
        return "\n".join(self.lowered.listings)

    def link(self) -> Lowered:
        return self.lowered


def generate(target: Target, program: Program, options: TargetOptions) -> Generated:
    """The code of a program, not yet linked; of a target that does not tell these apart, linked already."""
    own: Callable[[Program, TargetOptions], Generated] | None = getattr(target, "generate", None)
    return own(program, options) if own is not None else Whole(target.lower(program, options))


def preparing(name: str, program: str, options: TargetOptions) -> AbstractContextManager[None]:
    """To be entered before a program is read, and left when it is compiled: the target may get ready meanwhile.
    `program` tells it from others. What is wrong with the target is said where it is asked for code."""
    try:
        target = load_target(name)
        own: Callable[[str, TargetOptions], AbstractContextManager[None]] | None = getattr(target, "prepare", None)
        return own(program, options) if own is not None else nullcontext()
    except UnsupportedError:
        return nullcontext()


def installed_targets() -> list[str]:
    """The names of all targets, in their order."""
    return sorted({point.name for point in offered()})


@cache
def offered() -> tuple[EntryPoint, ...]:
    """The targets of installed packages. They are looked up once, for it takes milliseconds."""
    return tuple(entry_points("dfc.targets"))


def kernel_forms(name: str, *, is_needed: bool = False) -> frozenset[str]:
    """The kernel forms that a target takes besides loops and contractions. One that is not there takes none, unless it
    `is_needed`: that it is missing is said where it is asked for code."""
    try:
        forms: frozenset[str] = getattr(load_target(name), "forms", frozenset())
    except UnsupportedError:
        if is_needed:
            raise
        return frozenset()
    return forms


def lacking(target: Target) -> Mapping[str, str]:
    """The ops a target has no code for, and why."""
    lacks: Mapping[str, str] = getattr(target, "lacks", {})
    return lacks


def load_target(name: str) -> Target:
    """The target of that name; `UnsupportedError` lists what is installed, names packages that clash, or the one that
    the target lacks (E1004)."""
    if not any(point.name == name for point in offered()):
        offered.cache_clear()  # it may have been installed since
    matching = [point for point in offered() if point.name == name]
    if not matching:
        known = installed_targets()
        near = did_you_mean(closest(name, known))
        text = (
            f"there is no target {name!r}{': ' + near if near else ''}; installed targets: {', '.join(known) or 'none'}"
        )
        raise UnsupportedError(text, code="E1002")
    if len(matching) > 1:
        offers = ", ".join(p.value for p in matching)
        raise UnsupportedError(f"the target {name!r} is offered more than once: {offers}", code="E1002")
    try:
        target: Target = matching[0].load()()
    except ModuleNotFoundError as error:
        raise _incomplete(matching[0], error.name or "") from error
    return target


def _incomplete(point: EntryPoint, package: str) -> UnsupportedError:
    """The target is there, and a package that it needs is not: an extra of its distribution may bring it."""
    text = f"the target {point.name} needs the package {package}, which is not installed"
    extras = (point.dist.metadata.get_all("Provides-Extra") or []) if point.dist is not None else []
    remedy = f": pip install '{point.dist.name}[{point.name}]'" if point.dist and point.name in extras else ""
    return UnsupportedError(text + remedy, code=INCOMPLETE)
