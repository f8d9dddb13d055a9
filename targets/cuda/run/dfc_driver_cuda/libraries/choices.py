"""Which launches of a segment libraries make. What is no convolution, or is refused as one, may be a product.

Assumes launches of one segment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from dfc_driver_cuda.libraries.convolutions import ConvolutionLibrary
from dfc_driver_cuda.libraries.launch import LaunchLibrary, LibraryCall, Operand
from dfc_driver_cuda.memory_layout import number
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.plans.plan import KernelPlan, Launch, Plan
from dfc_runtime.plans.products import SUMS

Find = Callable[[int], Operand]
"""The memory of a buffer now."""


@dataclass(frozen=True, slots=True)
class Libraries:
    """Those that a program may use."""

    products: Sequence[LaunchLibrary] = ()
    convolutions: ConvolutionLibrary | None = None


@dataclass(slots=True)
class Choices:
    """What libraries do in place of launches, by identity."""

    calls: dict[int, LibraryCall] = field(default_factory=dict[int, LibraryCall])

    def operands(self, step: Launch, find: Find) -> list[Operand]:
        """The memory of a launch; behind it, that of its convolution."""
        return [find(b) for b in (*step.buffers, *(b for b in _convolved(step) if b != SUMS))]


def kernel_sizes(step: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a kernel, for those of the entry."""
    return {f"d{n}": number(size, sizes) for n, size in enumerate(step.sizes)}


def choose(
    steps: Sequence[Launch],
    kernels: Sequence[KernelPlan],
    libraries: Libraries,
    find: Find,
    sizes: Mapping[str, int],
) -> Choices:
    """For the launches of a segment; `sizes` are those of the entry."""
    choices = Choices()
    for step in steps:
        kernel = kernels[step.kernel]
        call = _convolution(step, kernel, libraries.convolutions, find, sizes)
        for library in libraries.products if call is None else ():
            if call is None and library.serves(kernel):
                call = library.choose(kernel, [find(b) for b in step.buffers], kernel_sizes(step, sizes))
        if call is not None:
            choices.calls[id(step)] = call
    return choices


def _convolution(
    step: Launch, kernel: KernelPlan, library: ConvolutionLibrary | None, find: Find, sizes: Mapping[str, int]
) -> LibraryCall | None:
    what = step.convolution
    if library is None or what is None:
        return None
    operands = [None if b == SUMS else find(b) for b in what.operands]
    return library.choose(what, kernel, operands, sizes, len(step.buffers))


def _convolved(step: Launch) -> tuple[int, ...]:
    return step.convolution.operands if step.convolution is not None else ()


def has_convolutions(plan: Plan) -> bool:
    """Whether a launch says that it makes one."""
    pending = [step for entry in plan.entries for step in entry.steps]
    while pending:
        step = pending.pop()
        if isinstance(step, Launch) and _convolved(step):
            return True
        for name in ("then", "otherwise", "condition", "body"):
            inner = getattr(step, name, ())
            pending += inner if isinstance(inner, tuple) else ()
    return False
