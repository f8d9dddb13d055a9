"""`dfc fmt`: format programs and deployment files in place, or check that they are formatted."""

from __future__ import annotations

from pathlib import Path

import click

from dfc.cli.output import echo_program
from dfc.cli.programs import count, source_of
from dfc.distribute.deployment.syntax.formatter import format_deployment
from dfc.syntax.printer.formatter import format_source
from dfc.syntax.reader.reading import is_deployment
from dfc_runtime.checkpoints.files import replace_file
from dfc_runtime.errors import FileError

CHANGED = 2


@click.command("fmt", short_help="Format programs and deployment files.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; say which files would change and exit with 2 if any.")
def command(files: tuple[str, ...], check: bool) -> int:
    """Puts each FILE into the one canonical format. `-` reads standard input and writes standard output."""
    changed = [path for path in files if _format(path, check)]
    if check:
        for path in changed:
            click.echo(f"{path} is not formatted", err=True)
        return CHANGED if changed else 0
    if changed and "-" not in files:
        click.echo(f"{count(len(changed), 'file')} formatted")
    return 0


def _format(path: str, check: bool) -> bool:
    source = source_of(path)
    text = format_deployment(source) if is_deployment(source) else format_source(source)
    if path == "-" and not check:
        echo_program(text)
    elif text != source.text and not check:
        try:
            replace_file(Path(path), [text.encode()])
        except OSError as problem:
            raise FileError(f"cannot write {path}: {problem.strerror or problem}", code="E0909") from None
    return text != source.text
