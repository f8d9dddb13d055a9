"""Convolutions by cuDNN 9, where it is installed where a program runs: found, asked what it offers, and called.

The library's graph interface is used as it is, through C: a convolution is a few descriptors (`cudnn_graphs`), the
library lists engines for it, best first, and the first one whose notes fit is taken.

Assumes device addresses and a stream of the device's primary context; one caller at a time. Guarantees the same engine
for the same shape, device and library; one that gives the same numbers each time, makes every product in the type of
the sums (no transforms), and for f32 without tensor cores unless the shape says that factors may be rounded. What the
library cannot do is `LibraryError`: the caller then takes the kernel of the program, and says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from dfc_driver_cuda.libraries import cudnn_constants as c
from dfc_driver_cuda.libraries.cudnn_backend import Backend, Descriptor, c_array
from dfc_driver_cuda.libraries.cudnn_graphs import ConvolutionShape, operation_graph
from dfc_driver_cuda.libraries.native import Library, LibraryError, Planner
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


class Cudnn(Planner[ConvolutionShape, ConvolutionPlan]):
    """One handle of the library, for the device that is current when it is made."""

    name = "cuDNN"
    version_function, destroy_function = "cudnnGetVersion", "cudnnDestroy"

    def __init__(self, library: Library, *, workspace_bytes: int = WORKSPACE_BYTES) -> None:
        self._backend, self._stream = Backend(library), -1
        super().__init__(library, workspace_bytes)

    def open(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("cudnnCreate", ctypes.byref(handle))
        return handle

    def new_plan(self, shape: ConvolutionShape) -> ConvolutionPlan:
        return plan_for(self._backend, shape, self._most, [(c.PLAN_HANDLE, c.HANDLE, self._handle)])

    def drop(self, plan: ConvolutionPlan) -> None:
        drop_all(self._backend, plan.descriptors)

    def call(self, function: str, *arguments: Any) -> None:
        self._backend.call(function, *arguments)

    def run(self, plan: ConvolutionPlan, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """An address for each tensor of the shape."""
        backend = self._backend
        if stream != self._stream:
            backend.call("cudnnSetStream", self._handle, stream)
            self._stream = stream
        pack = backend.create(c.VARIANT_PACK)
        try:
            fill_pack(backend, pack, addresses, workspace)
            backend.call("cudnnBackendExecute", self._handle, plan.plan, pack)
        finally:
            backend.drop(pack)


def fill_pack(backend: Backend, pack: Descriptor, addresses: Sequence[int], workspace: int) -> None:
    """What a plan runs on: an address for each tensor."""
    backend.set(pack, c.PACK_UIDS, range(1, len(addresses) + 1))
    backend.set(pack, c.PACK_POINTERS, addresses)
    backend.set(pack, c.PACK_WORKSPACE, [workspace])
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
        for mode in (c.BEST, c.FALLBACK):
            for config in _configurations(backend, graph, mode, of_heuristics, plan.descriptors):
                if _fits(backend, config, shape, mode) and _planned(backend, plan, config, most, device):
                    return plan
    except LibraryError:
        drop_all(backend, plan.descriptors)
        raise
    drop_all(backend, plan.descriptors)
    raise LibraryError("cuDNN offers no engine that gives the same exact sums each time")


def drop_all(backend: Backend, descriptors: list[Descriptor]) -> None:
    """The last one first."""
    while descriptors:
        backend.drop(descriptors.pop())


def _configurations(
    backend: Backend, graph: Descriptor, mode: int, more: Attributes, kept: list[Descriptor]
) -> Iterator[Descriptor]:
    """What the library proposes, best first; nothing if it has no proposal of this kind."""
    heuristics = _kept(backend, c.HEURISTICS, kept)
    backend.set(heuristics, c.HEURISTIC_GRAPH, [graph])
    backend.set(heuristics, c.HEURISTIC_MODE, [mode])
    _set_attributes(backend, heuristics, more)
    try:
        backend.finish(heuristics)
    except LibraryError:
        return
    count = backend.get(heuristics, c.HEURISTIC_RESULTS, c_array(c.HEURISTIC_RESULTS, []))
    configurations = [_kept(backend, c.ENGINE_CONFIG, kept) for _ in range(count)]
    if configurations:
        filled = backend.get(heuristics, c.HEURISTIC_RESULTS, c_array(c.HEURISTIC_RESULTS, configurations))
        yield from configurations[:filled]


def _fits(backend: Backend, config: Descriptor, shape: ConvolutionShape, mode: int) -> bool:
    """Whether an engine gives the same numbers each time, and those that are asked for."""
    engine = backend.create(c.ENGINE)
    try:
        backend.get(config, c.CONFIG_ENGINE, c_array(c.CONFIG_ENGINE, [engine]))
        notes, index = c_array(c.ENGINE_NOTES, [0] * MOST_NOTES), c_array(c.ENGINE_INDEX, [0])
        count = backend.get(engine, c.ENGINE_NOTES, notes)
        backend.get(engine, c.ENGINE_INDEX, index)
    finally:
        backend.drop(engine)
    noted = set(notes[: min(count, MOST_NOTES)])
    unwanted = c.UNWANTED if shape.type != "f32" or shape.is_rounding else c.UNWANTED | {c.TENSOR_CORE}
    if mode == c.FALLBACK and index[0] == c.LAST_RESORT:
        return False
    return not noted & unwanted and noted <= c.NOTES


def _planned(
    backend: Backend, convolution_plan: ConvolutionPlan, config: Descriptor, most: int, device: Attributes
) -> bool:
    """Whether the configuration can be run, in this much memory; then the plan has it."""
    plan = backend.create(c.EXECUTION_PLAN)
    try:
        backend.set(plan, c.PLAN_CONFIG, [config])
        _set_attributes(backend, plan, device)
        backend.finish(plan)
        workspace = c_array(c.PLAN_WORKSPACE, [0])
        backend.get(plan, c.PLAN_WORKSPACE, workspace)
    except LibraryError:
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
        backend.set(target, attribute, [value], kind)


def _kept(backend: Backend, kind: int, kept: list[Descriptor]) -> Descriptor:
    one = backend.create(kind)
    kept.append(one)
    return one
