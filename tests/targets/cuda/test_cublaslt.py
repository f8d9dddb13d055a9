"""Calls of cuBLASLt: what it is told of a product, what is kept, what its refusals become."""

import importlib.util
import re
import struct
from pathlib import Path

import pytest

from dfc_targets.cuda import cublaslt
from dfc_targets.cuda.cublaslt import CublasLt, MatrixShape, ProductError, ProductShape, alignment, find_library
from tests.support.recording_library import ALGORITHM, WORKSPACE, RecordingLibrary

BF16 = ProductShape(
    64,
    32,
    128,
    4,
    "f32",
    MatrixShape("bf16", True, 130, 9000, 256),
    MatrixShape("bf16", False, 128, 0, 16),
    MatrixShape("bf16", False, 64, 2048, 64),
    "relu_bias",
)


def square(dtype: str, accumulator: str) -> ProductShape:
    one = MatrixShape(dtype, False, 8, 0, 256)
    return ProductShape(8, 8, 8, 1, accumulator, one, one, one)


def test_layouts_say_type_rows_columns_and_leading_dimension() -> None:
    library = RecordingLibrary()
    CublasLt(library).plan(BF16)
    assert library.named("cublasLtMatrixLayoutCreate") == [(14, 128, 64, 130), (14, 128, 32, 128), (14, 64, 32, 64)]


def test_batches_are_counts_and_strides() -> None:
    library = RecordingLibrary()
    plan = CublasLt(library).plan(BF16)
    found = [
        (library.attributes[layout.value, 5], library.attributes[layout.value, 6])
        for layout in plan.layouts
        if layout.value is not None
    ]
    assert found == [(struct.pack("<i", 4), struct.pack("<q", stride)) for stride in (9000, 0, 2048)]
    CublasLt(single := RecordingLibrary()).plan(square("f32", "f32"))
    assert not single.named("cublasLtMatrixLayoutSetAttribute")


def test_the_description_says_types_transposes_and_epilogue() -> None:
    library = RecordingLibrary()
    plan = CublasLt(library).plan(BF16)
    assert library.named("cublasLtMatmulDescCreate") == [(68, 0)]
    handle = plan.description.value
    assert handle is not None
    told = {attribute: struct.unpack("<i", library.attributes[handle, attribute])[0] for attribute in (3, 4, 7, 26)}
    assert told == {3: 1, 4: 0, 7: 6, 26: 14}


@pytest.mark.parametrize(
    ("dtype", "accumulator", "tf32", "expected"),
    [
        ("f32", "f32", False, (68, 0)),
        ("f32", "f32", True, (77, 0)),
        ("f64", "f64", True, (70, 1)),
        ("f16", "f32", True, (68, 0)),
    ],
)
def test_sums_are_as_wide_as_stated(dtype: str, accumulator: str, tf32: bool, expected: tuple[int, int]) -> None:
    library = RecordingLibrary()
    CublasLt(library, tf32=tf32).plan(square(dtype, accumulator))
    assert library.named("cublasLtMatmulDescCreate") == [expected]


def test_algorithms_add_in_order_within_the_workspace() -> None:
    library = RecordingLibrary()
    CublasLt(library, workspace_bytes=1 << 20).plan(BF16)
    told = {attribute: value for (handle, attribute), value in library.attributes.items() if handle not in library.open}
    assert told[1] == struct.pack("<Q", 1 << 20)
    assert told[3] == struct.pack("<I", 2)
    assert [struct.unpack("<I", told[attribute])[0] for attribute in (5, 6, 7, 8)] == [256, 16, 64, 64]
    (asked,) = library.named("cublasLtMatmulAlgoGetHeuristic")
    assert asked[7] == 1


def test_a_product_is_queued_with_its_addresses() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    plan = products.plan(BF16)
    assert plan.workspace == WORKSPACE
    products.run(plan, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x77)
    (made,) = library.matmuls
    a, b, c = (layout.value for layout in plan.layouts)
    assert (made["first"], made["second"], made["c_in"], made["result"]) == (0x1000, 0x2000, 0x3000, 0x3000)
    assert (made["a"], made["b"], made["c"], made["d"]) == (a, b, c, c)
    assert (made["workspace"], made["size"], made["stream"]) == (0x5000, WORKSPACE, 0x77)
    assert made["alpha"][:4] == struct.pack("<f", 1) and made["beta"][:4] == struct.pack("<f", 0)
    assert made["algorithm"] == ALGORITHM
    assert plan.description.value is not None
    assert library.attributes[plan.description.value, 8] == struct.pack("<Q", 0x4000)


