"""Whether the program of a role fits what the bundle says of all ranks: its signatures, its state, its messages.

A bundle for many ranks holds a whole bundle for each role, with a manifest of its own, so the two can contradict each
other where each of them is well formed. Assumes a manifest of a role that was checked by itself, and a topology.
Guarantees that what gets past is complete: every attribute that a host call of ranks looks up is there, of its type,
and names tasks, messages and state that exist. Anything else is a `ValueError` of one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.reduce.operation import ADDITIONS, CONCAT
from dfc_runtime.distributed.shards import most_rows
from dfc_runtime.distributed.topology import Task, Topology
from dfc_runtime.formats.cluster import SHARD_RULES, ClusterEntry, site
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import Entry, HostSite, Manifest, SiteOperand

I64 = "i64"


@dataclass(frozen=True, slots=True)
class _Form:
    """How a kind of host call looks: operands, the kind of its edge ("" if it sends nothing), whether it is about a
    routing of rows, and whose tasks make it."""

    inputs: int
    outputs: int
    edge: str = ""
    is_routed: bool = False
    producer: str = ""


_FORMS: Mapping[str, _Form] = {
    "send": _Form(1, 0, "value"),
    "send_rows": _Form(1, 0, "value"),
    "recv": _Form(0, 1, "value"),
    "contribute": _Form(2, 0, "combination", producer="job"),
    "combined": _Form(0, 1, "combination", producer="job"),
    "route_ids": _Form(1, 0, "rows", is_routed=True, producer="callers"),
    "routed_ids": _Form(0, 2, "rows", is_routed=True, producer="owners"),
    "route_rows": _Form(1, 0, "rows", is_routed=True, producer="callers"),
    "routed_rows": _Form(0, 1, "rows", is_routed=True, producer="owners"),
    "answer_rows": _Form(1, 0, "rows", is_routed=True, producer="owners"),
    "answered_rows": _Form(0, 1, "rows", is_routed=True, producer="callers"),
    "shard_place": _Form(0, 2, producer="owners"),
    "shard_rows": _Form(0, 1, producer="owners"),
    "shard_positions": _Form(0, 1),
}
_OPENS_ROUTING = frozenset({"route_ids", "routed_ids"})


def check_role(role: Manifest, program: Manifest, topology: Topology, task: Task) -> None:
    """Compares the program of a task's role with what is said of all of them."""
    _check_axes(program, topology)
    for entry in topology.cluster.entries:
        if task.role is not None and task.role.name in entry.roles and entry.update is None:
            _check_entry(role, program, entry, topology, task)
    _check_state(role, program, topology, task)
    opened = {(each.entry, each.attributes.get("routing")) for each in role.sites if each.kind in _OPENS_ROUTING}
    for each in role.sites:
        form = _FORMS.get(each.kind)
        if form is None:
            continue
        try:
            _check_site(each, form, program, topology, task)
            if form.is_routed and (each.entry, each.attributes["routing"]) not in opened:
                raise ValueError("it goes a way that nobody opens")
        except KeyError as problem:
            raise ValueError(f"{_described(each)}: it has no attribute {shown(str(problem.args[0]))}") from None
        except ValueError as problem:
            raise ValueError(f"{_described(each)}: {problem}") from None
    _check_sums(role.sites)


def _described(each: HostSite) -> str:
    return f"`{shown(each.kind)}` of `{shown(each.entry)}`"


# -------------------------------------------------------------- signatures --


def _check_entry(role: Manifest, program: Manifest, split: ClusterEntry, topology: Topology, task: Task) -> None:
    """The feeds and results that the role's part has are those of the program, whole, in blocks or by rows."""
    whole = next(each for each in program.entries if each.name == split.name)
    own = next((each for each in role.entries if each.name == split.name), None)
    if own is None:
        return  # another part of loading says so
    feeds = {each.name: each.split_axis for each in split.feeds}
    results = {each.name: each.split_axis for each in split.results if site(each.source)[0] == task.job}
    tasks = {each.name: topology.tasks[each.source] for each in split.results if each.rule}
    checked = [(pair, 0) for pair in _pairs(whole, own, feeds)]
    checked += [(pair, tasks.get(pair[0], 0)) for pair in _pairs(whole, own, results, results=True)]
    for (name, outer, inner, axis), owners in checked:
        if not (_fits_by_rows(outer, inner, axis, owners) if owners else _fits(outer, inner, axis)):
            raise ValueError(f"`{shown(name)}` of `{shown(split.name)}` is of another type in the role {task.job}")


