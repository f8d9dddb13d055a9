"""Products in the plan: plain data, as the driver reads it."""

from __future__ import annotations

from dfc.bundle.formulas import formula
from dfc.ir.dims import Dim
from dfc.ir.dtypes import F32
from dfc.kernels.matching.products import LibraryProduct, library_product
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.formats.records import write_record
from dfc_target_cuda.libraries.products import product_plan
from dfc_target_cuda.libraries.splitting import Choice
from tests.targets.cpu.compile.product.test_contraction import plain


def in_own_names(size: Dim) -> Formula:
    return formula(size, {symbol: str(symbol) for symbol in size.symbols()})


def test_a_description_is_plain_data() -> None:
    product = library_product(plain(F32, F32, False, True))
    assert isinstance(product, LibraryProduct)
    data = write_record(product_plan(product, Choice(product), in_own_names))
    assert data["rows"] == ["$d1"] and data["columns"] == ["$d0"] and data["depth"] == ["$d2"] and data["batch"] == []
    assert data["first"] == {
        "operand": 1,
        "type": "f32",
        "transposed": True,
        "leading": ["$d2"],
        "strides": [],
        "offset": 0,
    }
    result = {"operand": 2, "type": "f32", "transposed": False, "leading": ["$d1"], "strides": [], "offset": 0}
    assert data["whole"] == {"result": result, "scale": 1.0}