def test_factors_of_double_precision_are_scaled_in_it() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    products.run(products.plan(square("f64", "f64")), 256, 512, 768, 0, 0, 0)
    assert library.matmuls[0]["alpha"] == struct.pack("<d", 1)


def test_a_shape_is_asked_for_once() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    assert products.plan(BF16) is products.plan(BF16)
    assert len(library.named("cublasLtMatmulAlgoGetHeuristic")) == 1


def test_a_shape_without_algorithm_is_refused_each_time_and_asked_for_once() -> None:
    library = RecordingLibrary(offers=0)
    products = CublasLt(library)
    for _ in range(2):
        with pytest.raises(ProductError, match="offers no algorithm"):
            products.plan(BF16)
    assert len(library.named("cublasLtMatmulAlgoGetHeuristic")) == 1
    assert library.open == {1001}  # the handle alone


@pytest.mark.parametrize("function", ["cublasLtMatrixLayoutCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatmul"])
def test_a_status_is_an_error_that_names_the_function(function: str) -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    library.fails[function] = 15
    with pytest.raises(ProductError, match=f"{function} of cuBLASLt ends with status 15"):
        products.run(products.plan(BF16), 1, 2, 3, 4, 5, 6)


def test_everything_is_given_back() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    products.plan(BF16)
    products.plan(square("f32", "f32"))
    products.close()
    assert not library.open


def test_the_version_is_three_numbers() -> None:
    assert CublasLt(RecordingLibrary()).version() == "13.10.1"


def test_alignment_of_addresses() -> None:
    assert [alignment(address) for address in (0, 256, 1 << 20, 48, 2)] == [256, 256, 256, 16, 2]


def header(name: str) -> str:
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in folder.glob(f"cu*/include/{name}")]
    if not found:
        pytest.skip(f"{name} is not installed")
    return found[0].read_text(errors="replace")


def test_constants_are_those_of_the_header() -> None:
    text = header("cublasLt.h")
    for name, value in (
        ("CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT", cublaslt.LAYOUT_BATCH_COUNT),
        ("CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET", cublaslt.LAYOUT_BATCH_STRIDE),
        ("CUBLASLT_MATMUL_DESC_TRANSA", cublaslt.DESC_TRANSPOSE_FIRST),
        ("CUBLASLT_MATMUL_DESC_TRANSB", cublaslt.DESC_TRANSPOSE_SECOND),
        ("CUBLASLT_MATMUL_DESC_EPILOGUE", cublaslt.DESC_EPILOGUE),
        ("CUBLASLT_MATMUL_DESC_BIAS_POINTER", cublaslt.DESC_BIAS),
        ("CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE", cublaslt.DESC_BIAS_TYPE),
        ("CUBLASLT_EPILOGUE_DEFAULT", cublaslt.EPILOGUES["none"]),
        ("CUBLASLT_EPILOGUE_RELU", cublaslt.EPILOGUES["relu"]),
        ("CUBLASLT_EPILOGUE_BIAS", cublaslt.EPILOGUES["bias"]),
        ("CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", cublaslt.PREFERENCE_WORKSPACE),
        ("CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK", cublaslt.PREFERENCE_REDUCTIONS),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", cublaslt.PREFERENCE_ALIGNMENTS[0]),
        ("CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES", cublaslt.PREFERENCE_ALIGNMENTS[3]),
        ("CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE", cublaslt.IN_ORDER),
    ):
        assert re.search(rf"\b{name} = {value},", text), name


def test_the_library_takes_each_attribute_without_a_device() -> None:
    """It checks the size of each; only the choice of an algorithm needs a device."""
    library = find_library()
    if library is None:
        pytest.skip("cuBLASLt is not installed")
    try:
        products = CublasLt(library)
    except ProductError:
        products = CublasLt.__new__(CublasLt)
        products.__dict__.update(_library=library, _tf32=False, _most=1 << 20, _plans={}, _handle=None)
        with pytest.raises(ProductError, match="cublasLtMatmulAlgoGetHeuristic"):
            products.plan(BF16)
    else:
        assert products.plan(BF16).workspace <= cublaslt.WORKSPACE_BYTES
