"""`with recompute = ..`: what a backward pass computes again instead of keeping it.

On a loop it is the number of iterations from one that is kept to the next; on an instance of a block it is `true`. A
call of such an instance becomes a `for` of one iteration: a region hands out its results only, and the backward pass
runs it again. What the region draws or reads is handed out too, so that nothing is drawn twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.statements.branches import leaves, rebuild
from dfc.elaborate.statements.regions import Region, parameter, tokens_after, touched
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.entities import Entity, Instance, ListValue, Routine, Tensor, TupleValue
from dfc.ir.dims import ONE
from dfc.ir.dtypes import I64
from dfc.ir.graph import Value
from dfc.ir.regions import for_node
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree

SETTING = "recompute"
HELP = "write `with recompute = 16` to keep every sixteenth iteration, and compute those between again"


def segment_length(context: Context, settings: Sequence[tree.Setting]) -> int:
    """The `k` of a loop `with recompute = k`; 0 without it."""
    length = 0
    for setting in settings:
        if setting.name.text != SETTING:
            near = did_you_mean(closest(setting.name.text, (SETTING,)))
            title = f"a loop has no setting `{setting.name.text}`"
            raise mistake("E0204", title, setting.name.span, near, helps=(HELP,))
        span = setting.value.span
        entity = context.engine.evaluate(context.operand(), setting.value)
        value = constant_of(context, entity, span, "the setting `recompute`")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            title = "the setting `recompute` of a loop is a number of iterations, at least 1"
            raise mistake("E0315", title, span, f"this is {setting.value.span.text}", helps=(HELP,))
        length = value
    return length


def refuse_on_while(settings: Sequence[tree.Setting]) -> None:
    """A `while` keeps so little that there is nothing to choose."""
    if settings:
        raise mistake(
            "E0204",
            f"a `while` loop has no setting `{settings[0].name.text}`",
            settings[0].span,
            "only the run knows how many iterations there are, so that they are always computed again",
            helps=("leave out the setting",),
        )


# ---------------------------------------------------------------- instances --


def mark_instances(entity: Entity) -> None:
    """Calls of these instances are computed again in the backward pass."""
    match entity:
        case Instance():
            entity.recompute = True
        case ListValue(items) | TupleValue(items):
            for item in items:
                mark_instances(item)
        case _:
            pass


def is_computed_again(context: Context, routine: Routine) -> bool:
    """Whether a call enters an instance with the setting; calls inside the instance stay in its region."""
    owner = routine.owner
    if owner is None or not owner.recompute or context.generic:
        return False
    frame = context.frame
    while frame is not None:
        if frame.routine is not None and frame.routine.owner is owner:
            return False
        frame = frame.parent
    return True


def computed_again(context: Context, run: Callable[[Context], Entity], span: Span) -> Entity:
    """Runs the elaboration of a call in a region of its own: a `for` of one iteration that emits the results."""
    region = Region(context.region)
    parameter(region, TensorType(I64), "index")
    entity = run(context.changed(region=region))
    values = [leaf.value for leaf in leaves(entity) if isinstance(leaf, Tensor)]
    resources = touched([region])
    block = region.close(values, resources)
    parent = context.region
    builder = context.at(span)
    bounds = (builder.constant(0, I64), builder.constant(1, I64))
    tokens = [parent.token(r) for r in resources]
    loop = builder.append(for_node(*bounds, tokens, block, trips=ONE, recompute=1, origin=builder))
    tokens_after(parent, loop, resources, [region])
    results = [builder.reshape(new, old.tensor.shape) for new, old in zip(loop.results, values, strict=False)]
    return _with_values(entity, results)


def _with_values(entity: Entity, values: list[Value]) -> Entity:
    """The entity with the next values in place of its tensors; what is no tensor stays."""
    match entity:
        case TupleValue(items, names):
            return TupleValue(tuple(_with_values(item, values) for item in items), names)
        case Tensor():
            return rebuild(entity, values)
        case _:
            return entity
