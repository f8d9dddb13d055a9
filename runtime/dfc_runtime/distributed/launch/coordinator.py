"""What a supervisor decides, as a pure state machine: `react(state, event)` gives the next state and what to do.

It knows no process, file or clock: times are numbers in the events. Guarantees, whatever events come, in any order,
doubled or late:
1. At most one session of ranks is alive: a new one is launched only after the one before it is empty.
2. Success (exit code 0) is reported only after every rank of the current epoch has left its record of completion.
3. Events of an epoch that is over change nothing.
4. Every session ends: by itself, or it is killed after silence, a death or a request to stop; restarts are counted.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import field, replace

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.launch.events import (
    Beat,
    Clock,
    Completed,
    Effect,
    Empty,
    Event,
    Failed,
    Gone,
    Interrupted,
    Launch,
    LauncherEnded,
    LauncherStopped,
    LogLine,
    Over,
    Report,
    Send,
    Started,
)

SILENCE = 30.0
STARTING = 30.0
"""Seconds that a rank has at least until it first says anything: it starts Python and MPI, maybe on a busy machine."""
STOP_WITHIN = 9.0
"""Seconds to finish a step and save; what is left is killed, so that a request to stop is met within ten."""
SAME_REQUEST = 1.0
"""Seconds in which a repeat is the same request to stop, not impatience: service managers signal all processes."""
KILL_AGAIN = 2.0
PAUSE = 0.5
LONGEST_PAUSE = 30.0
RETRY = 75
"""The exit code of what a restart may cure; other codes of a rank are mistakes that would come again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`ranks` to start with, `restarts` at the most, `least` ranks to go on with; after `silence` seconds without a
    beat a rank counts as hung. Two sessions that end without a single step cost one rank, down to `least`."""

    ranks: int
    restarts: int = 0
    least: int = 0
    silence: float = SILENCE


@dataclass(frozen=True, slots=True)
class Pulse:
    """What is known of a rank: when it beat last, what it was doing, and whether it has said anything yet."""

    time: float
    step: int = 0
    doing: str = ""
    heard: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """`phase`: launching, running, ending (the session is being killed or ends by itself), pausing (before a restart),
    over. `code` is what the job ends with if nothing better comes; `until` a time that the phase waits for; `halted` is
    since when the launcher is stopped. `stopped_by` is the signal that asked the job to stop, `stopped_at` when."""

    policy: Policy
    phase: str = "launching"
    epoch: int = 0
    ranks: int = 0
    used: int = 0
    idle: int = 0
    pulses: Mapping[int, Pulse] = field(default_factory=dict[int, Pulse])
    completed: frozenset[int] = frozenset()
    code: int = 0
    until: float = 0.0
    stopped_by: int = 0
    stopped_at: float = 0.0
    halted: float | None = None


Reaction = tuple[State, tuple[Effect, ...]]


def begin(policy: Policy) -> Reaction:
    """The first state, and the first launch."""
    return State(policy, ranks=policy.ranks), (Launch(policy.ranks),)


def react(state: State, event: Event) -> Reaction:
    """The next state, and what is to be done now."""
    if state.phase == "over":
        return state, ()
    if isinstance(event, Started):
        return _started(state, event)
    if isinstance(event, Interrupted):
        return _interrupted(state, event)
    if isinstance(event, Clock):
        return _clock(state, event)
    if event.epoch != state.epoch or state.phase not in ("running", "ending"):
        return state, ()
    match event:
        case Beat():
            pulse = Pulse(event.time, event.step, event.doing, heard=True)
            return _signalled(replace(state, pulses={**state.pulses, event.rank: pulse}), event)
        case Completed():
            return _completed(state, event)
        case Failed():
            return _failed(state, event)
        case Gone():
            return _gone(state, event)
        case LauncherEnded():
            return _launcher_ended(state, event)
        case LauncherStopped():
            return replace(state, halted=event.time if event.stopped else None), ()
        case Empty():
            return _empty(state, event)


def _started(state: State, event: Started) -> Reaction:
    if state.phase != "launching" or event.epoch <= state.epoch:
        return state, ()
    pulses = {rank: Pulse(event.time) for rank in range(state.ranks)}
    running = replace(
        state,
        phase="running",
        epoch=event.epoch,
        pulses=pulses,
        completed=frozenset[int](),
        code=0,
        until=0.0,
        halted=None,
    )
    if state.stopped_by:  # the request to stop came while the session was being launched
        return _stop_early(running, event.time)
    return running, ()


def _stop_early(state: State, time: float) -> Reaction:
    """Nothing has been computed before the rank that decides is there, so nothing is lost; a process that only begins
    would not understand a gentler signal."""
    return replace(state, phase="ending", code=128 + state.stopped_by, until=time + KILL_AGAIN), (Send(signal.SIGKILL),)


def _completed(state: State, event: Completed) -> Reaction:
    if not 0 <= event.rank < state.ranks:
        return state, ()
    completed = replace(state, completed=state.completed | {event.rank})
    return _signalled(completed, event) if event.rank == 0 else (completed, ())


def _signalled(state: State, event: Beat | Completed) -> Reaction:
    """Somebody has signalled a rank itself: that is a request to stop, as if this process had been asked."""
    if not event.signal or state.stopped_by or state.phase != "running":
        return state, ()
    asked = replace(state, stopped_by=event.signal, stopped_at=event.time, until=event.time + STOP_WITHIN)
    rank = event.rank if event.origin < 0 else event.origin
    notice = LogLine(f"rank {rank} was asked to stop by signal {event.signal}, so all ranks stop")
    if event.rank == 0:
        return asked, (notice,)
    if not state.pulses[0].heard:
        ending, effects = _stop_early(asked, event.time)
        return ending, (notice, *effects)
    return asked, (notice, Send(event.signal))


def _failed(state: State, event: Failed) -> Reaction:
    if state.phase != "running" or event.rank in state.completed:
        return state, ()
    if not event.message:  # it ends the others itself, when the launcher has read what they have printed
        ending, effects = _end(state, event.time, event.code, "", at_once=False)
        return ending, (Report(event.report), *effects) if event.report else effects
    return _end(state, event.time, event.code, f"rank {event.rank}: {event.message}")


def _gone(state: State, event: Gone) -> Reaction:
    if state.phase != "running" or event.rank in state.completed or event.rank not in state.pulses:
        return state, ()
    pulse = state.pulses[event.rank]
    where = f" in step {pulse.step}" if pulse.step else "" if pulse.heard else " while it started"
    doing = f", where {pulse.doing}" if pulse.doing else ""
    return _end(state, event.time, RETRY, f"rank {event.rank} {event.how or 'is gone'}{where}{doing}")


def _launcher_ended(state: State, event: LauncherEnded) -> Reaction:
    if state.phase != "running":
        return state, ()
    missing = [rank for rank in range(state.ranks) if rank not in state.completed]
    if not missing:
        return replace(state, phase="ending", until=event.time + KILL_AGAIN), ()
    text = f"the ranks ended with code {event.code}, but rank {missing[0]} has not told that it is done"
    if event.code < 0:
        text = f"mpiexec, which started the ranks, was killed by signal {-event.code}"
    return _end(state, event.time, RETRY, text)


def _all_done(state: State) -> bool:
    return len(state.completed) == state.ranks


def _launcher_halted(state: State, seconds: float, time: float) -> Reaction:
    """Ranks cannot print, end or be ended without their launcher. Where all of them are done, nothing is lost."""
    if _all_done(state):
        return replace(state, phase="ending", until=time + KILL_AGAIN), (Send(signal.SIGKILL),)
    text = f"mpiexec, which started the ranks, was stopped by a signal {seconds:.0f} s ago and has not gone on"
    return _end(state, time, RETRY, text)


def _end(state: State, time: float, code: int, why: str, *, at_once: bool = True) -> Reaction:
    """Kills what is left of a session that cannot go on: now, or when it has had time to end by itself."""
    if state.stopped_by and code == RETRY:
        code = 128 + state.stopped_by
        why = "" if 0 in state.completed else why  # it has ended well, and the others follow it
    ending = replace(state, phase="ending", code=code, until=time + KILL_AGAIN)
    notices = (LogLine(why),) if why else ()
    return ending, (*notices, Send(signal.SIGKILL)) if at_once else notices


def _empty(state: State, event: Empty) -> Reaction:
    if _all_done(state) and state.code == 0:
        code = 128 + state.stopped_by if state.stopped_by else 0
        return replace(state, phase="over", code=code), (Over(code),)
    if state.phase == "running":
        missing = min(set(range(state.ranks)) - state.completed)
        text = f"rank {missing} has ended without telling that it is done"
        state, notices = replace(state, code=RETRY), (LogLine(text),)
    else:
        notices = ()
    if state.stopped_by or state.code != RETRY or state.used >= state.policy.restarts:
        code = 128 + state.stopped_by if state.stopped_by else state.code
        return replace(state, phase="over", code=code), (*notices, Over(code))
    return _pause(state, event.time, notices)


def _pause(state: State, time: float, notices: tuple[Effect, ...]) -> Reaction:
    moved = any(pulse.step for pulse in state.pulses.values())
    idle = 0 if moved else state.idle + 1
    least = state.policy.least or state.ranks
    ranks = max(least, state.ranks - 1) if idle >= 2 else state.ranks
    wait = min(PAUSE * 2**state.idle, LONGEST_PAUSE)
    used = state.used + 1
    text = f"restart {used} of {state.policy.restarts} with {ranks} rank{'s' if ranks != 1 else ''}"
    pausing = replace(state, phase="pausing", used=used, idle=idle, ranks=ranks, until=time + wait)
    return pausing, (*notices, LogLine(text))


def _clock(state: State, event: Clock) -> Reaction:
    if state.phase == "pausing" and event.time >= state.until:
        return replace(state, phase="launching"), (Launch(state.ranks),)
    if state.phase == "ending" and event.time >= state.until:
        return replace(state, until=event.time + KILL_AGAIN), (Send(signal.SIGKILL),)
    if state.phase != "running":
        return state, ()
    if state.halted is not None and event.time - state.halted > state.policy.silence:
        return _launcher_halted(state, event.time - state.halted, event.time)
    if state.stopped_by and event.time >= state.until:
        text = f"the ranks have not stopped within {STOP_WITHIN:.0f} s: what came after the last save is lost"
        return _end(state, event.time, 128 + state.stopped_by, "" if _all_done(state) else text)
    silent = [
        r for r, p in state.pulses.items() if r not in state.completed and event.time - p.time > _patience(state, p)
    ]
    if silent:
        pulse = state.pulses[silent[0]]
        doing = f"; {pulse.doing}" if pulse.doing else ""
        where = f", in step {pulse.step}" if pulse.step else ""  # a rank that serves counts no steps
        text = f"rank {silent[0]} has been silent for {event.time - pulse.time:.0f} s{where}{doing}"
        return _end(state, event.time, RETRY, text)
    return state, ()


def _patience(state: State, pulse: Pulse) -> float:
    """How long a rank may say nothing."""
    return state.policy.silence if pulse.heard else max(state.policy.silence, STARTING)


def _interrupted(state: State, event: Interrupted) -> Reaction:
    if state.phase == "pausing":
        return replace(state, phase="over", code=128 + event.number), (Over(128 + event.number),)
    if state.stopped_by and event.time - state.stopped_at < SAME_REQUEST:
        return state, ()
    if state.stopped_by:
        ending = replace(state, phase="ending", code=128 + state.stopped_by, until=event.time + KILL_AGAIN)
        return (ending, (Send(signal.SIGKILL),)) if state.phase != "launching" else (state, ())
    stopped = replace(state, stopped_by=event.number, stopped_at=event.time, until=event.time + STOP_WITHIN)
    if state.phase == "running" and not state.pulses[0].heard:
        return _stop_early(stopped, event.time)
    if state.phase == "running":
        return stopped, (LogLine("stopping after this step; again to stop now"), Send(event.number))
    return (replace(stopped, until=state.until), ()) if state.phase == "ending" else (stopped, ())
