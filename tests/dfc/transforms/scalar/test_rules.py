"""The table of rules: every identity of the records is used, and no rule changes NaN, infinities or signs of zero."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dfc.ir.dtypes import BOOL, F32, F64, I8, I32, U8, DType
from dfc.ir.types import tensor
from dfc.ops import registry
from dfc.ops.attributes import AxesAttributes, CastAttributes
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpError
from dfc.transforms.scalar.rules import RULES
from dfc.transforms.scalar.simplify import rules_by_identity, simplify
from tests.support.agreeing import verified
from tests.support.making import Making
from tests.support.one_test_for_all import one_test_for_all

FACTS = {
    "commutative": "cse",
    "associative": "no pass: it would change roundings",
    "power 0 is 1": "no pass: nobody writes it",
    "transpose of product": "fusion",
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 1e-40, 3.5]
WHOLE = [0, 1, 2, 3, 7, 100]


def elementwise(operands: int) -> list[str]:
    records = [r for r in registry.all_records() if r.family == "element-wise"]
    return [r.name for r in records if [p.kind for p in r.parameters] == ["tensor"] * operands]


UNARY, BINARY = elementwise(1), elementwise(2)


def test_every_identity_of_a_record_is_used() -> None:
    known = {*rules_by_identity(), *FACTS}
    for record in registry.all_records():
        assert set(record.identities) <= known, record.name


def test_every_rule_belongs_to_an_op() -> None:
    named = {identity for record in registry.all_records() for identity in record.identities}
    ops = {f"op:{record.name}" for record in registry.all_records()}
    for rule in RULES:
        assert rule.identity in named | ops
        assert "=" in rule.formula


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit by bit, all NaN being one."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    both = np.isnan(a) & np.isnan(b)
    return bool(((a == b) & (np.signbit(a) == np.signbit(b)) | both).all())


def numbers(dtype: DType) -> list[float]:
    if dtype is BOOL:
        return [0, 1]
    return SPECIAL if dtype.is_float else [n - 4 if dtype.kind == "signed" and n < 100 else n for n in WHOLE]


def agree(m: Making, value, fed: np.ndarray) -> None:
    made = m.graph(value)
    after = verified(simplify(made), "simplify")
    before = evaluate(made, "e", {"x": fed}).result
    assert same_bits(before, evaluate(after, "e", {"x": fed}).result)


@one_test_for_all(product(BINARY, [F32, F64, I8, I32, U8, BOOL]))
def test_operations_with_constants_keep_every_bit(case: tuple[str, DType]) -> None:
    op, dtype = case
    fed = np.array(numbers(dtype)).astype(dtype.numpy)
    done = 0
    for number, left in product(numbers(dtype), (True, False)):
        if number == 0 and op in ("floordiv", "mod") and not dtype.is_float:
            continue
        negative = op == "pow" and dtype.kind == "signed"  # an integer to a negative power is an error
        if negative and number < 0 and not left:
            continue
        m = Making()
        x, c = m.feed("x", tensor(dtype, len(fed))), m.constant(number, dtype)
        try:
            y = m.op(op, c, x) if left else m.op(op, x, c)
        except OpError:
            return
        usable = fed if not (left and op in ("floordiv", "mod")) else np.where(fed == 0, fed.dtype.type(1), fed)
        usable = np.maximum(usable, 0) if negative and left else usable
        agree(m, y, usable.astype(dtype.numpy))
        done += 1
    assert done


@pytest.mark.parametrize("dtype", [F32, I8, BOOL], ids=str)
def test_operations_with_constants_of_their_shape_keep_every_bit(dtype: DType) -> None:
    """Which may stand for the result, as others may not."""
    for op, number, element in product(("mul", "and", "or"), numbers(dtype), numbers(dtype)):
        m = Making()
        x, c = m.feed("x", tensor(dtype)), m.constant(number, dtype)
        try:
            y = m.op(op, x, c)
        except OpError:
            continue
        agree(m, y, np.array(element).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [F32, F64, I8, U8, BOOL], ids=str)
def test_pairs_of_operations_keep_every_bit(dtype: DType) -> None:
    fed = np.array(numbers(dtype)).astype(dtype.numpy)
    for first, second in product(UNARY, UNARY):
        m = Making()
        x = m.feed("x", tensor(dtype, len(fed)))
        try:
            y = m.op(second, m.op(first, x))
        except OpError:
            continue
        agree(m, y, fed)


@pytest.mark.parametrize("dtype", [F32, F64, I8, U8], ids=str)
def test_operations_on_negatives_and_on_itself_keep_every_bit(dtype: DType) -> None:
    fed = np.array(numbers(dtype)).astype(dtype.numpy)
    for op in BINARY:
        if op in ("floordiv", "mod", "pow"):
            continue
        for shape in ("self", "right", "left"):
            m = Making()
            x = m.feed("x", tensor(dtype, len(fed)))
            try:
                negative = m.op("neg", m.op("reverse", x, attributes=AxesAttributes((0,))))
                pair = {"self": (x, x), "right": (x, negative), "left": (negative, x)}[shape]
                y = m.op(op, *pair)
            except OpError:
                continue
            agree(m, y, fed)


@pytest.mark.parametrize(("inner", "outer"), list(product([BOOL, I8, U8, I32, F32, F64], repeat=2)))
def test_casts_through_other_types_keep_every_value(inner: DType, outer: DType) -> None:
    for source in (BOOL, I8, U8, I32, F32, F64):
        fed = np.array(numbers(source)).astype(source.numpy)
        m = Making()
        x = m.feed("x", tensor(source, len(fed)))
        middle = m.op("cast", x, attributes=CastAttributes(inner))
        agree(m, m.op("cast", middle, attributes=CastAttributes(outer)), fed)
