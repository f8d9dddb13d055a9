"""Kernels that differ only in names of sizes are equal; two slots of one memory become one."""

from __future__ import annotations

from dfc.ir.dims import ZERO, Dim, Symbol, dim
from dfc.ir.dtypes import F32
from dfc.kernels.body import Affine, BodyBuilder, Load
from dfc.kernels.canonical import canonical
from dfc.kernels.form import Axis, LoopKernel, Operand, Stage, Store
from dfc.kernels.slots import merged


def negation(rows: Dim, columns: Dim, offset: Dim = ZERO) -> LoopKernel:
    body = BodyBuilder()
    point = (Affine(((0, 1),), offset), Affine(((1, 1),)))
    body.apply("neg", body.append(Load(0, point), (), F32))
    stage = Stage((), tuple(body.instructions), (), (Store(1, point, 1),))
    operands = (Operand(F32, (rows, columns), "read"), Operand(F32, (rows, columns), "write"))
    return LoopKernel(operands, (Axis("i0", rows - offset), Axis("i1", columns)), 2, (stage,))


def test_names_of_sizes_do_not_matter() -> None:
    first, sizes = canonical(negation(dim(Symbol("B")), dim(8)))
    second, others = canonical(negation(dim(Symbol("N", 2)), dim(8)))
    assert first == second
    assert sizes == (dim(Symbol("B")),)
    assert others == (dim(Symbol("N", 2)),)


def test_constants_stay_and_formulas_are_kept() -> None:
    batch = dim(Symbol("B"))
    kernel, sizes = canonical(negation(batch * 4 + 1, dim(8), batch))
    assert kernel.axes[0].extent == dim(Symbol("d0")) * 3 + 1
    assert kernel.axes[1].extent == dim(8)
    assert sizes == (batch,)
    assert canonical(negation(dim(4), dim(8)))[1] == ()


def test_different_formulas_are_different_kernels() -> None:
    batch = dim(Symbol("B"))
    assert canonical(negation(batch, dim(8)))[0] != canonical(negation(batch * 2, dim(8)))[0]


def test_merged_slots_are_updated_in_place() -> None:
    kernel, bound = merged(negation(dim(4), dim(8)), ("old", "new"), 0, 1)
    assert bound == ("new",)
    assert [operand.access for operand in kernel.operands] == ["update"]
    assert isinstance(kernel, LoopKernel)
    (stage,) = kernel.stages
    assert stage.stores[0].operand == 0
    assert isinstance(stage.body[0].operation, Load)
