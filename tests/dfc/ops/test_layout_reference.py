"""Ops that rearrange, run along or describe an axis against lists and Python's own numbers."""

import math
import statistics

import numpy as np
import pytest

from dfc.ops import registry
from dfc.ops.attributes import AxisAttributes, StatisticAttributes
from dfc.ops.record import OpRecord, Sample
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, backward, evaluate_sample, samples, weighted_sum

EPSILON = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}


def _valid(*names: str) -> list[object]:
    found = [*samples("regular"), *samples("edge")]
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(found)
        if record.name in names
    ]


def _rows(x: np.ndarray, axis: int) -> list[tuple[tuple[int, ...], list[object]]]:
    """Each row along an axis with the point of the other axes."""
    others = tuple(n for a, n in enumerate(x.shape) if a != axis)
    return [(p, x[(*p[:axis], slice(None), *p[axis:])].tolist()) for p in np.ndindex(others)]


def _row(x: np.ndarray, axis: int, point: tuple[int, ...]) -> list[object]:
    return x[(*point[:axis], slice(None), *point[axis:])].tolist()


def _key(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


@one_test_an_op(_valid("sort", "argsort"))
def test_rows_are_sorted_as_lists_are(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0].astype(np.float64), sample.attributes
    (got,) = evaluate_sample(record, sample)
    for point, row in _rows(x, it.axis):
        order = list(range(len(row)))
        order.sort(key=lambda i: _key(row[i]) if not it.descending else tuple(-v for v in _key(row[i])))
        wanted = order if record.name == "argsort" else [row[i] for i in order]
        np.testing.assert_array_equal(_row(got.astype(np.float64), it.axis, point), wanted)


@one_test_an_op(_valid("top_k"))
def test_the_largest_come_first_and_the_first_of_equals(record: OpRecord, sample: Sample) -> None:
    x = sample.operands[0].astype(np.float64)
    values, places = evaluate_sample(record, sample)
    for point, row in _rows(x, x.ndim - 1):
        order = sorted(range(len(row)), key=lambda i: (*(-v for v in _key(row[i])), i))[: values.shape[-1]]
        assert places[point].tolist() == order
        np.testing.assert_array_equal(values[point].astype(np.float64), [row[i] for i in order])


@one_test_an_op(_valid("search"))
def test_a_place_is_the_number_of_elements_before_it(record: OpRecord, sample: Sample) -> None:
    row, values = (v.astype(np.float64) for v in sample.operands)
    (got,) = evaluate_sample(record, sample)
    for place, value in zip(got.ravel().tolist(), values.ravel().tolist(), strict=True):
        keys = [_key(v) for v in row.tolist()]
        assert place == sum(k <= _key(value) if sample.attributes.right else k < _key(value) for k in keys)


@one_test_an_op(_valid("gather_along"))
def test_one_index_picks_one_element(record: OpRecord, sample: Sample) -> None:
    (x, ids), axis = sample.operands, sample.attributes.axis
    (got,) = evaluate_sample(record, sample)
    for point in np.ndindex(got.shape):
        assert got[point] == x[(*point[:axis], int(ids[point]), *point[axis + 1 :])]


@one_test_an_op(_valid("roll", "tile", "repeat"))
def test_every_element_comes_from_its_place(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0], sample.attributes
    (got,) = evaluate_sample(record, sample)
    for point in np.ndindex(got.shape):
        if record.name == "roll":
            source = tuple((p - it.shift) % x.shape[a] if a == it.axis else p for a, p in enumerate(point))
        elif record.name == "tile":
            source = tuple(p % n for p, n in zip(point, x.shape, strict=True))
        else:
            source = tuple(p // it.times.evaluate({}) if a == it.axis else p for a, p in enumerate(point))
        assert got[point] == x[source]


@one_test_an_op(_valid("swap_axes", "move_axis", "squeeze"))
def test_axes_move_with_their_elements(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0], sample.attributes
    (got,) = evaluate_sample(record, sample)
    axes = list(range(x.ndim))
    if record.name == "squeeze":
        axes = [a for a in axes if a not in it.axes]
    elif record.name == "move_axis":
        axes.remove(it.first)
        axes.insert(it.second, it.first)
    else:
        axes[it.first], axes[it.second] = axes[it.second], axes[it.first]
    for point in np.ndindex(got.shape):
        source = [0] * x.ndim
        for axis, p in zip(axes, point, strict=True):
            source[axis] = p
        assert got[point] == x[tuple(source)]


@one_test_an_op(_valid("cumprod", "cummax", "cummin"))
def test_running_folds(record: OpRecord, sample: Sample) -> None:
    x, axis = sample.operands[0], sample.attributes.axis
    (got,) = evaluate_sample(record, sample)
    fold = {"cumprod": math.prod, "cummax": max, "cummin": min}[record.name]
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    for point, row in _rows(wide, axis):
        found = _row(got if x.dtype.kind in "iu" else got.astype(np.float64), axis, point)
        for count, value in enumerate(found, 1):
            exact = fold(row[:count])
            if x.dtype.kind in "iu":
                assert value == int(np.array(exact % 2**64, np.uint64).astype(got.dtype))
            else:
                assert abs(value - exact) <= 2 * count * EPSILON[got.dtype.itemsize] * abs(exact)


def test_gradients_of_a_running_product_with_factors_of_zero() -> None:
    scratch = Scratch()
    x = scratch.feed(np.array([2.0, 0.0, 3.0, 0.0, 5.0]))
    y = scratch.builder.apply("cumprod", x, attributes=AxisAttributes(0))
    gradient = backward(scratch.builder, scratch.builder.sum(y, (0,)), x)
    assert gradient is not None
    np.testing.assert_array_equal(scratch.run([gradient])[0], [1, 2 + 2 * 3, 0, 0, 0])


@one_test_an_op(_valid("variance", "deviation"))
def test_spread_around_the_mean(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0].astype(np.float64), sample.attributes
    assert isinstance(it, StatisticAttributes)
    (got,) = evaluate_sample(record, sample)
    kept = [a for a in range(x.ndim) if a not in it.axes]
    rows = x.transpose(*kept, *it.axes).reshape(*(x.shape[a] for a in kept), -1) if x.size else None
    for point, value in zip(np.ndindex(*(x.shape[a] for a in kept)), got.ravel().tolist(), strict=True):
        row = rows[point].tolist() if rows is not None else []
        if len(row) <= it.correction or not all(map(math.isfinite, row)):
            assert math.isnan(value)
            continue
        center = math.fsum(row) / len(row)
        wanted = math.fsum((v - center) ** 2 for v in row) / (len(row) - it.correction)
        wanted = wanted if record.name == "variance" else math.sqrt(wanted)
        assert value == pytest.approx(wanted, rel=16 * EPSILON[got.dtype.itemsize], abs=1e-6)


@one_test_an_op(_valid("median"))
def test_half_of_the_elements_are_below_the_median(record: OpRecord, sample: Sample) -> None:
    x, axis = sample.operands[0].astype(np.float64), sample.attributes.axis
    (got,) = evaluate_sample(record, sample)
    for (_, row), value in zip(_rows(x, axis), got.ravel().tolist(), strict=True):
        if any(map(math.isnan, row)):
            assert math.isnan(value)
        else:
            assert value == pytest.approx(statistics.median(row), rel=2 * EPSILON[got.dtype.itemsize])


@one_test_an_op(_valid("diagonal", "diag", "tril", "triu"))
def test_diagonals_and_triangles(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0], sample.attributes
    (got,) = evaluate_sample(record, sample)
    if record.name == "diag":
        for *point, row, column in np.ndindex(got.shape):
            assert got[(*point, row, column)] == (x[(*point, row)] if row == column else 0)
    elif record.name in ("tril", "triu"):
        for *point, row, column in np.ndindex(got.shape):
            inside = column <= row + it.offset if record.name == "tril" else column >= row + it.offset
            assert got[(*point, row, column)] == (x[(*point, row, column)] if inside else 0)
    else:
        matrices = np.moveaxis(x, (it.rows, it.columns), (-2, -1))
        for *point, place in np.ndindex(got.shape):
            row = place + max(0, -it.offset)
            assert got[(*point, place)] == matrices[(*point, row, row + it.offset)]


@one_test_an_op(_valid("segment_sum"))
def test_groups_are_summed(record: OpRecord, sample: Sample) -> None:
    rows, ids = sample.operands
    (got,) = evaluate_sample(record, sample)
    for group in range(got.shape[0]):
        members = [rows[i].astype(np.float64) for i in range(ids.size) if int(ids[i]) % got.shape[0] == group]
        wanted = sum(members, np.zeros(rows.shape[1:]))
        np.testing.assert_allclose(got[group].astype(np.float64), wanted, rtol=1e-6)


def _interpolated(row: list[float], new: int, place: int, method: str) -> float:
    """The value of a row at the centre of element `place` of `new`."""
    position = (place + 0.5) * len(row) / new - 0.5
    if method == "nearest":
        return row[min(int((place + 0.5) * len(row) / new), len(row) - 1)]
    inside = min(max(position, 0.0), len(row) - 1.0)
    low = min(int(inside), max(len(row) - 2, 0))
    high = min(low + 1, len(row) - 1)
    return row[low] + (inside - low) * (row[high] - row[low])


@one_test_an_op(_valid("resize"))
def test_resizing_interpolates_between_centres(record: OpRecord, sample: Sample) -> None:
    x, it = sample.operands[0].astype(np.float64), sample.attributes
    (got,) = evaluate_sample(record, sample)
    for axis in range(1, x.ndim - 1):
        new = got.shape[axis]
        grown = np.zeros((*x.shape[:axis], new, *x.shape[axis + 1 :]))
        for point, row in _rows(x, axis):
            for place in range(new):
                grown[(*point[:axis], place, *point[axis:])] = _interpolated(row, new, place, it.method)
        x = grown
    np.testing.assert_allclose(got.astype(np.float64), x, rtol=4 * EPSILON[got.dtype.itemsize], atol=1e-6)


def test_a_gradient_through_the_median_reaches_the_middle_only() -> None:
    scratch = Scratch()
    x = scratch.feed(np.array([[3.0, 1.0, 2.0, 9.0], [5.0, 6.0, 8.0, 7.0]]))
    y = registry.record("median")
    node = scratch.builder.node("median", [x], AxisAttributes(1))
    assert y.gradient is not None
    loss = weighted_sum(scratch, node.result, 3)
    gradient = backward(scratch.builder, loss, x)
    assert gradient is not None
    slope = scratch.run([gradient])[0]
    assert [np.flatnonzero(row).tolist() for row in slope] == [[0, 2], [1, 3]]
