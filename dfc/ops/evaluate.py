"""The reference evaluator: runs an entry of a graph, node by node, on NumPy arrays. Slow, sequential, literal.

What programs mean, the oracle of tests, and constant folding (through `evaluate_node`). A token stands for the present
value of its resource, so state is threaded like any value and nothing is changed in place. Assumes a verified graph
without gradient nodes. Iterative in nodes; it recurses only into regions, whose nesting the front end bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Symbol
from dfc.ir.graph import Block, Entry, Graph, Node, Value
from dfc.ir.measured import measured
from dfc.ir.regions import for_view, if_view, while_view
from dfc.ir.types import TensorType, TextType, TokenType
from dfc.ops import registry
from dfc.ops.attributes import AssertAttributes, AssignAttributes, HostAttributes
from dfc.ops.effects.communication import NETWORK
from dfc.ops.effects.effects import is_host_call
from dfc.ops.record import Array, Sizes
from dfc.ops.sizes.of_feeds import bind_sizes
from dfc_runtime.errors import FeedError, RunError, UnsupportedError

State = dict[str, Array]
Host = Callable[[str, str, Mapping[str, Array]], Mapping[str, Array]]
"""`host(kind, path, state)` does a host step and returns the state it changed; kind is `checkpoint_save` or
`checkpoint_restore`."""

Network = Callable[[Node, Sequence[Array]], Sequence[Array]]
"""`network(node, operands)` does a message, and returns its results without the token."""

Observe = Callable[[Node, Sequence[Array], Sequence[Array]], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call returned, by position, and the state after it."""

    results: tuple[Array, ...]
    state: State

    @property
    def result(self) -> Array:
        return self.results[0]


def evaluate(
    graph: Graph,
    entry: str | Entry,
    feeds: Mapping[str, object] | None = None,
    state: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
    host: Host | None = None,
    observe: Observe | None = None,
    network: Network | None = None,
) -> Outcome:
    """Runs an entry. `feeds` are by name; `state` is not changed; `dims` gives the sizes that no feed decides;
    `observe` sees every plain node with the values of its operands and results; `network` does messages."""
    chosen = graph.entries[entry] if isinstance(entry, str) else entry
    before = dict(state or {})
    arrays = _arrays(chosen, feeds or {})
    shapes = [array.shape if isinstance(array, np.ndarray) else None for array in arrays]
    machine = _Machine(bind_sizes(chosen, shapes, dims or {}), host, observe, network)
    tokens = [v for v in chosen.block.parameters if v.is_token]
    outputs = machine.call(chosen.block, [*arrays, *(_resource_value(graph, v, before) for v in tokens)])
    count = len(outputs) - len(tokens)
    for token, value in zip(tokens, outputs[count:], strict=True):
        if isinstance(value, np.ndarray):
            before[token.resource] = value
    return Outcome(tuple(_array(v) for v in outputs[:count]), before)


def initial_state(graph: Graph, host: Host | None = None) -> State:
    """The state of a program that has just been loaded: from its entry `init`, else every initial value in order."""
    init = graph.entries.get("init")
    if init is not None and not init.parameter_names and not init.dims:
        return evaluate(graph, init, host=host).state
    state: State = {}
    for resource in graph.resources.values():
        if resource.initial is not None:
            block = resource.initial
            tokens = [_resource_value(graph, v, state) for v in block.parameters]
            state[resource.name] = _array(_Machine({}, host).call(block, tokens)[0])
    return state


def evaluate_node(node: Node, operands: Sequence[Array], sizes: Sizes) -> Sequence[Array]:
    """The results of one node without regions; for state ops a token stands for the value of the resource."""
    return registry.record(node.op).evaluate(operands, node.attributes, sizes)


class _Unset:
    """The value of state that nothing has set."""

    def __init__(self, name: str, type_: TensorType) -> None:
        self.name = name
        self.type = type_


_Datum: TypeAlias = "Array | str | _Unset | None"


def _resource_value(graph: Graph, token: Value, state: Mapping[str, Array]) -> _Datum:
    name = token.resource
    if name not in graph.resources:
        return None
    array = state.get(name)
    return array if array is not None else _Unset(name, graph.resources[name].type)


def _array(datum: _Datum) -> Array:
    if isinstance(datum, _Unset):
        raise RunError(f"`{datum.name}` is used before anything has set it", code="E0903")
    assert isinstance(datum, np.ndarray), datum
    return datum


def _arrays(entry: Entry, feeds: Mapping[str, object]) -> list[_Datum]:
    unknown = sorted(set(feeds) - set(entry.parameter_names))
    if unknown:
        raise FeedError(f"`{entry.name}` has no feed `{unknown[0]}`", code="E0901")
    return [
        _feed(entry, name, v, feeds) for name, v in zip(entry.parameter_names, entry.block.parameters, strict=False)
    ]


def _feed(entry: Entry, name: str, value: Value, feeds: Mapping[str, object]) -> _Datum:
    if name not in feeds:
        raise FeedError(f"`{entry.name}` wants {name}: {value.type}", code="E0901")
    fed = feeds[name]
    if isinstance(value.type, TextType):
        return str(fed)
    dtype = value.tensor.machine.numpy
    array = np.asarray(fed)
    if isinstance(fed, bool | int | float):
        array = array.astype(dtype)
    if array.dtype != dtype:
        raise FeedError(f"`{entry.name}` wants {name}: {value.type}, but got {array.dtype}", code="E0901")
    return array