_Typed = tuple[str, Sequence[Formula]]


def _pairs(
    whole: Entry, own: Entry, axes: Mapping[str, int], *, results: bool = False
) -> Iterator[tuple[str, _Typed, _Typed, int]]:
    """What both have, with the axis that is cut into blocks."""
    outer = whole.results if results else whole.parameters
    inner = {each.name: each for each in (own.results if results else own.parameters)}
    for each in outer:
        if each.name in inner and each.name in axes:
            counterpart = inner[each.name]
            yield each.name, (each.dtype, each.shape), (counterpart.dtype, counterpart.shape), axes[each.name]


def _fits(outer: _Typed, inner: _Typed, axis: int) -> bool:
    """Whether one is the other; what is cut has one more axis in front, for the blocks. Sizes that are not fixed have
    names of their own in a role, so that only the fixed ones are compared."""
    sizes = list(inner[1])
    if axis >= 0 and not sizes:
        return False
    if axis >= 0:
        del sizes[0]
    if inner[0] != outer[0] or len(sizes) != len(outer[1]):
        return False
    pairs = [(a.constant, b.constant) for k, (a, b) in enumerate(zip(outer[1], sizes, strict=True)) if k != axis]
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _fits_by_rows(outer: _Typed, inner: _Typed, axis: int, tasks: int) -> bool:
    """Whether what a task gives has room for its rows of the whole, whose number is fixed, and is as that otherwise."""
    if axis >= min(len(outer[1]), len(inner[1])):
        return False
    rows, room = outer[1][axis].constant, inner[1][axis].constant
    shape = [*outer[1]]
    shape[axis] = inner[1][axis]
    return rows is not None and room == most_rows(rows, tasks) and _fits((outer[0], shape), inner, -1)


# ------------------------------------------------------------------- state --


def _check_axes(program: Manifest, topology: Topology) -> None:
    """What is divided or cut has the axis along which it is."""
    sizes = {each.name: len(each.shape) for each in program.state}
    for state in topology.cluster.state:
        if state.rule and state.axis >= sizes[state.name]:
            raise ValueError(f"the state `{shown(state.name)}` has no axis {state.axis}")
    entries = {each.name: each for each in program.entries}
    for split in topology.cluster.entries:
        entry = entries[split.name]
        for pieces, whole in ((split.feeds, entry.parameters), (split.results, entry.results)):
            axes = {each.name: len(each.shape) for each in whole}
            for each in pieces:
                if each.split_axis >= axes[each.name]:
                    raise ValueError(f"`{shown(each.name)}` of `{shown(entry.name)}` has no axis {each.split_axis}")


def _check_state(role: Manifest, program: Manifest, topology: Topology, task: Task) -> None:
    """A task has the state that is said to lie there, as large as it is said to be."""
    own = {each.name: each for each in role.state}
    states = {each.name: each for each in topology.cluster.state}
    for entry in program.state:
        state = states[entry.name]
        ranks = topology.ranks_of(state.site)
        if task.rank not in ranks:
            continue
        shape = list(entry.shape)
        if state.rule:
            shape[state.axis] = most_rows(shape[state.axis], len(ranks))
        own_entry = own.get(entry.name)
        if own_entry is None or (own_entry.dtype, list(own_entry.shape)) != (entry.dtype, shape):
            raise ValueError(f"the state `{shown(entry.name)}` is not in the role {task.job}, or of another type")


# ---------------------------------------------------------------- messages --


def _check_site(each: HostSite, form: _Form, program: Manifest, topology: Topology, task: Task) -> None:
    if (len(each.inputs), len(each.outputs)) != (form.inputs, form.outputs):
        raise ValueError("it has other operands than it should")
    if form.edge:
        _check_edge(each, form, topology)
    if form.edge == "combination":
        _check_combination(each, topology)
    elif form.edge != "value":
        _check_rows(each, form, program, topology)
    if form.producer and task.rank not in _ranks(each, form.producer, topology):
        raise ValueError("it is of other tasks")


def _check_edge(each: HostSite, form: _Form, topology: Topology) -> None:
    key = _text(each, "key")
    edge = next((edge for edge in topology.cluster.edges if edge.key == key), None)
    if edge is None or edge.kind != form.edge:
        raise ValueError("the bundle lists no such message")
    if form.edge == "value":
        source, destinations = _ranks(each, "source", topology), each.attributes.get("destinations", ())
        if len(source) != 1 or not isinstance(destinations, tuple):
            raise ValueError("it has not one sender")
        for text in destinations:
            _known_ranks(text, topology)
    if each.kind == "send_rows":
        _check_dealt(each, topology)


