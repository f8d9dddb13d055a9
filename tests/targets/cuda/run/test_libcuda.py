"""The device behind cuda-bindings, on the package's own structures with functions that remember what they get."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from dfc_driver_cuda import libcuda
from dfc_runtime.errors import DfcError
from dfc_runtime.graphs.device import FROM_DEVICE, ON_DEVICE, TO_DEVICE, NotTaken
from tests.support.fake_cuda_api import FakeApi, kernel_arguments

driver = pytest.importorskip("cuda.bindings.driver")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    made = FakeApi()
    monkeypatch.setattr(libcuda, "import_module", lambda name: made)
    return made


@pytest.fixture
def device(api: FakeApi) -> libcuda.CudaDevice:
    return libcuda.open_device(0)


def refused(number: int = 0) -> DfcError:
    with pytest.raises(DfcError) as caught:
        libcuda.open_device(number)
    assert "\n" not in caught.value.message
    return caught.value


def test_without_bindings_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(libcuda, "import_module", missing)
    found = refused()
    assert found.code == "E0921" and "pip install 'dfc[cuda-run]'" in found.message


def test_without_a_driver_it_is_told(api: FakeApi) -> None:
    def missing(flags: int) -> Any:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    api.answers["cuInit"] = missing
    assert refused().code == "E0921"
    api.answers["cuInit"] = (driver.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,)
    found = refused()
    assert found.code == "E0921" and "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: what went wrong" in found.message


def test_an_old_driver_is_told(api: FakeApi) -> None:
    api.version = 11_080
    found = refused()
    assert found.code == "E0922" and "11.8" in found.message and "12.0" in found.message


def test_devices_that_are_not_there_are_told(api: FakeApi) -> None:
    found = refused(3)
    assert found.code == "E0923" and "0 (Fake)" in found.message
    api.answers["cuInit"] = (driver.CUresult.CUDA_ERROR_NO_DEVICE,)
    assert refused().code == "E0923"


def test_no_driver_of_this_machine_is_an_error_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real package: this machine has a device, or says what it lacks."""
    monkeypatch.undo()
    try:
        libcuda.open_device(0).close()
    except DfcError as problem:
        assert problem.code in ("E0921", "E0922", "E0923")


@pytest.mark.parametrize(("version", "nodes"), [(12_000, False), (12_030, False), (12_040, True), (13_000, True)])
def test_conditional_nodes_need_their_driver(api: FakeApi, version: int, nodes: bool) -> None:
    api.version = version
    assert libcuda.open_device(0).conditional_nodes == nodes


def test_bits_are_code_of_the_family_and_ptx_of_all_before() -> None:
    bits = libcuda.capability_bits(8, 6)
    assert {"sm_80", "sm_86", "compute_75", "compute_80", "compute_86"} <= bits
    assert bits.isdisjoint({"sm_75", "sm_87", "sm_90", "compute_87", "compute_90"})
    assert {"sm_100", "sm_103", "compute_90", "compute_103"} <= libcuda.capability_bits(10, 3)


