"""Calls of cuDNN: what it is told of a convolution, which engine is taken, what is kept, what its refusals become.

The last tests ask the library itself, where it is installed; none of them needs a device.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dfc_driver_cuda.libraries import cudnn_backend, cudnn_graphs
from dfc_driver_cuda.libraries import cudnn_constants as c
from dfc_driver_cuda.libraries.cudnn import Cudnn, drop_all, fill_pack, plan_for
from dfc_driver_cuda.libraries.cudnn_backend import Backend, find_library
from dfc_driver_cuda.libraries.cudnn_graphs import OPERATIONS, ConvolutionShape, TensorShape
from dfc_driver_cuda.libraries.native import LibraryError
from tests.support.cudnn_names import NAMES
from tests.support.simulated_cudnn import Engine, SimulatedCudnn


def channels_last(batch: int, channels: int, *places: int) -> TensorShape:
    steps = [channels]
    for size in reversed(places[1:]):
        steps.insert(0, steps[0] * size)
    return TensorShape((batch, channels, *places), (steps[0] * places[0], 1, *steps), 16)


PLAIN = ConvolutionShape(
    "forward",
    "f32",
    channels_last(16, 64, 32, 32),
    TensorShape((64, 64, 3, 3), (1, 64, 3 * 64 * 64, 64 * 64), 16),
    channels_last(16, 64, 32, 32),
    (1, 1),
    (1, 1),
    (1, 1),
    (1, 1),
)
BIAS = TensorShape((1, 64, 1, 1), (64, 1, 1, 1), 16)


def of_kind(library: SimulatedCudnn, kind: int) -> list[dict[int, list[object]]]:
    return [made.values for made in library.open.values() if made is not None and made.kind == kind]


@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_convolution_is_one_operation_on_three_tensors(kind: str) -> None:
    library = SimulatedCudnn()
    Cudnn(library).plan(replace(PLAIN, kind=kind))
    (one,) = of_kind(library, OPERATIONS[kind][0])
    tensors = [library.open[one[attribute][0]] for attribute in OPERATIONS[kind][1][1:]]  # type: ignore[index]
    assert [t.values[c.TENSOR_UID] for t in tensors if t] == [[1], [2], [3]]
    assert [t.values[c.TENSOR_EXTENTS] for t in tensors if t] == [[16, 64, 32, 32], [64, 64, 3, 3], [16, 64, 32, 32]]
    assert [t.values[c.TENSOR_STRIDES][1] for t in tensors if t] == [1, 64, 1]
    assert [one[factor] for factor in OPERATIONS[kind][2]] == [[1.0], [0.0]]


def test_the_convolution_says_steps_and_zeros() -> None:
    library = SimulatedCudnn()
    shape = replace(
        PLAIN, steps=(2, 3), dilations=(1, 1), low=(0, 1), high=(1, 1), result=channels_last(16, 64, 16, 11)
    )
    Cudnn(library).plan(shape)
    (one,) = of_kind(library, c.CONVOLUTION)
    assert one[c.CONVOLUTION_STEPS] == [2, 3] and one[c.CONVOLUTION_LOW] == [0, 1]
    assert one[c.CONVOLUTION_HIGH] == [1, 1] and one[c.CONVOLUTION_SPATIAL_AXES] == [2]
    assert one[c.CONVOLUTION_KIND] == [c.CORRELATION]


def test_what_is_added_comes_before_the_bias_and_nothing_in_between_has_memory() -> None:
    library = SimulatedCudnn()
    shape = replace(PLAIN, type="f16", bias=BIAS, added=PLAIN.result)
    Cudnn(library).plan(shape)
    first, second = of_kind(library, c.OPERATION_POINTWISE)
    uids = [
        [library.open[one[which][0]].values[c.TENSOR_UID][0] for which in (c.POINTWISE_X, c.POINTWISE_B, c.POINTWISE_Y)]  # type: ignore[index, union-attr]
        for one in (first, second)
    ]
    assert [uids[0][1], uids[1][1], uids[1][2]] == [5, 4, 3]
    assert uids[0][2] == uids[1][0] > 100
    virtual = [one for one in of_kind(library, c.TENSOR) if c.TENSOR_VIRTUAL in one]
    assert [one[c.TENSOR_TYPE] for one in virtual] == [[c.TYPES["f32"]]] * 2, "sums are not rounded in between"


@pytest.mark.parametrize(("dtype", "sums"), [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("f64", "f64")])
def test_sums_are_as_wide_as_stated(dtype: str, sums: str) -> None:
    library = SimulatedCudnn()
    Cudnn(library).plan(replace(PLAIN, type=dtype))
    (one,) = of_kind(library, c.CONVOLUTION)
    assert one[c.CONVOLUTION_TYPE] == [c.TYPES[sums]]


def chosen(shape: ConvolutionShape, *engines: Engine, fallback: tuple[Engine, ...] = ()) -> int:
    """The index of the engine that is taken."""
    library = SimulatedCudnn({c.BEST: engines, c.FALLBACK: fallback})
    Cudnn(library).plan(shape)
    (plan,) = of_kind(library, c.EXECUTION_PLAN)
    config = library.open[plan[c.PLAN_CONFIG][0]]  # type: ignore[index]
    assert config is not None and config.engine is not None
    return config.engine.index


@pytest.mark.parametrize("note", sorted(c.UNWANTED))
def test_engines_of_other_numbers_are_passed_over(note: int) -> None:
    assert chosen(PLAIN, Engine(1, (note,)), Engine(2, (c.STRICT_NAN,))) == 2
    assert chosen(replace(PLAIN, type="f16"), Engine(1, (note, c.TENSOR_CORE)), Engine(2, (c.TENSOR_CORE,))) == 2


def test_tensor_cores_are_for_short_factors_or_where_f32_may_be_rounded() -> None:
    engines = Engine(1, (c.TENSOR_CORE,)), Engine(2)
    assert chosen(PLAIN, *engines) == 2
    assert chosen(replace(PLAIN, is_rounding=True), *engines) == 1
    assert [chosen(replace(PLAIN, type=dtype), *engines) for dtype in ("f16", "bf16", "f64")] == [1, 1, 1]


def test_an_engine_of_unknown_notes_is_passed_over() -> None:
    assert chosen(PLAIN, Engine(1, (10,)), Engine(2)) == 2


def test_what_no_plan_can_be_made_of_or_takes_too_much_memory_is_passed_over() -> None:
    assert chosen(PLAIN, Engine(1, fits=False), Engine(2, workspace=1 << 40), Engine(3)) == 3


def test_fallbacks_come_after_the_best_but_for_the_last_resort() -> None:
    assert chosen(PLAIN, Engine(1, (c.FFT,)), fallback=(Engine(c.LAST_RESORT), Engine(5))) == 5
    assert chosen(PLAIN, Engine(c.LAST_RESORT), fallback=(Engine(5),)) == c.LAST_RESORT
    with pytest.raises(LibraryError, match="offers no engine"):
        chosen(PLAIN, fallback=(Engine(c.LAST_RESORT),))


def test_a_shape_is_asked_for_once() -> None:
    library = SimulatedCudnn({c.BEST: []})
    convolutions = Cudnn(library)
    for _ in range(2):
        with pytest.raises(LibraryError, match="offers no engine"):
            convolutions.plan(PLAIN)
    assert library.asked == 1 * 2, "for the number of results, once for each list"
    library.offers = {c.BEST: [Engine()]}
    other = replace(PLAIN, type="f16")
    assert convolutions.plan(other) is convolutions.plan(other)


def test_a_status_is_an_error_with_the_words_of_the_library() -> None:
    library = SimulatedCudnn()
    convolutions = Cudnn(library)
    library.fails["cudnnBackendFinalize"] = 2000
    with pytest.raises(LibraryError, match="cudnnBackendFinalize of cuDNN ends with STATUS_2000: it was told to fail"):
        convolutions.plan(PLAIN)


def test_everything_is_given_back() -> None:
    library = SimulatedCudnn()
    convolutions = Cudnn(library)
    convolutions.plan(PLAIN)
    library.offers = {}
    with pytest.raises(LibraryError):
        convolutions.plan(replace(PLAIN, type="f16"))
    library.offers = {c.BEST: [Engine()]}
    convolutions.plan(replace(PLAIN, bias=BIAS))
    convolutions.close()
    assert not library.open


def test_the_version_is_three_numbers() -> None:
    assert Cudnn(SimulatedCudnn()).version() == "9.28.1"


def test_a_library_without_what_it_needs_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the process."""

    class Function:
        restype = argtypes = None

        def __call__(self) -> int:
            return 13000

    class Found:
        def __getattr__(self, name: str) -> Function:
            return self.__dict__.setdefault(name, Function())

    def load(name: str) -> Found:
        if "cublasLt" in name:
            raise OSError(name)
        return Found()

    monkeypatch.setattr(cudnn_backend.ctypes, "CDLL", load)
    with pytest.raises(LibraryError, match=r"installed, but not libcublasLt\.so\.13"):
        find_library()


