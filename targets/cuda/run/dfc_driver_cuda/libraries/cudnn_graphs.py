"""One convolution as descriptors of cuDNN: tensors, the operations on them, and the graph that they make.

    image, filter -> convolution -> result
    image, filter -> convolution -> + added -> + bias -> result        (what lies in between has no memory)

Assumes what `ConvolutionShape` says. Guarantees that tensors with memory are numbered from 1 in the order of
`ConvolutionShape.tensors`, and that what is between operations has the type of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dfc_driver_cuda.libraries import cudnn_constants as c
from dfc_driver_cuda.libraries.cudnn_backend import Backend, Descriptor
from dfc_runtime.dataclasses import dataclass

OPERATIONS = {
    "forward": (
        c.OPERATION_FORWARD,
        (c.FORWARD_CONVOLUTION, c.FORWARD_X, c.FORWARD_W, c.FORWARD_Y),
        (c.FORWARD_ALPHA, c.FORWARD_BETA),
    ),
    "data": (
        c.OPERATION_DATA,
        (c.DATA_CONVOLUTION, c.DATA_DX, c.DATA_W, c.DATA_DY),
        (c.DATA_ALPHA, c.DATA_BETA),
    ),
    "weights": (
        c.OPERATION_WEIGHTS,
        (c.WEIGHTS_CONVOLUTION, c.WEIGHTS_X, c.WEIGHTS_DW, c.WEIGHTS_DY),
        (c.WEIGHTS_ALPHA, c.WEIGHTS_BETA),
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
        return self._descriptor(c.OPERATION_GRAPH, {c.GRAPH_OPERATIONS: operations})

    def _tensor(self, tensor: TensorShape, number: int, dtype: str, *, virtual: bool = False) -> Descriptor:
        attributes: dict[int, Sequence[Any]] = {
            c.TENSOR_UID: [number],
            c.TENSOR_TYPE: [c.TYPES[dtype]],
            c.TENSOR_EXTENTS: tensor.extents,
            c.TENSOR_STRIDES: tensor.strides,
            c.TENSOR_ALIGNMENT: [tensor.alignment],
            **({c.TENSOR_VIRTUAL: [True]} if virtual else {}),
        }
        return self._descriptor(c.TENSOR, attributes)

    def _between(self) -> Descriptor:
        """What one operation hands to the next."""
        self._virtual += 1
        return self._tensor(self._shape.result, self._virtual, self._sums, virtual=True)

    def _operation(self, tensors: Sequence[Descriptor]) -> Descriptor:
        kind, attributes, factors = OPERATIONS[self._shape.kind]
        operands = zip(attributes, (self._convolution(), *tensors), strict=True)
        numbers = {factors[0]: [1.0], factors[1]: [0.0]}
        return self._descriptor(kind, {each: [value] for each, value in operands} | numbers)

    def _convolution(self) -> Descriptor:
        shape = self._shape
        attributes: dict[int, Sequence[Any]] = {
            c.CONVOLUTION_TYPE: [c.TYPES[self._sums]],
            c.CONVOLUTION_KIND: [c.CORRELATION],
            c.CONVOLUTION_SPATIAL_AXES: [len(shape.steps)],
            c.CONVOLUTION_STEPS: shape.steps,
            c.CONVOLUTION_DILATIONS: shape.dilations,
            c.CONVOLUTION_LOW: shape.low,
            c.CONVOLUTION_HIGH: shape.high,
        }
        return self._descriptor(c.CONVOLUTION, attributes)

    def _sum(self, first: Descriptor, second: Descriptor, result: Descriptor) -> Descriptor:
        how = self._descriptor(c.POINTWISE, {c.POINTWISE_KIND: [c.ADD], c.POINTWISE_TYPE: [c.TYPES[self._sums]]})
        operands = {c.POINTWISE_DESCRIPTION: how, c.POINTWISE_X: first, c.POINTWISE_B: second, c.POINTWISE_Y: result}
        return self._descriptor(c.OPERATION_POINTWISE, {each: [value] for each, value in operands.items()})

    def _descriptor(self, kind: int, attributes: Mapping[int, Sequence[Any]]) -> Descriptor:
        """A finished descriptor with these attributes, set in their order; numbers are of the type of the sums."""
        one = self._backend.create(kind)
        self._kept.append(one)
        number = c.DOUBLE if self._sums == "f64" else c.FLOAT
        for attribute, values in attributes.items():
            self._backend.set(one, attribute, values, number if isinstance(values[0], float) else None)
        self._backend.finish(one)
        return one
