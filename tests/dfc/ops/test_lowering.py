"""What records say to the kernel side means the same as their reference: bodies, folds and decompositions."""

import numpy as np
import pytest

from dfc.ir.graph import Node
from dfc.kernels.body import Affine, Apply, BodyBuilder
from dfc.ops import registry
from dfc.ops.lowering.forms import Contract, Decompose, Elementwise, MaskedView, Pick, Picked, Reduce, Reshape, View
from dfc.ops.record import OpRecord, Sample
from dfc_runtime.errors import RunError
from tests.support.one_test_an_op import one_test_an_op
from tests.support.ops import Scratch, evaluate_sample, placeholders, run_body, samples, types_of

VALID = [*samples("regular"), *samples("edge")]
FOLDS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}


def _lowered(kind: type) -> list[object]:
    """Samples of ops with this lowering; 2-byte floats round differently by design (computed in f32)."""
    return [
        pytest.param(record, sample, id=f"{record.name}-{number}")
        for number, (record, sample) in enumerate(VALID)
        if isinstance(record.lowering, kind) and not any(_is_half(x) for x in sample.operands)
    ]


def _is_half(x: np.ndarray) -> bool:
    return x.dtype.name in ("float16", "bfloat16")


def _close(got: np.ndarray, wanted: np.ndarray) -> None:
    if _is_half(wanted):
        np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(np.float32))
        return
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
        return
    bound = {4: 2e-6, 8: 1e-12}[wanted.dtype.itemsize]
    np.testing.assert_allclose(got.astype(wanted.dtype), wanted, rtol=bound, atol=bound)


@one_test_an_op(_lowered(Elementwise))
def test_bodies_compute_the_reference(record: OpRecord, sample: Sample) -> None:
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    body = BodyBuilder()
    arguments = placeholders(body, types_of(sample))
    assert isinstance(record.lowering, Elementwise)
    result = record.lowering.emit(body, arguments, node)
    assert body.dtype(result) == node.result.tensor.dtype
    (wanted,) = evaluate_sample(record, sample)
    _close(np.broadcast_to(run_body(body, sample.operands, result), wanted.shape), wanted)


def test_integer_division_leaves_its_fault_site_to_the_caller() -> None:
    record = registry.record("floordiv")
    sample = next(s for s in record.samples() if s.operands[0].dtype == np.int32)
    scratch, body = Scratch(), BodyBuilder()
    node = scratch.builder.node("floordiv", [scratch.feed(x) for x in sample.operands])
    assert isinstance(record.lowering, Elementwise)
    record.lowering.emit(body, placeholders(body, types_of(sample)), node)
    assert body.instructions[-1].operation == Apply("floordiv", -1)


@one_test_an_op(_lowered(Reduce))
def test_folds_compute_the_reference(record: OpRecord, sample: Sample) -> None:
    lowering = record.lowering
    assert isinstance(lowering, Reduce) and lowering.before is None
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    (x,) = sample.operands
    with np.errstate(all="ignore"):
        identity = {"max": _lowest(x.dtype), "min": _highest(x.dtype)}.get(lowering.combine)
        given = {} if identity is None else {"initial": identity}
        where = sample.attributes
        total = FOLDS[lowering.combine].reduce(x, where.axes, dtype=x.dtype, keepdims=where.keep_dims, **given)
    if lowering.after is not None:
        body = BodyBuilder()
        arguments = placeholders(body, [node.result.tensor])
        total = run_body(body, [np.asarray(total)], lowering.after(body, arguments[0], node))
    _close(np.asarray(total), evaluate_sample(record, sample)[0])


def _indices(index: Affine, places: list[np.ndarray]) -> np.ndarray:
    """What an index is at each place of the result."""
    return sum((places[axis] * factor for axis, factor in index.terms), np.int64(index.offset.evaluate({})))


