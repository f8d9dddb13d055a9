"""Products of a program as its plan has them, for a library that may make them."""

from __future__ import annotations

from collections.abc import Callable

from dfc.ir.dims import Dim
from dfc.kernels.matching.products import LibraryMatrix, LibraryProduct, Whole
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.plans.products import BiasPlan, FinishPlan, MatrixPlan, ProductPlan, WholePlan
from dfc_target_cuda.libraries.splitting import Choice

Size = Callable[[Dim], Formula]


def product_plan(product: LibraryProduct, choice: Choice, size: Size) -> ProductPlan:
    """What the plan says of a kernel that a library may make; `size` says what becomes of a formula."""
    finish = choice.finish
    return ProductPlan(
        rows=size(product.rows),
        columns=size(product.columns),
        depth=size(product.depth),
        batch=tuple(map(size, product.batch)),
        accumulator=product.accumulator,
        is_rounding=choice.is_rounding,
        first=_matrix(product.first, size),
        second=_matrix(product.second, size),
        whole=_whole(product.whole, size) if product.whole is not None else None,
        finish=FinishPlan(finish.kernel, tuple(finish.operands), tuple(map(size, finish.sizes))) if finish else None,
        sums=choice.sums if finish is not None else "",
    )


def _matrix(matrix: LibraryMatrix, size: Size) -> MatrixPlan:
    strides = tuple(map(size, matrix.strides))
    return MatrixPlan(
        matrix.operand, matrix.dtype, matrix.transposed, size(matrix.leading), strides, size(matrix.offset)
    )


def _whole(whole: Whole, size: Size) -> WholePlan:
    return WholePlan(
        result=_matrix(whole.result, size),
        scale=whole.scale,
        sign=whole.sign if whole.added is not None else 0,
        added=_matrix(whole.added, size) if whole.added is not None else None,
        bias=BiasPlan(whole.bias[0], size(whole.bias[1])) if whole.bias is not None else None,
    )
