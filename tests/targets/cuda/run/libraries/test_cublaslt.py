"""Calls of cuBLASLt: what it is told of a product, what is kept, what its refusals become."""

import ctypes
import importlib.util
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from dfc_driver_cuda.libraries import cublaslt
from dfc_driver_cuda.libraries.cublaslt import (
    Addresses,
    CublasLt,
    MatrixShape,
    ProductShape,
    find_library,
)
from dfc_driver_cuda.libraries.launches import alignment
from dfc_driver_cuda.libraries.native import LibraryError
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
    has_bias=True,
)
EVERYWHERE = Addresses(0x1000, 0x2000, 0x3000, 0, 0x4000)


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
        for layout in plan.handles
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
    assert told == {3: 1, 4: 0, 7: 4, 26: 14}
    assert library.attributes[handle, 8] == struct.pack("<Q", 256), "some bias, before an algorithm is asked for"


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
    CublasLt(library).plan(replace(square(dtype, accumulator), is_rounding=tf32))
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
    products.run(plan, EVERYWHERE, 0x5000, 0x77)
    (made,) = library.matmuls
    a, b, c = (layout.value for layout in plan.handles)
    assert (made["first"], made["second"], made["c_in"], made["result"]) == (0x1000, 0x2000, 0x3000, 0x3000)
    assert (made["a"], made["b"], made["c"], made["d"]) == (a, b, c, c)
    assert (made["workspace"], made["size"], made["stream"]) == (0x5000, WORKSPACE, 0x77)
    assert made["alpha"] == struct.pack("<f", 1) and made["beta"] == struct.pack("<f", 0)
    assert made["algorithm"] == ALGORITHM
    assert plan.description.value is not None
    assert library.attributes[plan.description.value, 8] == struct.pack("<Q", 0x4000)


def test_factors_of_double_precision_are_scaled_in_it() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    shape = replace(square("f64", "f64"), scale=0.1, sign=-1)
    products.run(products.plan(shape), Addresses(256, 512, 768), 0, 0)
    assert library.matmuls[0]["alpha"] == struct.pack("<d", 0.1)
    assert library.matmuls[0]["beta"] == struct.pack("<d", -1)


def test_what_is_added_is_a_matrix_of_its_own_or_the_result() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    one = square("f32", "f32")
    products.run(products.plan(replace(one, sign=1)), Addresses(256, 512, 768), 0, 0)
    products.run(products.plan(replace(one, sign=1, added=one.result)), Addresses(256, 512, 768, 1024), 0, 0)
    inside, apart = library.matmuls
    assert inside["c"] == inside["d"] and inside["c_in"] == inside["result"] == 768
    assert apart["c"] != apart["d"] and (apart["c_in"], apart["result"]) == (1024, 768)


def test_a_shape_is_asked_for_once() -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    assert products.plan(BF16) is products.plan(BF16)
    assert len(library.named("cublasLtMatmulAlgoGetHeuristic")) == 1


def test_a_shape_without_algorithm_is_refused_each_time_and_asked_for_once() -> None:
    library = RecordingLibrary(offers=0)
    products = CublasLt(library)
    for _ in range(2):
        with pytest.raises(LibraryError, match="offers no algorithm"):
            products.plan(BF16)
    assert len(library.named("cublasLtMatmulAlgoGetHeuristic")) == 1
    assert library.open == {1001}  # the handle alone


@pytest.mark.parametrize("function", ["cublasLtMatrixLayoutCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatmul"])
def test_a_status_is_an_error_that_names_the_function(function: str) -> None:
    library = RecordingLibrary()
    products = CublasLt(library)
    library.fails[function] = 15
    with pytest.raises(LibraryError, match=f"{function} of cuBLASLt ends with status 15"):
        products.run(products.plan(BF16), EVERYWHERE, 5, 6)


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
    found = [path for folder in folders for path in folder.glob(f"*/include/{name}")]
    if not found:
        pytest.skip(f"{name} is not installed")
    return found[0].read_text(errors="replace")