# --- the library itself


def header() -> str:
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in folders for path in folder.glob("*/include/cudnn_graph.h")]
    if not found:
        pytest.skip("the headers of cuDNN are not installed")
    return re.sub(r"/\*.*?\*/", "", found[0].read_text(errors="replace"), flags=re.S)


def test_constants_are_those_of_the_header() -> None:
    text = header()
    for name, value in NAMES.items():
        assert re.search(rf"\b{name}(\s+CUDNN_DEPRECATED_ENUM)?\s*=\s*{value}\s*[,}}]", text), name
    for name in cudnn_backend.SIGNATURES:
        assert re.search(rf"\b{name}\(", text), name


def real() -> Backend:
    try:
        library = find_library()
    except LibraryError as problem:
        pytest.skip(str(problem))
    if library is None:
        pytest.skip("cuDNN is not installed")
    backend = Backend(library)
    try:
        fill_pack(backend, backend.create(c.VARIANT_PACK), [256, 512, 768], 1024)
    except LibraryError as problem:
        if "SUBLIBRARY" not in str(problem):
            raise
        pytest.skip(f"cuDNN does not start without the driver's library: {problem}")
    return backend


SHAPES = [
    PLAIN,
    replace(PLAIN, kind="data"),
    replace(PLAIN, kind="weights", type="bf16"),
    replace(PLAIN, type="f16", bias=BIAS),
    replace(PLAIN, bias=BIAS, added=PLAIN.result),
    replace(PLAIN, type="f64"),
    replace(PLAIN, steps=(2, 2), low=(0, 0), high=(1, 1), result=channels_last(16, 64, 16, 16)),
    replace(PLAIN, filter=TensorShape((64, 16, 3, 3), (1, 64, 3 * 16 * 64, 16 * 64), 16)),
    replace(PLAIN, type="f16", dilations=(2, 2), low=(2, 2), high=(2, 2)),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_library_takes_every_descriptor_without_a_device(shape: ConvolutionShape) -> None:
    """Tensors, operations, and the graph of them."""
    backend = real()
    kept: list[ctypes.c_void_p] = []
    try:
        cudnn_graphs.operation_graph(backend, shape, kept)
    finally:
        drop_all(backend, kept)


def test_the_library_takes_addresses_without_a_device() -> None:
    backend = real()
    pack = backend.create(c.VARIANT_PACK)
    fill_pack(backend, pack, [1 << 20, 2 << 20, 3 << 20], 4 << 20)
    backend.drop(pack)


DEVICE_DESCRIPTOR, DEVICE_JSON, CHARACTERS = 38, 2702, 24
PLAN_DEVICE, HEURISTIC_DEVICE = 407, 204
H100 = {
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "smCountOrigin": 0,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "oversizedSharedMemoryPerBlock": 0,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 0x2330,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "totalGlobalMem": 80 << 30,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120,
    "l2CacheSize": 50 << 20,
    "cudaDeviceId": 0,
    "deviceVer": 900,
    "driverVer": 13000,
    "deviceName": "NVIDIA H100 80GB HBM3",
}
"""What the library asks of a device, told to it instead."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_library_makes_plans_for_a_device_that_is_described(shape: ConvolutionShape) -> None:
    """The choice of an engine, up to what needs memory of a device. From version 9.8 on, with the driver's library."""
    backend = real()
    text = ctypes.create_string_buffer(json.dumps(H100).encode())
    try:
        device = backend.create(DEVICE_DESCRIPTOR)
        backend.call(
            "cudnnBackendSetAttribute", device, DEVICE_JSON, CHARACTERS, len(text), ctypes.addressof(text)
        )  # fmt: skip
        backend.finish(device)
    except LibraryError as problem:
        pytest.skip(str(problem))
    told = [(PLAN_DEVICE, c.BACKEND_DESCRIPTOR, device)], [(HEURISTIC_DEVICE, c.BACKEND_DESCRIPTOR, device)]
    plan = plan_for(backend, shape, 64 << 20, *told)
    assert plan.plan.value and plan.workspace <= 64 << 20
    drop_all(backend, plan.descriptors)
    backend.drop(device)
