"""Ops that move, pick, sum and multiply elements against loops over single elements."""

import math

import numpy as np
import pytest

from dfc.ir.attributes import NoAttributes
from dfc.ir.dims import dim
from dfc.ops import registry
from dfc.ops.attributes import (
    AxisAttributes,
    PadAttributes,
    ReduceAttributes,
    ScatterAttributes,
    SliceAttributes,
    WindowAttributes,
)
from dfc.ops.record import OpRecord, Sample
from dfc_runtime.errors import RunError
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import evaluate_sample, samples

EPSILON = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}


def _valid(*names: str) -> list[object]:
    found = [*samples("regular"), *samples("edge")]
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(found)
        if record.name in names
    ]


def _numbers(shape: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(d.evaluate({}) for d in shape)


@one_test_an_op(_valid("slice"))
def test_slice_picks_start_plus_step(record: OpRecord, sample: Sample) -> None:
    (x,), where = sample.operands, sample.attributes
    assert isinstance(where, SliceAttributes)
    (got,) = evaluate_sample(record, sample)
    assert got.shape == _numbers(where.sizes)
    starts = _numbers(where.starts)
    for point in np.ndindex(got.shape):
        assert got[point] == x[tuple(s + p * c for s, p, c in zip(starts, point, where.steps, strict=True))]


@one_test_an_op(_valid("pad"))
def test_pad_puts_every_element_and_fills_the_rest(record: OpRecord, sample: Sample) -> None:
    (x, fill), where = sample.operands, sample.attributes
    assert isinstance(where, PadAttributes)
    (got,) = evaluate_sample(record, sample)
    rest = np.ones(got.shape, bool)
    for point in np.ndindex(x.shape):
        place = tuple(low + p * (i + 1) for low, p, i in zip(_numbers(where.low), point, where.interior, strict=True))
        assert got[place] == x[point]
        rest[place] = False
    assert np.all(got[rest] == fill)
    assert got.size - np.count_nonzero(rest) == x.size


@one_test_an_op(_valid("windows"))
def test_windows_hold_position_times_step_plus_offset_times_dilation(record: OpRecord, sample: Sample) -> None:
    (x,), where = sample.operands, sample.attributes
    assert isinstance(where, WindowAttributes)
    (got,) = evaluate_sample(record, sample)
    assert got.ndim == x.ndim + len(where.axes)
    for point in np.ndindex(got.shape):
        place = list(point[: x.ndim])
        for axis, offset, step, dilation in zip(where.axes, point[x.ndim :], where.steps, where.dilations, strict=True):
            place[axis] = place[axis] * step + offset * dilation
        assert got[point] == x[tuple(place)]


@one_test_an_op(_valid("gather"))
def test_gather_replaces_the_axis_by_those_of_the_ids(record: OpRecord, sample: Sample) -> None:
    (x, ids), where = sample.operands, sample.attributes
    assert isinstance(where, AxisAttributes)
    (got,) = evaluate_sample(record, sample)
    for point in np.ndindex(got.shape):
        before, at, after = np.split(np.array(point, int), [where.axis, where.axis + ids.ndim])
        assert got[point] == x[(*before, int(ids[tuple(at)]), *after)]


@one_test_an_op(_valid("scatter_add"))
def test_scatter_adds_every_row_in_its_place(record: OpRecord, sample: Sample) -> None:
    (ids, rows), where = sample.operands, sample.attributes
    assert isinstance(where, ScatterAttributes)
    (got,) = evaluate_sample(record, sample)
    wanted = np.zeros(got.shape, np.float64)
    for point in np.ndindex(rows.shape):
        before, at, after = np.split(np.array(point, int), [where.axis, where.axis + ids.ndim])
        wanted[(*before, int(ids[tuple(at)]), *after)] += float(rows[point])
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=2e-3 if got.dtype.itemsize == 2 else 1e-6)


@pytest.mark.parametrize(("name", "index"), [("gather", 5), ("gather", -6), ("scatter_add", 5), ("scatter_add", -6)])
def test_an_index_outside_stops_the_program(name: str, index: int) -> None:

    ids, rows = np.array([0, index]), np.zeros((2, 3), np.float32)
    record = registry.record(name)
    with pytest.raises(RunError, match=f"{index} is outside an axis of size 5"):
        if name == "gather":
            record.evaluate([np.zeros((5, 3), np.float32), ids], AxisAttributes(0), {})
        else:
            record.evaluate([ids, rows], ScatterAttributes(0, (dim(5), dim(3))), {})


