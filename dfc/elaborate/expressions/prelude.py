"""The prelude: names that need no import, and what a call of each does.

Most are op records. Some are more than one op or are about state (`SPECIAL`); some are written in the language
itself (`std/core.dfg`); some belong to the language but are not compiled yet (`UNSUPPORTED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import NOWHERE, Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions import gradients, makers, prelude_special, settings
from dfc.elaborate.expressions.arguments import ExpectedArgument, assign_arguments, value_of
from dfc.elaborate.expressions.prelude_records import call_graph_op, call_record
from dfc.elaborate.mistakes import unsupported
from dfc.elaborate.names.scope import Binding, BindingRole, Pending, Scope
from dfc.elaborate.shapes import size_inference
from dfc.elaborate.state import host_output, randomness, readers, state_calls
from dfc.elaborate.state.queues import CONSTRUCTORS, refuse_constructor
from dfc.elaborate.types.entities import (
    NOTHING,
    ElementType,
    Entity,
    PreludeFunction,
    PreludeModule,
    ProgramValue,
    SpecialType,
)
from dfc.elaborate.types.types import SPECIAL_TYPES
from dfc.ir.dtypes import ALL
from dfc.ir.names import escape
from dfc.ops import registry
from dfc.ops.effects.records import DECODE, IMAGE, PARSE
from dfc.ops.record import OpRecord

Handler = Callable[[Context, Mapping[str, Argument], Span, Expected], Entity]


@dataclass(frozen=True, slots=True)
class Special:
    """A function the front end elaborates itself: `signature` is its declaration, `required` how many are needed."""

    signature: str
    required: int
    handler: Handler
    takes_more: bool = False  # any number of values behind the first argument

    @property
    def expected_arguments(self) -> tuple[ExpectedArgument, ...]:
        inside = self.signature[self.signature.index("(") + 1 : -1]
        names = [part.split("=")[0].split(":")[0].split()[-1] for part in inside.split(",") if part.strip()]
        return tuple(ExpectedArgument(name, number < self.required) for number, name in enumerate(names))


def _make_example(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    from dfc.elaborate.state import reader_calls  # most programs read no records

    return reader_calls.make_example(context, arguments, span, expected)


def _make_decoded(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    from dfc.elaborate.state import reader_calls  # as above

    return reader_calls.make_decoded(context, arguments, span, expected)


def _make_image(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
    from dfc.elaborate.state import reader_calls  # as above

    return reader_calls.make_image(context, arguments, span, expected)


SPECIAL: dict[str, Special] = {
    "zeros": Special("zeros(type)", 1, makers.make_zeros),
    "ones": Special("ones(type)", 1, makers.make_ones),
    "full": Special("full(type, value)", 2, makers.make_full),
    "zeros_like": Special("zeros_like(x)", 1, makers.make_zeros_like),
    "ones_like": Special("ones_like(x)", 1, makers.make_ones_like),
    "stack": Special("stack(parts: tensors, const axis: int = 0)", 1, makers.make_stack),
    "split": Special("split(x, const parts: int, const axis: int = 0)", 2, makers.make_split),
    "grad": Special("grad(loss, targets)", 2, gradients.make_grad),
    "jacobian": Special("jacobian(y, x)", 2, gradients.make_jacobian),
    "uniform": Special("uniform(const low: float = 0, const high: float = 1)", 0, randomness.make_uniform),
    "normal": Special("normal(const mean: float = 0, const deviation: float = 1)", 0, randomness.make_normal),
    "glorot_uniform": Special("glorot_uniform()", 0, randomness.make_glorot_uniform),
    "he_normal": Special("he_normal()", 0, randomness.make_he_normal),
    "philox": Special("philox(const seed: int = 0)", 0, randomness.make_philox),
    "params": Special("params(of)", 1, state_calls.make_params),
    "state": Special("state(of)", 1, state_calls.make_state),
    "initialize": Special("initialize(what)", 1, state_calls.run_initialize),
    "reset": Special("reset(const container: str)", 1, state_calls.run_reset),
    "checkpoint.save": Special("checkpoint.save(path: string, what)", 2, state_calls.run_save),
    "checkpoint.restore": Special("checkpoint.restore(path: string, what)", 2, state_calls.run_restore),
    "norm": Special("norm(x, const axis, const keep, const keep_dims: bool = false)", 1, makers.make_norm),
    "range": Special(size_inference.RANGE, 2, size_inference.make_range),
    "nonzero": Special("nonzero(x)", 1, size_inference.make_nonzero),
    "unique": Special("unique(x)", 1, size_inference.make_unique),
    "einsum": Special(prelude_special.EINSUM, 2, prelude_special.make_einsum),
    "setting": Special("setting(const name: str, const default)", 2, settings.make_setting),
    "load": Special("load(const path: str)", 1, settings.make_load),
    "summary.scalar": Special("summary.scalar(const tag: str, x, step: i64)", 2, host_output.run_scalar),
    "summary.histogram": Special("summary.histogram(const tag: str, x, step: i64)", 2, host_output.run_histogram),
    "debug.print": Special("debug.print(const format: str, values ..)", 1, host_output.run_print, takes_more=True),
    **{name: Special(signature, 0, readers.refuse_reader(name)) for name, signature in readers.SIGNATURES.items()},
    PARSE: Special(f"{PARSE}(record, fields)", 2, _make_example),
    DECODE: Special(f"{DECODE}(bytes, type)", 2, _make_decoded),
    IMAGE: Special(f"{IMAGE}(bytes, const height: int, const width: int, const on_error: str)", 3, _make_image),
    "clock": Special("clock()", 0, host_output.make_clock),
    **{name: Special(each.signature, 0, refuse_constructor) for name, each in CONSTRUCTORS.items() if "." not in name},
}
# What has an op record by now (`registry`) is not meant any more.
UNSUPPORTED: dict[str, str] = {
    "quantize": "quantize(x, type)",
    "dequantize": "dequantize(x)",
    "split_text": "split_text(text, separator)",
    "matches": "matches(text, const pattern: str)",
    "hash_text": "hash_text(text)",
}
SIZES = ("min", "max", "ceil_div")
COMPOSITE = ("outer", "dot", "one_hot", "trace", "lerp", "cross")
"""Functions of the prelude that `std/core.dfg` defines."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the prelude of all programs has, as long as the same ops are registered: nothing changes what one of its
    names stands for. `composite` are those of `names` that each program finds by itself."""

    records: tuple[OpRecord, ...]
    names: Mapping[str, Binding]
    composite: tuple[str, ...]


_shared = _Shared((), {}, ())


def prelude_scope(composite: Callable[[str], Pending]) -> Scope:
    """All names of the prelude; `composite` finds the functions written in the language."""
    global _shared
    records = registry.all_records()
    shared = _shared
    if shared.records is not records:
        _shared = shared = _shared_names(records)
    scope = Scope()
    scope.names |= shared.names
    for name in shared.composite:
        scope.bind(name, composite(name), NOWHERE, BindingRole.PRELUDE)
    return scope


def _shared_names(records: tuple[OpRecord, ...]) -> _Shared:
    scope = Scope()
    for name, dtype in ALL.items():
        scope.bind(name, ElementType(dtype), NOWHERE, BindingRole.PRELUDE)
    for name in SPECIAL_TYPES:
        scope.bind(name, SpecialType(name), NOWHERE, BindingRole.PRELUDE)
    functions = [record.name for record in records if record.in_prelude and not record.operator]
    for name in (*functions, *SPECIAL, *UNSUPPORTED, "ceil_div", "matmul"):
        if "." not in name:
            scope.bind(name, PreludeFunction(name), NOWHERE, BindingRole.PRELUDE)
    composite = tuple(name for name in COMPOSITE if scope.own(name) is None)
    for name in composite:
        scope.bind(name, NOTHING, NOWHERE, BindingRole.PRELUDE)  # its place among the others
    for module in ("checkpoint", "summary", "debug"):
        names = [name for name in (*SPECIAL, *UNSUPPORTED) if name.startswith(f"{module}.")]
        members: dict[str, Entity] = {name.split(".")[1]: PreludeFunction(name) for name in names}
        scope.bind(module, PreludeModule(module, members), NOWHERE, BindingRole.PRELUDE)
    ops: dict[str, Entity] = {escape(r.name): PreludeFunction(f"graph.{r.name}") for r in records}
    scope.bind("graph", PreludeModule("graph", ops), NOWHERE, BindingRole.PRELUDE)
    scope.bind("program", ProgramValue(), NOWHERE, BindingRole.PRELUDE)
    return _Shared(records, scope.names, composite)


def call_prelude(context: Context, name: str, arguments: Sequence[Argument], span: Span, expected: Expected) -> Entity:
    """What a call of a function of the prelude gives: an op of the graph, or what has rules of its own."""
    if name.startswith("graph."):
        return call_graph_op(context, name.removeprefix("graph."), arguments, span)
    if name in SIZES and not any(a.name for a in arguments) and len(arguments) == 2:
        entities = [value_of(context, argument) for argument in arguments]
        size = makers.size_function(name, entities)
        if size is not None:
            return size
        arguments = [Argument("", a.span, a.span, None, e) for a, e in zip(arguments, entities, strict=True)]
    special = SPECIAL.get(name)
    if special is not None:
        expected_parameters = special.expected_arguments
        if special.takes_more:
            expected_parameters = (
                expected_parameters[0],
                *(ExpectedArgument(f"value {number}", False) for number in range(len(arguments))),
            )
        by_name = assign_arguments(name, expected_parameters, arguments, span, special.signature)
        return special.handler(context, by_name, span, expected)
    record = registry.find(name)
    if record is None and name in UNSUPPORTED:
        raise _unsupported(name, arguments, span)
    if record is None:
        expected_parameters = (ExpectedArgument("a", True), ExpectedArgument("b", True))
        assign_arguments(name, expected_parameters, arguments, span, f"{name}(a, b) takes two sizes")
        raise unsupported(f"`{name}` of values is", span)
    return call_record(context, record, arguments, span)


def _unsupported(name: str, arguments: Sequence[Argument], span: Span) -> Exception:
    signature = UNSUPPORTED[name]
    inside = signature[signature.index("(") + 1 : -1]
    parts = [part for part in inside.split(",") if part.strip()]
    expected_parameters = [ExpectedArgument(p.split("=")[0].split(":")[0].split()[-1], False) for p in parts]
    named = [argument for argument in arguments if argument.name]
    assign_arguments(name, expected_parameters, named, span, signature)
    return unsupported(f"`{name}` is", span)
