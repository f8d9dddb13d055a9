"""What the files of the four distributions state agrees: versions, what they require of each other, ranges."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from dfc.version import __version__
from tests.support.empty_environment import ROOT, RUN_SIDE

PROJECTS: dict[str, dict[str, Any]] = {
    name: tomllib.loads((folder / "pyproject.toml").read_text()) for name, folder in {"dfc": ROOT, **RUN_SIDE}.items()
}


@pytest.mark.parametrize("name", PROJECTS)
def test_the_version_is_the_same_everywhere(name: str) -> None:
    project = PROJECTS[name]["project"]
    assert (project["name"], project["version"]) == (name, __version__)
    required = [Requirement(each) for each in project.get("dependencies", [])]
    assert {str(each.specifier) for each in required if each.name.startswith("dfc-")} <= {f"=={__version__}"}


@pytest.mark.parametrize("name", [name for name in RUN_SIDE if name != "dfc-runtime"])
def test_a_driver_needs_the_runtime(name: str) -> None:
    assert f"dfc-runtime=={__version__}" in PROJECTS[name]["project"]["dependencies"]


@pytest.mark.parametrize("name", RUN_SIDE)
def test_a_library_has_the_range_that_the_compiler_gives_it(name: str) -> None:
    """Where both name it; otherwise installing both could fail, or the tests speak of other versions."""
    hook = PROJECTS["dfc"]["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    extras = PROJECTS["dfc"]["project"]["optional-dependencies"]
    ranges: dict[str, set[str]] = {}
    for text in [*hook["requires"], *(each for texts in extras.values() for each in texts)]:
        ranges.setdefault(Requirement(text).name, set()).add(str(Requirement(text).specifier))
    project = PROJECTS[name]["project"]
    own = [
        *project["dependencies"],
        *(each for texts in project.get("optional-dependencies", {}).values() for each in texts),
    ]
    for required in map(Requirement, own):
        assert required.name.startswith("dfc-") or str(required.specifier) in ranges[required.name], required.name
