"""A checkpoint into the state of a program: all or nothing, by full name.

Assumes a checkpoint that was read whole. Guarantees that either every chosen name is written or none is; what does not
fit is one `CheckpointError` with a line per difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dfc_runtime.checkpoints import store
from dfc_runtime.checkpoints.format import Saved
from dfc_runtime.checkpoints.parts import MARK, POSITIONS
from dfc_runtime.checkpoints.store import ChosenCheckpoint
from dfc_runtime.errors import CheckpointError, FeedError
from dfc_runtime.formats.manifest import StateEntry
from dfc_runtime.names import closest
from dfc_runtime.state import former_names
from dfc_runtime.state.state import State

if TYPE_CHECKING:
    from dfc_runtime.formats.queue_layout import QueueLayout
    from dfc_runtime.runners.pipeline_state import PipelineState  # programs without queues need nothing of it

LACKS_ROOM = "lacks room"
"""What is wrong with a queue that has fewer slots than a checkpoint has elements."""
_MOST_LINES = 20
_MOST_NAMES = 4


def restore(
    state: State,
    program: str,
    folder: Path,
    names: Iterable[str],
    rename: object = None,
    only: object = None,
    *,
    best: bool = False,
    pipeline: PipelineState | None = None,
) -> ChosenCheckpoint:
    """Restores these names, and the queues of the `pipeline` unless `only` leaves them out; the caller holds the
    gates."""
    layouts = None if pipeline is None else pipeline.layouts
    selected, chosen = choose(
        state.entries, program, folder, names, rename, only, best=best, layouts=layouts, omitted=state.omitted
    )
    variables = {name: saved.array for name, saved in chosen.items() if MARK not in name}
    if pipeline is not None:
        pipeline.last_read_again = ()
    if pipeline is None or len(variables) == len(chosen):
        with state.background:
            state.fill_all(variables)
        return selected
    ends = selected.checkpoint.about.ends
    if unknown := pipeline.unknown(ends):
        raise _unfit(folder, f"the program has no {unknown[0]}")
    may_fail = pipeline.has_positions(chosen)
    with pipeline.replaced(may_fail=may_fail), pipeline.read_again(chosen), state.background:
        state.fill_all(variables)
        pipeline.fill(chosen, ends)
    return selected


def choose(
    entries: Mapping[str, StateEntry],
    program: str,
    folder: Path,
    names: Iterable[str],
    rename: object = None,
    only: object = None,
    *,
    best: bool = False,
    layouts: Mapping[str, QueueLayout] | None = None,
    omitted: Collection[str] = (),
) -> tuple[ChosenCheckpoint, dict[str, Saved]]:
    """The checkpoint, and what of it goes where; nothing is changed yet. `entries` are all state of the program,
    `layouts` its queues; `omitted` is state of entries that were left out, of which nothing is missed."""
    patterns, names = _patterns(only), list(names)
    selected = store.find(folder, best=best)
    saved = _under_present_names(entries, _renamed(selected.checkpoint.state, rename))
    saved = {name: each for name, each in saved.items() if name.partition(MARK)[0] not in omitted}
    for name, layout in (layouts or {}).items():
        from dfc_runtime.checkpoints import queues  # most programs have none

        fields = queues.entries(name, layout, saved, entries[name])
        entries = {**entries, **fields}
        names += fields
    chosen = [name for name in names if _chosen(name, patterns)]
    if patterns is not None and not chosen:
        raise CheckpointError(_unmatched(patterns, names), code="E0902")
    lines = _differences(entries, saved, chosen, patterns, layouts or {})
    if lines:
        differing = {name for _, name, _ in lines}
        parts = {name.partition(MARK)[0] for name in differing if MARK in name}
        whole = dict.fromkeys(name.partition(MARK)[0] for name in chosen if name not in differing)
        fitting = [name for name in whole if name not in parts]  # a queue is chosen as a whole
        raise CheckpointError(_table(folder, program, lines, _remedy(lines, fitting)), code="E0902")
    values = {name: saved[name] for name in chosen}
    _check_queues(folder, layouts or {}, values)
    return selected, values


def _check_queues(folder: Path, layouts: Mapping[str, QueueLayout], chosen: Mapping[str, Saved]) -> None:
    """Numbers that code takes for granted."""
    for name, layout in layouts.items():
        from dfc_runtime.checkpoints import positions, queues  # most programs have none

        there = chosen.get(f"{name}{POSITIONS}")
        fault = "" if there is None else positions.fault_of(name, layout, there)
        if there is None and _has(chosen, name):
            fault = queues.fault_of(name, layout, chosen)
        if fault:
            raise _unfit(folder, fault)


def _unfit(folder: Path, fault: str) -> CheckpointError:
    return CheckpointError(f"{folder} does not fit: {fault}; nothing was restored", code="E0902")


def _has(chosen: Mapping[str, Saved], queue: str) -> bool:
    return any(name.partition(MARK)[0] == queue for name in chosen if MARK in name)


def _patterns(only: object) -> Sequence[str] | None:
    if only is None or isinstance(only, str):
        return None if only is None else [only]
    if isinstance(only, (list, tuple)):
        patterns = cast("Sequence[object]", only)
        if all(isinstance(each, str) for each in patterns):
            return [str(each) for each in patterns]
    raise FeedError('only wants a pattern such as "b*", or a list of them', code="E0901")


def _chosen(name: str, patterns: Sequence[str] | None) -> bool:
    """A queue is chosen as a whole."""
    whole = name.partition(MARK)[0]
    return patterns is None or any(fnmatchcase(whole, pattern) for pattern in patterns)


def _renamed(saved: Mapping[str, Saved], rename: object) -> dict[str, Saved]:
    if rename is None:
        return dict(saved)
    pairs = cast("dict[object, object]", rename).items() if isinstance(rename, dict) else [(None, None)]
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise FeedError('rename wants names in the checkpoint to names in the program: {"old": "new"}', code="E0901")
    names = {str(old): str(new) for old, new in pairs}
    absent = sorted(names.keys() - saved.keys())
    if absent:
        raise CheckpointError(f"rename speaks of {absent[0]}, which is not in the checkpoint", code="E0902")
    targets = [names.get(name, name) for name in saved]
    twice = sorted({name for name in targets if targets.count(name) > 1} & set(names.values()))
    if twice:
        raise CheckpointError(f"rename gives two tensors the name {twice[0]}", code="E0902")
    return {names.get(name, name): each for name, each in saved.items()}


def _under_present_names(entries: Mapping[str, StateEntry], saved: dict[str, Saved]) -> dict[str, Saved]:
    pairs = former_names.renamed(entries, saved)
    for former, name in pairs.items():
        warnings.warn(f"the checkpoint has {former}, which is now called {name}", FutureWarning, stacklevel=4)
    return {pairs.get(name, name): each for name, each in saved.items()}


def _differences(
    entries: Mapping[str, StateEntry],
    saved: Mapping[str, Saved],
    chosen: Sequence[str],
    patterns: Sequence[str] | None,
    layouts: Mapping[str, QueueLayout],
) -> list[tuple[str, str, str]]:
    lines: list[tuple[str, str, str]] = []
    for name in chosen:
        entry = entries[name]
        if name not in saved:
            lines.append(("not in file", name, f"{entry}{_declared(entry)}"))
            continue
        there = saved[name]
        if (there.dtype, there.shape) != (entry.dtype, entry.shape):
            what = "shape differs" if there.dtype == entry.dtype else "type differs"
            if _is_too_long(there, entry, layouts.get(name.partition(MARK)[0])):
                what = LACKS_ROOM
            lines.append((what, name, f"{there} in the checkpoint, {entry} in the program{_declared(entry)}"))
    unknown = [name for name in saved if name not in entries and _chosen(name, patterns)]
    lines += [("not in program", name, str(saved[name])) for name in unknown]
    return lines


def _is_too_long(there: Saved, entry: StateEntry, layout: QueueLayout | None) -> bool:
    """Whether there are more elements of a queue than it has room for, and nothing else is wrong."""
    if layout is None or there.dtype != entry.dtype or not there.shape:
        return False
    return there.shape[1:] == entry.shape[1:] and there.shape[0] > entry.shape[0] == layout.slots


def _unmatched(patterns: Sequence[str], names: Sequence[str]) -> str:
    names = list(dict.fromkeys(name.partition(MARK)[0] for name in names))
    shown = ", ".join(names[:_MOST_NAMES]) + ", ..." * (len(names) > _MOST_NAMES)
    return f"only={', '.join(patterns)!r} matches no state; there is {shown or 'none'}"


def _declared(entry: StateEntry) -> str:
    return f" ({entry.location.name}:{entry.location.line})" if entry.location.line else ""


def _table(folder: Path, program: str, lines: Sequence[tuple[str, str, str]], remedy: str) -> str:
    width = max(len(name) for _, name, _ in lines)
    order = {LACKS_ROOM: 0, "shape differs": 0, "type differs": 0, "not in program": 1, "not in file": 2}
    ordered = sorted(lines, key=lambda line: order[line[0]])
    rows = [f"\n  {what:<14}  {name:<{width}}  {text}" for what, name, text in ordered[:_MOST_LINES]]
    more = f"\n  and {len(ordered) - _MOST_LINES} more" if len(ordered) > _MOST_LINES else ""
    title = f"{folder} does not fit {program}; nothing was restored"
    return f"{title}{''.join(rows)}{more}\n  {remedy}"


def _remedy(lines: Sequence[tuple[str, str, str]], fitting: Sequence[str]) -> str:
    """What would restore something: names that are other ones for the same type, and what fits as it is."""
    extra = {name: text for what, name, text in lines if what == "not in program"}
    missing = {name: text.partition(" (")[0] for what, name, text in lines if what == "not in file"}
    pairs: dict[str, str] = {}
    for old, had in extra.items():
        free = [new for new, has in missing.items() if has == had and new not in pairs.values()]
        if free:
            pairs[old] = closest(old, free)
    ways: list[str] = []
    if any(what == LACKS_ROOM for what, _, _ in lines):
        ways.append("a larger capacity has room for the elements of a queue")
    if pairs:
        shown = ", ".join(f'"{old}": "{new}"' for old, new in list(pairs.items())[:_MOST_NAMES])
        ways.append(f"rename={{{shown}{', ...' if len(pairs) > _MOST_NAMES else ''}}} maps names")
    if fitting:
        names = [f'"{name}"' for name in fitting[:_MOST_NAMES]] + ["..."] * (len(fitting) > _MOST_NAMES)
        listed = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
        ways.append(f"only={listed} restores what fits")
    return "; ".join(ways) or "nothing that is missing here is in it: it is of another program, or of other settings"
