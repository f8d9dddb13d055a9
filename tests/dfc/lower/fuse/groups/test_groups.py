"""Each kind of item opens its own kind of group, and what is one kernel is one group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dfc.ir.dtypes import F32
from dfc.ir.graph import Value
from dfc.ir.types import tensor
from dfc.kernels.program import BufferRole, Program
from dfc.lower.fuse.groups.groups import Group, LoopGroup, OrderedGroup, ProductGroup, StepGroup
from dfc.lower.fuse.groups.join import join
from dfc.lower.fuse.items.analyse import analyse
from dfc.lower.fuse.items.collect import collect
from dfc.lower.fuse.items.hazards import without_hazards
from dfc.lower.fuse.items.materialise import materialise
from dfc.lower.fuse.items.targets import whole
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import Storage, whole_view
from dfc.ops.attributes import AxisAttributes, ReduceAttributes
from tests.support.making import Making

X = tensor(F32, 8, 16)
Make = Callable[[Making, Value], Value]


def groups_of(make: Make, *, fusing: bool = True) -> list[Group]:
    """The groups of a block of one feed and one result."""
    m = Making()
    result = make(m, m.feed("x", X))
    block = m.entry(result).block
    scope = Scope(Program("p"), fusing)
    (feed,) = (value for value in block.parameters if not value.is_token)
    scope.views[feed] = whole_view(Storage(BufferRole.ARGUMENT, F32, X.shape, "x", index=0))
    target = whole_view(Storage(BufferRole.RESULT, F32, result.tensor.shape, "y", index=0))
    collected = collect(scope, block, [(result, whole(target))])
    materialise(scope, collected)
    return join(scope, collected, without_hazards(scope, collected, analyse(scope, collected)))


def rows(m: Making, x: Value) -> Value:
    return m.op("sum", x, attributes=ReduceAttributes((1,), True))


def tanh_of_rows(m: Making, x: Value) -> Value:
    return m.op("tanh", rows(m, x))


def softmax(m: Making, x: Value) -> Value:
    e = m.op("exp", x)
    return m.op("div", e, rows(m, e))


def test_element_wise_work_and_reductions_over_one_index_space_are_one_group() -> None:
    (group,) = groups_of(softmax)
    assert isinstance(group, LoopGroup)
    assert (len(group.outer), [member.level for member in group.members]) == (1, [0, 0, 1])


def test_without_fusing_every_item_is_a_group() -> None:
    groups = groups_of(softmax, fusing=False)
    assert [len(group.members) for group in groups] == [1] * len(groups)
    assert len(groups) == 4


def test_the_inner_axes_of_a_prefix_sum_run_in_order() -> None:
    groups = groups_of(lambda m, x: m.op("cumsum", x, attributes=AxisAttributes(1)))
    assert isinstance(groups[0], OrderedGroup)


@pytest.mark.parametrize("make", [softmax, tanh_of_rows])
def test_groups_stand_in_an_order_of_execution(make: Make) -> None:
    """Whatever a group reads of others has been made by then."""
    known: set[Value] = set()
    groups = groups_of(make, fusing=False)
    made = {value for group in groups if not isinstance(group, StepGroup) for value in group.values}
    for group in groups:
        assert not isinstance(group, StepGroup | ProductGroup)
        read = {value for member in group.members for value, _ in member.analysed.leaves if value in made}
        assert read - set(group.values) <= known
        known |= set(group.values)
