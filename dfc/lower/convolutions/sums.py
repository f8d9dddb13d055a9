"""Launches that make sums of products: what they read at each point, and what they write of the finished sum.

Assumes kernels over the sizes of the program. Guarantees views of whole numbers of axes; a sum that is not written in
one place, or not as it is but for an addition and a cast, has no `made`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dfc.ir.dims import ZERO, Dim
from dfc.kernels.body import Accumulated, Affine, Apply, Index, Instruction, Load
from dfc.kernels.form import ContractKernel
from dfc.lower.convolutions.copies import Copied
from dfc.lower.convolutions.roles import Flat
from dfc.lower.convolutions.views import Along, Space, Terms, View, indices
from dfc.lower.fuse.places import Place
from dfc.lower.schedule.draft import DraftLaunch


@dataclass(frozen=True, slots=True)
class Sum:
    """Sums over products of two factors along the last axis. `made` is the only place where they are written, if they
    are written as they are but for `more`, which is added to them, and a cast."""

    extents: tuple[Dim, ...]
    factors: tuple[View, View]
    made: View | None = None
    more: tuple[View, ...] = ()

    def space(self) -> Space:
        return Space(dict(enumerate(self.extents)))


def sum_of(launch: DraftLaunch) -> Sum | None:
    """The sums of a launch."""
    kernel = launch.kernel
    if not isinstance(kernel, ContractKernel):
        return None
    a, b = (_view(launch.places[one.operand], one.index) for one in (kernel.a, kernel.b))
    if a is None or b is None:
        return None
    extents = tuple(axis.extent for axis in kernel.axes)
    return Sum(extents, (a, b), *_written(kernel, launch.places))


def _written(kernel: ContractKernel, places: Sequence[Place]) -> tuple[View | None, tuple[View, ...]]:
    """Where the sums are, and what is added to them."""
    store = kernel.stores[0]
    made = _view(places[store.operand], store.index)
    loads = _added(kernel, kernel.epilogue[store.value])
    if len(kernel.stores) != 1 or store.combine or made is None or loads is None:
        return None, ()
    more = [_view(places[load.operand], load.index) for load in loads]
    known = tuple(one for one in more if one is not None)
    return (made, known) if len(known) == len(more) else (None, ())


def _view(place: Place, index: Sequence[Index]) -> View | None:
    found: list[Along] = []
    for one in index:
        if not isinstance(one, Affine):
            return None
        terms: Terms = {}
        for axis, factor in one.terms:
            terms[axis] = terms.get(axis, ZERO) + factor
        found.append(Along(terms, one.offset))
    return View(place, tuple(found))


def _added(kernel: ContractKernel, value: Instruction) -> list[Load] | None:
    """The loads that are added to the sum, one after the other; None if anything else is done to it. A cast to the
    element type of the result comes last."""
    body = kernel.epilogue
    if _is(value, "cast") and body[value.arguments[0]].dtype == kernel.accumulator:
        value = body[value.arguments[0]]
    found: list[Load] = []
    while not isinstance(value.operation, Accumulated):
        if not _is(value, "add") or value.dtype != kernel.accumulator or len(found) == 2:
            return None
        parts = [body[number] for number in value.arguments]
        loads = [_loaded(kernel, part) for part in parts]
        if (loads[0] is None) == (loads[1] is None):
            return None
        place = 0 if loads[0] is not None else 1
        load = loads[place]
        assert load is not None
        found.append(load)
        value = parts[1 - place]
    return found


def _loaded(kernel: ContractKernel, value: Instruction) -> Load | None:
    if _is(value, "cast") and value.dtype == kernel.accumulator:
        value = kernel.epilogue[value.arguments[0]]
    load = value.operation
    return load if isinstance(load, Load) and load.mask is None else None


def _is(one: Instruction, function: str) -> bool:
    return isinstance(one.operation, Apply) and one.operation.function == function


def carried_on(space: Space, made: View, copy: Copied) -> Flat | None:
    """Where a sum ends up after a copy that reads each element that was made once: `made` for its target."""
    flat = space.flat(made)
    if flat is None or copy.interiors:
        return None
    source = Space(dict(enumerate(copy.target.shape)))
    back = {axis: number for number, axis in enumerate(copy.stored)}
    terms = [{back[axis]: ZERO + factor for axis, factor in one.terms if axis in back} for one in copy.loaded]
    read = View(copy.source, tuple(Along(each, one.offset) for each, one in zip(terms, copy.loaded, strict=True)))
    where = source.flat(read)
    if where is None or where[1] != ZERO:
        return None
    order = _in_order(source, where[0], copy)
    found = None if order is None else indices(space, *flat, tuple(source.extents[axis] for axis in order))
    if order is None or found is None:
        return None
    by_axis = dict(zip(order, found, strict=True))
    target = View(copy.target, tuple(by_axis.get(axis, Along({})) for axis in range(len(copy.target.shape))))
    written = space.flat(target)
    return None if written is None else Flat(*written)


def _in_order(source: Space, terms: Terms, copy: Copied) -> list[int] | None:
    """The axes of the target, outermost first, in the order in which they run through the source; None if they do not
    run through all of it once."""
    left = {stride: axis for axis, stride in terms.items()}
    if len(left) != len(terms):
        return None
    found: list[int] = []
    total, wanted = ZERO + 1, ZERO + 1
    for extent in copy.source.shape:
        wanted = wanted * extent
    while left:
        axis = left.pop(total, None)
        if axis is None:
            return None
        found.append(axis)
        total = total * source.extents[axis]
    return found[::-1] if total == wanted else None
