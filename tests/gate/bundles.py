"""Damaged bundles, of one rank and of several, outside and inside: `verify` and `load` have one opinion of each, and
whatever they refuse ends in one line.

    python -m tests.gate.bundles [COUNT] [--seed N]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import dfc
import dfc_runtime
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport import waiting
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import BundleError, DfcError, LimitError, UnsupportedError
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.manifest import Manifest
from tests.support import gating
from tests.support.bundles import bound, roles_of, sealed, with_manifest, with_role
from tests.support.clusters import cluster_bundle
from tests.support.mutants import edit, mutant
from tests.support.natives import program
from tests.support.ranks import outcomes_on

COUNT = 5000
MEGABYTE = 1 << 20
MOST_RANKS = 6
OTHER_MACHINE, BY_DRIVER = "E0907", "the driver cpu refuses it"
ROWS = """dfg 1

param w: f32[4] = uniform(-1.0, 1.0)
param t: f32[8, 2] = uniform(-1.0, 1.0)
param u: f32[8, 2] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4], i: i32[B]) -> (loss: f32) {
  let loss = mean(square(x @ w)) + mean(square(t[i])) + sum(u)
  let gw, gt, gu = grad(loss, [w, t, u])
  w := w - 0.1 * gw
  t := t - 0.1 * gt
  u := u - 0.1 * gu
  return loss
}
"""
SPREAD = """
job ps tasks 1
job worker tasks 1
shard "t" axis 0 over ps by modulo
place "u" on ps
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
"""
Damage = Callable[[random.Random], bytes]


@cache
def digits() -> bytes:
    return dfc.compile(Path(__file__).parents[2] / "samples" / "digits.dfg").to_bytes()


def spread() -> bytes:
    return cluster_bundle(ROWS, SPREAD)


def native(rng: random.Random) -> bytes:
    return mutant(rng.choice((digits, lambda: program().to_bytes()))(), rng.randrange(1 << 32))


def ranks(rng: random.Random) -> bytes:
    return mutant(spread(), rng.randrange(1 << 32))


def role(rng: random.Random) -> bytes:
    """The program of a role, all hashes around it made right."""
    name, inner = rng.choice(sorted(roles_of(spread()).items()))
    return with_role(spread(), name, mutant(inner, rng.randrange(1 << 32)))


def table_of_role(rng: random.Random) -> bytes:
    """One place in the tables of a role, its code made to fit."""
    name, inner = rng.choice(sorted(roles_of(spread()).items()))
    return with_role(spread(), name, _sealed(with_manifest(inner, lambda manifest: edit(manifest, rng))))


def table_of_ranks(rng: random.Random) -> bytes:
    """One place in what a bundle says of all ranks, its roles made to fit."""
    return _bound(with_manifest(spread(), lambda manifest: edit(manifest["cluster"], rng)))


def roles_of_others(rng: random.Random) -> bytes:
    """Two roles change places."""
    roles = roles_of(spread())
    first, second = rng.sample(sorted(roles), 2)
    return with_role(with_role(spread(), first, roles[second]), second, roles[first])


def _sealed(data: bytes) -> bytes:
    try:
        return sealed(data)
    except (LookupError, TypeError, ValueError):
        return data  # without images or hashes there is nothing to seal


def _bound(data: bytes) -> bytes:
    try:
        return bound(data)
    except (DfcError, LookupError, TypeError, ValueError):
        return data  # it cannot be read, so that nothing fits it


DAMAGES: tuple[Damage, ...] = (native, ranks, role, table_of_role, table_of_ranks, table_of_ranks, roles_of_others)


def verified(data: bytes) -> Manifest | BundleError:
    try:
        return dfc_runtime.verify(data)
    except BundleError as refusal:
        return refusal


def loaded(data: bytes, size: int) -> list[object]:
    """What loading it gives on each of so many ranks. Nothing is run: who seals code again has written code."""

    def load(comm: object) -> None:
        load_on(data, comm, seconds=60, threads=1, initialise=False, limit=64 * MEGABYTE).close()  # type: ignore[arg-type]

    return outcomes_on(Network(size), load)


def refusals(outcomes: list[object]) -> list[BundleError]:
    """Those that say that the bundle is damaged; not that it is for another machine, nor what a driver says of code:
    whoever makes tables fit code anew has written code, which is looked at when it is mapped and not before."""
    found = [each for each in outcomes if isinstance(each, BundleError) and each.code != OTHER_MACHINE]
    return [each for each in found if BY_DRIVER not in each.message]


def fault(data: bytes) -> str:
    """What is not as it should be; "" if all is."""
    verdict, size = verified(data), ranks_of(data)
    if size > MOST_RANKS:
        return ""
    outcomes = loaded(data, size)
    for each in (verdict, *outcomes):
        if isinstance(each, BundleError):
            line = each.message.partition("\n  on rank ")[0]
            if each.exit_code != 4 or not line.isprintable() or len(line) > 200:
                return f"not one line: {each.message!r}"
        elif isinstance(each, BaseException) and not isinstance(each, UnsupportedError | LimitError | SystemExit):
            return f"{type(each).__name__}: {each}"
    found = refusals(outcomes)
    if isinstance(verdict, BundleError) and not found:
        return f"verify refuses what load takes: {verdict}; {outcomes}"
    if not isinstance(verdict, BundleError) and found:
        return f"load refuses what verify calls whole: {found[0]}"
    return ""


def ranks_of(data: bytes) -> int:
    """How many ranks the bundle says that it is for; any number of them refuses one that says nothing."""
    try:
        with bundles.opened(data) as bundle:
            cluster = bundle.manifest.cluster
            return 1 if cluster is None else sum(job.tasks for job in cluster.jobs)
    except BundleError:
        return 2


def cases(seed: int) -> gating.Case:
    """The cases of a seed."""
    digits(), program().to_bytes(), spread()  # once, before there are children
    waiting._LOOK_EVERY = 1  # threads that wait sleep longer than ranks do

    def case(number: int) -> str:
        damage = DAMAGES[number % len(DAMAGES)]
        found = fault(damage(gating.generator(number, seed)))
        return f"{damage.__name__}: {found}" if found else ""

    return case


if __name__ == "__main__":
    sys.exit(gating.main(__doc__ or "", cases, COUNT))