class _Machine:
    """The values of one call."""

    def __init__(
        self,
        sizes: Mapping[Symbol, int],
        host: Host | None,
        observe: Observe | None = None,
        network: Network | None = None,
    ) -> None:
        self._sizes = dict(sizes)
        self._network = network
        self._host = host
        self._observe = observe
        self._values: dict[Value, _Datum] = {}

    def call(self, block: Block, arguments: Sequence[_Datum]) -> list[_Datum]:
        """Runs a block on values for its parameters."""
        values = self._values
        values.update(zip(block.parameters, arguments, strict=True))
        for node in block.nodes:
            operands = [values[v] for v in node.operands]
            results = self._node(node, operands)
            assert len(results) == len(node.results), node
            values.update(zip(node.results, results, strict=True))
        return [values[v] for v in block.outputs]

    def _node(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        match node.op:
            case "if":
                return self._if(node, operands)
            case "while":
                return self._while(node, operands)
            case "for":
                return self._for(node, operands)
            case "assert":
                return self._assert(node, operands)
            case "checkpoint_save" | "checkpoint_restore":
                return self._host_step(node, operands)
            case _ if is_host_call(node):
                return self._host_call(node, operands)
            case _:
                return self._apply(node, operands)

    def _apply(self, node: Node, operands: list[_Datum]) -> Sequence[Array]:
        arrays = [_fill(node, datum) for datum in operands]
        symbol = measured(node)
        if symbol is not None:
            self._sizes[symbol] = int(arrays[0])
        results = evaluate_node(node, arrays, self._sizes)
        for value, array in zip(node.results, results, strict=True):
            if isinstance(value.type, TensorType):
                shape = tuple(d.evaluate(self._sizes) for d in value.type.shape)
                assert array.dtype == value.tensor.machine.numpy, (node, array.dtype, value.type)
                assert array.shape == shape, (node, array.shape, value.type)
        if self._observe is not None:
            self._observe(node, arrays, results)
        return results

    def _if(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        parts = if_view(node)
        condition, *tokens = operands
        return self.call(parts.then if bool(_array(condition)) else parts.otherwise, tokens)

    def _while(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        parts = while_view(node)
        carries = len(parts.initial.values)
        current: Sequence[_Datum] = operands
        while True:
            go_on, *tokens = self.call(parts.condition, current)
            current = [*current[:carries], *tokens]
            if not bool(_array(go_on)):
                return current
            current = self.call(parts.body, current)

    def _for(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        parts = for_view(node)
        first, stop, *current = operands
        start = _array(first)
        carries = len(parts.initial.values)
        emitted: list[list[Array]] = [[] for _ in parts.results.emitted]
        for index in range(int(start), int(_array(stop))):
            outputs = self.call(parts.body, [np.asarray(index, start.dtype), *current])
            after = carries + len(emitted)
            current = [*outputs[:carries], *outputs[after:]]
            for stack, value in zip(emitted, outputs[carries:after], strict=True):
                stack.append(_array(value))
        stacks = [self._stack(v, rows) for v, rows in zip(parts.results.emitted, emitted, strict=True)]
        return [*current[:carries], *stacks, *current[carries:]]

    def _stack(self, value: Value, rows: list[Array]) -> Array:
        """Room for more iterations than were run holds zeros behind the rows."""
        stack = np.zeros([d.evaluate(self._sizes) for d in value.tensor.shape], value.tensor.machine.numpy)
        for number, row in enumerate(rows):
            stack[number] = row
        return stack

    def _assert(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        assert isinstance(node.attributes, AssertAttributes)
        if not bool(_array(operands[0])):
            text = node.attributes.message or f"assertion failed: {node.attributes.condition_text}"
            raise RunError(text, code="E0903", spans=[node.span])
        return operands[1:]

    def _host_step(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        assert isinstance(node.attributes, HostAttributes)
        if self._host is None:
            raise UnsupportedError(f"`{node.op}` needs a host", code="E1001", spans=[node.span])
        names = node.attributes.resources
        tokens = [v for v in node.operands if v.is_token]
        by_name = {v.resource: datum for v, datum in zip(tokens, operands[1:], strict=True)}
        known = {name: _array(by_name[name]) for name in names if not isinstance(by_name[name], _Unset)}
        changed = self._host(node.op, str(operands[0]), known)
        return [changed.get(v.resource, by_name[v.resource]) for v in tokens]

    def _host_call(self, node: Node, operands: list[_Datum]) -> Sequence[_Datum]:
        """Tensors and a token, which is handed on. What the op's record says happens, but for messages."""
        arrays = [_array(datum) for datum in operands[:-1]]
        if self._network is not None and _is_message(node):
            return [*self._network(node, arrays), operands[-1]]
        results = evaluate_node(node, arrays, self._sizes)
        if self._observe is not None:
            self._observe(node, arrays, results)
        return [*results, operands[-1]]


def _is_message(node: Node) -> bool:
    return node.operands[-1].type == TokenType(NETWORK)


def _fill(node: Node, datum: _Datum) -> Array:
    """An operand of a plain op. The old value of a variable that is written as a whole need not have been set."""
    if isinstance(datum, _Unset) and isinstance(node.attributes, AssignAttributes):
        whole = node.attributes.mode == ":=" and not node.attributes.index
        if whole:
            return np.zeros([d.evaluate({}) for d in datum.type.shape], datum.type.machine.numpy)
    return _array(datum)
