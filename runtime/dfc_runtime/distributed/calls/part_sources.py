"""What parts of entries are made of on many ranks: precompiled bundles, or the texts and the compiler.

The compiler is an optional companion, as on one rank, and rank 0 alone needs it. Guarantees that a part is found ahead
whatever names its values are asked for by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from dfc_runtime.calls.compiling.origin import sources_of
from dfc_runtime.calls.compiling.partial import Build, ClusterSpecialiser, import_compiler
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import UnsupportedError
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.cluster import DEPLOYMENT, PART, PrecompiledPart
from dfc_runtime.formats.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Signature:
    """What somebody asked for: the results of a part in his order, and which feed of it each of his names is."""

    picks: tuple[int, ...]
    feeds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartSources:
    """What the bundle of a program has for parts of its entries. `deployment` is the text of the deployment file, "" if
    the bundle has none."""

    program: Manifest
    texts: Mapping[str, str]
    deployment: str
    precompiled: tuple[bytes, ...]

    def compiler(self, variants: Sequence[str], how: Build) -> ClusterSpecialiser:
        """The compiler for this program, for these variants of its code, and as that was compiled."""
        cluster = self.program.cluster
        assert cluster is not None
        module = import_compiler(self.texts)
        if not self.deployment:
            text = "the bundle does not carry its deployment file, so no part of it can be compiled"
            raise UnsupportedError(text, code="E1001")
        make = cast("Callable[..., ClusterSpecialiser]", module.cluster_specialiser)
        sites = {each.name: each.site for each in cluster.state}
        elastic = [job.name for job in cluster.jobs if job.elastic]
        deployment = cluster.deployment, self.deployment
        program = self.program
        return make(self.texts, program.settings, program.driver, variants, deployment, sites, elastic, how)


def part_sources(bundle: OpenBundle) -> PartSources:
    """All that a bundle has for parts."""
    cluster = bundle.manifest.cluster
    assert cluster is not None
    deployment = bundle.read(DEPLOYMENT).decode("utf-8", "surrogatepass") if cluster.deployment else ""
    precompiled = tuple(bundle.read(f"{PART}{number}") for number in range(len(cluster.parts)))
    return PartSources(bundle.manifest, sources_of(bundle), deployment, precompiled)


def precompiled_part(
    parts: Sequence[PrecompiledPart], names: Sequence[str], feeds: Sequence[str]
) -> tuple[int, Signature] | None:
    """The part that computes just these values from just those, and its number."""
    for number, part in enumerate(parts):
        picks = [next((n for n, each in enumerate(part.fetches) if name in each), -1) for name in names]
        known = {name: each.parameter for name in feeds for each in part.feeds if name in each.names}
        computes = {*picks} == {*range(len(part.fetches))}
        if computes and known.keys() == {*feeds} and {*known.values()} == {each.parameter for each in part.feeds}:
            return number, Signature(tuple(picks), known)
    return None
