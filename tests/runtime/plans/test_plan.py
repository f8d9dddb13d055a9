"""Reading plans: what a target writes comes back, and whatever is damaged is a `ValueError` of one line."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from dfc.lower.program import lower_graph
from dfc_runtime.formats import strict_json
from dfc_runtime.plans.plan import read_plan, write_plan
from dfc_runtime.plans.steps import DEEPEST, For, If, Launch, While
from tests.support.compiled import graph
from tests.support.mutants import WRONG_VALUES
from tests.support.simulated_programs import interpreted

BOOL = {"role": "register", "type": "bool", "scalar": True, "bytes": 1, "room": 1}
COUNT = {"role": "register", "type": "i64", "scalar": True, "bytes": 8, "room": 8}
KERNEL: dict[str, object] = {
    "name": "k0", "access": ["read", "write"], "sizes": 1, "points": ["$d0"], "per_block": 4, "threads": 8, "most": 2,
    "workspace": 0, "guarded": False, "faults": False,
}  # fmt: skip


def small(steps: list[object]) -> dict[str, Any]:
    """A plan of one entry with these steps; buffer 0 is a truth value, 1 to 3 are numbers, 4 is in the arena."""
    arena = {"role": "arena", "type": "f32", "scalar": False, "bytes": [4, "$B", "*"], "room": [4, "$B", "*"]}
    entry = {
        "dims": ["B"], "measured": [["n", ["$B"]]], "arguments": 0, "results": 0, "arena": [4, "$B", "*"],
        "buffers": [BOOL, COUNT, COUNT, COUNT, {**arena, "place": 0}], "steps": steps,
    }  # fmt: skip
    return {"version": 2, "kernels": [KERNEL], "entries": [entry]}


NESTED: list[object] = [
    ["if", 0], ["launch", 0, [4, 4], [["$B"]]], ["else"], ["while"], ["copy", 1, 2], ["do", 0],
    ["for", 1, 2, 3], ["check", 0, 7], ["end"], ["end"], ["end"], ["measure", "n", 1, ["$B"], 3],
    ["call", 2, [1], [4], [["$n"]]],
]  # fmt: skip


def test_blocks_come_back_nested() -> None:
    (entry,) = read_plan(small(NESTED)).entries
    branch, measure, call = entry.steps
    assert isinstance(branch, If) and isinstance(branch.then[0], Launch)
    (loop,) = branch.otherwise
    assert isinstance(loop, While) and loop.test == 0
    (count,) = loop.body
    assert isinstance(count, For) and (count.index, count.start, count.stop, count.counter) == (1, 2, 3, 0)
    assert entry.counters == 1
    assert (measure.symbol, call.site, call.extents[0].symbol) == ("n", 2, "n")


def test_what_a_target_writes_is_plain_and_comes_back() -> None:
    notes = interpreted(lower_graph(graph())).notes
    assert strict_json.parse(strict_json.dump(notes)) == notes
    plan = read_plan(notes["plan"])
    assert write_plan(plan) == notes["plan"]
    assert [entry.dims for entry in plan.entries] == [(), (), ("B",), ()]


DAMAGED: dict[str, list[object]] = {
    "nothing to end": [["end"]],
    "an if without else": [["if", 0], ["end"]],
    "a while without do": [["while"], ["end"]],
    "an open block": [["if", 0], ["else"]],
    "else in a loop": [["for", 1, 2, 3], ["else"], ["end"]],
    "two else": [["if", 0], ["else"], ["else"], ["end"]],
    "an unknown step": [["jump", 0]],
    "a step without a name": [[]],
    "a buffer that is not there": [["copy", 0, 5]],
    "a buffer below zero": [["copy", -1, 0]],
    "a kernel that is not there": [["launch", 1, [4, 4], [1]]],
    "too few operands": [["launch", 0, [4], [1]]],
    "too many sizes": [["launch", 0, [4, 4], [1, 1]]],
    "an unknown size": [["launch", 0, [4, 4], [["$C"]]]],
    "an array that decides": [["if", 4], ["else"], ["end"]],
    "an index of truth values": [["for", 0, 0, 0], ["end"]],
    "a measure of what is no size": [["measure", "B", 1, 1, 0]],
    "a measure by a truth value": [["measure", "n", 0, 1, 0]],
    "nested beyond reason": [*[["if", 0]] * (DEEPEST + 1), *[["else"], ["end"]] * (DEEPEST + 1)],
}


@pytest.mark.parametrize("steps", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_steps_are_refused(steps: list[object]) -> None:
    with pytest.raises(ValueError, match=r"plan\.entries\[0\]\.steps") as refused:
        read_plan(small(steps))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1}, {"more": 1}, {"kernels": [{**KERNEL, "threads": 0}]},
        {"kernels": [{**KERNEL, "threads": 1025}]},
        {"kernels": [{**KERNEL, "per_block": 0}]}, {"kernels": [{**KERNEL, "most": 2**31}]},
        {"kernels": [{**KERNEL, "points": ["$d1"]}]}, {"kernels": [{**KERNEL, "access": ["read", "own"]}]},
    ],
    ids=str,
)  # fmt: skip
def test_damaged_kernels_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="plan"):
        read_plan({**small([]), **changes})


def test_no_damage_is_anything_but_a_value_error() -> None:
    """Values somewhere inside are replaced, dropped or moved."""
    chance = random.Random(5)
    whole = small(NESTED)
    refused = 0
    for _ in range(1500):
        plan = copy.deepcopy(whole)
        _damage(plan, chance)
        try:
            read_plan(plan)
        except ValueError as problem:
            refused += 1
            assert "\n" not in str(problem) and len(str(problem)) < 400
    assert refused > 1000


def _damage(plan: Any, chance: random.Random) -> None:
    """One change, at a random depth."""
    place = plan
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
            place = inner
            continue
        if chance.random() < 0.2:
            del place[key]
        else:
            place[key] = chance.choice(WRONG_VALUES)
        return


MATRIX = {"operand": 0, "type": "f32", "transposed": False, "leading": ["$d0"], "strides": [], "offset": 0}
RESULT = {**MATRIX, "operand": 1}
WHOLE: dict[str, Any] = {"result": RESULT, "scale": 1.0, "bias": {"operand": 0, "offset": 3}}
FINISH: dict[str, Any] = {"kernel": 1, "operands": [-1, 1], "sizes": [["$d0"]]}
PRODUCT: dict[str, object] = {
    "rows": ["$d0"], "columns": 4, "depth": 8, "batch": [], "accumulator": "f32", "rounds": False,
    "first": MATRIX, "second": {**MATRIX, "transposed": True}, "whole": WHOLE, "finish": FINISH,
    "sums": "f32",
}  # fmt: skip


def with_product(changes: dict[str, object], **kernel: object) -> dict[str, Any]:
    """A plan whose kernel is this product; None takes a key away."""
    product = {key: value for key, value in {**PRODUCT, **changes}.items() if value is not None}
    made = small([["launch", 0, [4, 4], [["$B"]]]])
    made["kernels"] = [{**KERNEL, "product": product, **kernel}, {**KERNEL, "name": "k1"}]
    return made


def test_products_come_back() -> None:
    found = read_plan(with_product({})).kernels[0].product
    assert found is not None and found.whole is not None and found.whole.bias is not None
    assert (found.rows.symbol, found.depth.constant, found.whole.bias.offset.constant) == ("d0", 8, 3)
    assert (found.second.transposed, found.whole.result.operand, found.accumulator) == (True, 1, "f32")
    assert found.finish is not None and found.finish.operands == (-1, 1)
    alone = (
        read_plan(with_product({"finish": None, "sums": None, "whole": {"result": RESULT, "scale": -0.5}}))
        .kernels[0]
        .product
    )
    assert alone is not None and alone.whole is not None and alone.finish is None
    assert (alone.whole.scale, alone.whole.bias, alone.whole.added) == (-0.5, None, None)
    apart = read_plan(with_product({"whole": None}))
    assert apart.kernels[0].product is not None and apart.kernels[0].product.whole is None


def test_a_batch_has_a_stride_for_each_level() -> None:
    levels = {**MATRIX, "strides": [["$d0"], 4]}
    made = {
        "batch": [2, 3],
        "first": levels,
        "second": levels,
        "whole": {"result": {**levels, "operand": 1}, "scale": 1},
    }
    found = read_plan(with_product(made)).kernels[0].product
    assert found is not None and [one.constant for one in found.batch] == [2, 3]
    assert found.first.strides[1].constant == 4


DAMAGED_PRODUCTS: list[dict[str, object]] = [
    {"rows": ["$d1"]}, {"depth": None}, {"accumulator": "f16"}, {"rounds": 1}, {"batch": 1}, {"batch": [1]},
    {"batch": [1, 1, 1]},
    {"sums": "f16"}, {"sums": None}, {"finish": None}, {"whole": None, "finish": None},
    {"alpha": 1}, {"second": {**MATRIX, "more": 1}},
    {"first": {**MATRIX, "operand": 1}}, {"first": {**MATRIX, "operand": 2}}, {"first": {**MATRIX, "type": "f64"}},
    {"whole": {**WHOLE, "bias": {"operand": 1, "offset": 0}}}, {"whole": {**WHOLE, "scale": 0.0}},
    {"whole": {**WHOLE, "bias": {"operand": 0, "offset": ["$B"]}}}, {"whole": {**WHOLE, "scale": float("nan")}},
    {"whole": {**WHOLE, "scale": 0.5}}, {"whole": {**WHOLE, "scale": True}}, {"whole": {**WHOLE, "result": MATRIX}},
    {"whole": {**WHOLE, "result": {**RESULT, "transposed": True}}},
    {"whole": {**WHOLE, "result": {**RESULT, "type": "f16"}}}, {"whole": {**WHOLE, "sign": 1}},
    {"whole": {**WHOLE, "added": MATRIX, "sign": 0}}, {"whole": {**WHOLE, "added": MATRIX, "sign": 2}},
    {"whole": {**WHOLE, "added": {**MATRIX, "transposed": True}, "sign": 1}},
    {"whole": {**WHOLE, "added": {**MATRIX, "type": "f64"}, "sign": 1}},
    {"finish": {**FINISH, "kernel": 2}}, {"finish": {**FINISH, "kernel": -1}}, {"finish": {**FINISH, "operands": [-1]}},
    {"finish": {**FINISH, "operands": [0, 1]}}, {"finish": {**FINISH, "operands": [-1, -1]}},
    {"finish": {**FINISH, "operands": [-1, 0]}}, {"finish": {**FINISH, "operands": [-1, 2]}},
    {"finish": {**FINISH, "sizes": []}}, {"finish": {**FINISH, "sizes": [["$B"]]}},
]  # fmt: skip


@pytest.mark.parametrize("changes", DAMAGED_PRODUCTS)
def test_damaged_products_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"kernels\[0\]") as caught:
        read_plan(with_product(changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kernel",
    [{"faults": True}, {"guarded": True}, {"access": ["read", "update"]}, {"access": ["write", "write"]}],
)
def test_a_kernel_that_does_more_is_no_product(kernel: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="kernels"):
        read_plan(with_product({}, **kernel))
