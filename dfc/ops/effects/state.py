"""Effects on resources: read, assign, draw, and the host steps that save and restore.

Here a token stands for its resource: `infer` gets and returns the resource's type, `evaluate` its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.attributes import Attributes
from dfc.ir.dims import dim
from dfc.ir.dtypes import F32, U64
from dfc.ir.types import TensorType, tensor
from dfc.ops import samples
from dfc.ops.attributes import (
    AssignAttributes,
    DrawAttributes,
    HostAttributes,
    OperandSelector,
    RangeSelector,
    RedrawAttributes,
    ResourceAttributes,
)
from dfc.ops.broadcasting import Shape, stretches_to
from dfc.ops.conditions import require_class
from dfc.ops.creation import philox
from dfc.ops.creation.sources import require_distribution
from dfc.ops.effects.rules import CHECKPOINT, DRAW, READ
from dfc.ops.indexing.gather_scatter import INDEX_OUT_OF_RANGE, checked_indices
from dfc.ops.lowering.forms import RandomNumbers, Structural
from dfc.ops.numeric import Numeric, accumulator, concrete, narrow, widen
from dfc.ops.record import Array, Effect, Evaluate, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import DEFAULTS
from dfc_runtime.errors import RunError, UnsupportedError, counted

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

RNG = tensor(U64, 4)
Indices: TypeAlias = "NDArray[np.int64]"
MODES: dict[str, Callable[..., object] | None] = {
    ":=": None,
    "+=": numpy_function("add.at"),
    "-=": numpy_function("subtract.at"),
    "*=": numpy_function("multiply.at"),
    "/=": numpy_function("divide.at"),
}
THROUGH_STATE = "a gradient does not pass through a variable"


def _assign(attributes: Attributes) -> AssignAttributes:
    assert isinstance(attributes, AssignAttributes)
    return attributes


def region_shape(
    variable: TensorType, index: Sequence[RangeSelector | OperandSelector], operands: Sequence[TensorType]
) -> Shape:
    """The shape a value is broadcast to: that of the selected part."""
    if not index:
        return variable.shape
    sizes = (
        (selector.size,) if isinstance(selector, RangeSelector) else operands[selector.operand].shape
        for selector in index
    )
    return tuple(chain.from_iterable(sizes))


def _infer_assign(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    value, variable = types[0], types[-1]
    how = _assign(attributes)
    require_class(types, "any")
    if value.dtype != variable.dtype:
        raise OpError(
            "E0302",
            f"{value.dtype} is assigned to a variable of {variable.dtype}",
            blame=0,
            label=str(value),
            helps=(f"write `{{0 as {variable.dtype}}}`",),
            replaces={0: 0},
        )
    if how.mode not in MODES:
        raise OpError("E0315", f"there is no assignment `{how.mode}`")
    if how.mode != ":=":
        require_class(types, "float" if how.mode == "/=" else "number", only=(0,))
    if how.index and len(how.index) != variable.rank:
        indices, axes = counted(len(how.index), "index"), counted(variable.rank, "axis")
        raise OpError("E0313", f"{indices} for {axes}", label=str(variable))
    require_class(types, "int", only=range(1, len(types) - 1))
    region = region_shape(variable, how.index, types[1:-1])
    if not stretches_to(value.shape, region):
        raise OpError(
            "E0305",
            "the value does not fit its place",
            blame=0,
            label=f"{value}, not {value.with_shape(region)}",
            notes=("a value is broadcast to its target, never the reverse",),
        )
    return (variable,)


def _evaluate_assign(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    value, variable, how = operands[0], operands[-1], _assign(attributes)
    mesh, shape = _index_of(variable, how.index, operands[1:-1], sizes)
    broadcast = np.broadcast_to(value, shape)
    result: Numeric = variable.astype(accumulator(variable.dtype), order="C")
    change = MODES[how.mode]
    with np.errstate(all="ignore"):
        if change is None:
            result[mesh] = broadcast
        else:
            flat = np.ravel_multi_index([np.broadcast_to(m, shape) for m in mesh], variable.shape) if mesh else 0
            change(result.reshape(-1), flat, widen(broadcast))
    return (narrow(result, variable.dtype),)


def _index_of(
    variable: Array, index: Sequence[RangeSelector | OperandSelector], operands: Sequence[Array], sizes: Sizes
) -> tuple[tuple[Indices, ...], tuple[int, ...]]:
    """Index arrays, one an axis of the variable, that broadcast to the region; and its shape."""
    selectors = index or tuple(RangeSelector(dim(0), dim(n)) for n in variable.shape)
    picked = [_along(s, n, operands, sizes) for s, n in zip(selectors, variable.shape, strict=True)]
    rank = sum(p.ndim for p in picked)
    mesh: list[Indices] = []
    dimension = 0
    for p in picked:
        mesh.append(p.reshape((1,) * dimension + p.shape + (1,) * (rank - dimension - p.ndim)))
        dimension += p.ndim
    return tuple(mesh), tuple(n for p in picked for n in p.shape)


def _along(selector: RangeSelector | OperandSelector, extent: int, operands: Sequence[Array], sizes: Sizes) -> Indices:
    if isinstance(selector, OperandSelector):
        return checked_indices(operands[selector.operand], extent)
    start, count = concrete((selector.start, selector.size), sizes)
    last = start + (count - 1) * selector.step
    if count < 0 or (count and not (0 <= start < extent and 0 <= last < extent)):
        raise RunError(
            f"a slice of {count} elements from {start} leaves an axis of size {extent}",
            code=INDEX_OUT_OF_RANGE,
        )
    return start + selector.step * np.arange(count)


def _assign_samples() -> Sequence[Sample]:
    def case(
        value: Array,
        *operands: Array,
        shape: tuple[int, ...] = (4, 3),
        mode: str = ":=",
        index: tuple[RangeSelector | OperandSelector, ...] = (),
        kind: str = "regular",
    ) -> Sample:
        attributes = AssignAttributes("v", mode, index)
        variable = samples.numbers(shape, value.dtype, start=9, positive=True)
        return samples.sample(value, *operands, variable, attributes=attributes, kind=kind)

    def span(start: int, size: int, step: int = 1) -> RangeSelector:
        return RangeSelector(dim(start), dim(size), step)

    row, two = samples.numbers((3,)), np.array(2, np.float32)
    whole = samples.numbers((4, 3))
    return [
        *(case(whole, mode=mode) for mode in MODES),
        case(row, mode="+="),
        case(two, index=(span(1, 2), span(0, 3))),
        case(row, np.array(-1, np.int32), index=(OperandSelector(0), span(0, 3))),
        case(whole, np.array([0, 0, 2, 1]), mode="+=", index=(OperandSelector(0), span(2, 3, -1))),
        case(np.array(5, np.int64), shape=(), mode="-=", kind="edge"),
        case(np.zeros((0, 3), np.float32), index=(span(2, 0), span(0, 3)), kind="edge"),
        case(samples.numbers((2, 3)), kind="invalid"),
        case(samples.numbers((3,), np.int32), shape=(3,), mode="/=", kind="invalid"),
        samples.sample(row, samples.numbers((3,), np.float64), attributes=AssignAttributes("v", ":="), kind="invalid"),
    ]


register(
    OpRecord(
        name="read",
        family="state",
        summary="The value of a variable at this line: a snapshot.",
        signature="fn read[T: any, ..S](ref variable: T[..S]) -> T[..S]",
        parameters=(Parameter("variable", type="ref"),),
        infer=lambda types, _a: (types[0], types[0]),
        evaluate=lambda operands, _a, _s: (operands[0], operands[0]),
        lowering=Structural(),
        attributes=ResourceAttributes,
        no_gradient=THROUGH_STATE,
        effect=Effect.READ,
        samples=lambda: [
            samples.sample(samples.numbers((3, 2)), attributes=ResourceAttributes("v")),
            samples.sample(samples.numbers((5,), np.int64), attributes=ResourceAttributes("v")),
            samples.sample(samples.numbers((2,), np.bool_), attributes=ResourceAttributes("v")),
            samples.sample(samples.numbers(()), attributes=ResourceAttributes("v"), kind="edge"),
        ],
        in_prelude=False,
        rules=READ,
    )
)
register(
    OpRecord(
        name="assign",
        family="state",
        summary=(
            "Writes a variable, or the part of it that the index selects: `:= += -= *= /=`. The value is broadcast to "
            "the part. A place that is named twice gets the last value, or all updates in their order."
        ),
        signature="proc assign[T: any, ..S](value: T[..S], ref variable: T[..S], const mode: str)",
        parameters=(Parameter("value"), Parameter("variable", type="ref"), Parameter("mode", "const", "str")),
        infer=_infer_assign,
        evaluate=_evaluate_assign,
        lowering=Structural(),
        attributes=AssignAttributes,
        constraints=(
            "the element types are equal.",
            "`+= -= *=` need numbers, `/=` floating-point numbers.",
            "one index an axis, or none; indices are whole numbers.",
            "the value broadcasts to the part.",
            "when it runs: every index is inside.",
        ),
        no_gradient=THROUGH_STATE,
        effect=Effect.WRITE,
        samples=_assign_samples,
        in_prelude=False,
        operator=":=",
        rules=DEFAULTS,
    )
)


def _draw(attributes: Attributes) -> DrawAttributes:
    assert isinstance(attributes, DrawAttributes)
    return attributes


def _infer_draw(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    it = _draw(attributes)
    if types[0] != RNG:
        raise OpError("E0302", "numbers are drawn from an `rng`", label=str(types[0]))
    return (require_distribution(it.distribution, it.type), RNG)


def _evaluate_draw(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it, state = _draw(attributes), operands[0].astype(np.uint64)
    key0, key1, draws, _ = (int(word) for word in state)
    shape = concrete(it.type.shape, sizes)
    numbers = philox.numbers(it.distribution, it.type.machine, shape, (key0, key1), draws)
    return (numbers, state + np.array([0, 0, 1, 0], np.uint64))


def _samples_of_draws(attributes: Callable[[str, TensorType], Attributes]) -> Sequence[Sample]:
    """States of an rng, with what is drawn from them."""

    def case(distribution: str, draws: int, *shape: int, kind: str = "regular", type_: DTypeLike = np.uint64) -> Sample:
        state = np.array([5, 9, draws, 0]).astype(type_)
        return samples.sample(state, attributes=attributes(distribution, tensor(F32, *shape)), kind=kind)

    return [
        case("uniform", 0, 3, 2),
        case("uniform", 1, 3, 2),
        case("normal", 12, 7),
        case("normal", 0, kind="edge"),
        case("uniform", 0, 0, kind="edge"),
        case("uniform", 0, 2, kind="invalid", type_=np.int64),
        case("cauchy", 0, 2, kind="invalid"),
    ]


register(
    OpRecord(
        name="draw",
        family="state",
        summary="The next numbers of an rng: uniform in [0, 1) or standard normal. The rng counts its draws.",
        signature=(
            "proc draw[T: float, ..S](ref dice: rng, const distribution: str, const type_: tensor_type) -> T[..S]"
        ),
        parameters=(
            Parameter("dice", type="ref"),
            Parameter("distribution", "const", "str"),
            Parameter("type", "type"),
        ),
        infer=_infer_draw,
        evaluate=_evaluate_draw,
        lowering=Structural(),
        attributes=DrawAttributes,
        constraints=("the resource is an rng.", "`distribution` is uniform or normal; the type is floating."),
        no_gradient="random numbers depend on nothing",
        effect=Effect.WRITE,
        samples=lambda: _samples_of_draws(lambda how, type_: DrawAttributes("dice", how, type_)),
        in_prelude=False,
        rules=DRAW,
    )
)


def _redraw(attributes: Attributes) -> RedrawAttributes:
    assert isinstance(attributes, RedrawAttributes)
    return attributes


def _infer_redraw(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    if types[0] != RNG:
        raise OpError("E0302", "the state of an `rng` is u64[4]", blame=0, label=str(types[0]))
    it = _redraw(attributes)
    return (require_distribution(it.distribution, it.type),)


def _evaluate_redraw(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it = _redraw(attributes)
    return _evaluate_draw(operands, DrawAttributes("", it.distribution, it.type), sizes)[:1]


register(
    OpRecord(
        name="redraw",
        family="state",
        summary="The numbers that an rng in this state draws next; the rng stays as it is.",
        signature=(
            "fn redraw[T: float, ..S](state: u64[4], const distribution: str, const type_: tensor_type) -> T[..S]"
        ),
        parameters=(
            Parameter("state"),
            Parameter("distribution", "const", "str"),
            Parameter("type", "type"),
        ),
        infer=_infer_redraw,
        evaluate=_evaluate_redraw,
        lowering=RandomNumbers(lambda node: _redraw(node.attributes).distribution),
        attributes=RedrawAttributes,
        constraints=("the state is that of an rng.", "`distribution` is uniform or normal; the type is floating."),
        no_gradient="random numbers depend on nothing",
        samples=lambda: _samples_of_draws(RedrawAttributes),
        in_prelude=False,
        rules=DRAW,
    )
)


def _no_host(name: str) -> Evaluate:
    def evaluate(_operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        raise UnsupportedError(f"`{name}` needs a host", code="E1001")

    return evaluate


def _register_host(name: str, word: str, summary: str, infer: Callable[..., Sequence[TensorType]]) -> None:
    register(
        OpRecord(
            name=name,
            family="host",
            summary=summary,
            signature=f"proc {word}(path: string, what: state)",
            parameters=(Parameter("path", type="string"), Parameter("what", "const", "state")),
            infer=infer,
            evaluate=_no_host(name),
            lowering=Structural(),
            attributes=HostAttributes,
            constraints=("one token for each variable.",),
            no_gradient=THROUGH_STATE,
            effect=Effect.HOST,
            in_prelude=False,
            rules=CHECKPOINT,
        )
    )


def _keep(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return tuple(types)


_register_host("checkpoint_save", "save", "Saves variables by full name; the file appears whole or not at all.", _keep)
_register_host("checkpoint_restore", "restore", "Restores variables by full name: all of them or none.", _keep)
