"""Products of a program as data of its plan, which `dfc_runtime.plans.products` reads."""

from __future__ import annotations

from collections.abc import Callable

from dfc.ir.dims import Dim
from dfc.kernels.matching.products import LibraryMatrix, LibraryProduct, Whole
from dfc_target_cuda.libraries.splitting import Choice

Size = Callable[[Dim], object]


def product_data(product: LibraryProduct, choice: Choice, size: Size) -> dict[str, object]:
    """What the plan says of a kernel that a library may make; `size` says what becomes of a formula."""
    data: dict[str, object] = {
        "rows": size(product.rows),
        "columns": size(product.columns),
        "depth": size(product.depth),
        "batch": [size(one) for one in product.batch],
        "accumulator": product.accumulator,
        "first": _matrix(product.first, size),
        "second": _matrix(product.second, size),
        **({"whole": _whole(product.whole, size)} if product.whole is not None else {}),
        "rounds": choice.is_rounding,
    }
    if choice.finish is not None:
        finish = choice.finish
        sizes = [size(one) for one in finish.sizes]
        data["finish"] = {"kernel": finish.kernel, "operands": list(finish.operands), "sizes": sizes}
        data["sums"] = choice.sums
    return data


def _matrix(matrix: LibraryMatrix, size: Size) -> dict[str, object]:
    return {
        "operand": matrix.operand,
        "type": matrix.dtype,
        "transposed": matrix.transposed,
        "leading": size(matrix.leading),
        "strides": [size(stride) for stride in matrix.strides],
        "offset": size(matrix.offset),
    }


def _whole(whole: Whole, size: Size) -> dict[str, object]:
    data: dict[str, object] = {"result": _matrix(whole.result, size), "scale": whole.scale}
    if whole.added is not None:
        data |= {"added": _matrix(whole.added, size), "sign": whole.sign}
    if whole.bias is not None:
        data["bias"] = {"operand": whole.bias[0], "offset": size(whole.bias[1])}
    return data
