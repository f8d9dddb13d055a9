"""Routines become kernels of their own, whose operands and results are in memory, as is what they work in."""

from __future__ import annotations

from dfc.ir.dtypes import F64
from dfc.ir.graph import Node, Value
from dfc.kernels.routines import routine_kernel
from dfc.lower.fuse.fused import FusedKernel
from dfc.lower.fuse.scope import Scope
from dfc.lower.storage import BufferView, fresh, whole_view


def routine(scope: Scope, node: Node, name: str) -> FusedKernel:
    """The kernel of a node, all values of which are in memory."""
    views = [_view_of(scope, value) for value in (*node.operands, *node.results)]
    kernel = routine_kernel(name, [view.shape for view in views])
    scratch = fresh(F64, kernel.operands[-1].shape, f"{node.name}/scratch")
    return FusedKernel(kernel, (*views, whole_view(scratch)), (node.name,), node.span)


def _view_of(scope: Scope, value: Value) -> BufferView:
    view = scope.view_of(value)
    assert view is not None, value
    return BufferView(view.storage, value.tensor.shape)
