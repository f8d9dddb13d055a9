"""Collection is off inside, and afterwards as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from dfc.deferred.collection import importing, seldom_collected, uncollected


def test_nothing_is_collected_inside_and_all_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_inside_turns_it_on_again() -> None:
    with pytest.raises(KeyError), uncollected():
        raise KeyError("x")
    assert gc.isenabled()


def test_what_is_imported_is_not_looked_at_again() -> None:
    before = gc.get_freeze_count()
    try:
        with importing():
            assert not gc.isenabled()
            kept = [[] for _ in range(10)]
        assert gc.isenabled() and gc.get_freeze_count() >= before + len(kept)
    finally:
        gc.unfreeze()


def test_a_command_ends_without_a_collection() -> None:
    program = """if True:
        import atexit, gc, sys
        from dfc.__main__ import main
        from dfc.cli import main as commands
        often = gc.get_threshold()[0]
        last = []
        run = commands.main
        def noting():
            gc.callbacks.append(lambda phase, _: last.append(phase))
            made = [[] for _ in range(20 * often)]
            run()
        commands.main = noting
        atexit.register(lambda: print(len(gc.get_objects()), len(last)))
        sys.argv = ["dfc", "--version"]
        main()
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    version, counts = ended.stdout.splitlines()
    left, collections = map(int, counts.split())
    assert version.startswith("dfc ")
    assert left < 1000, "what a collection at the end would look at"
    assert collections == 0, "for some thousand new objects"


def test_garbage_is_looked_for_seldom_until_the_last_of_several_has_left() -> None:
    before = gc.get_threshold()
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] >= 50_000
    first.__exit__(None, None, None)  # as threads may: not the other way round
    assert gc.get_threshold()[0] >= 50_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_process_that_never_looks_for_garbage_does_not_begin_to() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(0)
        with seldom_collected():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
