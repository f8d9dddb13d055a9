"""What passes have to know of windows over a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.ir.graph import Node
from dfc.ops.attributes import WindowAttributes
from dfc.ops.rules.degrees import MaybeDegree, Sizes
from dfc.ops.rules.op_rules import DEFAULTS
from dfc.ops.rules.sharding import Partitioning, Split, State
from dfc.ops.rules.use import ALONG, NeededWhole, Use, one


def _windows(node: Node, states: Sequence[State], cutting: Partitioning) -> Use:
    del cutting
    assert isinstance(node.attributes, WindowAttributes)
    (state,) = states
    if isinstance(state, Split) and state.axis in node.attributes.axes:
        raise NeededWhole(0, ALONG)
    return one(states, state)


# ---------------------------------------------------------------- degrees --


def _windows_degree(node: Node, degrees: Sequence[MaybeDegree], sizes: Sizes) -> MaybeDegree:
    assert isinstance(node.attributes, WindowAttributes)
    shape = node.operands[0].tensor.shape
    if degrees[0] is None or degrees[0].is_dense or sizes.is_fixed([shape[axis] for axis in node.attributes.axes]):
        return degrees[0]
    return None


WINDOWS = replace(DEFAULTS, sharding=_windows, degree=_windows_degree, keeps_finite=True, weight=0)
