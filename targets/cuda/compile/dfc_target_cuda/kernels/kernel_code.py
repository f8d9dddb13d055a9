"""All kernels of a program as text: its own, and behind them those that take on sums of a library.

Assumes a scheduled program. Guarantees that a kernel's number is its place here, so that kernels of the program keep
theirs, and that what a call may launch after a fault is guarded.
"""

from __future__ import annotations

from collections.abc import Callable

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.form import Kernel
from dfc.kernels.program import Program
from dfc.kernels.programs.faults import launched_after_faults
from dfc.lower.threads.schedule import Schedule
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_target_cuda.libraries.splitting import Choice, choose_products

Writer = Callable[..., KernelText]


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The kernels of a program and behind them those that take on sums of a library, with what a library may make."""

    kernels: list[Kernel]
    texts: list[KernelText]
    choices: list[Choice]

    @property
    def access(self) -> list[list[str]]:
        return [[operand.access for operand in kernel.operands] for kernel in self.kernels]


def kernel_code(program: Program, schedule: Schedule, write: Writer) -> KernelCode:
    """All kernels of a program, written."""
    texts = kernel_texts(program, schedule, write)
    products = choose_products(program, texts, tf32=schedule.tf32)
    kernels: list[Kernel] = [*program.kernels, *products.kernels]
    for number, guarded in enumerate(products.guarded, len(texts)):
        texts.append(write(kernels[number], f"k{number}", schedule, guarded=guarded))
    return KernelCode(kernels, texts, [*products.choices, *(Choice() for _ in products.kernels)])


def kernel_texts(program: Program, schedule: Schedule, write: Writer) -> list[KernelText]:
    """The text of each kernel; those that a call may launch after a fault are guarded."""
    texts = [write(kernel, f"k{n}", schedule, guarded=False) for n, kernel in enumerate(program.kernels)]
    guarded = launched_after_faults(program, lambda kernel: texts[kernel].faults)

    def text(n: int, kernel: Kernel) -> KernelText:
        return write(kernel, f"k{n}", schedule, guarded=True) if n in guarded else texts[n]

    return [text(n, kernel) for n, kernel in enumerate(program.kernels)]
