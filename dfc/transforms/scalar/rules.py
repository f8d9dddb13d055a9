"""The rewrite rules of `simplify`: data, each with the identity it uses and its formula.

The law for rules:
- A rule holds for every value, NaN, infinities and both zeros included, bit for bit (signs of NaN aside). So x * 0 is
  not 0 for floats, and x + 0 is x only for -0.0: -0.0 + 0.0 is +0.0.
- A rule never makes more nodes than it removes, and its result has exactly the type of what it replaces.
- A rule looks at operands and how they are made, never at users.

A rule applies to the ops whose record names its identity; rules about one particular op name the op.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import ZERO
from dfc.ir.dtypes import DType
from dfc.ir.graph import Node, Value
from dfc.ir.rewrite import RewriteSite
from dfc.ops.attributes import (
    AxesAttributes,
    CastAttributes,
    PadAttributes,
    PermutationAttributes,
    ReduceAttributes,
    ShapeAttributes,
    SliceAttributes,
)
from dfc.ops.constants import uniform_of
from dfc.ops.record import Array
from dfc.transforms.scalar.matching import producer


@dataclass(frozen=True, slots=True)
class Match:
    """The node in question, over operands that are simplified already."""

    site: RewriteSite

    @property
    def node(self) -> Node:
        return self.site.node

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.site.operands

    @property
    def x(self) -> Value:
        return self.site.operands[0]

    @property
    def y(self) -> Value:
        return self.site.operands[1]

    def same_type(self, value: Value) -> Value | None:
        """The value if it has the type of the result."""
        return value if value.type == self.node.result.type else None

    def make(self, op: str, *operands: Value, attributes: Attributes | None = None) -> Value:
        """A node in place of this one, with its type, name and span."""
        node = self.node
        types = (node.result.type,)
        replacement = Node(op, operands, types, attributes=attributes, name=node.name, span=node.span)
        self.site.output.append(replacement)
        return replacement.result


Rewrite = Callable[[Match], "Value | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`identity` is a row of op records, or `op:NAME` for one op; `formula` says what the rule does."""

    identity: str
    formula: str
    rewrite: Rewrite


def _is_number(value: Value, number: float, negative_zero: bool = False) -> bool:
    """Whether all elements are this number; a zero must have the given sign if it is a float."""
    uniform = uniform_of(value)
    if uniform is None or uniform.dtype.kind not in "iufbV" or not bool(_wide(uniform) == number):
        return False
    is_float = isinstance(value.tensor.dtype, DType) and value.tensor.dtype.is_float
    return not is_float or number != 0 or bool(np.signbit(_wide(uniform))) == negative_zero


def _wide(number: Array) -> np.float64 | np.int64:
    return np.float64(number) if number.dtype.kind not in "iu" else np.int64(number)


def _is_integer(value: Value) -> bool:
    return value.tensor.machine.is_integer


def _neutral(number: float, *, left: bool = True, negative_zero: bool = False) -> Rewrite:
    def rewrite(m: Match) -> Value | None:
        if _is_number(m.y, number, negative_zero):
            return m.same_type(m.x)
        return m.same_type(m.y) if left and _is_number(m.x, number, negative_zero) else None

    return rewrite


def _integer_only(rewrite: Rewrite) -> Rewrite:
    return lambda m: rewrite(m) if _is_integer(m.x) else None


def _absorbing(number: float) -> Rewrite:
    """The constant itself, if it has the shape of the result."""

    def rewrite(m: Match) -> Value | None:
        constant = next((v for v in m.operands if _is_number(v, number)), None)
        return None if constant is None else m.same_type(constant)

    return rewrite


def _idempotent(m: Match) -> Value | None:
    if len(m.operands) == 2:
        return m.same_type(m.x) if m.x is m.y else None
    inner = producer(m.x, m.node.op)
    return m.same_type(m.x) if inner is not None and inner.attributes == m.node.attributes else None


def _involution(m: Match) -> Value | None:
    inner = producer(m.x, m.node.op)
    if inner is None:
        return None
    if isinstance(m.node.attributes, AxesAttributes) and isinstance(inner.attributes, AxesAttributes):
        axes = tuple(sorted(set(m.node.attributes.axes) ^ set(inner.attributes.axes)))
        return m.make(m.node.op, inner.operands[0], attributes=AxesAttributes(axes))
    return m.same_type(inner.operands[0])


def _square(m: Match) -> Value | None:
    return m.make("square", m.x) if m.same_type(m.x) and _is_number(m.y, 2) else None


