"""Whether a loss inside a loop depends on a value before the loop through what earlier iterations made of it.

    loop y = y0 for x in xs {
      let l = square(y - w)              `w` is a part of this `l` twice: it stands here, and earlier iterations
      y = y - rate * grad(l, w)          have made `y` of it
    }

Which of the two is meant cannot be guessed, so that the author is asked (E0506). A gradient in the current iteration is
that of a path without carried values; a carried value itself may be the target, and `stop_gradient` cuts a path.

Assumes the graph as the front end made it, with `grad` as a node that has gradients itself. Walks are iterative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value
from dfc.ir.regions import carried, flows, view
from dfc.ir.types import TensorType
from dfc.ops import registry
from dfc.ops.attributes import ResourceAttributes
from dfc.ops.control.derivatives import custom_view, is_custom

CODE = "E0506"
_GRADIENTS = ("grad", "jacobian")
_Origin = tuple[Value, int]
"""A value, and the outermost loop whose earlier iterations it is from; the number of open loops if it is from none."""


def ambiguous_gradients(block: Block) -> list[Diagnostic]:
    """A message for every gradient inside loops that could mean two things."""
    diagnostics: list[Diagnostic] = []
    pending: list[tuple[Block, tuple[Node, ...]]] = [(block, ())]
    while pending:
        current, loops = pending.pop()
        for node in current.nodes:
            if node.op in _GRADIENTS and loops:
                loss, *targets = node.operands
                path = _Search(loops).run(loss, set(targets))
                diagnostics += [_ambiguous(node, path, loops[path[0][1]])] if path is not None else []
            around = loops if node.op == "if" else (*loops, node)
            pending.extend((region, around) for region in node.regions)
    return diagnostics


@dataclass(slots=True)
class _Search:
    """A walk against the direction of values, from the loss to a target that earlier iterations have used."""

    loops: Sequence[Node]
    defined: list[set[Value]] = field(default_factory=list["set[Value]"])
    flows: dict[Value, tuple[tuple[Value, ...], int | None]] = field(
        default_factory=dict[Value, "tuple[tuple[Value, ...], int | None]"]
    )
    entered: set[Node] = field(default_factory=set[Node])

    def __post_init__(self) -> None:
        for number, loop in enumerate(self.loops):
            self.defined.append({v for region in loop.regions for v in walk.defined_values(region)})
            self._enter(loop, number)

    def run(self, loss: Value, targets: set[Value]) -> list[_Origin] | None:
        """The path from a target to the loss."""
        first = (loss, len(self.loops))
        user: dict[_Origin, _Origin | None] = {first: None}
        waiting = [first]
        while waiting:
            origin = waiting.pop()
            if origin[0] in targets and self._is_same(origin):
                return _path(user, origin)
            for before in self._before(origin):
                if before not in user:
                    user[before] = origin
                    waiting.append(before)
        return None

    def _is_same(self, origin: _Origin) -> bool:
        """Whether a value of earlier iterations is the one that this iteration sees: it is from outside of their
        loop."""
        value, level = origin
        return level < len(self.loops) and value not in self.defined[level]

    def _before(self, origin: _Origin) -> Iterator[_Origin]:
        value, level = origin
        node = value.node
        if node is None:
            sources, loop = self.flows.get(value, ((), None))
            level = level if loop is None else min(level, loop)
        elif node.regions:
            if node not in self.entered:
                self._enter(node, None)
            sources = _results_of(node, value.index)
        else:
            sources = _smooth_operands(node)
        yield from ((v, level) for v in sources if isinstance(v.type, TensorType) and v.tensor.dtype.is_float)

    def _enter(self, node: Node, number: int | None) -> None:
        """What the carried values of a loop come from; `number` says which of the open ones it is."""
        self.entered.add(node)
        for flow in carried(view(node)):
            assert flow.initial is not None
            self.flows.update((parameter, ((flow.initial, *flow.outputs), number)) for parameter in flow.parameters)


def _results_of(node: Node, index: int) -> tuple[Value, ...]:
    flow = flows(view(node))[index]
    return (*flow.outputs, *((flow.initial,) if flow.initial is not None else ()))


def _smooth_operands(node: Node) -> tuple[Value, ...]:
    if is_custom(node):
        return custom_view(node).parameters
    if node.op in _GRADIENTS or registry.record(node.op).gradient is not None:
        return node.operands
    return ()


def _path(user: dict[_Origin, _Origin | None], last: _Origin) -> list[_Origin]:
    """From the target to the loss."""
    path: list[_Origin] = []
    origin: _Origin | None = last
    while origin is not None:
        path.append(origin)
        origin = user[origin]
    return path


def _ambiguous(node: Node, path: Sequence[_Origin], loop: Node) -> Diagnostic:
    target, loss = _shown(path[0][0]), _text(node, _shown(path[-1][0]))
    carried = {p for region in loop.regions for p in region.parameters}
    through = next((v for v, _ in reversed(path) if v in carried), path[0][0])
    name = _shown(through)
    return error(
        CODE,
        f"`{loss}` depends on `{target}` through earlier iterations too",
        node.span,
        "the gradient in this iteration, or in all iterations so far?",
        secondary=((loop.span, f"this loop carries `{name}`"),) if not loop.span.is_nowhere else (),
        notes=(f"path: {target} -> {name}, from iteration to iteration -> {loss}",),
        helps=(
            f"for the gradient in this iteration, let the loss use `stop_gradient({name})`",
            "for the gradient in all iterations, take the gradient behind the loop",
            f"or take it with respect to `{name}`, as the iteration found it",
        ),
    )


def _shown(value: Value) -> str:
    """The name of the author for a value."""
    node = value.node
    if node is not None and isinstance(node.attributes, ResourceAttributes):
        return node.attributes.resource
    return value.name.rpartition("/")[2].partition(":")[0]


def _text(node: Node, otherwise: str) -> str:
    """The loss as it is written in the call, if it is short."""
    inside = node.span.text.partition("(")[2].partition(",")[0].strip()
    return inside if inside.isidentifier() else otherwise
