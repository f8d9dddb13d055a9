"""What must hold behind the stages whose forms have no verifier of their own elsewhere: trees, names, images, bundles.

Every check raises `StageError`, a bug of the stage. They run with `--verify-each`.
"""

from __future__ import annotations

from dataclasses import replace

from dfc.bundle.writing import Bundle
from dfc.driver.pipeline.forms import Coded, Linked
from dfc.elaborate.build import Resolved
from dfc.elaborate.names.modules import items_of
from dfc.ir.graph import Node
from dfc.syntax.printer.printer import to_text
from dfc.syntax.reader.parser import parse
from dfc.syntax.tree.tree import Module
from dfc_runtime.errors import BundleError
from dfc_runtime.formats.bundle import opened
from dfc_runtime.formats.manifest import MIXED
from dfc_runtime.formats.manifest_writing import to_json


class StageError(Exception):
    """A form is not what its stage guarantees."""


def check_tree(module: Module) -> None:
    """What is printed of a tree is parsed as the same tree."""
    file = module.span.file
    text = to_text(module)
    again = parse(type(file)(file.name, text))
    if again != module:
        raise StageError("the tree is not what is read of its text")


def check_names(resolved: Resolved) -> None:
    """Every item of every file has a binding of its own."""
    for name, module in resolved.modules.items():
        for item in items_of(module.tree):
            if module.scope.own(item.name.text) is None:
                raise StageError(f"`{item.name.text}` of the file {name or 'of the program'} is bound to nothing")


def check_gone(node: Node | None, what: str) -> None:
    """No node is left that a pass was to take away; `what` says so in words."""
    if node is not None:
        raise StageError(f"not so: {what}; there is `{node.name}`, a {node.op}")


def check_generated(coded: Coded) -> None:
    """Code prints: what a program with entries is made into is some text."""
    if coded.program.entries and not coded.generated.text().strip():
        raise StageError("the code of the program has no text")


def check_linked(linked: Linked) -> None:
    """Every image names a function for each entry, inside of its code; every constant lies inside of the blob."""
    lowered = linked.lowered
    for image in lowered.images:
        for number in range(len(linked.program.entries)):
            if f"entry_{number}_0" not in image.symbols:
                raise StageError(f"the image {image.isa} has no code for entry {number}")
        outside = [symbol for symbol, offset in image.symbols.items() if not 0 <= offset <= len(image.code)]
        if outside:
            raise StageError(f"{outside[0]} is outside of the image {image.isa}")
    if lowered.driver != MIXED and len(lowered.constant_offsets) != len(linked.program.constants):
        raise StageError(f"{len(lowered.constant_offsets)} of {len(linked.program.constants)} constants have a place")


def check_bundle(bundle: Bundle) -> None:
    """The bytes open as a bundle, hashes, schema and seals included, with the manifest that was written."""
    try:
        with opened(bundle.to_bytes()) as file:
            expected = replace(bundle.manifest, tensors=file.manifest.tensors)  # hashes are filled in while writing
            same = to_json(file.manifest) == to_json(expected)
    except BundleError as problem:
        raise StageError(f"the bundle does not open: {problem.message}") from problem
    if not same:
        raise StageError("the manifest that is read is not the one that was written")