def _read(record: OpRecord, sample: Sample, node: Node, wanted: np.ndarray) -> np.ndarray:
    """The elements that the form of a lowering says, read one by one."""
    places = list(np.indices(wanted.shape))
    x = sample.operands[0]
    match record.lowering:
        case Reshape():
            return x.reshape(wanted.shape)
        case View(index_map):
            return x[tuple(np.broadcast_to(_indices(i, places), wanted.shape) for i in index_map(node))]
        case MaskedView(index_map, steps):
            where = [np.broadcast_to(_indices(i, places), wanted.shape) for i in index_map(node)]
            inside = np.ones(wanted.shape, bool)
            for axis, step in steps(node):
                inside &= (where[axis] % step == 0) & (where[axis] >= 0) & (where[axis] < x.shape[axis] * step)
                where[axis] = where[axis] // step
            result = np.full(wanted.shape, sample.operands[1])
            result[inside] = x[tuple(index[inside] for index in where)]
            return result
        case Pick(index_map):
            where = []
            for index in index_map(node):
                if isinstance(index, Picked):
                    ids = sample.operands[index.operand].astype(np.int64)
                    index_of_ids = tuple(np.broadcast_to(_indices(i, places), wanted.shape) for i in index.point)
                    where.append(ids[index_of_ids] if ids.ndim else np.broadcast_to(ids, wanted.shape))
                else:
                    where.append(_indices(index, places))
            return x[tuple(where)]
        case _:
            raise AssertionError(record.lowering)


@one_test_an_op([case for form in (Reshape, View, MaskedView, Pick) for case in _lowered(form)])
def test_index_maps_read_the_reference(record: OpRecord, sample: Sample) -> None:
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    (wanted,) = evaluate_sample(record, sample)
    np.testing.assert_array_equal(_read(record, sample, node, wanted), wanted)


@one_test_an_op(_lowered(Contract))
def test_the_axes_of_contractions_are_those_of_the_reference(record: OpRecord, sample: Sample) -> None:
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    assert isinstance(record.lowering, Contract)
    axes, (x, y) = record.lowering.axes(node), sample.operands
    result = list(range(node.result.tensor.rank))
    _close(np.asarray(np.einsum(x, axes.left, y, axes.right, result)), evaluate_sample(record, sample)[0])


def _lowest(dtype: np.dtype) -> object:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _highest(dtype: np.dtype) -> object:
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


@one_test_an_op(_lowered(Decompose))
def test_decompositions_compute_the_reference(record: OpRecord, sample: Sample) -> None:
    scratch = Scratch()
    node = scratch.builder.node(record.name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    assert isinstance(record.lowering, Decompose)
    results = record.lowering.rewrite(scratch.builder, node)
    assert [v.type for v in results] == [v.type for v in node.results]
    assert all(n.op != record.name for n in scratch.block.nodes[1:])
    scratch.block.nodes.remove(node)
    for got, wanted in zip(scratch.run(results), evaluate_sample(record, sample), strict=True):
        _close(got, wanted)


@pytest.mark.parametrize("label", [-1, 3, 100, -100])
def test_a_label_outside_stops_the_decomposed_loss_too(label: int) -> None:
    record = registry.record("cross_entropy")
    scratch = Scratch()
    labels = np.array([0, label], np.int32)
    node = scratch.builder.node("cross_entropy", [scratch.feed(np.zeros((2, 3), np.float32)), scratch.feed(labels)])
    assert isinstance(record.lowering, Decompose)
    (result,) = record.lowering.rewrite(scratch.builder, node)
    scratch.block.nodes.remove(node)
    with pytest.raises(RunError, match=r"the index .* is outside an axis of size 3"):
        scratch.run([result])


def test_a_singular_matrix_gives_no_finite_number() -> None:
    for matrix in (np.zeros((3, 3)), np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])):
        record, scratch = registry.record("solve"), Scratch()
        node = scratch.builder.node("solve", [scratch.feed(matrix), scratch.feed(np.array([1.0, 5.0, 2.0]))])
        assert isinstance(record.lowering, Decompose)
        (result,) = record.lowering.rewrite(scratch.builder, node)
        scratch.block.nodes.remove(node)
        with np.errstate(all="ignore"):
            assert not np.any(np.isfinite(scratch.run([result])[0]))
        reference = record.evaluate([matrix, np.array([1.0, 5.0, 2.0])], node.attributes, {})[0]
        assert not np.any(np.isfinite(reference))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
def test_decompositions_of_narrow_floats_round_once(name: str) -> None:
    record = registry.record(name)
    sample = next(s for s in record.samples() if s.operands[0].dtype == np.float16 and s.kind == "regular")
    scratch = Scratch()
    node = scratch.builder.node(name, [scratch.feed(x) for x in sample.operands], sample.attributes)
    assert isinstance(record.lowering, Decompose)
    (result,) = record.lowering.rewrite(scratch.builder, node)
    scratch.block.nodes.remove(node)
    (wanted,) = evaluate_sample(record, sample)
    np.testing.assert_allclose(scratch.run([result])[0], wanted, rtol=2.0**-10, atol=0)