def _constant_mask(m: Match) -> Value | None:
    mask = uniform_of(m.x)
    if mask is None or mask.dtype != np.bool_:
        return None
    return m.same_type(m.operands[1 if bool(mask) else 2])


def _equal_branches(m: Match) -> Value | None:
    return m.same_type(m.y) if m.y is m.operands[2] else None


def _same_type(m: Match) -> Value | None:
    return m.same_type(m.x)


_WIDER = {
    "bool": {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"},
    "i8": {"i16", "i32", "i64", "f16", "f32", "f64"},
    "i16": {"i32", "i64", "f32", "f64"},
    "i32": {"i64", "f64"},
    "u8": {"u16", "u32", "u64", "i16", "i32", "i64", "f16", "f32", "f64"},
    "u16": {"u32", "u64", "i32", "i64", "f32", "f64"},
    "u32": {"u64", "i64", "f64"},
    "f16": {"f32", "f64"},
    "bf16": {"f32", "f64"},
    "f32": {"f64"},
}


def _cast_of_cast(m: Match) -> Value | None:
    """From A to a wider B that holds all of A, and on to C: straight from A to C."""
    inner = producer(m.x, m.node.op)
    if inner is None:
        return None
    source, middle, target = inner.operands[0].tensor.machine, m.x.tensor.machine, m.node.result.tensor.machine
    if middle.name not in _WIDER.get(source.name, ()):
        return None
    if source == target:
        return m.same_type(inner.operands[0])
    if middle.is_float and not source.is_float and target.is_integer:
        return None  # floats saturate where whole numbers wrap
    return m.make("cast", inner.operands[0], attributes=CastAttributes(target))


def _through(op: str) -> Rewrite:
    """f(f(x)) has the shape the outer one says: reshape and broadcast."""

    def rewrite(m: Match) -> Value | None:
        inner = producer(m.x, op)
        return None if inner is None else m.make(op, inner.operands[0], attributes=m.node.attributes)

    return rewrite


def _identity_permutation(m: Match) -> Value | None:
    assert isinstance(m.node.attributes, PermutationAttributes)
    order = m.node.attributes.permutation
    return m.same_type(m.x) if order == tuple(range(len(order))) else None


def _transpose_of_transpose(m: Match) -> Value | None:
    inner = producer(m.x, m.node.op)
    if inner is None:
        return None
    assert isinstance(m.node.attributes, PermutationAttributes)
    assert isinstance(inner.attributes, PermutationAttributes)
    first = inner.attributes.permutation
    order = tuple(first[axis] for axis in m.node.attributes.permutation)
    return m.make("transpose", inner.operands[0], attributes=PermutationAttributes(order))


def _no_axes(m: Match) -> Value | None:
    assert isinstance(m.node.attributes, AxesAttributes | ReduceAttributes)
    return None if m.node.attributes.axes else m.same_type(m.x)


def _whole(m: Match) -> Value | None:
    """Everything of every axis in order: then the result has the type of the operand."""
    where = m.node.attributes
    assert isinstance(where, SliceAttributes)
    whole = all(start == ZERO for start in where.starts) and all(step == 1 for step in where.steps)
    return m.same_type(m.x) if whole else None


def _slice_of_slice(m: Match) -> Value | None:
    inner = producer(m.x, m.node.op)
    if inner is None:
        return None
    a, b = inner.attributes, m.node.attributes
    assert isinstance(a, SliceAttributes)
    assert isinstance(b, SliceAttributes)
    starts = tuple(s + t * step for s, t, step in zip(a.starts, b.starts, a.steps, strict=True))
    steps = tuple(s * t for s, t in zip(a.steps, b.steps, strict=True))
    return m.make("slice", inner.operands[0], attributes=SliceAttributes(starts, b.sizes, steps))


def _no_padding(m: Match) -> Value | None:
    where = m.node.attributes
    assert isinstance(where, PadAttributes)
    nothing = not any(where.interior) and all(width == ZERO for width in (*where.low, *where.high))
    return m.same_type(m.x) if nothing else None


def _single_part(m: Match) -> Value | None:
    return m.same_type(m.x) if len(m.operands) == 1 else None


def _add_of_negative(m: Match) -> Value | None:
    inner = producer(m.y, "neg")
    if inner is not None:
        return m.make("sub", m.x, inner.operands[0])
    inner = producer(m.x, "neg")
    return None if inner is None else m.make("sub", m.y, inner.operands[0])


def _sub_of_negative(m: Match) -> Value | None:
    inner = producer(m.y, "neg")
    return None if inner is None else m.make("add", m.x, inner.operands[0])


def _minus_one(m: Match) -> Value | None:
    for factor, other in ((m.y, m.x), (m.x, m.y)):
        if _is_number(factor, -1) and m.same_type(other):
            return m.make("neg", other)
    return None


def _not_equal(m: Match) -> Value | None:
    inner = producer(m.x, "equal")
    if inner is not None:
        return m.make("not_equal", *inner.operands)
    inner = producer(m.x, "not_equal")
    return None if inner is None else m.make("equal", *inner.operands)


def _reduce_nothing(m: Match) -> Value | None:
    assert isinstance(m.node.attributes, ReduceAttributes)
    return None if m.node.attributes.axes else m.same_type(m.x)


def _reshape_of_added_axes(m: Match) -> Value | None:
    """A reshape of a broadcast that only added axes of size 1 is a reshape."""
    inner = producer(m.x, "broadcast")
    if inner is None or inner.operands[0].tensor.elements != m.x.tensor.elements:
        return None
    assert isinstance(m.node.attributes, ShapeAttributes)
    return m.make("reshape", inner.operands[0], attributes=m.node.attributes)


RULES: tuple[Rule, ...] = (
    Rule("neutral 0", "x + -0.0 = x; integers: x + 0 = x", _neutral(0, negative_zero=True)),
    Rule("right neutral 0", "x - 0.0 = x; integers: x - 0 = x", _neutral(0, left=False)),
    Rule("neutral 1", "x * 1 = 1 * x = x", _neutral(1)),
    Rule("right neutral 1", "x / 1 = x ** 1 = x", _neutral(1, left=False)),
    Rule("integer right neutral 1", "integers: x // 1 = x", _integer_only(_neutral(1, left=False))),
    Rule("integer absorbing 0", "integers: x * 0 = 0", _integer_only(_absorbing(0))),
    Rule("power 2 is square", "x ** 2 = square(x)", _square),
    Rule("neutral true", "x and true = x", _neutral(1)),
    Rule("absorbing false", "x and false = false", _absorbing(0)),
    Rule("neutral false", "x or false = x", _neutral(0)),
    Rule("absorbing true", "x or true = true", _absorbing(1)),
    Rule("idempotent", "f(f(x)) = f(x); f(x, x) = x", _idempotent),
    Rule("involution", "f(f(x)) = x; reverse over the axes named once", _involution),
    Rule("constant mask", "select(true, a, b) = a; select(false, a, b) = b", _constant_mask),
    Rule("equal branches", "select(m, a, a) = a", _equal_branches),
    Rule("same type", "x as T = x if x is T", _same_type),
    Rule("op:cast", "(x as B) as C = x as C if B holds every value of x", _cast_of_cast),
    Rule("same shape", "reshape(x, shape of x) = x; broadcast likewise", _same_type),
    Rule("reshape of reshape", "reshape(reshape(x, s), t) = reshape(x, t)", _through("reshape")),
    Rule("op:reshape", "reshape(broadcast(x, [1, ..]), t) = reshape(x, t)", _reshape_of_added_axes),
    Rule("broadcast of broadcast", "broadcast(broadcast(x, s), t) = broadcast(x, t)", _through("broadcast")),
    Rule("identity permutation", "transpose(x, [0, 1, ..]) = x", _identity_permutation),
    Rule("transpose of transpose", "transpose(transpose(x, p), q) = transpose(x, p[q])", _transpose_of_transpose),
    Rule("no axes", "reverse(x, []) = x", _no_axes),
    Rule("whole", "x[:, :] = x", _whole),
    Rule("slice of slice", "x[a:b][c:d] = x[a + c:a + d]", _slice_of_slice),
    Rule("no padding", "pad(x, 0) = x", _no_padding),
    Rule("single part", "concat([x]) = x", _single_part),
    Rule("op:add", "x + -y = x - y; -x + y = y - x", _add_of_negative),
    Rule("op:sub", "x - -y = x + y", _sub_of_negative),
    Rule("op:mul", "x * -1 = -x", _minus_one),
    Rule("op:not", "not (a == b) = a != b and the reverse", _not_equal),
    *(Rule(f"op:{op}", f"{op} over no axes = x", _reduce_nothing) for op in ("max", "min", "any", "all")),
)
"""In the order in which they are tried."""