def test_memory_that_is_not_there_is_told_with_sizes(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuMemAlloc"] = (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    with pytest.raises(DfcError, match=r"5000 bytes of GPU memory, and 1000 bytes of 2000 bytes are free") as caught:
        device.allocate(5000)
    assert caught.value.code == "E0925"


def test_a_graph_that_does_not_fit_is_no_failure_of_the_device(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuGraphInstantiate"] = (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)
    with pytest.raises(DfcError, match="does not fit GPU memory") as caught:
        device.graph().instantiate()
    assert caught.value.code == "E0925"
    device.free(5)
    assert len(api.named("cuMemFree")) == 1


def test_a_failure_of_the_device_is_told_once(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuStreamSynchronize"] = (driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
    with pytest.raises(DfcError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught, device.current():
        device.synchronise()
    assert caught.value.code == "E0926"
    api.calls.clear()
    device.free(5)
    device.close()
    assert api.named("cuMemFree") == [], "nothing is given back after a failure"


def test_code_that_is_refused_is_a_value_error(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuModuleGetFunction"] = (driver.CUresult.CUDA_ERROR_NOT_FOUND, None)
    with pytest.raises(ValueError, match="lacks the kernel k7"):
        device.load(b"code", ["k7"])
    api.answers["cuModuleLoadData"] = (driver.CUresult.CUDA_ERROR_INVALID_PTX, None)
    with pytest.raises(ValueError, match="CUDA_ERROR_INVALID_PTX"):
        device.load(b"code", ["k7"])
    assert api.named("cuModuleLoadData")[0] == (b"code\0",), "PTX ends with a zero"


def test_ptx_that_is_too_new_names_the_driver_it_needs(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.version = 12_040
    api.answers["cuModuleLoadData"] = (driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, None)
    with pytest.raises(DfcError, match=r"CUDA 12\.4, and the bundle needs 13\.2") as caught:
        device.load(b".version 9.2\n", ["k0"])
    assert caught.value.code == "E0922"


def test_bits_name_the_releases_whose_machine_code_the_driver_takes(api: FakeApi) -> None:
    api.version = 12_090
    bits = libcuda.device_bits(0)
    assert {"cuda_11", "cuda_12", "sm_99", "compute_80"} <= bits and "cuda_13" not in bits


def test_nodes_are_described_as_the_driver_wants_them(api: FakeApi, device: libcuda.CudaDevice) -> None:
    seen: list[list[int]] = []
    node = driver.CUgraphNode(99)

    def add(graph: Any, after: Any, count: int, made: Any) -> tuple[Any, ...]:
        seen.append(kernel_arguments(made, 3))
        return (node,)

    api.answers["cuGraphAddKernelNode"] = add
    graph = device.graph()
    (function,) = device.load(b"code", ["k0"])
    kernel = graph.kernel(function, 7, 256, [1 << 41, -1, 5], [])
    copies = [graph.copy(d, 1 << 40, 1 << 30, 24, [kernel]) for d in (TO_DEVICE, FROM_DEVICE, ON_DEVICE)]
    graph.clear(1 << 42, 64, copies)
    assert seen == [[1 << 41, (1 << 64) - 1, 5]]
    _, after, count, made = api.named("cuGraphAddKernelNode")[0]
    assert (after, count) == ([], 0)
    assert (made.gridDimX, made.gridDimY, made.blockDimX, int(made.func)) == (7, 1, 256, int(function))
    kinds = driver.CUmemorytype
    host, there = kinds.CU_MEMORYTYPE_HOST, kinds.CU_MEMORYTYPE_DEVICE
    described = [arguments[3] for arguments in api.named("cuGraphAddMemcpyNode")]
    assert [(c.srcMemoryType, c.dstMemoryType) for c in described] == [(host, there), (there, host), (there, there)]
    assert [(c.WidthInBytes, c.Height, c.Depth) for c in described] == [(24, 1, 1)] * 3
    assert (int(described[0].srcHost), int(described[0].dstDevice)) == (1 << 30, 1 << 40)
    assert (int(described[1].srcDevice), int(described[1].dstHost)) == (1 << 30, 1 << 40)
    assert all(arguments[1] == [node] for arguments in api.named("cuGraphAddMemcpyNode"))
    cleared = api.named("cuGraphAddMemsetNode")[0][3]
    assert (int(cleared.dst), cleared.elementSize, cleared.width, cleared.height, cleared.value) == (
        1 << 42,
        1,
        64,
        1,
        0,
    )


@pytest.mark.parametrize("loop", [True, False])
def test_conditional_nodes_have_a_body_of_their_own(api: FakeApi, device: libcuda.CudaDevice, loop: bool) -> None:
    graph = device.graph()
    handle = graph.handle()
    assert api.named("cuGraphConditionalHandleCreate")[0][2:] == (0, int(driver.CU_GRAPH_COND_ASSIGN_DEFAULT))
    node, body = graph.conditional(handle, [], loop=loop)
    (arguments,) = api.named("cuGraphAddNode")
    made = arguments[-1].conditional
    kinds = driver.CUgraphConditionalNodeType
    assert made.type == (kinds.CU_GRAPH_COND_TYPE_WHILE if loop else kinds.CU_GRAPH_COND_TYPE_IF)
    assert (int(made.handle), made.size, int(made.ctx)) == (handle, 1, 5)
    assert arguments[-1].type == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    assert isinstance(body, libcuda.CudaGraph) and node is not None


def test_updates_change_arguments_and_keep_the_rest(api: FakeApi, device: libcuda.CudaDevice) -> None:
    graph = device.graph()
    (function,) = device.load(b"code", ["k0"])
    kernel = graph.kernel(function, 3, 64, [1, 2], [])
    copy = graph.copy(ON_DEVICE, 1, 2, 8, [])
    executable = graph.instantiate()
    seen: list[list[int]] = []
    api.answers["cuGraphExecKernelNodeSetParams"] = lambda e, n, made: seen.append(kernel_arguments(made, 2)) or ()
    executable.set_arguments(kernel, [8, 9])
    executable.set_copy(copy, 30, 40)
    executable.launch()
    executable.close()
    assert seen == [[8, 9]]
    made = api.named("cuGraphExecKernelNodeSetParams")[0][2]
    assert (made.gridDimX, made.blockDimX, int(made.func)) == (3, 64, int(function))
    changed = api.named("cuGraphExecMemcpyNodeSetParams")[0][2]
    assert (int(changed.dstDevice), int(changed.srcDevice), changed.WidthInBytes) == (30, 40, 8)
    assert [name for name, _ in api.calls[-3:]] == ["cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy"]


def test_streams_of_others_are_waited_for(api: FakeApi, device: libcuda.CudaDevice) -> None:
    device.wait(42)
    assert [name for name, _ in api.calls[-4:]] == [
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy",
    ]  # fmt: skip
    assert int(api.named("cuEventRecord")[0][1]) == 42


def test_importing_the_driver_imports_no_bindings() -> None:
    code = """
import sys, dfc_driver_cuda.driver
sys.exit(any(name.split(".")[0] in ("cuda", "numba", "dfc", "llvmlite") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recorded_work_becomes_a_node_and_its_graph_is_given_back(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuStreamEndCapture"] = (driver.CUgraph(31),)
    recorded: list[int] = []
    graph = device.graph()
    first = graph.clear(4096, 8, [])
    node = graph.recorded(recorded.append, [first])
    ((_, after, count, child),) = api.named("cuGraphAddChildGraphNode")
    assert (after, count, int(child)) == ([first], 1, 31)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert [int(stream) for stream, _ in api.named("cuStreamBeginCapture")] == recorded == [6]
    assert api.named("cuStreamBeginCapture")[0][1] == mode
    executable = graph.instantiate()
    assert executable.set_recorded(node, recorded.append)
    ((_, changed, other),) = api.named("cuGraphExecChildGraphNodeSetParams")
    assert changed is node and int(other) == 31
    assert [int(each) for (each,) in api.named("cuGraphDestroy")] == [31, 31]
    assert len(api.named("cuStreamCreate")) == 2, "the stream of the device, and one for all recordings"
    api.answers["cuGraphExecChildGraphNodeSetParams"] = (driver.CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,)
    assert not executable.set_recorded(node, recorded.append)
    device.close()
    assert len(api.named("cuStreamDestroy")) == 2


@pytest.mark.parametrize("name", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphAddChildGraphNode"])
def test_recorded_work_that_the_driver_refuses_damages_nothing(
    api: FakeApi, device: libcuda.CudaDevice, name: str
) -> None:
    api.answers["cuStreamEndCapture"] = (driver.CUgraph(31),)
    api.answers[name] = (driver.CUresult.CUDA_ERROR_NOT_SUPPORTED, driver.CUgraph(0))
    if name == "cuStreamBeginCapture":
        api.answers[name] = (driver.CUresult.CUDA_ERROR_NOT_SUPPORTED,)
    graph = device.graph()
    with pytest.raises(NotTaken, match=f"{name}: CUDA_ERROR_NOT_SUPPORTED"):
        graph.recorded(lambda stream: None, [])
    graph.discard()
    device.close()
    assert api.named("cuStreamDestroy"), "the device has not failed"


def test_a_recording_ends_when_the_library_fails(api: FakeApi, device: libcuda.CudaDevice) -> None:
    api.answers["cuStreamEndCapture"] = (driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, driver.CUgraph(0))

    def fails(stream: int) -> None:
        raise KeyError(stream)

    with pytest.raises(KeyError):
        device.graph().recorded(fails, [])
    assert len(api.named("cuStreamEndCapture")) == 1
