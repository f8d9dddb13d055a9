"""Convolutions and pools against loops over single elements."""

import math

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32
from dfc.ir.types import tensor
from dfc.ops import registry
from dfc.ops.attributes import ConvolutionAttributes, PoolAttributes
from dfc.ops.record import OpError, OpRecord, Sample
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import evaluate_sample, samples

EPSILON = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}
H = Symbol("H")


def _valid(*names: str) -> list[object]:
    found = [*samples("regular"), *samples("edge")]
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(found)
        if record.name in names
    ]


def _numbers(dims: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(d.evaluate({}) for d in dims)


def _element(x: np.ndarray, point: tuple[int, ...]) -> float | None:
    """An element, or None outside."""
    return x[point].item() if all(0 <= p < n for p, n in zip(point, x.shape, strict=True)) else None


@one_test_an_op(_valid("conv2d", "conv1d"))
def test_every_output_is_a_sum_over_kernel_and_channels(record: OpRecord, sample: Sample) -> None:
    x, kernel = (v if v.dtype.kind == "i" else v.astype(np.float64) for v in sample.operands)
    it = sample.attributes
    assert isinstance(it, ConvolutionAttributes)
    (got,) = evaluate_sample(record, sample)
    low = _numbers(it.low)
    taken, given = kernel.shape[-2], kernel.shape[-1] // it.groups
    for batch, *places, out in np.ndindex(got.shape):
        terms = []
        first = out // given * taken  # of the channels of its group
        for *offset, channel in np.ndindex(kernel.shape[:-1]):
            steps = zip(places, offset, it.strides, it.dilations, low, strict=True)
            at = (batch, *(p * s + o * d - before for p, o, s, d, before in steps), first + channel)
            terms.append((_element(x, at) or 0) * kernel[(*offset, channel, out)].item())
        value = got[(batch, *places, out)].item()
        bound = 2 * len(terms) * EPSILON.get(got.dtype.itemsize, 0) * math.fsum(map(abs, terms))
        assert abs(value - math.fsum(terms)) <= (0 if got.dtype.kind == "i" else bound)


@one_test_an_op(_valid("max_pool", "mean_pool"))
def test_every_output_is_a_fold_of_what_the_window_covers(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0].astype(np.float64), sample.attributes
    assert isinstance(it, PoolAttributes)
    (got,) = evaluate_sample(record, sample)
    for batch, *places, channel in np.ndindex(got.shape):
        seen = []
        for offset in np.ndindex(it.sizes):
            steps = zip(places, offset, it.strides, _numbers(it.low), strict=True)
            value = _element(x, (batch, *(p * s + o - before for p, o, s, before in steps), channel))
            seen += [] if value is None else [value]
        wanted = max(seen) if record.name == "max_pool" else math.fsum(seen) / len(seen)
        slack = 4 * EPSILON.get(got.dtype.itemsize, 0) * max(map(abs, seen))
        assert abs(float(got[(batch, *places, channel)]) - wanted) <= (0 if record.name == "max_pool" else slack)


def _bound_shape(name: str, *shapes: tuple[object, ...], **arguments: object) -> tuple[object, ...]:
    record = registry.record(name)
    types = [tensor(F32, *shape) for shape in shapes]
    assert record.bind is not None
    return record.infer(types, record.bind(arguments, types))[0].shape


def test_sizes_may_be_symbols() -> None:
    image, kernel = (1, H, 28, 3), (3, 3, 3, 8)
    assert _bound_shape("conv2d", image, kernel) == (dim(1), dim(H) - 2, dim(26), dim(8))
    assert _bound_shape("conv2d", image, kernel, pad="same") == (dim(1), dim(H), dim(28), dim(8))
    assert _bound_shape("conv2d", image, kernel, pad=1) == (dim(1), dim(H), dim(28), dim(8))
    assert _bound_shape("conv2d", image, kernel, stride=2) == (dim(1), (dim(H) - 3) // 2 + 1, dim(13), dim(8))
    assert _bound_shape("max_pool", image, size=2) == (dim(1), dim(H) // 2, dim(14), dim(3))


def test_a_kernel_for_other_channels_is_refused_with_both_counts() -> None:
    with pytest.raises(OpError) as refused:
        _bound_shape("conv2d", (1, 8, 8, 3), (3, 3, 4, 8))
    assert (refused.value.code, refused.value.label) == ("E0301", "f32[3, 3, 4, 8] takes 4 channels")
    assert refused.value.operand_labels == {0: "f32[1, 8, 8, 3] has 3 channels"}


@pytest.mark.parametrize("pad", ["full", (1, 2, 3), ((1, 2, 3), 0), -1])
def test_padding_that_is_none_is_refused(pad: object) -> None:
    with pytest.raises(OpError) as refused:
        _bound_shape("conv2d", (1, 8, 8, 3), (3, 3, 3, 8), pad=pad)
    assert refused.value.blame == "pad"


def test_a_window_that_sees_padding_only_is_refused() -> None:
    with pytest.raises(OpError, match="padding alone"):
        _bound_shape("mean_pool", (1, 8, 8, 3), size=2, pad=2)
