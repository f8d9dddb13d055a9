"""`dfc explain`: the page of a message code."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

import click

from dfc.cli.failures import did_you_mean


def pages() -> Traversable:
    """The folder of the pages, one Markdown file a code."""
    return files("dfc") / "diagnostics" / "explanations"


def codes() -> list[str]:
    """Every code that has a page."""
    return sorted(page.name.removesuffix(".md") for page in pages().iterdir() if page.name.endswith(".md"))


@click.command("explain", short_help="Explain a message code with a failing and a fixed program.")
@click.argument("code", required=False)
def command(code: str | None) -> int:
    """Explains CODE, such as E0304. Without a code, lists all of them."""
    known = codes()
    if code is None:
        for name in known:
            click.echo((pages() / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))
        return 0
    normalized = code.upper().strip("[]")
    if normalized not in known:
        raise click.UsageError(f"there is no code {code!r}{did_you_mean(normalized, known)}; `dfc explain` lists all")
    click.echo((pages() / f"{normalized}.md").read_text(encoding="utf-8"), nl=False)
    return 0
