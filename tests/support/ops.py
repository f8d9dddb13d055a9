"""Running single ops: types of sample operands, blocks on arrays, a small reverse-mode tape, bodies in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from dfc.diagnostics.source import NOWHERE
from dfc.ir.attributes import NoAttributes
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, DType, from_numpy
from dfc.ir.graph import Block, Entry, Graph, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import Apply, AxisIndex, BodyBuilder, Number, Philox, Size
from dfc.ops import registry
from dfc.ops.builder import Builder
from dfc.ops.creation import philox
from dfc.ops.evaluate import evaluate
from dfc.ops.numeric import convert
from dfc.ops.record import OpRecord, Sample


def type_of(array: np.ndarray) -> TensorType:
    dtype = from_numpy(array.dtype)
    assert dtype is not None, array.dtype
    return TensorType(dtype, tuple(dim(n) for n in array.shape))


def types_of(sample: Sample) -> list[TensorType]:
    return [type_of(x) for x in sample.operands]


def evaluate_sample(record: OpRecord, sample: Sample) -> list[np.ndarray]:
    return list(record.evaluate(sample.operands, sample.attributes, {}))


def samples(kind: str, *, families: Sequence[str] = ()) -> list[tuple[OpRecord, Sample]]:
    """Every sample of a kind, of all records or of some families."""
    return [
        (record, sample)
        for record in registry.all_records()
        if not families or record.family in families
        for sample in samples_of(record)
        if sample.kind == kind
    ]


@cache
def samples_of(record: OpRecord) -> tuple[Sample, ...]:
    """The samples of a record, which cannot be written to. Files that are collected ask for them some eighty times."""
    samples = tuple(record.samples())
    for operand in (operand for sample in samples for operand in sample.operands):
        operand.setflags(write=False)
    return samples


class Scratch:
    """A block under construction whose parameters are arrays."""

    def __init__(self) -> None:
        self.block = Block()
        self.builder = Builder(self.block, name="x", span=NOWHERE)
        self.feeds: list[tuple[Value, np.ndarray]] = []

    def feed(self, array: np.ndarray) -> Value:
        value = Value(type_of(array), f"feed{len(self.feeds)}")
        self.feeds.append((value, array))
        self.block.parameters = (*self.block.parameters, value)
        return value

    def run(self, outputs: Sequence[Value], **changed: np.ndarray) -> list[np.ndarray]:
        """The values of `outputs`; `changed` replaces feeds by name."""
        self.block.outputs = tuple(outputs)
        names = tuple(v.name for v, _ in self.feeds)
        results = tuple(f"r{i}" for i in range(len(outputs)))
        entry = Entry("e", self.block, names, results, (), (), (), NOWHERE)
        feeds = {v.name: changed.get(v.name, array) for v, array in self.feeds}
        return list(evaluate(Graph("g", {}, {"e": entry}), "e", feeds).results)


def backward(builder: Builder, loss: Value, target: Value) -> Value | None:
    """The cotangent of `target` for a scalar loss, from the gradient rows alone; None if there is no path."""
    cotangents: dict[Value, Value] = {loss: builder.scalar_like(1, loss)}
    for node in reversed(list(builder.block.nodes)):
        incoming = [cotangents.get(result) for result in node.results]
        record = registry.record(node.op)
        if record.gradient is None or all(g is None for g in incoming):
            continue
        for operand, part in zip(node.operands, record.gradient(builder, node, incoming), strict=True):
            if part is not None:
                assert part.type == operand.type, (node, part, operand)
                before = cotangents.get(operand)
                cotangents[operand] = part if before is None else builder.apply("add", before, part)
    return cotangents.get(target)


def weighted_sum(scratch: Scratch, value: Value, seed: int) -> Value:
    """A scalar that depends on every element of `value` in its own way."""
    shape = tuple(d.constant or 0 for d in value.tensor.shape)
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(value.tensor.machine.numpy)
    product = scratch.builder.apply("mul", value, scratch.feed(weights))
    return scratch.builder.sum(product, tuple(range(value.tensor.rank)))


_FUNCTIONS = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "is_finite": np.isfinite,
    "not": np.invert, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "minimum": np.minimum, "maximum": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "select": np.where,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def run_body(body: BodyBuilder, arguments: Sequence[np.ndarray], result: int) -> np.ndarray:
    """The value of an instruction, on whole arrays; the first instructions are `arguments` (placeholders)."""
    values: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for position, instruction in enumerate(body.instructions):
            if position < len(arguments):
                values.append(arguments[position])
                continue
            operands = [values[a] for a in instruction.arguments]
            values.append(_operate(instruction.operation, operands, instruction.dtype))
    return values[result]


def _operate(operation: object, operands: list[np.ndarray], dtype: DType) -> np.ndarray:
    match operation:
        case Number(bits):
            return np.frombuffer(bits, dtype.numpy)[0]
        case Size(size):
            return np.int64(size.evaluate({}))
        case Philox(distribution):
            elements, *key, draw = operands
            whole = philox.numbers(
                distribution, dtype, (int(elements.max(initial=0)) + 1,), tuple(map(int, key)), int(draw)
            )
            return whole[elements]
        case Apply("cast"):
            return convert(np.asarray(operands[0]), dtype.numpy)
        case Apply(("erf" | "pow") as name):
            return registry.record(name).evaluate([np.asarray(x) for x in operands], NoAttributes(), {})[0]
        case Apply(name):
            result = np.asarray(_FUNCTIONS[name](*map(np.asarray, operands)))
            return result.astype(np.bool_ if dtype == BOOL else dtype.numpy)
    raise AssertionError(operation)


def placeholders(body: BodyBuilder, types: Sequence[TensorType]) -> list[int]:
    """One instruction for each operand of an element-wise op."""
    return [body.append(AxisIndex(100 + i), (), t.machine) for i, t in enumerate(types)]
