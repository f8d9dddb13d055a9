"""`dfc verify`: check that bundles are whole, without running them."""

from __future__ import annotations

import click

import dfc_runtime
from dfc.cli.bundles import existing
from dfc.cli.reports.clusters import described
from dfc_runtime.errors import counted


@click.command("verify", short_help="Check that a bundle is whole.")
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
def command(bundles: tuple[str, ...]) -> int:
    """Checks lengths, hashes and contents of each BUNDLE. Nothing in it is executed."""
    for path in bundles:
        manifest = dfc_runtime.verify(existing(path))
        entries = sum(entry.is_called for entry in manifest.entries)
        code = described(manifest.cluster) if manifest.cluster is not None else _isas(manifest.images)
        click.echo(f"{path}: whole; {manifest.name}, {counted(entries, 'entry')}, code for {code}")
    return 0


def _isas(images: tuple[object, ...]) -> str:
    return ", ".join(str(getattr(image, "isa", image)) for image in images) or "nothing"
