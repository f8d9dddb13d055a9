"""Texts of kernels for a device as they are printed, and what the assembler makes of them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F16, F32, I32, I64
from dfc.kernels.body import Affine, Computed
from dfc.kernels.form import LoopKernel
from dfc.lower.threads.schedule import DEVICE
from dfc_target_cuda.code.assemble import assemble, find_ptxas
from dfc_target_cuda.code.compile import ptx_module
from dfc_target_cuda.kernels.write_kernel import write_kernel
from tests.support.golden import Case, check_case, read_cases
from tests.support.programs import KernelMaker
from tests.support.sweeping import few
from tests.support.warm_compiler import needs_numba
from tests.targets.cpu.compile.elementwise.test_kernels import binary
from tests.targets.cpu.compile.elementwise.test_reductions import reduction, whole
from tests.targets.cpu.test_lower_ordered import scan, scatter
from tests.targets.cuda.compile.kernels.test_write_staged import softmax

CASES = read_cases(Path(__file__).with_name("texts.cases"))


def biased() -> LoopKernel:
    """tanh(x + b) over rows of 784."""
    k = KernelMaker(2, {1: 784})
    return k.map(k.store(k.body.apply("tanh", k.body.apply("add", k.load(F32, 0, 1), k.load(F32, -1, 1))), 0, 1))


def gathered() -> LoopKernel:
    k = KernelMaker(2, {1: 64})
    table = k.operand(F16, (dim(Symbol("d1")), dim(64)), "read")
    row = k.load_at(table, (Computed(k.load(I32, 0), 1), Affine(((1, 1),))))
    return k.map(k.store(row, 0, 1))


def turned() -> LoopKernel:
    k = KernelMaker(2)
    return k.map(k.store(k.load(F32, 1, 0), 0, 1))


KERNELS: dict[str, Callable[[], LoopKernel]] = {
    "a sum of two vectors": lambda: binary("add", F32),
    "a bias and an activation": biased,
    "rows of a table": gathered,
    "a transposed matrix": turned,
    "softmax of rows of 128": lambda: softmax(True, {1: 128}),
    "sums of columns": lambda: reduction("add", F32, 0),
    "the largest of all": lambda: whole(("argmax",), F32, 1, I64),
    "prefix sums": lambda: scan((0, 1)),
    "rows added where ids say": lambda: scatter(I32, True),
}
WIDE = ("a sum of two vectors", "a bias and an activation", "rows of a table")
"""Those whose operands are contiguous or constant along rows of whole groups."""
PAIRS = ("softmax of rows of 128",)
"""Those that take as many neighbours at once as a lane has accumulators."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_texts_are_printed_like_this(case: Case, bless: bool) -> None:
    text = write_kernel(KERNELS[case.name](), "k0", DEVICE, guarded=True)
    geometry = text.geometry
    launch = f"blocks {geometry.points} by {geometry.per_block}, at most {geometry.most}; threads {geometry.threads}"
    check_case(case, f"{text.source}{launch}; workspace {text.workspace}\n", bless)


def test_every_kernel_here_is_printed() -> None:
    assert {case.name for case in CASES} == set(KERNELS)


@needs_numba
@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("name", few(KERNELS, 4))
def test_machine_code_has_wide_accesses_and_no_stack(name: str) -> None:
    text = write_kernel(KERNELS[name](), "k0", DEVICE, guarded=True)
    ptx = ptx_module([text], "compute_80")
    for access in ("ld", "st"):
        assert bool(re.search(rf"\b{access}\.global\.v4\.[bfu]32", ptx)) == (name in WIDE)
        assert name not in PAIRS or re.search(rf"\b{access}\.global\.v2\.[bfu]32", ptx)
    assert not re.search(r"\b(ld|st)\.local", ptx), "everything is in registers"
    assert "atom" not in ptx or text.workspace.constant != 0 or text.faults
    code = assemble(ptx, "sm_90")
    assert code is not None
    (report,) = code.reports
    assert report.spill_bytes == 0 and report.registers <= 64
