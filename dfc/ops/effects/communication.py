"""Messages between the tasks of a program: what partition and replicate put into a graph, and no author writes.

    send(SendAttributes): x, t -> t                      t: the token of `@network`
    recv(RecvAttributes): t -> x, t
    contribute(ContributeAttributes): x, number, t -> t  number: the global number of the block, i64
    combined(CombinedAttributes): t -> x, t
    own_rows(OwnRowsAttributes): x, t -> rows, t         the rows of the task's blocks, of a batch that is somewhere
    send_rows(SendRowsAttributes): x, t -> t             sends each task the rows of its blocks

A value that is sent arrives unchanged. What all blocks of a job contribute under one key is combined in the order of
blocks: `combined` gives each task the same result, whatever the number of tasks. The evaluator is given a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import Dim
from dfc.ir.types import TensorType
from dfc.ops.effects.host_ops import HostOps, no_results, not_evaluated
from dfc.ops.record import Parameter
from dfc.ops.rules.costs import free
from dfc.ops.rules.op_rules import DEFAULTS, OpRules

NETWORK = "@network"
COMBINATIONS = ("sum", "max", "min", "and", "or", "concat")
"""How blocks are combined: sums along a fixed binary tree, or all of them one behind the other along axis 0."""
JOINED = COMBINATIONS[-1]


@dataclass(frozen=True, slots=True)
class SendAttributes(Attributes):
    """`key` names the edge on both sides. `source` (`job:task`) is the one task that sends, of all that run the node;
    `destinations` are jobs (each of their tasks but the source) or tasks (`job:task`)."""

    key: str
    source: str
    destinations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecvAttributes(Attributes):
    """`source` (`job:task`) sends a value of this type on the edge `key`."""

    key: str
    source: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class OwnRowsAttributes(Attributes):
    """What a task of a job has of a batch that is cut into `blocks` along its first axis: as many as the first axis of
    the `type` says, from the number `first` on. `partition` makes of it what it takes, by where the batch is."""

    blocks: int
    first: Dim
    type: TensorType


@dataclass(frozen=True, slots=True)
class SendRowsAttributes(Attributes):
    """As `SendAttributes`, but each task gets what it has of the `blocks` along the first axis, of this type."""

    key: str
    source: str
    destinations: tuple[str, ...]
    blocks: int
    type: TensorType


@dataclass(frozen=True, slots=True)
class ContributeAttributes(Attributes):
    """The part of one block of `blocks`, which the tasks of `job` share out; `stacked`: those of all blocks of the
    task, from the number on, one behind the other along an axis in front."""

    key: str
    job: str
    blocks: int
    combination: str
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class CombinedAttributes(Attributes):
    """All blocks together, of this type. A sum is multiplied by `scale` at the end (1 for other combinations)."""

    key: str
    job: str
    blocks: int
    combination: str
    type: TensorType
    scale: float


def _result(_types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, RecvAttributes | CombinedAttributes | OwnRowsAttributes)
    return (attributes.type,)


_OPS = HostOps(
    family="communication",
    resource=NETWORK,
    no_gradient="messages are put in when all gradients are taken",
    evaluate=not_evaluated("a message needs a network"),
)


def _register(
    name: str,
    summary: str,
    attributes: type[Attributes],
    *parameters: Parameter,
    rules: OpRules = DEFAULTS,
) -> None:
    gives = attributes in (RecvAttributes, CombinedAttributes, OwnRowsAttributes)
    signature = ", ".join(f"{p.name}: {p.type}" for p in parameters)
    _OPS.register(
        name,
        summary,
        f"proc {name}[T: any, ..S]({signature})" + (" -> T[..S]" if gives else ""),
        parameters,
        _result if gives else no_results,
        attributes,
        ("one token, that of the network.",),
        rules=rules,
    )


MESSAGE = replace(DEFAULTS, cost=free)
"""What a message takes is no cost of the tasks: placement adds it where a value goes from one to another."""
_value = Parameter("value", type="T[..S]")
_register("send", "Sends a value to other tasks; does not wait for them.", SendAttributes, _value, rules=MESSAGE)
_register("recv", "Waits for a value from another task.", RecvAttributes, rules=MESSAGE)
_register("own_rows", "The rows of the blocks of a task, wherever the batch is.", OwnRowsAttributes, _value)
_register("send_rows", "Sends other tasks the rows of their blocks.", SendRowsAttributes, _value, rules=MESSAGE)
_register(
    "contribute",
    "Gives the part of one block to what all blocks of a job make together; does not wait.",
    ContributeAttributes,
    _value,
    Parameter("number", type="i64"),
)
_register(
    "combined", "Waits for what all blocks make together; the same for every number of tasks.", CombinedAttributes
)
