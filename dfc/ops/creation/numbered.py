"""random_at: some numbers of a draw, wherever they are computed. Draws of a batch in blocks become this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import F16, F32, F64, I32, I64, U64, DType
from dfc.ir.graph import Node
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder, Philox
from dfc.ops import samples
from dfc.ops.attributes import RandomAtAttributes
from dfc.ops.creation import philox
from dfc.ops.creation.rules import RANDOM_AT
from dfc.ops.creation.sources import require_distribution
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_KEY = TensorType(U64)


def _at(attributes: Attributes) -> RandomAtAttributes:
    assert isinstance(attributes, RandomAtAttributes)
    return attributes


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    elements, *key = types
    if elements.dtype != I64:
        raise OpError("E0302", "elements are numbered in i64", blame=0, label=str(elements))
    for number, type_ in enumerate(key, 1):
        if type_ != _KEY:
            raise OpError("E0302", "a key is made of single u64", blame=number, label=str(type_))
    return (require_distribution(_at(attributes).distribution, elements.with_dtype(_at(attributes).dtype)),)


def _evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    it = _at(attributes)
    elements, key0, key1, draw = operands
    key = int(key0.astype(np.uint64)), int(key1.astype(np.uint64))
    return (philox.numbers_at(it.distribution, it.dtype, elements.astype(np.uint64), key, int(draw.astype(np.uint64))),)


def _emit(body: BodyBuilder, arguments: Sequence[int], node: Node) -> int:
    return body.append(Philox(_at(node.attributes).distribution), tuple(arguments), node.result.tensor.machine)


def _samples() -> Sequence[Sample]:
    def case(
        elements: object, distribution: str = "uniform", dtype: DType = F32, kind: str = "regular", of: DTypeLike = "i8"
    ) -> Sample:
        numbers = np.asarray(elements, np.int64 if of == "i8" else of)
        key = [np.array(word, np.uint64) for word in (5, 9, 3)]
        return samples.sample(numbers, *key, attributes=RandomAtAttributes(distribution, dtype), kind=kind)

    wrong_key = [np.array(0, np.int64), *(np.array(word, np.int64) for word in (1, 2, 3))]
    return [
        case([[0, 1, 2], [7, 1037, 5]]),
        case([3, 9, 8], "normal"),
        case([6, 1, 0, 0], "uniform", F64),
        case([5, 2, 3], "normal", F64),
        case([12, 1], "uniform", F16),
        case(4, kind="edge"),
        case(np.zeros(0), "normal", kind="edge"),
        case([1], "cauchy", kind="invalid"),
        case([1], dtype=I32, kind="invalid"),
        case([1], kind="invalid", of=np.int32),
        samples.sample(*wrong_key, attributes=RandomAtAttributes("uniform", F32), kind="invalid"),
    ]


register(
    OpRecord(
        name="random_at",
        family="source",
        summary="The numbers of a draw at some elements: uniform in [0, 1) or standard normal.",
        signature=(
            "fn random_at[T: float, ..S](elements: i64[..S], key0: u64, key1: u64, draw: u64, "
            "const distribution: str, const dtype: dtype) -> T[..S]"
        ),
        parameters=(
            Parameter("elements"),
            Parameter("key0"),
            Parameter("key1"),
            Parameter("draw"),
            Parameter("distribution", "const", "str"),
            Parameter("dtype", "const", "dtype"),
        ),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Elementwise(_emit),
        attributes=RandomAtAttributes,
        constraints=(
            "`elements` are i64, the words of the key and the number of the draw single u64.",
            "`distribution` is uniform or normal; the type is floating.",
        ),
        no_gradient="random numbers depend on nothing",
        samples=_samples,
        in_prelude=False,
        rules=RANDOM_AT,
    )
)
