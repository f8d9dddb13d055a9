"""One convolution as descriptors of cuDNN: tensors, the operations on them, and the graph that they make.

    image, filter -> convolution -> result
    image, filter -> convolution -> + added -> + bias -> result        (what lies in between has no memory)

Assumes what `ConvolutionShape` says. Guarantees that tensors with memory are numbered from 1 in the order of
`ConvolutionShape.tensors`, and that what is between operations has the type of the sums.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from dfc_driver_cuda.libraries.cudnn_backend import Backend, Descriptor
from dfc_driver_cuda.libraries.cudnn_constants import (
    ADD,
    BACKEND_DESCRIPTOR,
    BOOLEAN,
    CONVOLUTION,
    CONVOLUTION_DILATIONS,
    CONVOLUTION_HIGH,
    CONVOLUTION_KIND,
    CONVOLUTION_LOW,
    CONVOLUTION_MODE,
    CONVOLUTION_SPATIAL_AXES,
    CONVOLUTION_STEPS,
    CONVOLUTION_TYPE,
    CORRELATION,
    DATA_ALPHA,
    DATA_BETA,
    DATA_CONVOLUTION,
    DATA_DX,
    DATA_DY,
    DATA_TYPE,
    DATA_W,
    DOUBLE,
    FLOAT,
    FORWARD_ALPHA,
    FORWARD_BETA,
    FORWARD_CONVOLUTION,
    FORWARD_W,
    FORWARD_X,
    FORWARD_Y,
    GRAPH_OPERATIONS,
    INT64,
    OPERATION_DATA,
    OPERATION_FORWARD,
    OPERATION_GRAPH,
    OPERATION_POINTWISE,
    OPERATION_WEIGHTS,
    POINTWISE,
    POINTWISE_B,
    POINTWISE_DESCRIPTION,
    POINTWISE_KIND,
    POINTWISE_MODE,
    POINTWISE_TYPE,
    POINTWISE_X,
    POINTWISE_Y,
    TENSOR,
    TENSOR_ALIGNMENT,
    TENSOR_EXTENTS,
    TENSOR_STRIDES,
    TENSOR_TYPE,
    TENSOR_UID,
    TENSOR_VIRTUAL,
    TYPES,
    WEIGHTS_ALPHA,
    WEIGHTS_BETA,
    WEIGHTS_CONVOLUTION,
    WEIGHTS_DW,
    WEIGHTS_DY,
    WEIGHTS_X,
)
from dfc_runtime.dataclasses import dataclass

OPERATIONS = {
    "forward": (
        OPERATION_FORWARD,
        (FORWARD_CONVOLUTION, FORWARD_X, FORWARD_W, FORWARD_Y),
        (FORWARD_ALPHA, FORWARD_BETA),
    ),
    "data": (OPERATION_DATA, (DATA_CONVOLUTION, DATA_DX, DATA_W, DATA_DY), (DATA_ALPHA, DATA_BETA)),
    "weights": (
        OPERATION_WEIGHTS,
        (WEIGHTS_CONVOLUTION, WEIGHTS_X, WEIGHTS_DW, WEIGHTS_DY),
        (WEIGHTS_ALPHA, WEIGHTS_BETA),
    ),
}
"""By kind: the operation, its attributes for convolution, image, filter, result, and those for the factors of what is
made and what was there."""

FIRST_VIRTUAL = 100


@dataclass(frozen=True, slots=True)
class TensorShape:
    """Batch, channels, places; in elements. `alignment` of its address in bytes."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """Numbers of a convolution; the terms are those of `dfc.kernels.matching.convolution`. `low` and `high`
    are zeros around the image, `is_rounding`: factors of f32 may be rounded to 11 bits."""

    kind: str
    type: str
    image: TensorShape
    filter: TensorShape
    result: TensorShape
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    bias: TensorShape | None = None
    added: TensorShape | None = None
    is_rounding: bool = False

    @property
    def tensors(self) -> tuple[TensorShape, ...]:
        """Those with memory, in the order of their addresses."""
        return (self.image, self.filter, self.result, *(t for t in (self.bias, self.added) if t is not None))


def operation_graph(backend: Backend, shape: ConvolutionShape, kept: list[Descriptor]) -> Descriptor:
    """The graph of a shape; `kept` has all descriptors, whatever comes."""
    return _Maker(backend, shape, kept).graph()


class _Maker:
    def __init__(self, backend: Backend, shape: ConvolutionShape, kept: list[Descriptor]) -> None:
        self._backend, self._shape, self._kept = backend, shape, kept
        self._sums = "f64" if shape.type == "f64" else "f32"
        self._virtual = FIRST_VIRTUAL

    def graph(self) -> Descriptor:
        shape = self._shape
        tensors = [self._tensor(one, number, shape.type) for number, one in enumerate(shape.tensors, 1)]
        image, filter_, result, *added = tensors
        operations: list[Descriptor] = []
        if not added:
            operations.append(self._operation((image, filter_, result)))
        else:
            node = self._between()
            operations.append(self._operation((image, filter_, node)))
            for one in reversed(added[1:]):  # the bias comes last: this is the order that the library knows
                after = self._between()
                operations.append(self._sum(node, one, after))
                node = after
            operations.append(self._sum(node, added[0], result))
        graph = self._create(OPERATION_GRAPH)
        self._set_descriptors(graph, GRAPH_OPERATIONS, operations)
        return self._finished(graph)

    def _tensor(self, tensor: TensorShape, number: int, dtype: str, *, virtual: bool = False) -> Descriptor:
        one = self._create(TENSOR)
        self._set_numbers(one, TENSOR_UID, [number])
        self._backend.set(one, TENSOR_TYPE, DATA_TYPE, (ctypes.c_int32 * 1)(TYPES[dtype]))
        self._set_numbers(one, TENSOR_EXTENTS, tensor.extents)
        self._set_numbers(one, TENSOR_STRIDES, tensor.strides)
        self._set_numbers(one, TENSOR_ALIGNMENT, [tensor.alignment])
        if virtual:
            self._backend.set(one, TENSOR_VIRTUAL, BOOLEAN, (ctypes.c_bool * 1)(True))
        return self._finished(one)

    def _between(self) -> Descriptor:
        """What one operation hands to the next."""
        self._virtual += 1
        return self._tensor(self._shape.result, self._virtual, self._sums, virtual=True)

    def _operation(self, tensors: Sequence[Descriptor]) -> Descriptor:
        kind, attributes, factors = OPERATIONS[self._shape.kind]
        convolution = self._convolution()
        one = self._create(kind)
        for attribute, value in zip(attributes, (convolution, *tensors), strict=True):
            self._set_descriptors(one, attribute, [value])
        for attribute, value in zip(factors, (1.0, 0.0), strict=True):
            if self._sums == "f64":
                self._backend.set(one, attribute, DOUBLE, (ctypes.c_double * 1)(value))
            else:
                self._backend.set(one, attribute, FLOAT, (ctypes.c_float * 1)(value))
        return self._finished(one)

    def _convolution(self) -> Descriptor:
        shape, one = self._shape, self._create(CONVOLUTION)
        self._backend.set(one, CONVOLUTION_TYPE, DATA_TYPE, (ctypes.c_int32 * 1)(TYPES[self._sums]))
        self._backend.set(one, CONVOLUTION_KIND, CONVOLUTION_MODE, (ctypes.c_int32 * 1)(CORRELATION))
        self._set_numbers(one, CONVOLUTION_SPATIAL_AXES, [len(shape.steps)])
        self._set_numbers(one, CONVOLUTION_STEPS, shape.steps)
        self._set_numbers(one, CONVOLUTION_DILATIONS, shape.dilations)
        self._set_numbers(one, CONVOLUTION_LOW, shape.low)
        self._set_numbers(one, CONVOLUTION_HIGH, shape.high)
        return self._finished(one)

    def _sum(self, first: Descriptor, second: Descriptor, result: Descriptor) -> Descriptor:
        how = self._create(POINTWISE)
        self._backend.set(how, POINTWISE_KIND, POINTWISE_MODE, (ctypes.c_int32 * 1)(ADD))
        self._backend.set(how, POINTWISE_TYPE, DATA_TYPE, (ctypes.c_int32 * 1)(TYPES[self._sums]))
        self._finished(how)
        one = self._create(OPERATION_POINTWISE)
        for attribute, value in (
            (POINTWISE_DESCRIPTION, how),
            (POINTWISE_X, first),
            (POINTWISE_B, second),
            (POINTWISE_Y, result),
        ):
            self._set_descriptors(one, attribute, [value])
        return self._finished(one)

    # --- descriptors

    def _create(self, kind: int) -> Descriptor:
        one = self._backend.create(kind)
        self._kept.append(one)
        return one

    def _finished(self, one: Descriptor) -> Descriptor:
        self._backend.finish(one)
        return one

    def _set_numbers(self, target: Descriptor, attribute: int, values: Sequence[int]) -> None:
        self._backend.set(target, attribute, INT64, (ctypes.c_int64 * len(values))(*values))

    def _set_descriptors(self, target: Descriptor, attribute: int, values: Sequence[Descriptor]) -> None:
        array = (ctypes.c_void_p * len(values))(*(value.value for value in values))
        self._backend.set(target, attribute, BACKEND_DESCRIPTOR, array)
