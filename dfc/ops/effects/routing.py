"""Rows of divided variables on their way: what the pass `shard` puts into a graph, and no author writes.

    route_ids(RouteAttributes): ids, t -> t                    at the tasks that ask: which rows, to their owners
    routed_ids(RoutedAttributes): t -> count, local ids, t     at the owners: as local numbers, those of all who asked
    route_rows(RouteAttributes): rows, t -> t                  at the tasks that ask: rows that belong to the ids
    routed_rows(RoutedAttributes): t -> rows, t                at the owners: in the order of the local ids
    answer_rows(RouteAttributes): rows, t -> t                 at the owners: rows that belong to the local ids
    answered_rows(RoutedAttributes): t -> rows, t              at the tasks that asked: in the order of the ids
    shard_place(ShardAttributes): t -> number, count, t        the number of this task, and how many rows it has
    shard_rows(ShardAttributes): t -> i64[..], t               the rows that lie here, the last one repeated
    shard_positions(ShardAttributes): t -> i64[rows], t        where each row is if all tasks' rows stand in a line

`t` is the token of `@network`. Ids and rows have one axis of ids, the first. What arrives fills the first `count` rows
of a type that has room for all of them. A negative id counts from the end; one outside stops the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import I64
from dfc.ir.types import TensorType
from dfc.ops.effects.communication import NETWORK
from dfc.ops.effects.host_ops import HostOps, no_results, not_evaluated
from dfc.ops.record import InferTypes, Parameter


@dataclass(frozen=True, slots=True)
class RouteAttributes(Attributes):
    """`key` names the messages, `routing` the ids they belong to. The tasks of `owners` have the rows, by `rule`;
    `source` sends: one task (`job:task`) what all `callers` have in common, or each task of a job its own."""

    key: str
    routing: str
    owners: str
    source: str
    callers: str
    rule: str
    rows: int


@dataclass(frozen=True, slots=True)
class RoutedAttributes(Attributes):
    """The same, with the type of what arrives."""

    key: str
    routing: str
    owners: str
    source: str
    callers: str
    rule: str
    rows: int
    type: TensorType


@dataclass(frozen=True, slots=True)
class ShardAttributes(Attributes):
    """`rows` rows lie on the tasks of `owners`, by `rule`. `type` is that of the answer, where there is one tensor."""

    owners: str
    rule: str
    rows: int
    type: TensorType


_OPS = HostOps(
    family="communication",
    resource=NETWORK,
    no_gradient="rows are routed when all gradients are taken",
    evaluate=not_evaluated("rows on their way need a network"),
)


def _one(_types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, RoutedAttributes | ShardAttributes)
    return (attributes.type,)


def _ids(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    return (TensorType(I64), *_one(types, attributes))


def _shard_location(_types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (TensorType(I64), TensorType(I64))


_RESULTS = {
    "routed_ids": " -> (i64, i64[..S])",
    "routed_rows": " -> T[..S]",
    "answered_rows": " -> T[..S]",
    "shard_place": " -> (i64, i64)",
    "shard_rows": " -> i64[..S]",
    "shard_positions": " -> i64[..S]",
}


def _register(name: str, summary: str, attributes: type[Attributes], infer: InferTypes, *parameters: Parameter) -> None:
    signature = ", ".join(f"{p.name}: {p.type}" for p in parameters)
    results = _RESULTS.get(name, "")
    _OPS.register(
        name,
        summary,
        f"proc {name}[T: any, ..S]({signature}){results}",
        parameters,
        infer,
        attributes,
        ("one token, that of the network.",),
    )


_numbers = Parameter("ids", type="i64[..S]")
_rows = Parameter("rows", type="T[..S]")
_register("route_ids", "Tells the owners of rows which ones are meant.", RouteAttributes, no_results, _numbers)
_register("routed_ids", "Waits for the numbers of rows that lie here.", RoutedAttributes, _ids)
_register(
    "route_rows", "Sends rows to the tasks that own the rows of these numbers.", RouteAttributes, no_results, _rows
)
_register("routed_rows", "Waits for rows that belong to rows that lie here.", RoutedAttributes, _one)
_register("answer_rows", "Sends rows to the tasks that asked for them.", RouteAttributes, no_results, _rows)
_register("answered_rows", "Waits for rows from their owners, and puts them in order.", RoutedAttributes, _one)
_register("shard_place", "The number of this task among the owners, and of its rows.", ShardAttributes, _shard_location)
_register("shard_rows", "The numbers of the rows that lie here.", ShardAttributes, _one)
_register("shard_positions", "Where each row stands behind those of the owners before.", ShardAttributes, _one)
