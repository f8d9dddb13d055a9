"""Queues in checkpoints of many ranks: what each rank has of them, and putting it back.

A pipeline is on one rank, with all state that its runners write. So what belongs together is held, looked at and
replaced by that rank alone, between two calls. Assumes commands that ranks get one after the other. Guarantees that
what a rank gives belongs to one moment between iterations of its runners; that runners which were ended for a restore
are started again whatever comes in between; and that where one rank cannot read its elements again, all have in their
queues what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dfc_runtime.checkpoints.format import Ends
from dfc_runtime.checkpoints.parts import MARK, POSITIONS, Saved
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.errors import CheckpointError
from dfc_runtime.formats.fields import items, text
from dfc_runtime.module import runners_of

if TYPE_CHECKING:
    from dfc_runtime.distributed.calls.cluster_state import ShardedState
    from dfc_runtime.distributed.calls.rank import Answer, Data, Rank
    from dfc_runtime.runners.pipeline_state import PipelineState

END, READ, FILL, START = "queues.end", "queues.read", "queues.fill", "queues.start"


class _FailedError(Exception):
    """Raised on each rank where a restore has come to nothing, on whichever one."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is in the queues of a rank, and has come to its end; `written` is the state that goes on to change."""

    elements: Sequence[Saved] = ()
    ends: Ends = Ends()
    written: Collection[str] = ()


class ClusterQueues:
    """The queues of a program; one on each rank, rank 0's is asked."""

    def __init__(self, rank: Rank, state: ShardedState) -> None:
        self._rank, self._state = rank, state
        self.layouts = {entry.name: entry.queue for entry in state.queues.values() if entry.queue is not None}
        self.ranks = sorted({number for name in self.layouts for number in state.owners(name)})
        self._ended = ExitStack()
        if self.layouts:
            rank.commands[END] = self._end
            rank.commands[READ] = self._read
            rank.commands[FILL] = self._fill
            rank.commands[START] = self._start

    @property
    def _pipeline(self) -> PipelineState | None:
        """That of this rank, if it has one."""
        runners = runners_of(self._rank.inner) if self._rank.inner is not None else None
        return None if runners is None else runners.pipeline

    @contextmanager
    def held(self, *, is_whole: bool) -> Generator[Held]:
        """While this lasts nothing that runners of this rank write changes; with all state of a program also the
        elements of queues."""
        pipeline = self._pipeline
        if pipeline is None or self._rank.inner is None:
            yield Held()
            return
        with ExitStack() as stack:
            if is_whole:
                stack.enter_context(pipeline.held())
            stack.enter_context(self._rank.inner.state.background)
            elements, ends = pipeline.saved() if is_whole else ([], Ends())
            yield Held(elements, ends, pipeline.written)

    def restore(
        self, client: Client, folder: Path, chosen: Mapping[str, Saved], ends: Ends, fill: Callable[[], None]
    ) -> list[str]:
        """Puts these elements in place of what is in the queues, and has `fill` set the variables then: elements that
        are read again may turn out to be others. What was read again."""
        lines: list[str] = []
        is_failed = True
        again = any(name.endswith(POSITIONS) for name in chosen)
        answers = client.command({"command": END, "may_fail": again}, (), self.ranks)
        try:
            known = {text(each, "runner") for data, _ in answers.values() for each in items(data["runners"], "runners")}
            unknown = [*({*ends.closed} - self.layouts.keys()), *({*ends.runners} - known)]
            if unknown:
                fault = f"the program has no {min(unknown)}; nothing was restored"
                raise CheckpointError(f"{folder} does not fit: {fault}", code="E0902")
            for number in self.ranks if again else ():
                fields = [each for each in self._fields(chosen, number) if each.endswith(POSITIONS)]
                arrays = [(chosen[each].dtype, chosen[each].array) for each in fields]
                answer, _ = client.command({"command": READ, "fields": fields}, arrays, [number])[number]
                lines += [text(each, "line") for each in items(answer["read_again"], "read_again")]
            for number in self.ranks:
                fields = self._fields(chosen, number)
                data: Data = {"command": FILL, "fields": fields, "closed": [*ends.closed], "ended": [*ends.runners]}
                client.command(data, [(chosen[each].dtype, chosen[each].array) for each in fields], [number])
            fill()
            is_failed = False
        finally:
            client.command({"command": START, "failed": is_failed}, (), self.ranks)
        return lines

    def _fields(self, chosen: Mapping[str, Saved], number: int) -> list[str]:
        """What a checkpoint has of the queues of a rank."""
        own = {name for name in self.layouts if number in self._state.owners(name)}
        return [each for each in chosen if MARK in each and each.partition(MARK)[0] in own]

    # ------------------------------------------------------------ on each rank --

    def _end(self, data: Data, _arrays: list[Array]) -> Answer:
        """Ends the runners of this rank."""
        pipeline = self._pipeline
        assert pipeline is not None
        self._ended.enter_context(pipeline.replaced(may_fail=bool(data["may_fail"])))
        return {"runners": pipeline.runners}, []

    def _read(self, data: Data, arrays: list[Array]) -> Answer:
        """Reads elements of this rank again, and puts those that were there back if the restore fails."""
        pipeline = self._pipeline
        assert pipeline is not None
        done = self._ended.enter_context(pipeline.read_again(_saved(data, arrays)))
        return {"read_again": [str(each) for each in done]}, []

    def _fill(self, data: Data, arrays: list[Array]) -> Answer:
        """Puts elements into the queues of this rank."""
        pipeline, inner = self._pipeline, self._rank.inner
        assert pipeline is not None and inner is not None
        closed, ended = ({text(each, key) for each in items(data[key], key)} for key in ("closed", "ended"))
        ends = Ends(tuple(sorted(closed & pipeline.layouts.keys())), tuple(sorted(ended & {*pipeline.runners})))
        with inner.state.background:
            pipeline.fill(_saved(data, arrays), ends)
        return {}, []

    def _start(self, data: Data, _arrays: list[Array]) -> Answer:
        """Starts the runners again that were ended."""
        with suppress(_FailedError), self._ended.pop_all():
            if data["failed"]:
                raise _FailedError
        return {}, []


def _saved(data: Data, arrays: list[Array]) -> dict[str, Saved]:
    """What came with a command."""
    names = [text(each, "field") for each in items(data["fields"], "fields")]
    return {name: Saved(name, "", array.shape, array) for name, array in zip(names, arrays, strict=True)}
