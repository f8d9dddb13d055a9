"""Values that come from no operand: constant, dim, iota, eye, random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes, Literal
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.dtypes import BOOL, C64, F16, F32, F64, I8, I32, I64, U8, DType, from_numpy
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ops import samples
from dfc.ops.attributes import ConstantAttributes, DimAttributes, RandomAttributes, TypeAttributes
from dfc.ops.binding import tensor_type
from dfc.ops.builder import Builder
from dfc.ops.conditions import belongs, require_size
from dfc.ops.creation import philox
from dfc.ops.creation.rules import CONSTANT, DIM, IOTA, RANDOM
from dfc.ops.gradients import count_up
from dfc.ops.lowering.forms import Decompose, Generator, RandomNumbers, Structural
from dfc.ops.numeric import concrete, convert, narrow
from dfc.ops.record import Arguments, Array, Effect, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

NO_OPERANDS = "it has no operands"
DISTRIBUTIONS = ("uniform", "normal")


def require_type(type_: TensorType, bound: str, ranks: Sequence[int] | None, blame: str = "type") -> TensorType:
    """The conditions on a type that is given as an argument."""
    if type_.dtype.is_complex:
        raise OpError("E1001", "complex numbers are not supported yet", blame=blame, label=str(type_))
    if not belongs(type_.dtype, bound):
        raise OpError("E0302", f"`{{op}}` cannot make {type_.dtype}", blame=blame, label=str(type_))
    if ranks is not None and type_.rank not in ranks:
        expected = " or ".join(map(str, ranks))
        raise OpError("E0313", f"`{{op}}` makes tensors of {expected} axes", blame=blame, label=str(type_))
    for size in type_.shape:
        require_size(size, blame, "a size")
    return type_


def _literal(attributes: Attributes) -> Literal:
    assert isinstance(attributes, ConstantAttributes)
    return attributes.value


def _infer_constant(_types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    array = _literal(attributes).array
    dtype = from_numpy(array.dtype)
    if dtype is None or dtype.is_complex:
        raise OpError("E1001", f"constants of type {array.dtype} are not supported yet")
    return (TensorType(dtype, tuple(map(dim, array.shape))),)


def _constant_samples() -> Sequence[Sample]:
    def case(array: Array, kind: str = "regular") -> Sample:
        return samples.sample(attributes=ConstantAttributes(Literal(array)), kind=kind)

    regular = [case(samples.numbers((2, 3), d)) for d in (np.float32, np.int64, np.bool_, np.float16)]
    edge = [case(samples.numbers(s), "edge") for s in ((), (0,), (1,))]
    return [*regular, *edge, case(np.ones(2, np.complex64), "invalid"), case(np.array(["a"]), "invalid")]


register(
    OpRecord(
        name="constant",
        family="source",
        summary="A value known when the program is compiled.",
        signature="fn constant[T: any, ..S](const value: T[..S]) -> T[..S]",
        parameters=(Parameter("value", "const", "literal"),),
        infer=_infer_constant,
        evaluate=lambda _operands, a, _sizes: (_literal(a).array,),
        lowering=Structural(),
        attributes=ConstantAttributes,
        constraints=("the language has the element type.",),
        no_gradient=NO_OPERANDS,
        samples=_constant_samples,
        in_prelude=False,
        rules=CONSTANT,
    )
)


def _infer_dim(_types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (TensorType(I64),)


def _dim(attributes: Attributes) -> Dim:
    assert isinstance(attributes, DimAttributes)
    return attributes.size


def _evaluate_dim(_operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    return (np.asarray(_dim(attributes).evaluate(sizes), np.int64),)


register(
    OpRecord(
        name="dim",
        family="source",
        summary="A size as an i64: what a dimension name means in an expression.",
        signature="fn dim(const size: int) -> i64",
        parameters=(Parameter("size", "const", "int"),),
        infer=_infer_dim,
        evaluate=_evaluate_dim,
        lowering=Generator(lambda body, _position, node: body.size(_dim(node.attributes))),
        attributes=DimAttributes,
        no_gradient=NO_OPERANDS,
        samples=lambda: [
            *(samples.sample(attributes=DimAttributes(dim(n))) for n in (1, 7, 1 << 40)),
            samples.sample(attributes=DimAttributes(dim(0)), kind="edge"),
        ],
        in_prelude=False,
        rules=DIM,
    )
)


def _type(attributes: Attributes) -> TensorType:
    assert isinstance(attributes, TypeAttributes)
    return attributes.type


def _bind_type(arguments: Arguments, _types: Sequence[TensorType]) -> Attributes:
    return TypeAttributes(tensor_type(arguments.get("type"), "type"))


def _type_samples(*types: tuple[TensorType, str]) -> Sequence[Sample]:
    return [samples.sample(attributes=TypeAttributes(type_), kind=kind) for type_, kind in types]


def _evaluate_iota(_operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    type_ = _type(attributes)
    (count,) = concrete(type_.shape, sizes)
    return (convert(np.arange(count, dtype=np.int64), type_.machine.numpy),)


register(
    OpRecord(
        name="iota",
        family="source",
        summary="0, 1, 2, .. in a type with one axis: `iota(i32[N])`.",
        signature="fn iota[T: number, N](const type_: tensor_type) -> T[N]",
        parameters=(Parameter("type", "type"),),
        infer=lambda _types, a: (require_type(_type(a), "number", (1,)),),
        evaluate=_evaluate_iota,
        lowering=Generator(lambda body, position, node: body.cast(position[0], node.result.tensor.machine)),
        attributes=TypeAttributes,
        constraints=("the element type is a number type.", "one axis."),
        no_gradient=NO_OPERANDS,
        samples=lambda: _type_samples(
            (tensor(I32, 5), "regular"),
            (tensor(I64, 17), "regular"),
            (tensor(F32, 9), "regular"),
            (tensor(U8, 300), "regular"),
            (tensor(F16, 3000), "edge"),
            (tensor(I32, 0), "edge"),
            (tensor(I8, 1), "edge"),
            (tensor(I32), "invalid"),
            (tensor(I32, 2, 3), "invalid"),
            (tensor(BOOL, 3), "invalid"),
            (tensor(C64, 3), "invalid"),
            (tensor(I32, -1), "invalid"),
        ),
        bind=_bind_type,
        rules=IOTA,
    )
)


def _evaluate_eye(_operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    type_ = _type(attributes)
    rows, columns = concrete(type_.shape, sizes)
    return (narrow(np.eye(rows, columns), type_.machine.numpy),)


def _decompose_eye(b: Builder, node: Node) -> Sequence[Value]:
    rows, columns = node.result.tensor.shape
    down, along = b.reshape(count_up(b, rows), (rows, ONE)), b.reshape(count_up(b, columns), (ONE, columns))
    return (b.cast(b.apply("equal", down, along), node.result.tensor.dtype),)


register(
    OpRecord(
        name="eye",
        family="source",
        summary="1 on the diagonal, else 0, in a type with two axes: `eye(f32[N, N])`.",
        signature="fn eye[T: any, N, M](const type_: tensor_type) -> T[N, M]",
        parameters=(Parameter("type", "type"),),
        infer=lambda _types, a: (require_type(_type(a), "any", (2,)),),
        evaluate=_evaluate_eye,
        lowering=Decompose(_decompose_eye),
        attributes=TypeAttributes,
        constraints=("the element type is not complex.", "two axes."),
        no_gradient=NO_OPERANDS,
        samples=lambda: _type_samples(
            (tensor(F32, 3, 3), "regular"),
            (tensor(F64, 2, 5), "regular"),
            (tensor(I32, 4, 2), "regular"),
            (tensor(BOOL, 3, 3), "regular"),
            (tensor(F32, 0, 3), "edge"),
            (tensor(F32, 1, 1), "edge"),
            (tensor(F32, 3), "invalid"),
            (tensor(C64, 3, 3), "invalid"),
        ),
        bind=_bind_type,
    )
)


def _random(attributes: Attributes) -> RandomAttributes:
    assert isinstance(attributes, RandomAttributes)
    return attributes


def require_distribution(distribution: str, type_: TensorType) -> TensorType:
    if distribution not in DISTRIBUTIONS:
        raise OpError("E0315", f"there is no distribution `{distribution}`", helps=("`uniform` and `normal` exist",))
    return require_type(type_, "float", None)


def _infer_random(_types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    return (require_distribution(_random(attributes).distribution, _random(attributes).type),)


def _evaluate_random(_operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it = _random(attributes)
    key = philox.stream_key(it.seed, it.stream)
    return (philox.numbers(it.distribution, it.type.machine, concrete(it.type.shape, sizes), key),)


def _key(node: Node) -> tuple[int, int, int]:
    """A stream of its own, from its first number on."""
    it = _random(node.attributes)
    return (*philox.stream_key(it.seed, it.stream), 0)


def _random_samples() -> Sequence[Sample]:
    def case(distribution: str, dtype: DType, *shape: int, kind: str = "regular") -> Sample:
        return samples.sample(attributes=RandomAttributes(distribution, 7, "w", tensor(dtype, *shape)), kind=kind)

    return [
        case("uniform", F32, 3, 5),
        case("normal", F32, 17),
        case("uniform", F64, 9),
        case("normal", F64, 2, 3),
        case("uniform", F16, 8),
        case("uniform", F32, kind="edge"),
        case("normal", F32, 0, kind="edge"),
        case("normal", F32, 1, kind="edge"),
        case("uniform", I32, 3, kind="invalid"),
        case("poisson", F32, 3, kind="invalid"),
    ]


register(
    OpRecord(
        name="random",
        family="source",
        summary=(
            "Numbers that depend on the seed, the stream's name and the position only: uniform in [0, 1) or standard "
            "normal. What the initialisers are made of."
        ),
        signature=(
            "fn random[T: float, ..S]"
            "(const distribution: str, const seed: int, const stream: str, const type_: tensor_type) -> T[..S]"
        ),
        parameters=(
            Parameter("distribution", "const", "str"),
            Parameter("seed", "const", "int"),
            Parameter("stream", "const", "str"),
            Parameter("type", "type"),
        ),
        infer=_infer_random,
        evaluate=_evaluate_random,
        lowering=RandomNumbers(lambda node: _random(node.attributes).distribution, _key),
        attributes=RandomAttributes,
        constraints=("`distribution` is uniform or normal.", "the element type is floating-point."),
        no_gradient=NO_OPERANDS,
        effect=Effect.RANDOM,
        samples=_random_samples,
        in_prelude=False,
        rules=RANDOM,
    )
)
