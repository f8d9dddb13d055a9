"""What the parts of a program on several devices are, for those who look: parsing only, nothing is executed.

Assumes an open bundle, of a program or of many ranks. Guarantees that what is wrong in it is a `BundleError`. Needs the
standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.cluster import ROLE
from dfc_runtime.formats.manifest import MIXED, HostSite, Manifest
from dfc_runtime.mixed.plan import NOT_OUTSIDE, DevicePlan, read_plan

SEND = "send"


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """A value that goes from one device to others, as often as the part of the program runs that it stands in."""

    entry: str
    key: str
    type: str
    destinations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device of a task: what it holds and runs. `name` is as `dfc place` writes it; `sizes` are the bytes of each
    image of its part, whose manifest this is."""

    name: str
    state: tuple[str, ...]
    sends: tuple[MessageInfo, ...]
    manifest: Manifest
    sizes: Mapping[str, int]


def devices_in(bundle: OpenBundle) -> dict[str, tuple[DeviceInfo, ...]]:
    """The devices of programs that work on several: by role, or under "" where there are no ranks."""
    cluster = bundle.manifest.cluster
    if cluster is None:
        return {"": _devices(bundle)} if bundle.manifest.driver == MIXED else {}
    devices: dict[str, tuple[DeviceInfo, ...]] = {}
    for role in cluster.roles:
        with bundles.opened(bundle.read(ROLE + role.name)) as inner:
            if inner.manifest.driver == MIXED:
                devices[role.name] = _devices(inner)
    return devices


def _devices(bundle: OpenBundle) -> tuple[DeviceInfo, ...]:
    code = bundle.code(bundle.manifest.images[0])
    plan = read_plan(bundle.manifest.notes.get(MIXED), len(code))
    return tuple(_device(each, code[each.offset : each.offset + each.size]) for each in plan.devices)


def _device(plan: DevicePlan, code: bytes) -> DeviceInfo:
    with bundles.opened(code) as bundle:
        manifest = bundle.manifest
        sizes = {image.isa: len(bundle.code(image)) for image in manifest.images}
        held = tuple(each.name for each in manifest.state)
        return DeviceInfo(in_words(plan.name), held, tuple(_sends(plan, manifest)), manifest, sizes)


def _sends(plan: DevicePlan, manifest: Manifest) -> Iterator[MessageInfo]:
    for number, site in zip(plan.sites, manifest.sites, strict=False):
        if number == NOT_OUTSIDE and site.kind == SEND and site.inputs:
            yield MessageInfo(site.entry, str(site.attributes.get("key", "")), str(site.inputs[0]), _destinations(site))


def _destinations(site: HostSite) -> tuple[str, ...]:
    destinations = site.attributes.get("destinations", ())
    return tuple(in_words(name) for name in destinations) if isinstance(destinations, tuple) else ()


def in_words(name: str) -> str:
    """The device that messages call `@gpu1:0`."""
    text = name.removeprefix("@").partition(":")[0]
    kind = text.rstrip("0123456789")
    return kind if kind == "cpu" else f"{kind} {text[len(kind) :]}"
