"""Convolutions by cuDNN 9, where it is installed where a program runs: found, asked what it offers, and called.

The library's graph interface is used as it is, through C: a convolution is a few descriptors (`cudnn_graphs`), the
library lists engines for it, best first, and the first one whose notes fit is taken.

Assumes device addresses and a stream of the device's primary context; one caller at a time. Guarantees the same engine
for the same shape, device and library; one that gives the same numbers each time, makes every product in the type of
the sums (no transforms), and for f32 without tensor cores unless the shape says that factors may be rounded. What the
library cannot do is `ConvolutionError`: the caller then takes the kernel of the program, and says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import field

from dfc_driver_cuda.libraries.cudnn_backend import Backend, ConvolutionError, Descriptor, Library, addresses_of
from dfc_driver_cuda.libraries.cudnn_constants import (
    BACKEND_DESCRIPTOR,
    BEST,
    CONFIG_ENGINE,
    ENGINE,
    ENGINE_CONFIG,
    ENGINE_INDEX,
    ENGINE_NOTES,
    EXECUTION_PLAN,
    FALLBACK,
    HANDLE,
    HEURISTIC_GRAPH,
    HEURISTIC_MODE,
    HEURISTIC_RESULTS,
    HEURISTICS,
    INT64,
    LAST_RESORT,
    MODE,
    NOTE,
    NOTES,
    PACK_POINTERS,
    PACK_UIDS,
    PACK_WORKSPACE,
    PLAN_CONFIG,
    PLAN_HANDLE,
    PLAN_WORKSPACE,
    POINTER,
    TENSOR_CORE,
    UNWANTED,
    VARIANT_PACK,
)
from dfc_driver_cuda.libraries.cudnn_graphs import ConvolutionShape, operation_graph
from dfc_runtime.dataclasses import dataclass

WORKSPACE_BYTES = 256 << 20
"""Most workspace that an engine may ask for."""

MOST_NOTES = 64


@dataclass(slots=True)
class ConvolutionPlan:
    """A shape with the library's descriptors and its engine; `workspace` in bytes. All descriptors live as long."""

    shape: ConvolutionShape
    workspace: int = 0
    plan: Descriptor = field(default_factory=ctypes.c_void_p)
    descriptors: list[Descriptor] = field(default_factory=list[Descriptor])


