"""Whether a node is what its op record says: the op-aware half of `dfc.ir.verify` (its invariant 11).

Control and state ops are checked here by name, because their types come from regions and resources; every other op
by its record's `infer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from dfc.ir.dims import Symbol
from dfc.ir.dtypes import BOOL, I64
from dfc.ir.facts import Facts
from dfc.ir.graph import Block, DimCheck, Node, Resource, Value
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType, Type
from dfc.ir.verify import Situation
from dfc.ops import registry
from dfc.ops.attributes import (
    AssignAttributes,
    DrawAttributes,
    ForAttributes,
    HostAttributes,
    ResourceAttributes,
)
from dfc.ops.broadcasting import DimsEqual, same_shape
from dfc.ops.control.derivatives import grad_view
from dfc.ops.effects.communication import NETWORK
from dfc.ops.effects.mutexes import ACQUIRE, RELEASE, MutexAttributes
from dfc.ops.effects.queues import CLOSE, PUT, SIZE, TAKES, QueueAttributes, TakeAttributes
from dfc.ops.lowering.faults import lowering_faults
from dfc.ops.lowering.forms import HostCall
from dfc.ops.record import OpError, OpRecord
from dfc.ops.sizes.equality import equal_under, facts_of, may_be_equal, sizes_compared

Resources = Mapping[str, Resource]
_REGIONS = {"if": 2, "while": 2, "for": 1}


def check_node(node: Node, situation: Situation) -> Iterable[str]:
    """What is wrong with one node, in words."""
    by = may_be_equal if situation.in_branch else _equal(_facts(situation.checks), situation.measured)
    with sizes_compared(by):
        problems = list(_problems(node, situation.resources))
    if not problems:
        lowering = registry.lowering_of(node)
        faults = lowering_faults(node, lowering, compares_sizes=not situation.in_branch)
        problems = [f"the lowering of `{node.op}` does not fit: {fault}" for fault in faults]
    return problems


def _equal(facts: Facts, measured: frozenset[Symbol]) -> DimsEqual:
    """Facts about sizes that are measured come from checks while the entry runs: there only what is refuted differs."""
    known = equal_under(facts)
    if not measured:
        return known
    return lambda a, b: known(a, b) or (not measured.isdisjoint((a - b).symbols()) and may_be_equal(a, b))


@lru_cache(maxsize=8)
def _facts(checks: tuple[DimCheck, ...]) -> Facts:
    return facts_of(checks)


def _problems(node: Node, resources: Resources) -> Iterable[str]:
    record = registry.find(node.op)
    if record is None:
        return [f"there is no op `{node.op}`"]
    if type(node.attributes) is not record.attributes:
        return [f"attributes are {type(node.attributes).__name__}, not {record.attributes.__name__}"]
    if len(node.regions) != _REGIONS.get(node.op, 0):
        return [f"has {len(node.regions)} regions, not {_REGIONS.get(node.op, 0)}"]
    special = _SPECIAL.get(node.op)
    if special is None and isinstance(record.lowering, HostCall):
        return _check_host_call(node, record, record.lowering.resource)
    return special(node, resources) if special else _check_types(node)


def _check_types(node: Node) -> Iterator[str]:
    record = registry.record(node.op)
    operands = [v.type for v in node.operands]
    if not all(isinstance(t, TensorType) for t in operands):
        yield "takes something that is not a tensor"
        return
    expected_count = _operand_count(record)
    if expected_count is not None and len(operands) != expected_count:
        yield f"takes {len(operands)} operands, not {expected_count}"
        return
    try:
        expected = tuple(record.infer([v.tensor for v in node.operands], node.attributes))
    except OpError as problem:
        yield f"operands do not fit: {problem.title}"
        return
    yield from _compare("results", [v.type for v in node.results], expected)


def _operand_count(record: OpRecord) -> int | None:
    """How many operands an op takes; None if any number."""
    kinds = [parameter.kind for parameter in record.parameters]
    return None if "tensors" in kinds else kinds.count("tensor")


def _compare(what: str, got: Sequence[Type], expected: Sequence[Type]) -> Iterator[str]:
    if len(got) != len(expected) or not all(map(_same_type, got, expected)):
        yield f"{what} are ({', '.join(map(str, got))}), not ({', '.join(map(str, expected))})"


def _same_type(a: Type, b: Type) -> bool:
    if a == b or not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    return a.dtype == b.dtype and same_shape(a.shape, b.shape)


def _types(values: Iterable[Value]) -> list[Type]:
    return [v.type for v in values]


def _plain(values: Sequence[Value]) -> list[Value]:
    return [v for v in values if not v.is_token]


def _token_names(values: Sequence[Value]) -> list[str]:
    return [str(v.type) for v in values if v.is_token]


def _wants_tokens(node: Node, names: Sequence[str]) -> Iterator[str]:
    got = _token_names(node.operands)
    expected = sorted(f"token({name})" for name in names)
    if got != expected:
        yield f"takes the tokens {', '.join(got) or 'none'}, not {', '.join(expected)}"


def _check_state(node: Node, resources: Resources) -> Iterator[str]:
    """read, assign and draw: in `infer` the token stands for the type of its resource."""
    name = _resource_name(node)
    yield from _wants_tokens(node, [name])
    if name not in resources:
        return
    state = resources[name].type
    try:
        expected = registry.record(node.op).infer([*_tensors(node.operands), state], node.attributes)
    except OpError as problem:
        yield f"operands do not fit: {problem.title}"
        return
    yield from _compare("results", _types(_plain(node.results)), expected[:-1])


def _resource_name(node: Node) -> str:
    assert isinstance(node.attributes, ResourceAttributes | AssignAttributes | DrawAttributes)
    return node.attributes.resource


def _tensors(values: Sequence[Value]) -> list[TensorType]:
    return [v.tensor for v in values if not v.is_token]


def _check_host(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    assert isinstance(node.attributes, HostAttributes)
    yield from _wants_tokens(node, node.attributes.resources)
    yield from _compare("results", _types(_plain(node.results)), [])


def _check_message(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    yield from _wants_tokens(node, [NETWORK])
    plain = _types(_plain(node.operands))
    kinds = registry.record(node.op).parameters
    if len(plain) != len(kinds) or not all(isinstance(t, TensorType) for t in plain):
        yield f"takes {len(plain)} operands, not {len(kinds)}"
    if node.op == "contribute":
        yield from _compare("block numbers", plain[1:], [TensorType(I64)])
    yield from _compare("results", _types(_plain(node.results)), registry.record(node.op).infer((), node.attributes))


def _check_host_call(node: Node, record: OpRecord, resource: str) -> Iterator[str]:
    """`infer` sees tensors only."""
    yield from _wants_tokens(node, [resource])
    try:
        expected = record.infer(_tensors(node.operands), node.attributes)
    except OpError as problem:
        yield f"operands do not fit: {problem.title}"
        return
    yield from _compare("results", _types(_plain(node.results)), tuple(expected))


def _check_queue(node: Node, resources: Resources) -> Iterator[str]:
    """What is put in, and what comes out, are the fields of the queue."""
    attributes = node.attributes
    assert isinstance(attributes, QueueAttributes | TakeAttributes)
    yield from _check_host_call(node, registry.record(node.op), attributes.resource)
    state = resources.get(attributes.resource)
    if state is None:
        return
    if state.queue is None:
        yield f"`{attributes.resource}` is no queue"
    elif isinstance(attributes, TakeAttributes):
        yield from _compare("types", attributes.types, state.queue.types)
        if attributes.least not in (0, 1):
            yield f"takes at least {attributes.least} elements behind the end of the data, not 0 or 1"
        if bool(_tensors(node.operands)) != state.queue.is_shuffled:
            yield "takes draws if and only if its queue is shuffled"
    elif node.op == PUT:
        yield from _compare("elements", _tensors(node.operands), _put_types(node, state.queue))


def _put_types(node: Node, form: QueueForm) -> list[Type]:
    """The types of an element whose fields have the lengths that they have."""
    types: list[Type] = [*form.types]
    operands = _tensors(node.operands)
    for number in form.varying:
        if number < len(operands) and operands[number].shape:
            types[number] = form.types[number].with_shape((operands[number].shape[0], *form.types[number].shape[1:]))
    return types


def _check_mutex(node: Node, resources: Resources) -> Iterator[str]:
    attributes = node.attributes
    assert isinstance(attributes, MutexAttributes)
    yield from _wants_tokens(node, sorted((attributes.resource, *attributes.guarded)))
    state = resources.get(attributes.resource)
    if state is not None and (state.queue is None or not state.queue.is_mutex):
        yield f"`{attributes.resource}` is no mutex"


def _check_assert(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    yield from _compare("conditions", _types(_plain(node.operands)), [TensorType(BOOL)])
    yield from _compare("results", _types(_plain(node.results)), [])
    if len(_token_names(node.operands)) != 1:
        yield "takes one token"


def _check_if(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    yield from _compare("conditions", _types(_plain(node.operands)), [TensorType(BOOL)])
    for region in node.regions:
        yield from _compare("parameters of a branch", _types(_plain(region.parameters)), [])
        yield from _compare("outputs of a branch", _types(region.outputs), _types(node.results))


def _check_while(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    carried = _types(node.operands)
    condition, body = node.regions
    yield from _compare("results", _types(node.results), carried)
    yield from _compare("parameters of the condition", _types(condition.parameters), carried)
    tokens = [v.type for v in node.operands if v.is_token]
    yield from _compare("outputs of the condition", _types(condition.outputs), [TensorType(BOOL), *tokens])
    yield from _compare("parameters of the body", _types(body.parameters), carried)
    yield from _compare("outputs of the body", _types(body.outputs), carried)


def _check_for(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    assert isinstance(node.attributes, ForAttributes)
    count = node.attributes.carries
    (body,) = node.regions
    plain = _plain(node.operands)
    if len(plain) != 2 + count:
        yield f"has {len(plain)} operands, not 2 bounds and {count} carries"
        return
    if plain[0].type != plain[1].type or not _is_index(plain[0].type):
        yield "the bounds are not integer scalars of one type"
    carried = [v.type for v in plain[2:]]
    tokens = [v.type for v in node.operands if v.is_token]
    yield from _compare("parameters of the body", _types(body.parameters), [plain[0].type, *carried, *tokens])
    yield from _for_results(node, body, carried, tokens)


def _for_results(node: Node, body: Block, carried: Sequence[Type], tokens: Sequence[Type]) -> Iterator[str]:
    assert isinstance(node.attributes, ForAttributes)
    outputs = _plain(body.outputs)
    yield from _compare("carries", _types(outputs[: len(carried)]), carried)
    emits = outputs[len(carried) :]
    trips = node.attributes.trips
    if emits and trips is None:
        yield "emits values but does not know the number of iterations"
        return
    stacked = [v.tensor.with_shape((trips, *v.tensor.shape)) for v in emits if trips is not None]
    yield from _compare("results", _types(node.results), [*carried, *stacked, *tokens])


def _is_index(type_: Type) -> bool:
    return isinstance(type_, TensorType) and not type_.shape and type_.machine.is_integer


def _check_gradient(node: Node, resources: Resources) -> Iterator[str]:
    del resources
    request = grad_view(node)
    if not isinstance(request.loss.type, TensorType) or request.loss.type.shape:
        yield "the loss is not a scalar"
    yield from _compare("results", _types(request.gradients), _types(request.targets))


_SPECIAL: dict[str, Callable[[Node, Resources], Iterable[str]]] = {
    **dict.fromkeys((PUT, *TAKES, SIZE, CLOSE), _check_queue),
    **dict.fromkeys((ACQUIRE, RELEASE), _check_mutex),
    "read": _check_state,
    "draw": _check_state,
    "assign": _check_state,
    "checkpoint_save": _check_host,
    "checkpoint_restore": _check_host,
    "assert": _check_assert,
    "send": _check_message,
    "recv": _check_message,
    "own_rows": _check_message,
    "send_rows": _check_message,
    "contribute": _check_message,
    "combined": _check_message,
    "if": _check_if,
    "while": _check_while,
    "for": _check_for,
    "grad": _check_gradient,
}