LAYOUTS = {
    "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT": cublaslt.LAYOUT_BATCH_COUNT,
    "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": cublaslt.LAYOUT_BATCH_STRIDE,
    "CUBLASLT_MATMUL_DESC_TRANSA": cublaslt.DESC_TRANSPOSE_FIRST,
    "CUBLASLT_MATMUL_DESC_TRANSB": cublaslt.DESC_TRANSPOSE_SECOND,
    "CUBLASLT_MATMUL_DESC_EPILOGUE": cublaslt.DESC_EPILOGUE,
    "CUBLASLT_MATMUL_DESC_BIAS_POINTER": cublaslt.DESC_BIAS,
    "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE": cublaslt.DESC_BIAS_TYPE,
    "CUBLASLT_EPILOGUE_DEFAULT": cublaslt.EPILOGUES["none"],
    "CUBLASLT_EPILOGUE_BIAS": cublaslt.EPILOGUES["bias"],
    "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES": cublaslt.PREFERENCE_WORKSPACE,
    "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK": cublaslt.PREFERENCE_REDUCTIONS,
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES": cublaslt.PREFERENCE_ALIGNMENTS[0],
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES": cublaslt.PREFERENCE_ALIGNMENTS[1],
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES": cublaslt.PREFERENCE_ALIGNMENTS[2],
    "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": cublaslt.PREFERENCE_ALIGNMENTS[3],
    "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE": cublaslt.IN_ORDER,
}
OPERATIONS = {
    "CUBLAS_OP_T": cublaslt.TRANSPOSED,
    "CUBLAS_COMPUTE_32F": cublaslt.COMPUTE_32F,
    "CUBLAS_COMPUTE_32F_FAST_TF32": cublaslt.COMPUTE_32F_FAST_TF32,
    "CUBLAS_COMPUTE_64F": cublaslt.COMPUTE_64F,
}
TYPES = {
    f"CUDA_R_{name}": cublaslt.TYPES[ours]
    for name, ours in zip(("32F", "64F", "16F", "16BF"), cublaslt.TYPES, strict=True)
}


@pytest.mark.parametrize(
    ("name", "values"), [("cublasLt.h", LAYOUTS), ("cublas_api.h", OPERATIONS), ("library_types.h", TYPES)]
)
def test_constants_are_those_of_the_headers(name: str, values: dict[str, int]) -> None:
    text = header(name)
    for constant, value in values.items():
        assert re.search(rf"\b{constant}\s*=\s*{value}\b", text), constant


def test_functions_have_the_parameters_of_the_header() -> None:
    text = re.sub(r"/\*.*?\*/", "", header("cublasLt.h"), flags=re.S)
    for function, arguments in cublaslt.SIGNATURES.items():
        declared = re.search(rf"cublasStatus_t CUBLASWINAPI\s+{function}\(([^)]*)\)", text)
        if declared is None:  # an inline function around another one, which the library has as well
            assert re.search(rf"\b{function}\(", text), function
            continue
        kinds = [_kind(parameter) for parameter in declared[1].split(",")]
        assert kinds == [_size(argument) for argument in arguments], function


def _kind(parameter: str) -> int:
    """The bytes of a parameter: handles and pointers have eight, as sizes have, numbers of a list of names four."""
    words = parameter.replace("const ", "").split()
    enumerations = ("cublasComputeType_t", "cudaDataType_t", "cudaDataType", "int", "uint32_t")
    named = words[0] in enumerations or words[0].endswith(("Attribute_t", "Attributes_t"))
    return 4 if named and "*" not in parameter and "[" not in parameter else 8


def _size(argument: type) -> int:
    return ctypes.sizeof(argument)


@pytest.mark.parametrize(
    "shape",
    [
        BF16,
        replace(square("f32", "f32"), is_rounding=True, scale=0.5),
        replace(square("f64", "f64"), sign=-1, added=square("f64", "f64").result),
        replace(square("f16", "f32"), sign=1),
    ],
    ids=["bias and batch", "rounded", "another matrix added", "added to"],
)
def test_the_library_takes_each_attribute_without_a_device(shape: ProductShape) -> None:
    """It checks the size of each; only the choice of an algorithm needs a device."""
    library = find_library()
    if library is None:
        pytest.skip("cuBLASLt is not installed")
    try:
        products = CublasLt(library)
    except LibraryError:
        products = CublasLt.__new__(CublasLt)
        products.__dict__.update(_library=library, _most=1 << 20, _plans={}, _handle=None)
        with pytest.raises(LibraryError, match="cublasLtMatmulAlgoGetHeuristic"):
            products.plan(shape)
    else:
        assert products.plan(shape).workspace <= cublaslt.WORKSPACE_BYTES


def test_the_library_says_back_what_it_was_told() -> None:
    library = find_library()
    if library is None:
        pytest.skip("cuBLASLt is not installed")
    products = CublasLt.__new__(CublasLt)
    products.__dict__.update(_library=library, _most=1 << 20, _plans={}, _handle=None)
    description = products._description(BF16)
    layout = products._layout(BF16.first, 128, 64, 4)

    def told(function: str, handle: ctypes.c_void_p, attribute: int) -> int:
        value, written = ctypes.c_uint64(), ctypes.c_size_t()
        for size in (4, 8):
            given = (handle, ctypes.c_int(attribute), ctypes.byref(value), ctypes.c_size_t(size), ctypes.byref(written))
            if getattr(library, function)(*given) == 0:
                return value.value
        raise AssertionError((function, attribute))

    of_description = [told("cublasLtMatmulDescGetAttribute", description, number) for number in (0, 1, 3, 4, 7, 8, 26)]
    assert of_description == [
        68,
        0,
        1,
        0,
        4,
        256,
        14,
    ]  # compute and scale type, transposed, epilogue, bias and its type
    of_layout = [told("cublasLtMatrixLayoutGetAttribute", layout, number) for number in range(7)]
    assert of_layout == [14, 0, 128, 64, 130, 4, 9000]  # type, by columns, rows, columns, leading, batch, stride
