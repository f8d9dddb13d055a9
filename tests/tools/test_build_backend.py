"""Which distributions a wheel of the compiler requires: folders of the checkout, or releases by version."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement

from tests.support.empty_environment import ROOT, RUN_SIDE
from tools.build_backend import run_side


def test_a_checkout_names_its_own_folders() -> None:
    found = [Requirement(line) for line in run_side(ROOT, "1.2")]
    assert {each.name: each.url for each in found} == {name: folder.as_uri() for name, folder in RUN_SIDE.items()}


def test_what_is_built_elsewhere_names_releases(tmp_path: Path) -> None:
    found = [Requirement(line) for line in run_side(tmp_path, "1.2")]
    assert {(each.name, str(each.specifier), each.url) for each in found} == {(n, "==1.2", None) for n in RUN_SIDE}


def test_the_driver_of_gpus_is_asked_for_by_extras() -> None:
    for place in (ROOT, Path("/nowhere")):
        for required in map(Requirement, run_side(place, "1.2")):
            wanted = [extra for extra in ("", "cuda", "cuda-run", "mpi") if applies(required, extra)]
            always = ["", "cuda", "cuda-run", "mpi"]
            assert not set(wanted) - set(always)
            assert wanted in (always, ["cuda"], ["cuda-run"])
            assert (wanted == always) == (required.name != "dfc-driver-cuda")


def applies(required: Requirement, extra: str) -> bool:
    return required.marker is None or required.marker.evaluate({"extra": extra})
