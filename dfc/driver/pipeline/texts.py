"""How each form prints that has no printer of its own elsewhere: names, images, bundles. For people alone."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.bundle.target import Lowered
from dfc.bundle.writing import Bundle
from dfc.elaborate.build import Resolved


def names_text(resolved: Resolved) -> str:
    """Every name that the files of a program declare or import, with what it is and where it stands."""
    return "\n".join(_names(resolved)) + "\n"


def _names(resolved: Resolved) -> Iterator[str]:
    for number, (name, module) in enumerate(resolved.modules.items()):
        if number:
            yield ""
        yield f"file {module.tree.span.name}" + (f", imported as {name}" if name else "")
        for binding in module.scope.names.values():
            yield f"  {binding.name}: {binding.role.value}, line {binding.span.line}"


def images_text(lowered: Lowered) -> str:
    """The images of a program, with where each symbol starts."""
    lines = [f"driver {lowered.driver}, {len(lowered.constants)} bytes of constants"]
    for image in lowered.images:
        lines += [
            "",
            f"image {image.isa}: {len(image.code)} bytes, needs {', '.join(image.required_bits) or 'nothing'}",
        ]
        lines += [f"  {offset:8d} {symbol}" for symbol, offset in image.symbols.items()]
    return "\n".join(lines) + "\n"


def bundle_text(bundle: Bundle) -> str:
    """What a bundle holds: entries, state, and its tensors with their lengths."""
    manifest = bundle.manifest
    lines = [f"bundle {manifest.name} for the driver {manifest.driver}"]
    lines += [f"  entry {entry.name}" for entry in manifest.entries]
    lines += [f"  state {entry}" for entry in manifest.state]
    lines += [f"  tensor {each.name}: {len(each.data)} bytes" for each in bundle.contents]
    return "\n".join(lines) + "\n"
