"""`dfc`: the command line.

Assumes nothing is imported yet: a command's module, and with it the compiler, is imported only when that command runs,
so that `dfc --help` stays instant. Guarantees that every failure ends as one message on standard error and the exit
code of its kind, never as a traceback (unless `DFC_TRACEBACK=1` asks for it).
"""

from __future__ import annotations

import sys
import warnings

import click

from dfc.cli import failures, output
from dfc.cli.groups import LazyGroup, imported
from dfc.deferred.modules import defer

COMMANDS: dict[str, str] = {
    "bench": "Measure known programs.",
    "check": "Read a program and report its mistakes.",
    "compile": "Compile a program into a bundle of native code.",
    "data": "Make, look at and shuffle files of records.",
    "explain": "Explain a message code with a failing and a fixed program.",
    "fmt": "Format programs.",
    "gradcheck": "Compare the gradients of a program with central differences.",
    "inspect": "Say what is in a bundle, without running it.",
    "ops": "List the ops of the language, or describe one.",
    "params": "Count the parameters of a program or bundle.",
    "place": "Say where a program is placed, and why.",
    "run": "Run an entry of a bundle or program.",
    "show": "Print a program as the compiler sees it.",
    "speed": "Say of each kernel how long it takes, and how near the machine's limit it is.",
    "test": "Run the tests written in a program.",
    "trace": "Say where the time of a traced run went.",
    "verify": "Check that a bundle is whole.",
    "why": "Say why values share a kernel or lie in memory.",
}
WITHOUT_ARRAYS = frozenset({"check", "compile", "fmt", "inspect", "verify"})
"""Commands that do without NumPy, unless a program holds arrays; or at first: `compile` has its target get ready."""


def _load(name: str) -> click.Command:
    if name in WITHOUT_ARRAYS:
        defer("numpy")
    return imported(f"dfc.cli.commands.{name}_command")


@click.group(
    cls=LazyGroup,
    commands_by_name=COMMANDS,
    load=_load,
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.version_option(package_name="dfc", message="dfc %(version)s")
def cli() -> None:
    """From a dataflow graph in text to native code: compile, train and run .dfg programs."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with the code of what happened. Warnings of libraries are one line each."""
    warnings.showwarning = _show_warning
    code = failures.guarded(lambda: cli.main(arguments, prog_name="dfc", standalone_mode=False))
    sys.exit(code if output.close_streams() else code or failures.INPUT_OUTPUT)


def _show_warning(message: Warning | str, *_positional: object, **_more: object) -> None:
    """In place of the library's own, which also prints a line of this program: that means nothing to its user."""
    click.echo(f"warning: {message}", err=True, color=True)


if __name__ == "__main__":
    main()
