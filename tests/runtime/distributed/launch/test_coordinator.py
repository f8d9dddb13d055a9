"""The coordinator keeps its four promises in every world, and says what happened."""

import pytest

from dfc_runtime.distributed.launch import coordinator as c
from tests.support.cluster_world import World
from tests.support.sweeping import few

SEEDS, GROUPS = 20_000, 20
STOPPING = c.LogLine("stopping after this step; again to stop now")


@pytest.mark.parametrize("group", few(range(GROUPS), 2))
def test_every_job_ends_with_one_session_at_a_time_and_never_a_false_success(group: int) -> None:
    for seed in range(group * SEEDS // GROUPS, (group + 1) * SEEDS // GROUPS):
        world = World(seed)
        code = world.run()
        session = world.session
        assert session is not None
        epochs = [epoch for epoch, _ in world.launches]
        assert epochs == sorted(set(epochs)), f"seed {seed}"
        assert len(world.launches) <= 1 + world.policy.restarts, f"seed {seed}"
        if code == 0:
            assert session.done == set(range(session.ranks)), f"seed {seed}: success without completion"
            assert session.step >= world.total, f"seed {seed}"
        if code >= 128:
            assert world.interrupts or world.signalled, f"seed {seed}"
        if not world.faults and not world.interrupts and not world.signalled:
            assert code == 0, f"seed {seed}: {world.log_lines}"


def _running(policy: c.Policy, epoch: int = 1) -> c.State:
    state, effects = c.begin(policy)
    assert effects == (c.Launch(policy.ranks),)
    return c.react(state, c.Started(0.0, epoch))[0]


def _fed(state: c.State, *events: c.Event) -> tuple[c.State, list[c.Effect]]:
    done: list[c.Effect] = []
    for event in events:
        state, effects = c.react(state, event)
        done += effects
    return state, done


def test_success_is_a_record_of_every_rank_and_not_an_exit_code() -> None:
    _, effects = _fed(_running(c.Policy(2)), c.Completed(1.0, 1, 0), c.LauncherEnded(1.1, 1, 0), c.Empty(1.2, 1))
    assert effects[-1] == c.Over(75)
    _, effects = _fed(
        _running(c.Policy(2)),
        c.Completed(1.0, 1, 0),
        c.Completed(1.0, 1, 1),
        c.LauncherEnded(1.1, 1, 9),
        c.Empty(1.2, 1),
    )
    assert effects[-1] == c.Over(0)


def test_a_death_names_rank_signal_and_step_and_restarts_with_pauses_that_grow() -> None:
    state = _running(c.Policy(3, restarts=2))
    state, effects = _fed(
        state, c.Beat(1.0, 1, 1, 40, "it computes train"), c.Gone(1.2, 1, 1, "was killed by signal 9")
    )
    assert effects[0] == c.LogLine("rank 1 was killed by signal 9 in step 40, where it computes train")
    assert effects[1] == c.Send(9)
    state, effects = _fed(state, c.Empty(1.3, 1), c.Clock(1.4), c.Clock(1.9))
    assert effects == [c.LogLine("restart 1 of 2 with 3 ranks"), c.Launch(3)]
    state, effects = _fed(state, c.Started(2.0, 4), c.Gone(2.1, 4, 0, ""), c.Empty(2.2, 4))
    assert effects[-1] == c.LogLine("restart 2 of 2 with 3 ranks")
    assert state.until > 2.2 + c.PAUSE - 1e-9


def test_silence_is_a_death_and_a_mistake_of_the_user_is_not_tried_again() -> None:
    _, effects = _fed(_running(c.Policy(2, restarts=3)), c.Beat(20.0, 1, 1, 7, ""), c.Clock(31.0))
    assert isinstance(effects[0], c.LogLine) and effects[0].text.startswith("rank 0 has been silent for 31 s")
    _, effects = _fed(_running(c.Policy(2, restarts=3)), c.Failed(1.0, 1, 0, 2, "no entry `trian`"), c.Empty(1.1, 1))
    assert effects[-1] == c.Over(2)


@pytest.mark.parametrize(("step", "where"), [(0, ""), (40, ", in step 40")])
def test_a_silent_rank_that_counts_no_steps_is_in_none(step: int, where: str) -> None:
    state = _running(c.Policy(2, silence=2.0))
    _, effects = _fed(
        state,
        c.Beat(0.5, 1, 0, 0, ""),
        c.Beat(0.5, 1, 1, step, "it computes train"),
        c.Beat(4.0, 1, 0, 0, ""),
        c.Clock(4.5),
    )
    assert effects[0] == c.LogLine(f"rank 1 has been silent for 4 s{where}; it computes train")


def test_a_rank_that_only_begins_may_be_silent_for_longer() -> None:
    state = _fed(_running(c.Policy(2, silence=2.0)), c.Beat(0.5, 1, 1, 0, ""), c.Beat(2.4, 1, 1, 0, ""))[0]
    assert _fed(state, c.Clock(2.5))[1] == []
    assert isinstance(_fed(state, c.Clock(4.5))[1][0], c.LogLine)  # rank 1 has said something, and then nothing for 2 s
    _, effects = _fed(state, c.Beat(30.5, 1, 1, 0, ""), c.Clock(31.0))
    assert isinstance(effects[0], c.LogLine) and effects[0].text.startswith("rank 0 has been silent for 31 s")


def test_a_rank_that_has_told_the_user_itself_has_time_to_be_heard() -> None:
    state, effects = _fed(_running(c.Policy(2)), c.Failed(1.0, 1, 0, 2, ""), c.Clock(1.5))
    assert effects == []
    assert _fed(state, c.Empty(1.6, 1))[1] == [c.Over(2)]
    assert _fed(state, c.Clock(1.1 + c.KILL_AGAIN))[1] == [c.Send(9)]


def test_what_a_rank_reports_is_passed_on_as_it_is_and_once() -> None:
    reports = [c.Failed(1.0, 1, rank, 2, "", f"error of {rank}\n  fix\n") for rank in (0, 1)]
    _, effects = _fed(_running(c.Policy(2, restarts=1)), *reports, c.Empty(1.5, 1))
    assert effects == [c.Report("error of 0\n  fix\n"), c.Over(2)]


def test_two_sessions_without_a_step_cost_a_rank() -> None:
    state = _running(c.Policy(4, restarts=5, least=2))
    counts = []
    for epoch in range(1, 5):
        state, effects = _fed(state, c.Gone(1.0, epoch, 0, ""), c.Empty(1.0, epoch), c.Clock(1000.0))
        counts += [e.ranks for e in effects if isinstance(e, c.Launch)]
        state, _ = _fed(state, c.Started(1000.0, epoch + 1))
    assert counts == [4, 3, 2, 2]


def test_a_wish_to_stop_is_passed_on_then_enforced() -> None:
    state, effects = _fed(_running(c.Policy(1)), c.Beat(4.0, 1, 0, 0, ""), c.Interrupted(5.0, 2))
    assert effects == [STOPPING, c.Send(2)]
    _, effects = _fed(state, c.Completed(6.0, 1, 0), c.LauncherEnded(6.0, 1, 0), c.Empty(6.1, 1))
    assert effects == [c.Over(130)]
    _, effects = _fed(state, c.Clock(15.1), c.Empty(15.2, 1))
    assert effects[-1] == c.Over(130)
    _, effects = _fed(state, c.Interrupted(6.5, 2), c.Empty(6.6, 1))
    assert effects == [c.Send(9), c.Over(130)]


def test_a_repeat_within_a_second_is_the_same_wish() -> None:
    state = _fed(_running(c.Policy(1)), c.Beat(4.0, 1, 0, 3, ""), c.Interrupted(5.0, 15))[0]
    assert _fed(state, c.Interrupted(5.0, 15), c.Interrupted(5.9, 2)) == (state, [])
    assert _fed(state, c.Interrupted(6.1, 15))[1] == [c.Send(9)]


def test_a_rank_that_was_asked_to_stop_itself_stops_the_job() -> None:
    begun = _fed(_running(c.Policy(2, restarts=3)), c.Beat(1.0, 1, 0, 3, ""), c.Beat(1.0, 1, 1, 0, ""))[0]
    state, effects = _fed(begun, c.Beat(1.5, 1, 1, 0, "", 15), c.Beat(2.0, 1, 1, 0, "", 15), c.Interrupted(2.1, 15))
    assert effects == [c.LogLine("rank 1 was asked to stop by signal 15, so all ranks stop"), c.Send(15)]
    _, effects = _fed(state, c.Completed(2.0, 1, 0), c.Completed(2.0, 1, 1, 15), c.LauncherEnded(2.1, 1, 0))
    assert effects == []
    _, effects = _fed(state, c.Completed(2.0, 1, 0), c.Completed(2.0, 1, 1, 15), c.Empty(2.2, 1))
    assert effects == [c.Over(143)]
    assert _fed(state, c.Clock(1.6 + c.STOP_WITHIN))[1][-1] == c.Send(9)
    _, effects = _fed(begun, c.Completed(2.0, 1, 0, 15), c.Completed(2.0, 1, 1), c.Empty(2.2, 1))
    assert effects == [c.LogLine("rank 0 was asked to stop by signal 15, so all ranks stop"), c.Over(143)]


def test_a_rank_that_was_asked_to_stop_before_rank_0_is_there_ends_the_job_at_once() -> None:
    _, effects = _fed(_running(c.Policy(2)), c.Beat(1.0, 1, 1, 0, "", 15), c.Empty(1.1, 1))
    assert effects == [c.LogLine("rank 1 was asked to stop by signal 15, so all ranks stop"), c.Send(9), c.Over(143)]


def test_ranks_that_have_only_begun_are_ended_at_once_and_without_a_word() -> None:
    _, effects = _fed(_running(c.Policy(2)), c.Interrupted(0.1, 2), c.LauncherEnded(0.2, 1, 9), c.Empty(0.3, 1))
    assert effects == [c.Send(9), c.Over(130)]
    state, _ = c.react(c.begin(c.Policy(2))[0], c.Interrupted(0.0, 15))
    _, effects = _fed(state, c.Started(0.1, 1), c.Empty(0.2, 1))
    assert effects == [c.Send(9), c.Over(143)]


def test_ranks_that_end_behind_the_one_that_decides_are_no_news() -> None:
    state = _fed(_running(c.Policy(2)), c.Beat(1.0, 1, 0, 3, ""), c.Interrupted(2.0, 2), c.Completed(2.1, 1, 0))[0]
    _, effects = _fed(state, c.Gone(2.2, 1, 1, "has died"), c.LauncherEnded(2.2, 1, 1), c.Empty(2.3, 1))
    assert effects == [c.Send(9), c.Over(130)]
    state = _fed(_running(c.Policy(2)), c.Beat(1.0, 1, 0, 3, ""), c.Interrupted(2.0, 2))[0]
    _, effects = _fed(state, c.Gone(2.2, 1, 1, "has died"))
    assert effects == [c.LogLine("rank 1 has died while it started"), c.Send(9)]


def test_events_of_an_epoch_that_is_over_change_nothing() -> None:
    state = _running(c.Policy(2, restarts=1), epoch=5)
    for event in (c.Completed(1.0, 4, 0), c.Gone(1.0, 4, 0, ""), c.Empty(1.0, 4), c.LauncherEnded(1.0, 4, 0)):
        assert c.react(state, event) == (state, ())


def test_a_launcher_that_is_stopped_for_too_long_ends_the_session() -> None:
    state = _running(c.Policy(1, silence=5.0))
    beats = [c.Beat(time, 1, 0, 1, "") for time in (1.0, 4.0, 8.0)]
    state, effects = _fed(state, c.LauncherStopped(1.0, 1, True), *beats, c.Clock(6.0))
    assert effects == []
    gone_on, _ = _fed(state, c.LauncherStopped(6.1, 1, False))
    assert _fed(gone_on, c.Clock(8.5))[1] == []
    _, effects = _fed(state, c.Clock(8.5), c.Empty(8.6, 1))
    assert isinstance(effects[0], c.LogLine) and "was stopped by a signal 8 s ago" in effects[0].text
    assert effects[1:] == [c.Send(9), c.Over(75)]
    _, effects = _fed(state, c.Completed(6.5, 1, 0), c.Clock(8.5), c.Empty(8.6, 1))
    assert effects == [c.Send(9), c.Over(0)]


def test_ranks_that_are_all_done_have_stopped_in_time() -> None:
    state = _fed(_running(c.Policy(1)), c.Beat(1.0, 1, 0, 3, ""), c.Interrupted(2.0, 2), c.Completed(2.1, 1, 0))[0]
    _, effects = _fed(state, c.Clock(2.1 + c.STOP_WITHIN), c.Empty(12.0, 1))
    assert effects == [c.Send(9), c.Over(130)]
