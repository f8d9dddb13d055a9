"""What this processor can run. Assumes Linux; elsewhere no instruction-set bit is known, and every image is refused."""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.errors import BundleError
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.manifest import ImageEntry
from dfc_runtime.processor_features import asked_bits

CPU_INFO = "/proc/cpuinfo"


def host_bits() -> frozenset[str]:
    """The instruction-set bits of this processor, by the names the kernel gives them: as the kernel lists them, which
    leaves out what it does not let anybody use; where it lists none (`/proc` is not mounted, or hidden), as the
    processor says itself."""
    try:
        with open(CPU_INFO, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features") and value.strip():
                    return frozenset(value.split())
    except OSError:
        pass
    return asked_bits()


def choose_image(images: Sequence[ImageEntry], bits: frozenset[str] | None = None) -> ImageEntry:
    """The first image this machine runs (the best come first); `BundleError` says what is missing."""
    present = host_bits() if bits is None else bits
    for image in images:
        if present.issuperset(image.required_bits):
            return image
    offered = shown(", ".join(image.isa for image in images) or "no machine", 60)
    missing = shown(" ".join(sorted(set(images[-1].required_bits) - present)), 60) if images else ""
    lacks = f"; this processor lacks {missing}" if missing else ""
    raise BundleError(f"the bundle holds code for {offered}{lacks}", code="E0907")
