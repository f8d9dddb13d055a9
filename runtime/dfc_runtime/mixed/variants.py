"""Which variants of its code a program on several devices runs here: for those who compile more of it.

Assumes an open bundle. Guarantees the names that its parts give their images, sorted, each once.
"""

from __future__ import annotations

from dfc_runtime.driver import find_driver
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle
from dfc_runtime.formats.manifest import MIXED, ImageEntry
from dfc_runtime.instances import image_for
from dfc_runtime.mixed.plan import read_plan


def variant(bundle: OpenBundle, image: ImageEntry, device: int) -> str:
    """The name of an image; of one that holds several, their names with blanks between them."""
    if image.isa != MIXED:
        return image.isa
    code = bundle.code(image)
    names: set[str] = set()
    for each in read_plan(bundle.manifest.notes.get(MIXED), len(code)).devices:
        with bundles.opened(code[each.offset : each.offset + each.size]) as part:
            number = device + each.number if find_driver(part.manifest.driver).has_devices else 0
            names.add(image_for(part, number).isa)
    return " ".join(sorted(names))
