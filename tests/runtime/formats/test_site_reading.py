"""Places of host calls in a manifest: what is read is what was written, and nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dfc_runtime
from dfc_runtime.errors import BundleError
from dfc_runtime.formats import manifest_reading, manifest_writing, strict_json
from dfc_runtime.formats.manifest import HANDED, HostSite, SiteOperand
from tests.support.bundles import LOCATION, Sketch, entry, state, with_manifest

OPERANDS = (SiteOperand("f32", (4, "2 * N")), SiteOperand("bool", ()))
TOLD = {"tag": "loss", "step": 3, "rate": 0.5, "flag": True, "to": ("a", "b"), "none": ()}
SITE = HostSite("tell", "add", TOLD, OPERANDS, (SiteOperand("i64", (0,)),), ("add/loss", "add/x"), LOCATION)
Change = Callable[[dict], None]


def sketch() -> Sketch:
    return Sketch(entries=[(entry("add", {"x": "f32"}, "f32"), "add")], sites=[SITE])


def test_sites_are_read_as_they_were_written() -> None:
    manifest = sketch().manifest()
    data = strict_json.parse(strict_json.dump(manifest_writing.to_json(manifest)))
    assert manifest_reading.from_json(data) == manifest
    assert str(SITE.inputs[0]) == "f32[4, 2 * N]"


def test_a_program_without_host_calls_says_nothing_of_them() -> None:
    manifest = Sketch(entries=[(entry("add", {}), "add")]).manifest()
    assert "sites" not in manifest_writing.to_json(manifest)


def _set(*path: str | int, to: object) -> Change:
    def change(manifest: dict) -> None:
        place = manifest["sites"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set(0, "kind", to=7), "kind is not text"),
        (_set(0, "entry", to="absent"), "a host call is in the unknown entry absent"),
        (_set(0, "attributes", to=[]), "attributes is not an object"),
        (_set(0, "attributes", "tag", to=None), "tag is not a plain value"),
        (_set(0, "attributes", "tag", to={}), "tag is not a plain value"),
        (_set(0, "attributes", "to", to=["a", 1]), "to is not text"),
        (_set(0, "inputs", 0, "type", to="f31"), "unknown element type f31"),
        (_set(0, "inputs", 0, "shape", to=[-1]), "not a whole number"),
        (_set(0, "inputs", 0, "shape", to=[True]), "not a whole number"),
        (_set(0, "inputs", 0, "shape", to=[1.5]), "not a whole number"),
        (_set(0, "inputs", 0, "shape", to=[2**40, 2**40]), "too large"),
        (_set(0, "inputs", 0, "shape", to=[1] * 33), "too large"),
        (_set(0, "inputs", 0, "more", to=1), "unknown key more"),
        (_set(0, "outputs", to="text"), "outputs is not a list"),
        (_set(0, "names", to=[1]), "names.* is not text"),
        (_set(0, "place", to=["model.dfg", 1]), "not a place"),
        (_set(0, "extra", to=1), "unknown key extra"),
        (_set(0, to=[]), "is not an object"),
    ],
)
def test_damaged_sites_are_refused_in_one_line(change: Change, told: str) -> None:
    with pytest.raises(BundleError, match=told) as caught:
        dfc_runtime.verify(with_manifest(sketch().to_bytes(), change))
    assert caught.value.exit_code == 4 and "\n" not in caught.value.message


HANDED_OVER = HostSite("send", "add", {HANDED: ("w",)}, (SiteOperand("f32", (4,)),), (), ("w",), LOCATION)


def _handing() -> Sketch:
    variables = [state("w", "f32[4]"), state("v", "f32[5]")]
    return Sketch(entries=[(entry("add", {}), "add")], state=variables, sites=[HANDED_OVER])


def test_variables_that_are_handed_over_are_read_as_they_were_written() -> None:
    manifest = _handing().manifest()
    assert manifest_reading.from_json(manifest_writing.to_json(manifest)) == manifest


@pytest.mark.parametrize("names", [["v"], ["absent"], [], ["w", "w"], ["w", "absent"], "w", 0])
def test_variables_that_a_site_is_not_given_are_refused(names: object) -> None:
    change = _set(0, "attributes", HANDED, to=names)
    with pytest.raises(BundleError, match="the send in entry add is not given what it says"):
        dfc_runtime.verify(with_manifest(_handing().to_bytes(), change))
