"""Entries meet in a group exactly if their calls exclude each other, which follows from the state they use."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from random import Random

from dfc_runtime.calls.conflicts import Conflicts, Group
from dfc_runtime.formats.manifest import Entry, Manifest
from tests.support.bundles import Sketch, entry, state
from tests.support.sweeping import few


def program(*entries: Entry) -> Manifest:
    names = sorted({name for each in entries for name in (*each.reads, *each.writes)})
    kept = [state(name, "f32", kind="queue" if name.startswith("q") else "variable") for name in names]
    return Sketch([(each, "none") for each in entries], state=kept).manifest()


def groups(*entries: Entry) -> list[Group]:
    return Conflicts(program(*entries)).groups()


def uses(name: str, reads: str = "", writes: str = "", **more: bool) -> Entry:
    concurrent = more.pop("concurrent", False)
    return replace(entry(name, {}, reads=reads.split(), writes=writes.split(), **more), concurrent=concurrent)


def test_two_models_in_one_program_have_a_lock_each_which_init_takes_both() -> None:
    made = groups(uses("init", writes="u v"), uses("step", "u", "u"), uses("step_too", "v", "v"))
    assert made == [Group(frozenset({0, 1})), Group(frozenset({0, 2}))]


def test_a_program_about_one_model_has_one_lock() -> None:
    made = groups(uses("init", writes="u v"), uses("train", "u", "u v"), uses("test", "u", "v"), uses("look", "u v"))
    assert made == [Group(frozenset(range(4)))]


def test_readers_of_what_a_third_writes_have_nothing_in_common() -> None:
    made = groups(uses("head", "base", "a"), uses("head_too", "base", "b"), uses("train", writes="base"))
    assert made == [Group(frozenset({0, 2})), Group(frozenset({1, 2}))]


def test_queues_and_readonly_entries_keep_nobody_apart() -> None:
    put, take, look = uses("put", "q", "q n"), uses("take", "q m", "q m"), uses("look", "n m", readonly=True)
    assert groups(put, take, look) == [Group(frozenset({0})), Group(frozenset({1}))]


def test_concurrent_entries_share_the_lock_of_those_that_they_exclude() -> None:
    add, drop, beside = (uses(name, "n", "n", concurrent=True) for name in ("add", "drop", "beside"))
    made = groups(add, drop, replace(beside, reads=(), writes=("m",)), uses("reset", writes="n"))
    assert made == [Group(frozenset({3}), frozenset({0, 1}))]


def test_entries_meet_in_a_group_exactly_if_they_exclude_each_other() -> None:
    for seed in few(range(60), 12):
        random = Random(seed)
        entries = [
            uses(
                f"e{number}",
                " ".join(random.sample("abcde", random.randrange(3))),
                " ".join(random.sample("abcde", random.randrange(3))),
                concurrent=random.random() < 0.3,
            )
            for number in range(8)
        ]
        conflicts = Conflicts(program(*entries))
        made = conflicts.groups()
        for one, other in combinations_with_replacement(range(8), 2):
            a, b = entries[one], entries[other]
            shared = {*a.writes} & {*b.reads, *b.writes} | {*b.writes} & {*a.reads, *a.writes}
            expected = not (a.concurrent and b.concurrent) and (one == other or bool(shared))
            meet = any(
                {one, other} <= each.exclusive | each.concurrent and not {one, other} <= each.concurrent
                for each in made
            )
            assert conflicts.excludes(a, b) == meet == expected, (seed, one, other)
