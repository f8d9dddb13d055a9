"""A world for the coordinator: sessions of ranks that step, hang, die, lie and finish, under a clock of its own, and
launchers that are stopped.

Everything comes from one seed. Events reach the coordinator late, doubled, or (beats) not at all. The world itself
knows the truth: which processes are alive, who has finished, and it refuses what a real one would not survive.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from random import Random

from dfc_runtime.distributed.launch import coordinator as c

LENGTH = 2000.0  # seconds after which a job that is not over never will be


@dataclass
class Session:
    epoch: int
    ranks: int
    alive: set[int]
    done: set[int] = field(default_factory=set)
    hung: set[int] = field(default_factory=set)
    step: int = 0
    launcher: bool = True
    halted: bool = False
    stopping: bool = False
    signals: dict[int, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.alive and not self.launcher


class World:
    """Runs one job to its end. `faults` is how often something goes wrong in a step."""

    def __init__(self, seed: int, faults: float = 0.1) -> None:
        self.random = Random(seed)
        restarts = self.random.randint(0, 4)
        self.policy = c.Policy(self.random.randint(1, 5), restarts, self.random.choice([0, 1]), silence=30.0)
        self.total = self.random.randint(1, 12)
        self.faults = faults if self.random.random() < 0.8 else 0.0
        self.saved = 0
        self.epoch = 0
        self.time = 0.0
        self.queue: list[tuple[float, int, object]] = []
        self.count = 0
        self.session: Session | None = None
        self.launches: list[tuple[int, int]] = []
        self.log_lines: list[str] = []
        self.code: int | None = None
        self.interrupts = 0
        self.signalled = False
        self.known = 0.0

    def run(self) -> int:
        self.state, effects = c.begin(self.policy)
        self._carry_out(effects)
        if self.random.random() < 0.2:
            for _ in range(self.random.randint(1, 2)):
                self._at(self.random.uniform(0, 40), c.Interrupted(0.0, self.random.choice([2, 15])))
        if self.random.random() < 0.2:
            for _ in range(self.random.randint(1, 2)):
                self._at(self.random.uniform(0, 40), "signal")
        self._at(0.25, "tick")
        while self.code is None:
            self.time, _, what = heapq.heappop(self.queue)
            assert self.time < LENGTH, "the job never ends"
            self._happen(what)
        return self.code

    def _at(self, delay: float, what: object) -> None:
        self.count += 1
        heapq.heappush(self.queue, (self.time + delay, self.count, what))

    def _happen(self, what: object) -> None:
        if what == "tick":
            self._live()
            self._deliver(c.Clock(self.time))
            self._at(0.25, "tick")
        elif what == "signal":
            self._signal_a_rank()
        elif isinstance(what, c.Interrupted):
            self.interrupts += 1
            self._deliver(c.Interrupted(self.time, what.number))
        else:
            self._deliver(what)

    def _deliver(self, event: object) -> None:
        stamped = replace(event, time=self.time)  # type: ignore[type-var]
        self.state, effects = c.react(self.state, stamped)
        self._carry_out(effects)

    def _carry_out(self, effects: tuple[c.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case c.Launch(ranks):
                    assert self.session is None or self.session.is_empty, "two sessions at once"
                    assert self.policy.ranks >= ranks >= (self.policy.least or self.policy.ranks)
                    self.epoch += self.random.randint(1, 3)  # others may take epochs, too
                    self.session = Session(self.epoch, ranks, set(range(ranks)), step=self.saved)
                    self.launches.append((self.epoch, ranks))
                    self._at(self.random.uniform(0, 0.2), c.Started(0.0, self.epoch))
                case c.Send(number):
                    self._signal(number)
                case c.LogLine(text):
                    self.log_lines.append(text)
                case c.Over(code):
                    assert self.session is None or self.session.is_empty, "over while processes live"
                    self.code = code

    def _signal(self, number: int) -> None:
        session = self.session
        assert session is not None
        if number == 9:
            for rank in sorted(session.alive):
                self._die(session, rank, "was killed by signal 9")
            session.launcher = False
        else:
            session.stopping = True

    def _signal_a_rank(self) -> None:
        """Somebody asks a rank to stop; it tells rank 0, unless that does not answer."""
        session = self.session
        if session is None or not session.alive:
            return
        rank = self.random.choice(sorted(session.alive))
        session.signals.setdefault(rank, self.random.choice([2, 15]))
        self.signalled = True
        session.stopping = True

    def _late(self, event: object, record: bool = False) -> None:
        """What a supervisor notices later. It reads the records of a session before it looks for its processes, so
        nobody seems gone before what it left is known."""
        delay = self.random.uniform(0, 1.5)
        if record:
            self.known = max(self.known, self.time + delay)
        elif not isinstance(event, c.Beat):
            delay = max(delay, self.known - self.time + 1e-3)
        self._at(delay, event)
        if self.random.random() < 0.2:
            self._at(delay + self.random.uniform(0, 60), event)

    def _die(self, session: Session, rank: int, how: str) -> None:
        session.alive.discard(rank)
        self._late(c.Gone(0.0, session.epoch, rank, how))

    def _live(self) -> None:
        """A quarter of a second in the life of a session."""
        session = self.session
        if session is None:
            return
        if not session.halted and self.random.random() < self.faults / 20:
            session.halted = True
            self._late(c.LauncherStopped(0.0, session.epoch, True), record=True)
        if session.alive:
            self._step(session)
        elif session.halted and session.launcher:
            return  # it cannot end until it goes on, or is killed
        elif session.launcher:
            session.launcher = False
            self._late(c.LauncherEnded(0.0, session.epoch, self.random.choice([0, 9])))
        else:
            self._late(c.Empty(0.0, session.epoch))

    def _step(self, session: Session) -> None:
        for rank in sorted(session.alive):
            if rank not in session.hung and self.random.random() < 0.5:
                self._late(c.Beat(0.0, session.epoch, rank, session.step, "", session.signals.get(rank, 0)))
        if self.random.random() < self.faults:
            rank = self.random.choice(sorted(session.alive))
            match self.random.choice(["kill", "hang", "raise", "lie"]):
                case "kill":
                    self._die(session, rank, "was killed by signal 11")
                case "hang":
                    session.hung.add(rank)
                case "raise":
                    self._late(
                        c.Failed(0.0, session.epoch, rank, self.random.choice([2, 75]), "it went wrong"), record=True
                    )
                    self._die(session, rank, "")
                case "lie":  # it ends as if all were well, without a record
                    self._die(session, rank, "")
        if session.hung or len(session.alive) < session.ranks - len(session.done):
            return  # the others wait for it
        session.step += 1
        self.saved = max(self.saved, session.step - session.step % 3)
        if session.step >= self.total or session.stopping:
            for rank in sorted(session.alive):
                session.done.add(rank)
                session.alive.discard(rank)
                heard = next(iter(session.signals.values()), 0)  # rank 0 hears of what others were asked
                signal = session.signals.get(rank, 0) if rank else heard
                self._late(c.Completed(0.0, session.epoch, rank, signal), record=True)
