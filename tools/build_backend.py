"""Builds the distribution `dfc`: hatchling, and what a wheel requires of the run side, which is built by itself.

Each package belongs to one distribution, so the wheel of the compiler holds no copy of `dfc_runtime` or of a driver:
two distributions that own the same files overwrite each other, and removing one breaks the other. It requires them.
They are named by what stands beside this checkout:

    a wheel, built in a checkout    dfc-runtime @ file:///home/me/dfc/runtime    `pip install .` asks no index for it
    a wheel, built from an sdist    dfc-runtime==0.2.0                           works on any machine: for releases
    an editable install             nothing: `dev-mode-dirs` puts the folders of the checkout on the path

Assumes that an sdist holds none of the folders below (`tool.hatch.build.targets.sdist` in pyproject.toml).

This is hatchling's build backend without its functions that prepare metadata: those know nothing of what a hook adds.
Without them, and with `dependencies` declared dynamic, every installer reads the requirements from the wheel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

RUN_SIDE = (
    ("dfc-runtime", "runtime", ()),
    ("dfc-driver-cpu", "targets/cpu/run", ()),
    ("dfc-driver-cuda", "targets/cuda/run", ("cuda", "cuda-run")),
)
"""Distribution, its folder, and the extras of `dfc` that ask for it; without extras it is always required."""


class Requirements(BuildHookInterface[Any]):
    """The hook that pyproject.toml names, with the list `requires` of the libraries that `dfc` needs anywhere."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the requirements of a wheel; `version` is `standard` or `editable`."""
        build_data["dependencies"].extend(self.config["requires"])
        if version == "standard":
            version_here: str = cast(Any, self).metadata.version
            build_data["dependencies"].extend(run_side(Path(self.root), version_here))


def run_side(root: Path, version: str) -> Iterator[str]:
    """The requirements of a project that is built in `root`, as lines of `Requires-Dist`."""
    for name, folder, extras in RUN_SIDE:
        where = root / folder
        is_here = (where / "pyproject.toml").exists()
        needed = f"{name} @ {where.resolve().as_uri()}" if is_here else f"{name}=={version}"
        yield from (f"{needed} ; extra == '{extra}'" for extra in extras)
        if not extras:
            yield needed