def _check_dealt(each: HostSite, topology: Topology) -> None:
    """The rows of a batch are as many for each of the blocks of the entry."""
    blocks, shape = each.attributes["blocks"], each.inputs[0].shape
    entry = next((entry for entry in topology.cluster.entries if entry.name == each.entry), None)
    if type(blocks) is not int or entry is None or blocks != entry.blocks or not blocks:
        raise ValueError("its blocks are not those of the entry")
    if not shape or not isinstance(shape[0], int) or shape[0] % blocks:
        raise ValueError("its rows cannot be dealt")


def _check_combination(each: HostSite, topology: Topology) -> None:
    blocks, how = each.attributes["blocks"], _text(each, "combination")
    entry = next((entry for entry in topology.cluster.entries if entry.name == each.entry), None)
    allowed = (0 if entry is None else entry.blocks, len(_ranks(each, "job", topology)))
    if type(blocks) is not int or blocks not in allowed or how not in (*ADDITIONS, CONCAT):
        raise ValueError("its blocks are not those of the entry")
    if each.kind == "combined" and not isinstance(each.attributes["scale"], int | float):
        raise ValueError("its scale is no number")
    if each.kind == "contribute" and not _is_whole(each.inputs[1], axes=0):
        raise ValueError("the number of a block is not one")
    if each.kind == "contribute" and not isinstance(each.attributes["stacked"], bool):
        raise ValueError("it says not whether its parts are stacked")
    if each.kind == "contribute" and each.attributes["stacked"] and not each.inputs[0].shape:
        raise ValueError("there is no stack of parts")


def _check_rows(each: HostSite, form: _Form, program: Manifest, topology: Topology) -> None:
    """Rows belong to a variable that is divided so."""
    rows, rule = each.attributes["rows"], _text(each, "rule")
    owners = _text(each, "owners")
    if rule not in SHARD_RULES or type(rows) is not int or rows < len(_ranks(each, "owners", topology)):
        raise ValueError("it divides rows in a way that cannot be")
    sizes = {entry.name: entry.shape for entry in program.state}
    divided = [state for state in topology.cluster.state if (state.rule, state.site) == (rule, owners)]
    if not any(sizes[sharded.name][sharded.axis] == rows for sharded in divided):
        raise ValueError("no variable is divided like that")
    if form.is_routed:
        _ranks(each, "source", topology)
        _ranks(each, "callers", topology)
        _text(each, "routing")
    operands = (*each.inputs, *each.outputs)
    if each.kind in ("route_ids", "routed_ids", "shard_place", "shard_rows", "shard_positions"):
        if not all(_is_whole(operand) for operand in operands):
            raise ValueError("numbers of rows are whole")
    elif any(not operand.shape for operand in operands):
        raise ValueError("it has no rows")


def _check_sums(sites: Sequence[HostSite]) -> None:
    """What is taken out of a sum is what was put in, but for what is laid side by side."""
    put: dict[object, SiteOperand] = {}
    for each in sites:
        if each.kind == "contribute" and each.attributes["combination"] != CONCAT:
            part = each.inputs[0]
            put[each.attributes["key"]] = replace(part, shape=part.shape[1:]) if each.attributes["stacked"] else part
    for each in sites:
        contributed = put.get(each.attributes.get("key"))
        if each.kind == "combined" and contributed is not None and each.outputs[0] != contributed:
            raise ValueError(f"{_described(each)}: what comes out is not what was put in")


def _is_whole(operand: SiteOperand, axes: int | None = None) -> bool:
    return operand.dtype == I64 and (axes is None or len(operand.shape) == axes)


def _ranks(each: HostSite, name: str, topology: Topology) -> tuple[int, ...]:
    return _known_ranks(each.attributes[name], topology)


def _known_ranks(text: object, topology: Topology) -> tuple[int, ...]:
    """The ranks of `job` or `job:task`, where there are such."""
    if not isinstance(text, str):
        raise ValueError("its tasks are no text")
    job, task = site(text)
    if job not in topology.tasks or (task is not None and task >= topology.tasks[job]):
        raise ValueError(f"there are no tasks {shown(text)}")
    return topology.ranks_of(text)


def _text(each: HostSite, name: str) -> str:
    value = each.attributes[name]
    if not isinstance(value, str):
        raise ValueError(f"its {shown(name)} is no text")
    return value
