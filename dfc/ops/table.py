"""The table of ops by name, and how it is filled: `load_all` imports every module of the set, then installed plug-ins.

A third party adds ops through the entry point group `dfc.ops` (each entry point is a module that calls `register` of
`registry`). What is in the table are records (`record.OpRecord`). Records mention builders, and builders need the type
rules of ops: so these are all that this module, below both, knows of a record.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol

from dfc.deferred.plug_ins import EntryPoint, entry_points
from dfc.ir.attributes import Attributes
from dfc.ir.types import TensorType


class Typed(Protocol):
    """An op as far as the types of its results are concerned."""

    @property
    def name(self) -> str: ...

    @property
    def infer(self) -> Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]: ...


PLUG_INS = "dfc.ops"
RECORDS: dict[str, Typed] = {}
_MODULES = (
    "dfc.ops.creation.sources",
    "dfc.ops.creation.numbered",
    "dfc.ops.elementwise.unary",
    "dfc.ops.elementwise.arithmetic",
    "dfc.ops.elementwise.transcendental",
    "dfc.ops.elementwise.composite",
    "dfc.ops.elementwise.bits",
    "dfc.ops.elementwise.select",
    "dfc.ops.elementwise.comparison",
    "dfc.ops.layout.shape",
    "dfc.ops.indexing.slice_pad",
    "dfc.ops.indexing.gather_scatter",
    "dfc.ops.nn.windows",
    "dfc.ops.reduction.reductions",
    "dfc.ops.reduction.ordering",
    "dfc.ops.indexing.gather_along",
    "dfc.ops.indexing.sorting",
    "dfc.ops.indexing.top_k",
    "dfc.ops.indexing.nonzero",
    "dfc.ops.indexing.unique",
    "dfc.ops.layout.rearrange",
    "dfc.ops.reduction.scans",
    "dfc.ops.nn.resizing",
    "dfc.ops.indexing.segments",
    "dfc.ops.reduction.statistics",
    "dfc.ops.linalg.products",
    "dfc.ops.layout.diagonals",
    "dfc.ops.linalg.einsum",
    "dfc.ops.nn.convolution",
    "dfc.ops.nn.pooling",
    "dfc.ops.linalg.solving",
    "dfc.ops.linalg.elimination",
    "dfc.ops.linalg.determinants",
    "dfc.ops.linalg.factoring",
    "dfc.ops.linalg.jacobi",
    "dfc.ops.nn.losses",
    "dfc.ops.effects.state",
    "dfc.ops.control.control",
    "dfc.ops.control.custom",
    "dfc.ops.effects.communication",
    "dfc.ops.effects.routing",
    "dfc.ops.effects.host_io",
    "dfc.ops.effects.mutexes",
    "dfc.ops.effects.queues",
    "dfc.ops.effects.records",
)
_loading = threading.RLock()
_begun = _loaded = False


def load_all() -> None:
    """Imports every module of records, then those of installed plug-ins; other threads wait until all are there."""
    global _begun, _loaded
    if _loaded:
        return
    with _loading:
        if _begun:
            return  # a module that is being imported asks
        _begun = True
        for module in _MODULES:
            import_module(module)
        for point in entry_points(group=PLUG_INS):
            _load_plug_in(point)
        _loaded = True


def _load_plug_in(point: EntryPoint) -> None:
    """A plug-in that cannot be loaded costs its own ops only; the warning names it."""
    try:
        point.load()
    except Exception as problem:
        package = point.dist.name if point.dist is not None else point.value
        warnings.warn(f"the ops of {package} ({point.value}) are missing: {problem}", RuntimeWarning, stacklevel=2)


def type_rule(name: str) -> Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]:
    """From the types of the operands of an op to those of its results; KeyError if there is no such op."""
    load_all()
    return RECORDS[name].infer
