"""Views name every operand, parameter, output and result of a node with regions; nodes are made from the same parts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dfc.ir.attributes import ForAttributes
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, F32, I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import (
    bodies,
    captured,
    carried,
    controls,
    flows,
    for_node,
    for_view,
    if_node,
    if_view,
    keep_results,
    operands_of,
    remade,
    view,
    while_node,
    while_view,
    with_more_results,
    with_outputs,
)
from dfc.ir.types import TokenType, Type, tensor
from dfc.ops.builder import Builder

X, INDEX, TRUTH, STATE = tensor(F32), tensor(I64), tensor(BOOL), TokenType("s")


def values(*types: Type) -> list[Value]:
    return [Value(type_, f"v{number}") for number, type_ in enumerate(types)]


def loop(trips: int = 3) -> Node:
    """Two carried values, one emitted vector, one token."""
    start, stop, a, b, token = values(INDEX, INDEX, X, tensor(F32, 2), STATE)
    index, a_in, b_in, token_in = values(INDEX, X, tensor(F32, 2), STATE)
    emitted = Value(tensor(F32, 4))
    body = Block((index, a_in, b_in, token_in), (), (a_in, b_in, emitted, token_in))
    return for_node(
        start, stop, (a, b, token), body, trips=dim(trips), recompute=2, origin=Builder(Block(), name="loop")
    )


def repeat() -> Node:
    a, b, token = values(X, X, STATE)
    first, second = values(X, X, STATE), values(X, X, STATE)
    test = Value(TRUTH)
    return while_node((a, b, token), Block(first, (), (test, first[2])), Block(second, (), second))


def branch() -> Node:
    condition, token = values(TRUTH, STATE)
    sides = [(Value(STATE), Value(X), Value(INDEX)) for _ in range(2)]
    then, otherwise = (Block((token_in,), (), (x, y, token_in)) for token_in, x, y in sides)
    return if_node(condition, then, otherwise, (token,))


def test_the_results_of_a_for_are_what_it_carries_stacked_emits_and_tokens() -> None:
    made = loop()
    assert [value.type for value in made.results] == [X, tensor(F32, 2), tensor(F32, 3, 4), STATE]
    assert made.attributes == ForAttributes(2, dim(3), 2)


def test_the_parts_of_a_for_are_all_of_it_in_order() -> None:
    made = loop()
    parts = for_view(made)
    assert (parts.start, parts.stop, *parts.initial.all) == made.operands
    assert (parts.index, *parts.inside.all) == parts.body.parameters
    assert parts.after.all == parts.body.outputs
    assert parts.results.all == made.results
    assert [len(part) for part in (parts.after.values, parts.after.emitted, parts.after.tokens)] == [2, 1, 1]
    assert parts.results.emitted == made.results[2:3]


def test_the_parts_of_a_while_are_all_of_it_in_order() -> None:
    made = repeat()
    parts = while_view(made)
    condition, body = made.regions
    assert (parts.initial.all, parts.results.all) == (made.operands, made.results)
    assert (parts.test, *parts.tested.all) == condition.outputs
    assert (parts.condition_inside.all, parts.inside.all) == (condition.parameters, body.parameters)
    assert parts.tested.tokens == condition.outputs[1:]


def test_the_parts_of_an_if_are_all_of_it_in_order() -> None:
    made = branch()
    parts = if_view(made)
    assert (parts.condition, *parts.initial.all) == made.operands
    assert [window.all for window in parts.after] == [region.outputs for region in made.regions]
    assert parts.results.values == made.results[:2]
    assert parts.results.tokens == made.results[2:]


def test_a_view_takes_operands_and_regions_that_a_node_is_about_to_have() -> None:
    made, other = loop(), loop()
    parts = view(made, other.operands, other.regions)
    assert (parts.node, parts.initial.all) == (made, other.operands[2:])
    assert parts.results.all == made.results


def test_each_result_of_a_for_has_its_flow() -> None:
    made = loop()
    (body,) = made.regions
    first, second, stacked, token = flows(view(made))
    assert (first.initial, first.parameters, first.outputs) == (
        made.operands[2],
        body.parameters[1:2],
        body.outputs[:1],
    )
    assert (second.initial, second.parameters) == (made.operands[3], body.parameters[2:3])
    assert (stacked.initial, stacked.parameters, stacked.outputs) == (None, (), body.outputs[2:3])
    assert (token.initial, token.parameters, token.outputs) == (made.operands[4], body.parameters[3:], body.outputs[3:])
    assert [flow.is_emitted for flow in flows(view(made))] == [False, False, True, False]


def test_each_result_of_a_while_has_its_flow() -> None:
    made = repeat()
    condition, body = made.regions
    for number, flow in enumerate(flows(view(made))):
        assert (flow.result, flow.initial) == (made.results[number], made.operands[number])
        assert flow.parameters == (condition.parameters[number], body.parameters[number])
        assert flow.outputs == (body.outputs[number],)
        assert flow.tested is (condition.outputs[1] if number == 2 else None)


def test_only_tokens_of_an_if_have_operands_and_parameters() -> None:
    made = branch()
    first, second, token = flows(view(made))
    assert (first.initial, second.initial, first.parameters) == (None, None, ())
    assert second.outputs == tuple(region.outputs[1] for region in made.regions)
    assert (token.initial, token.parameters) == (made.operands[1], tuple(r.parameters[0] for r in made.regions))
    assert token.outputs == tuple(region.outputs[2] for region in made.regions)


def test_what_is_carried_are_tensors_that_go_round() -> None:
    assert [flow.number for flow in carried(view(loop()))] == [0, 1]
    assert [flow.number for flow in carried(view(repeat()))] == [0, 1]
    assert carried(view(branch())) == ()


def test_controls_and_bodies_of_each_kind() -> None:
    counted, repeated, chosen = loop(), repeat(), branch()
    assert controls(view(counted)) == counted.operands[:2]
    assert controls(view(repeated)) == repeated.regions[0].outputs[:1]
    assert controls(view(chosen)) == chosen.operands[:1]
    assert bodies(view(counted)) == counted.regions
    assert bodies(view(repeated)) == repeated.regions[1:]
    assert bodies(view(chosen)) == chosen.regions


@pytest.mark.parametrize("make", [loop, repeat, branch])
def test_operands_are_put_together_from_the_parts(make: Callable[[], Node]) -> None:
    made = make()
    parts = view(made)
    assert operands_of(parts, parts.initial.all) == made.operands


def test_captured_values_come_once_and_in_order_of_use() -> None:
    condition, x, y = values(TRUTH, X, X)
    sums = [Node("add", pair, (X,)) for pair in ((y, x), (x, y))]
    then, otherwise = (Block((), (node,), node.results) for node in sums)
    made = if_node(condition, then, otherwise)
    assert captured(made) == (y, x)


def test_more_outputs_stand_before_the_tokens() -> None:
    made, extra = branch(), Value(X)
    region = with_outputs(made.regions[0], (extra,))
    assert region.outputs == (*made.regions[0].outputs[:2], extra, made.regions[0].outputs[2])


@pytest.mark.parametrize("make", [loop, branch])
def test_more_results_stand_between_the_old_ones(make: Callable[[], Node]) -> None:
    made = make()
    extra = Value(tensor(F32, 5))
    regions = [with_outputs(region, (extra,)) for region in made.regions]
    more, old, new = with_more_results(made, made.operands, regions, 1)
    trips = (3,) if made.op == "for" else ()
    assert [value.type for value in new] == [tensor(F32, *trips, 5)]
    assert [value.type for value in old] == [value.type for value in made.results]
    assert set(old) | set(new) == set(more.results)


@pytest.mark.parametrize("make", [loop, repeat, branch])
def test_a_node_of_the_same_parts_has_the_same_results(make: Callable[[], Node]) -> None:
    made = make()
    again = remade(made, made.operands, made.regions)
    assert [value.type for value in again.results] == [value.type for value in made.results]
    assert (again.op, again.attributes, again.name) == (made.op, made.attributes, made.name)


@pytest.mark.parametrize("make", [loop, repeat, branch])
@pytest.mark.parametrize("number", range(4))
def test_a_result_that_goes_takes_with_it_all_that_belongs_to_it(make: Callable[[], Node], number: int) -> None:
    made = make()
    whole = flows(view(made))
    keep = [flow.number != number for flow in whole]
    kept = flows(view(keep_results(view(made), keep)))
    wanted = [flow for flow in whole if flow.number != number]
    assert [flow.result.type for flow in kept] == [flow.result.type for flow in wanted]
    for after, before in zip(kept, wanted, strict=True):
        parts = ("outputs", "initial", "parameters", "tested", "is_emitted")
        assert [getattr(after, part) for part in parts] == [getattr(before, part) for part in parts]


def test_emits_need_a_number_of_iterations() -> None:
    start, stop, index, emitted = values(INDEX, INDEX, INDEX, X)
    with pytest.raises(AssertionError, match="number of iterations"):
        for_node(start, stop, (), Block((index,), (), (emitted,)))
