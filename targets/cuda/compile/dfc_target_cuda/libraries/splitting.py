"""Which products of a program a library may make where it runs: all that a kernel does, or the sums alone, or nothing.

    contract(a, b, c, ...): epilogue(sum of a * b, c, ...)    ->    sums := a * b;    map(sums, c, ...): epilogue

For sums alone there is a second kernel that does the rest at each point, and launches choose between both forms when
sizes are known (`product_costs`). Kernels of this kind come after those of the program; no step of it mentions them.

Assumes scheduled kernels and their texts. Guarantees that both forms mean the same, up to the order of the sums, and
that a second kernel is made only where there are sizes for which it pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, product
from dfc.kernels.canonical import canonical
from dfc.kernels.form import ContractKernel, LoopKernel
from dfc.kernels.matching.convolution import SUMS, Convolved
from dfc.kernels.matching.convolutions import convolutions
from dfc.kernels.matching.finishing import finishing, is_rounding_first
from dfc.kernels.matching.products import LibraryProduct, library_product
from dfc.kernels.program import Program
from dfc.kernels.programs.faults import seen_after_faults
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_driver_cuda.libraries import product_costs
from dfc_driver_cuda.libraries.product_costs import Work

AFTER_FAULTS = "it runs after what may fail"

ANY = 1 << 16
"""What stands for a size that is not known yet: as large as one could wish."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The kernel that takes on the sums of another: its number, which operands of that one it is given (`SUMS`: the
    sums), and its sizes over those of that one."""

    kernel: int
    operands: tuple[int, ...]
    sizes: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What is left to a library of one kernel. `reason` says why it is not all; `sums` is the type in which sums for
    `finish` are written. `convolution` is what it makes, if it is one and runs outside of loops and branches; `apart`
    takes on the sums of that, row by row, in the type of its factors."""

    product: LibraryProduct | None = None
    finish: Finish | None = None
    is_rounding: bool = False
    reason: str = ""
    sums: str = ""
    convolution: Convolved | None = None
    apart: Finish | None = None


@dataclass(slots=True)
class Choices:
    """A choice for each kernel of a program, and the kernels that come after those, each guarded or not."""

    choices: list[Choice]
    kernels: list[LoopKernel]
    guarded: list[bool]


class Chooser:
    """Chooses for the kernels of one program."""

    def __init__(self, program: Program, texts: Sequence[KernelText], *, tf32: bool) -> None:
        self._kernels, self._texts, self._tf32 = program.kernels, texts, tf32
        self._guarded_results = {kernel for kernel in seen_after_faults(program) if texts[kernel].guarded}
        self._convolutions = convolutions(program)
        self._finishes: dict[tuple[LoopKernel, bool], int] = {}

    def choices(self) -> Choices:
        choices = [
            self._with_convolution(number, kernel) if isinstance(kernel, ContractKernel) else Choice()
            for number, kernel in enumerate(self._kernels)
        ]
        return Choices(choices, [kernel for kernel, _ in self._finishes], [guarded for _, guarded in self._finishes])

    def _with_convolution(self, number: int, kernel: ContractKernel) -> Choice:
        convolution, choice = self._convolutions.get(number), self._choice(number, kernel)
        factor = kernel.operands[kernel.a.operand].dtype
        if convolution is None:
            return choice
        choice = replace(choice, convolution=convolution, is_rounding=self._tf32 and factor.name == "f32")
        if SUMS not in convolution.slots:
            return choice
        if factor != kernel.accumulator and not is_rounding_first(kernel, factor):
            return choice
        return replace(choice, apart=self._finish(number, finishing(kernel, by_rows=True, sums=factor)))

    def _choice(self, number: int, kernel: ContractKernel) -> Choice:
        library = library_product(kernel)
        if isinstance(library, str):
            return Choice(reason=library)
        is_rounding = self._tf32 and library.first.dtype == "f32"
        if library.whole is not None and number not in self._guarded_results:
            return Choice(library, None, is_rounding)
        reason = library.apart or AFTER_FAULTS
        factor = kernel.operands[kernel.a.operand].dtype
        sums = factor if is_rounding_first(kernel, factor) else kernel.accumulator
        if not ever_pays(library, sums.name, is_rounding=is_rounding):
            whole = library if library.whole is not None else None
            return Choice(whole, None, is_rounding, f"{reason}, and it is too small to be made apart")
        finish = self._finish(number, finishing(kernel, by_rows=library.by_rows, sums=sums))
        return Choice(library, finish, is_rounding, reason, sums=sums.name)

    def _finish(self, number: int, finished: tuple[LoopKernel, tuple[int, ...]]) -> Finish:
        rest, operands = finished
        last, sizes = canonical(rest)
        assert isinstance(last, LoopKernel)
        key = last, self._texts[number].guarded
        return Finish(self._finishes.setdefault(key, len(self._kernels) + len(self._finishes)), operands, sizes)


def choose_products(program: Program, texts: Sequence[KernelText], *, tf32: bool) -> Choices:
    """`tf32`: factors of f32 may be rounded to 11 bits."""
    return Chooser(program, texts, tf32=tf32).choices()


def ever_pays(library: LibraryProduct, sums: str, *, is_rounding: bool) -> bool:
    """Whether there are sizes for which it pays to make the sums apart, in memory of this type."""
    rows, columns, depth, batch = map(_largest, (library.rows, library.columns, library.depth, product(library.batch)))
    work = Work(rows, columns, depth, batch, library.first.dtype, sums, is_rounding)
    return product_costs.pays(work, 1, apart=True)


def _largest(size: Dim) -> int:
    try:
        size_value = size.evaluate(dict.fromkeys(size.symbols(), ANY))
    except ZeroDivisionError:
        return ANY
    return size_value if size_value > 0 else ANY