def test_unsigned_indices_beyond_i64_are_outside_too() -> None:
    ids = np.array([2**64 - 1], np.uint64)
    with pytest.raises(RunError, match="outside"):
        registry.record("gather").evaluate([np.zeros(3, np.float32), ids], AxisAttributes(0), {})


@one_test_an_op(_valid("reshape", "broadcast", "transpose", "reverse", "concat"))
def test_moves_keep_the_elements(record: OpRecord, sample: Sample) -> None:
    (got,) = evaluate_sample(record, sample)
    a = sample.attributes
    if record.name == "reshape":
        assert got.ravel().tolist() == sample.operands[0].ravel().tolist()
        return
    for point in np.ndindex(got.shape):
        assert got[point] == _source(record.name, sample, a, point)


def _source(name: str, sample: Sample, a: object, point: tuple[int, ...]) -> object:
    x = sample.operands[0]
    if name == "broadcast":
        tail = point[len(point) - x.ndim :]
        return x[tuple(0 if n == 1 else p for n, p in zip(x.shape, tail, strict=True))]
    if name == "transpose":
        index = [0] * x.ndim
        for p, axis in zip(point, a.permutation, strict=True):
            index[axis] = p
        return x[tuple(index)]
    if name == "reverse":
        return x[tuple(n - 1 - p if i in a.axes else p for i, (n, p) in enumerate(zip(x.shape, point, strict=True)))]
    offset = point[a.axis]
    for part in sample.operands:
        if offset < part.shape[a.axis]:
            return part[(*point[: a.axis], offset, *point[a.axis + 1 :])]
        offset -= part.shape[a.axis]
    raise AssertionError(point)


def _rows(x: np.ndarray, where: ReduceAttributes) -> tuple[tuple[int, ...], list[list[object]]]:
    """The elements that fold into each result, in order; and the shape of the results."""
    kept = [a for a in range(x.ndim) if a not in where.axes]
    shape = tuple(x.shape[a] for a in kept)
    rows = (
        [x.transpose(*kept, *where.axes).reshape(*shape, -1)[p].tolist() for p in np.ndindex(shape)] if x.size else []
    )
    if not x.size:
        rows = [[] for _ in np.ndindex(shape)]
    full = tuple(1 if a in where.axes else n for a, n in enumerate(x.shape)) if where.keep_dims else shape
    return full, rows


def _fold(name: str, row: list[object]) -> object:
    if name == "sum":
        return math.fsum(row) if all(map(math.isfinite, row)) else sum(row)
    if name == "mean":
        return _fold("sum", row) / len(row) if row else math.nan
    if name == "prod":
        return math.prod(row)
    if name in ("max", "min"):
        if any(math.isnan(v) for v in row):
            return math.nan
        return {"max": max, "min": min}[name](row, default={"max": -math.inf, "min": math.inf}[name])
    if name == "logsumexp":
        top = max(row, default=-math.inf)
        if any(math.isnan(v) for v in row) or not math.isfinite(top):
            return math.nan if any(math.isnan(v) for v in row) else top
        return top + math.log(math.fsum(math.exp(v - top) for v in row))
    return {"any": any, "all": all}[name](row)


@one_test_an_op(_valid("sum", "mean", "prod", "max", "min", "any", "all", "logsumexp"))
def test_reductions_fold_each_row(record: OpRecord, sample: Sample) -> None:
    x, where = sample.operands[0], sample.attributes
    assert isinstance(where, ReduceAttributes)
    (got,) = evaluate_sample(record, sample)
    if x.dtype.kind in "iub" and not x.size:
        return
    wide = x if x.dtype.kind in "iub" else x.astype(np.float64)
    shape, rows = _rows(wide, where)
    folded = [_fold(record.name, row) for row in rows]
    assert got.shape == shape
    if x.dtype.kind in "iub":
        bits = 8 * got.dtype.itemsize
        wanted = np.array([int(v) % (1 << bits) for v in folded], f"u{got.dtype.itemsize}").astype(got.dtype)
        np.testing.assert_array_equal(got.ravel(), wanted)
        return
    for value, row, exact in zip(got.ravel().tolist(), rows, folded, strict=True):
        terms = math.fsum(abs(v) for v in row if math.isfinite(v)) + abs(exact if math.isfinite(exact) else 0)
        bound = 2 * (len(row) + 1) * EPSILON[got.dtype.itemsize] * terms
        assert value == exact or abs(value - exact) <= bound or (math.isnan(value) and math.isnan(exact))


