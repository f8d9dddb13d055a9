"""2,000 damaged bundles, half of them of native code: each is refused with one line and exit code 4, or is as good as
the original. Mutants run in forked children, a batch each, so that a signal would be seen as one."""

from __future__ import annotations

import os
import resource
from functools import cache
from pathlib import Path

import pytest

import dfc
import dfc_runtime
from dfc_runtime.errors import BundleError, LimitError
from dfc_runtime.loading import load
from tests.support.forked import in_child
from tests.support.mutants import MUTATORS, mutant
from tests.support.natives import program
from tests.support.sweeping import few

COUNT, BATCH = 2000, 125
MEGABYTE = 1 << 20


@cache
def native_bundle() -> bytes:
    """A program of the compiler, with machine code."""
    return dfc.compile(Path(__file__).parents[3] / "samples" / "digits.dfg").to_bytes()


def look(data: bytes) -> None:
    """Verifies and loads a mutant; nothing but a refusal of the right form may come of it."""
    try:
        dfc_runtime.verify(data)
        dfc_runtime.loads(data, initialise=False, memory_limit=MEGABYTE)
    except BundleError as refusal:
        message = refusal.message
        assert refusal.exit_code == 4
        assert message.isprintable() and len(message) <= 200, message
    except LimitError as refusal:
        assert refusal.exit_code == 7


def look_at_batch(data: bytes, first: int) -> None:
    for seed in range(first, first + BATCH):
        try:
            look(mutant(data, seed))
        except BaseException:
            os.write(2, f"mutant {seed} ({MUTATORS[seed % len(MUTATORS)].__name__}):\n".encode())
            raise


@pytest.mark.parametrize("first", few(range(0, COUNT, BATCH), 5))
def test_damaged_bundles_are_refused_in_one_line(first: int) -> None:
    data = program().to_bytes() if first % (2 * BATCH) else native_bundle()
    assert in_child(lambda: look_at_batch(data, first)) == 0


def test_every_kind_of_damage_is_refused_at_least_sometimes(tmp_path: Path) -> None:
    data = program().to_bytes()
    refused = set()
    for seed in range(400):
        try:
            dfc_runtime.verify(mutant(data, seed))
        except BundleError:
            refused.add(seed % len(MUTATORS))
    assert refused == set(range(len(MUTATORS)))


def test_damage_to_the_bytes_is_always_refused() -> None:
    """Only the spaces behind the header, and nothing else, may change unseen."""
    data = program().to_bytes()
    whole = dfc_runtime.verify(data)
    for place in range(0, len(data), 3):
        for damaged in (data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], data[:place]):
            try:
                assert dfc_runtime.verify(damaged) == whole
                assert damaged[place : place + 1].isspace()
            except BundleError:
                pass


def test_a_claim_of_much_memory_allocates_none(tmp_path: Path) -> None:
    path = tmp_path / "huge.bundle"
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BundleError):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