class Cudnn:
    """One handle of the library, for the device that is current when it is made."""

    def __init__(self, library: Library, *, workspace_bytes: int = WORKSPACE_BYTES) -> None:
        self._library, self._most = library, workspace_bytes
        self._backend = Backend(library)
        self._plans: dict[ConvolutionShape, ConvolutionPlan | str] = {}
        self._handle, self._stream = ctypes.c_void_p(), -1
        self._backend.call("cudnnCreate", ctypes.byref(self._handle))

    def version(self) -> str:
        """9.28.1."""
        number = int(self._library.cudnnGetVersion())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def plan(self, shape: ConvolutionShape) -> ConvolutionPlan:
        """What the library offers for a shape; asked once. `ConvolutionError` if nothing fits."""
        known = self._plans.get(shape)
        if known is None:
            try:
                known = plan_for(self._backend, shape, self._most, [(PLAN_HANDLE, HANDLE, self._handle)])
            except ConvolutionError as error:
                known = str(error)
            self._plans[shape] = known
        if isinstance(known, str):
            raise ConvolutionError(known)
        return known

    def run(self, plan: ConvolutionPlan, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """Queues a convolution on a stream, which may be recording a graph. An address for each tensor of the shape;
        `workspace` has `plan.workspace` bytes or more, at a multiple of 256."""
        backend = self._backend
        if stream != self._stream:
            backend.call("cudnnSetStream", self._handle, stream)
            self._stream = stream
        pack = backend.create(VARIANT_PACK)
        try:
            fill_pack(backend, pack, addresses, workspace)
            backend.call("cudnnBackendExecute", self._handle, plan.plan, pack)
        finally:
            backend.drop(pack)

    def close(self) -> None:
        """Gives everything back; the object is of no use afterwards."""
        for plan in self._plans.values():
            if isinstance(plan, ConvolutionPlan):
                drop_all(self._backend, plan.descriptors)
        self._plans.clear()
        self._backend.call("cudnnDestroy", self._handle)


def fill_pack(backend: Backend, pack: Descriptor, addresses: Sequence[int], workspace: int) -> None:
    """What a plan runs on: an address for each tensor."""
    count = len(addresses)
    backend.set(pack, PACK_UIDS, INT64, (ctypes.c_int64 * count)(*range(1, count + 1)))
    backend.set(pack, PACK_POINTERS, POINTER, (ctypes.c_void_p * count)(*addresses))
    backend.set(pack, PACK_WORKSPACE, POINTER, (ctypes.c_void_p * 1)(workspace))
    backend.finish(pack)


# --- one shape

Attributes = Sequence[tuple[int, int, Descriptor]]
"""What a descriptor is told besides: attribute, type, value. The device, above all."""


def plan_for(
    backend: Backend, shape: ConvolutionShape, most: int, device: Attributes, of_heuristics: Attributes = ()
) -> ConvolutionPlan:
    """The first engine that fits, within `most` bytes of workspace. `device` says on a plan where it is to run,
    `of_heuristics` where the library would not know by itself."""
    plan = ConvolutionPlan(shape)
    try:
        graph = operation_graph(backend, shape, plan.descriptors)
        for mode in (BEST, FALLBACK):
            for config in _configurations(backend, graph, mode, of_heuristics, plan.descriptors):
                if _fits(backend, config, shape, mode) and _planned(backend, plan, config, most, device):
                    return plan
    except ConvolutionError:
        drop_all(backend, plan.descriptors)
        raise
    drop_all(backend, plan.descriptors)
    raise ConvolutionError("cuDNN offers no engine that gives the same exact sums each time")


def drop_all(backend: Backend, descriptors: list[Descriptor]) -> None:
    """The last one first."""
    while descriptors:
        backend.drop(descriptors.pop())


def _configurations(
    backend: Backend, graph: Descriptor, mode: int, more: Attributes, kept: list[Descriptor]
) -> Iterator[Descriptor]:
    """What the library proposes, best first; nothing if it has no proposal of this kind."""
    heuristics = _kept(backend, HEURISTICS, kept)
    backend.set(heuristics, HEURISTIC_GRAPH, BACKEND_DESCRIPTOR, addresses_of([graph]))
    backend.set(heuristics, HEURISTIC_MODE, MODE, (ctypes.c_int32 * 1)(mode))
    _set_attributes(backend, heuristics, more)
    try:
        backend.finish(heuristics)
    except ConvolutionError:
        return
    count = backend.get(heuristics, HEURISTIC_RESULTS, BACKEND_DESCRIPTOR, addresses_of([]))
    configurations = [_kept(backend, ENGINE_CONFIG, kept) for _ in range(count)]
    filled = (
        backend.get(heuristics, HEURISTIC_RESULTS, BACKEND_DESCRIPTOR, addresses_of(configurations))
        if configurations
        else 0
    )
    yield from configurations[:filled]


def _fits(backend: Backend, config: Descriptor, shape: ConvolutionShape, mode: int) -> bool:
    """Whether an engine gives the same numbers each time, and those that are asked for."""
    engine = backend.create(ENGINE)
    try:
        backend.get(config, CONFIG_ENGINE, BACKEND_DESCRIPTOR, addresses_of([engine]))
        notes = (ctypes.c_int32 * MOST_NOTES)()
        count = backend.get(engine, ENGINE_NOTES, NOTE, notes)
        index = (ctypes.c_int64 * 1)()
        backend.get(engine, ENGINE_INDEX, INT64, index)
    finally:
        backend.drop(engine)
    noted = set(notes[: min(count, MOST_NOTES)])
    unwanted = UNWANTED if shape.type != "f32" or shape.is_rounding else UNWANTED | {TENSOR_CORE}
    if mode == FALLBACK and index[0] == LAST_RESORT:
        return False
    return not noted & unwanted and noted <= NOTES


def _planned(
    backend: Backend, convolution_plan: ConvolutionPlan, config: Descriptor, most: int, device: Attributes
) -> bool:
    """Whether the configuration can be run, in this much memory; then the plan has it."""
    plan = backend.create(EXECUTION_PLAN)
    try:
        backend.set(plan, PLAN_CONFIG, BACKEND_DESCRIPTOR, addresses_of([config]))
        _set_attributes(backend, plan, device)
        backend.finish(plan)
        workspace = (ctypes.c_int64 * 1)()
        backend.get(plan, PLAN_WORKSPACE, INT64, workspace)
    except ConvolutionError:
        backend.drop(plan)
        return False
    if workspace[0] > most:
        backend.drop(plan)
        return False
    convolution_plan.plan, convolution_plan.workspace = plan, int(workspace[0])
    convolution_plan.descriptors.append(plan)
    return True


def _set_attributes(backend: Backend, target: Descriptor, attributes: Attributes) -> None:
    for attribute, kind, value in attributes:
        backend.set(target, attribute, kind, addresses_of([value]))


def _kept(backend: Backend, kind: int, kept: list[Descriptor]) -> Descriptor:
    one = backend.create(kind)
    kept.append(one)
    return one