@one_test_an_op(_valid("argmax", "argmin"))
def test_arguments_are_the_first_best_and_nan_wins(record: OpRecord, sample: Sample) -> None:
    x, where = sample.operands[0].astype(np.float64), sample.attributes
    (got,) = evaluate_sample(record, sample)
    for point in np.ndindex(got.shape):
        row = x[(*point[: where.axis], slice(None), *point[where.axis :])].tolist()
        best = 0
        for i, v in enumerate(row):
            better = v > row[best] if record.name == "argmax" else v < row[best]
            if not math.isnan(row[best]) and (better or math.isnan(v)):
                best = i
        assert got[point] == best


@one_test_an_op(_valid("cumsum"))
def test_running_sums(record: OpRecord, sample: Sample) -> None:
    x, axis = sample.operands[0], sample.attributes.axis
    (got,) = evaluate_sample(record, sample)
    wide = x.astype(np.float64)
    for point in np.ndindex(got.shape):
        row = wide[(*point[:axis], slice(0, point[axis] + 1), *point[axis + 1 :])]
        bound = 2 * row.size * EPSILON.get(got.dtype.itemsize, 0) * float(np.abs(row).sum())
        exact = math.fsum(row)
        if got.dtype.kind in "iu":
            assert int(got[point]) == int(np.array(int(exact) % 2**64, np.uint64).astype(got.dtype))
        else:
            assert abs(float(got[point]) - exact) <= bound


@one_test_an_op(_valid("matmul"))
def test_products_sum_over_the_inner_axis(record: OpRecord, sample: Sample) -> None:
    a, b = sample.operands
    (got,) = evaluate_sample(record, sample)
    left = (a if a.ndim > 1 else a[None, :]).astype(object if a.dtype.kind in "iu" else np.float64)
    right = (b if b.ndim > 1 else b[:, None]).astype(left.dtype)
    terms = left[..., :, :, None] * right[..., None, :, :]
    exact = terms.sum(-2) if terms.shape[-2] else np.zeros((*terms.shape[:-2], terms.shape[-1]), left.dtype)
    exact = exact.reshape(got.shape)
    if got.dtype.kind in "iu":
        wrapped = [int(v) % (1 << 8 * got.dtype.itemsize) for v in exact.ravel()]
        np.testing.assert_array_equal(got.ravel(), np.array(wrapped, f"u{got.dtype.itemsize}").astype(got.dtype))
        return
    size = np.abs(terms).sum(-2).reshape(got.shape)
    bound = 2 * (terms.shape[-2] + 1) * EPSILON[got.dtype.itemsize] * size
    assert np.all(np.abs(got.astype(np.float64) - exact) <= bound)


@one_test_an_op(_valid("softmax", "log_softmax"))
def test_softmax_rows_are_chances(record: OpRecord, sample: Sample) -> None:
    x, axis = sample.operands[0].astype(np.float64), sample.attributes.axis
    got = evaluate_sample(record, sample)[0].astype(np.float64)
    slack = 4 * EPSILON[sample.operands[0].dtype.itemsize]
    for point in np.ndindex(got.shape):
        row = x[(*point[:axis], slice(None), *point[axis + 1 :])].tolist()
        chance = 1 / math.fsum(math.exp(v - x[point]) for v in row)
        wanted = chance if record.name == "softmax" else math.log(chance)
        assert abs(got[point] - wanted) <= slack * max(1, abs(wanted))


@one_test_an_op(_valid("cross_entropy"))
def test_cross_entropy_is_the_surprise_at_the_label(record: OpRecord, sample: Sample) -> None:
    logits, labels = sample.operands[0].astype(np.float64), sample.operands[1]
    (got,) = evaluate_sample(record, sample)
    for point in np.ndindex(labels.shape):
        row = logits[point].tolist()
        top = max(row)
        wanted = top + math.log(math.fsum(math.exp(v - top) for v in row)) - row[int(labels[point])]
        assert float(got[point]) == pytest.approx(wanted, rel=8 * EPSILON[got.dtype.itemsize], abs=1e-6)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_stops_the_program(label: int) -> None:

    operands = [np.zeros((1, 3), np.float32), np.array([label], np.int32)]
    with pytest.raises(RunError, match=f"{label} is outside"):
        registry.record("cross_entropy").evaluate(operands, NoAttributes(), {})


SOLVED = [case for case in _valid("solve") if case.values[1].operands[0].ndim == 2]


@one_test_an_op(SOLVED)
def test_solutions_satisfy_the_equations(record: OpRecord, sample: Sample) -> None:
    a, b = sample.operands
    (x,) = evaluate_sample(record, sample)
    tolerance = 1e-4 if a.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(np.einsum("ij,j...->i...", a, x), b, atol=tolerance)
