"""`queue`: the form of a queue, and the rng that a shuffled one draws with.

    queue pool: (image: f32[784], label: i32) = shuffle_queue(capacity = 8_192, ready = 2_048, seed = 3)

is state called `pool`, of bytes, and an rng called `pool.order`. Assumes a declaration whose names are free. Guarantees
that all sizes of an element are known, and that a queue has room for what one take may ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import Edit, editing
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean, listed
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import ExpectedArgument, arguments_of, assign_arguments, value_of
from dfc.elaborate.mistakes import mistake, unsupported
from dfc.elaborate.names.declarations import static_context
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.state.buckets import BOUNDS, Fields, fields_of
from dfc.elaborate.state.declaration import Declaration, register
from dfc.elaborate.state.randomness import RNG_TYPE
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.declared import DeclaredType, ResourceType, TupleType
from dfc.elaborate.types.entities import Entity, LiteralTensor, PreludeFunction, QueueValue
from dfc.elaborate.types.types import LARGEST_SIZE, find_type, resolve_type
from dfc.ir.attributes import Literal
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, U8, DTypeVariable
from dfc.ir.graph import ResourceKind
from dfc.ir.queues import QueueForm, queue_bytes, queue_type
from dfc.ir.types import TensorType
from dfc.ops.creation.philox import initial_state
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted

MOST_ELEMENTS = 2**31
"""More elements than this have no room for their order in the draws, which have 53 bits."""
PERSIST = "persist"
LATER_SETTINGS = ("container", "order", "saved")


@dataclass(frozen=True, slots=True)
class Constructor:
    """What makes a queue: its declaration, and the names of its arguments for capacity and for the window. `has_key`:
    a field decides which element is taken, the first one where none is named. `has_bounds`: elements vary in length."""

    signature: str
    capacity: str = "capacity"
    window: str = ""
    required: tuple[str, ...] = field(default=("capacity",))
    has_seed: bool = False
    has_key: bool = False
    has_bounds: bool = False


PRINTED = "graph.queue_of"
CONSTRUCTORS = {
    "fifo": Constructor("fifo(const capacity: int)"),
    "staging": Constructor("staging(const depth: int)", "depth", required=("depth",)),
    "shuffle_queue": Constructor(
        "shuffle_queue(const capacity: int, const ready: int, const seed: int = 0)",
        window="ready",
        required=("capacity", "ready"),
        has_seed=True,
    ),
    "priority_queue": Constructor(
        'priority_queue(const capacity: int, const ready: int, const by: str = "first field")',
        window="ready",
        required=("capacity", "ready"),
        has_key=True,
    ),
    "bucket_queue": Constructor(
        "bucket_queue(const capacity: int, const bounds: int[])", required=("capacity", BOUNDS), has_bounds=True
    ),
    PRINTED: Constructor(
        'graph.queue_of(const capacity: int, const window: int, const by: str = "", const bounds: int[] = [])',
        window="window",
        has_key=True,
        has_bounds=True,
    ),
}
"""`graph.queue_of` is what printed graphs say: the rng of its order stands beside it."""

_EXAMPLES = {
    "fifo": "fifo(capacity = 64)",
    "staging": "staging(depth = 2)",
    "shuffle_queue": "shuffle_queue(capacity = 64, ready = 16)",
    "priority_queue": "priority_queue(capacity = 64, ready = 16)",
}
"""What is offered where an author has written only the name."""


def declare_queue(declaration: Declaration, item: tree.QueueItem) -> QueueValue:
    """The queue that an item declares."""
    program = declaration.program
    context = static_context(
        program, Scope(declaration.scope), "state", item.name.text, item.name.span, generic=declaration.generic
    )
    stated, persist = _settings(context, item)
    name = stated or f"{declaration.prefix}{item.name.text}"
    declared = resolve_type(context.changed(unknown_sizes=True), item.type)
    constructor, arguments = _constructor(context, item)
    is_printed = constructor is CONSTRUCTORS[PRINTED]
    fields = fields_of(context, item, Fields(*_fields(declared, item)), arguments, is_printed=is_printed)
    for type_ in fields.types:
        _check_size(type_, item, generic=declaration.generic)
    form = replace(_form(context, item, fields, constructor, arguments), persist=persist)
    span, doc = item.name.span, item.documentation
    type_ = queue_type(form) if _is_known(form) else TensorType(U8, (dim(0),))  # a block that is checked by itself
    variable = Variable(name, ResourceKind.QUEUE, type_, False, span, saved=False, doc=doc, queue=form)
    register(declaration, variable)
    is_shuffled = constructor.has_seed and form.is_shuffled  # with one element ready there is no choice
    order = _order(declaration, context, item, f"{name}.order", arguments) if is_shuffled else None
    if order is None and form.is_shuffled:
        order = program.variables.get(f"{name}.order")  # a printed graph declares it above
    return QueueValue(variable, form, isinstance(declared, TupleType) or bool(form.bounds), order)


def refuse_constructor(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    """`fifo(..)` anywhere but in the declaration of a queue."""
    del context, arguments, expected
    name = span.text.split("(")[0]
    helps = ("declare the queue at the top of the file, with `queue`, its name and the type of its elements",)
    raise mistake("E0407", f"`{name}` makes a queue", span, "here is no queue", helps=helps)


def refuse_queue_as_type(context: Context, item: tree.ParamItem | tree.VarItem, written: tree.TypeExpression) -> None:
    """`var q: fifo[f32] = ..`: says how a queue is declared, where the type of a variable is what makes one. The help,
    typed in, declares a queue of these elements."""
    if not isinstance(written, tree.TensorType) or written.name.text not in CONSTRUCTORS:
        return
    if not isinstance(find_type(context, written.name), PreludeFunction):
        return  # a type of the program has this name
    name = written.name.text
    title, span = f"`{name}` makes a queue, and is not a type", written.name.span
    elements = written.span.text[len(name) :].strip()[1:-1].strip()
    constructor = item.value.span.text if item.value.span.text.startswith(f"{name}(") else _EXAMPLES.get(name, "")
    if not elements or not constructor or not item.span.text.startswith(("var", "param")):
        helps = (f"a queue is declared by its elements: `queue {item.name.text}: f32 = {name}(..)`",)
        raise mistake("E0316", title, span, helps=helps)
    shown = f"({elements})" if len(written.dimensions) > 1 else elements
    whole = Span(item.span.file, item.span.start, item.value.span.end)
    text = f"queue {item.name.text}: {shown} = {constructor}"
    raise mistake("E0316", title, span, helps=(editing(f"write `{text}`", [Edit(whole, text)]),))


def _settings(context: Context, item: tree.QueueItem) -> tuple[str, bool]:
    """The full name, `with name = "net.pool"`, as printed graphs write it, and whether checkpoints have elements in any
    case, `with persist = true`."""
    stated, persist = "", False
    for setting in item.settings:
        name = setting.name.text
        if name == "name" and isinstance(setting.value, tree.StringLiteral):
            stated = setting.value.value
        elif name == PERSIST:
            entity, span = context.engine.evaluate(context, setting.value), setting.value.span
            value = constant_of(context, entity, span, f"the setting `{PERSIST}`")
            if not isinstance(value, bool):
                raise mistake("E0315", f"the setting `{PERSIST}` must be `true` or `false`", span)
            persist = value
        elif name in LATER_SETTINGS:
            raise unsupported(f"the setting `{name}` of a queue is", setting.span)
        else:
            near = did_you_mean(closest(name, (PERSIST, *LATER_SETTINGS)))
            raise mistake("E0204", f"a queue has no setting `{name}`", setting.name.span, near)
    return stated, persist


def _fields(declared: DeclaredType, item: tree.QueueItem) -> tuple[tuple[str, ...], tuple[TensorType, ...]]:
    """The names and types of the values of an element."""
    match declared:
        case TensorType():
            return ("value",), (declared,)
        case TupleType(fields, names) if fields:
            types = [each for each in fields if isinstance(each, TensorType)]
            if len(types) == len(fields):
                shown = names or tuple(f"value_{number}" for number in range(len(fields)))
                return shown, tuple(types)
        case ResourceType("string"):
            raise unsupported("strings are", item.type.span)
        case _:
            pass
    title = f"the elements of a queue are tensors, or tuples of tensors, not {declared}"
    raise mistake("E0316", title, item.type.span)


def _check_size(type_: TensorType, item: tree.QueueItem, *, generic: bool) -> None:
    if not generic and any(size.constant is None for size in type_.shape):
        title = "the shape of the elements of a queue is known when the program is compiled"
        raise mistake("E0309", title, item.type.span, str(type_))


def _constructor(context: Context, item: tree.QueueItem) -> tuple[Constructor, Mapping[str, Argument]]:
    """What makes the queue, and its arguments by name."""
    value = item.value
    name = value.function.span.text if isinstance(value, tree.Call) else ""
    constructor = CONSTRUCTORS.get(name)
    if constructor is None or not isinstance(value, tree.Call):
        offered = tuple(each for each in CONSTRUCTORS if "." not in each)
        note = f"a queue is made by {', '.join(CONSTRUCTORS[each].signature for each in offered)}"
        near = did_you_mean(closest(name, offered)) if name else ""
        raise mistake("E0407", "this makes no queue", item.value.span, near, notes=(note,))
    optional = (
        "seed" if constructor.has_seed else "",
        "by" if constructor.has_key else "",
        BOUNDS if constructor.has_bounds else "",
    )
    known = (constructor.capacity, constructor.window, *optional)
    expected = [ExpectedArgument(each, each in constructor.required) for each in known if each]
    return constructor, assign_arguments(name, expected, arguments_of(value), value.span, constructor.signature)


def _form(
    context: Context,
    item: tree.QueueItem,
    fields: Fields,
    constructor: Constructor,
    arguments: Mapping[str, Argument],
) -> QueueForm:
    capacity = _count(context, arguments[constructor.capacity], constructor.capacity)
    window = 1
    if constructor.window in arguments:
        window = _count(context, arguments[constructor.window], constructor.window)
        if window > capacity:
            title = f"a queue with room for {counted(capacity, 'element')} is never {constructor.window} with {window}"
            label = f"more than the {constructor.capacity}, {capacity}"
            raise mistake("E0315", title, arguments[constructor.window].span, label)
    names, types = fields.names, fields.types
    key = _key(context, item, names, types, arguments) if constructor.has_key else ""
    form = QueueForm(names, types, capacity, window, key, bounds=fields.bounds, varying=fields.varying)
    if _is_known(form) and queue_bytes(form) > LARGEST_SIZE:
        raise mistake("E0309", f"a queue of {capacity} such elements is too large", item.type.span)
    return form


def _is_known(form: QueueForm) -> bool:
    """Whether the bytes of an element are."""
    sizes = all(size.constant is not None for type_ in form.types for size in type_.shape)
    return sizes and not any(isinstance(type_.dtype, DTypeVariable) for type_ in form.types)


def _key(
    context: Context,
    item: tree.QueueItem,
    names: tuple[str, ...],
    types: tuple[TensorType, ...],
    arguments: Mapping[str, Argument],
) -> str:
    """The field that says which element comes first: a number. A printed graph names none where there is none."""
    span = item.type.span
    if "by" in arguments:
        span = arguments["by"].span
        name = constant_of(context, value_of(context, arguments["by"]), span, "the argument `by` of a queue")
        if name not in names:
            near = did_you_mean(closest(str(name), names))
            note = f"an element has {'the fields' if len(names) > 1 else 'the field'} {listed(names)}"
            raise mistake("E0203", f"the elements of this queue have no field `{name}`", span, near, notes=(note,))
    elif item.value.span.text.startswith("graph."):
        return ""
    else:
        name = names[0]
    type_ = types[names.index(str(name))]
    if type_.shape or type_.dtype == BOOL or isinstance(type_.dtype, DTypeVariable):
        helps = ('name a field that is one number: `by = "key"`',)
        raise mistake("E0316", f"the key of a priority queue is a number, and `{name}` is {type_}", span, helps=helps)
    return str(name)


def _count(context: Context, argument: Argument, name: str) -> int:
    what = f"the argument `{name}` of a queue"
    value = constant_of(context, value_of(context, argument), argument.span, what)
    if isinstance(value, bool) or not isinstance(value, int):
        raise mistake("E0315", f"{what} must be a whole number", argument.span)
    if not 1 <= value <= MOST_ELEMENTS:
        label = "nothing could ever be put into it" if value == 0 else ""
        raise mistake("E0315", f"{what} must be between 1 and {MOST_ELEMENTS}", argument.span, label)
    return value


def _order(
    declaration: Declaration, context: Context, item: tree.QueueItem, name: str, arguments: Mapping[str, Argument]
) -> Variable:
    """The rng whose numbers say which element a take gets."""
    seed: object = 0
    if "seed" in arguments:
        seed = constant_of(context, value_of(context, arguments["seed"]), arguments["seed"].span, "the seed")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise mistake("E0315", "a seed is a whole number", arguments["seed"].span)
    assert isinstance(seed, int)
    literal = LiteralTensor(Literal(np.asarray(initial_state(seed, name))), RNG_TYPE)
    order = Variable(name, ResourceKind.RNG, RNG_TYPE, False, item.name.span)
    declaration.program.first_values[order] = lambda _context: literal
    register(declaration, order)
    return order
