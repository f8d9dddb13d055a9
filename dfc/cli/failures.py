"""How a command ends: from exceptions to one message on standard error and an exit code.

The codes: 0 done, 1 a bug in dfc, 2 a mistake in usage, program or feed, 3 not supported, 4 bad bundle, 5 bad
checkpoint, 6 input or output, 7 out of memory or over a limit, 75 a rank died or did not answer, 130 and 143 stopped by
a signal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

import click

from dfc.cli.output import echo_drawn, escaping
from dfc.cli.output import is_terminal as is_terminal
from dfc_runtime.errors import DfcError

INTERNAL, USAGE, INPUT_OUTPUT, LIMIT, INTERRUPTED = 1, 2, 6, 7, 130


def guarded(action: Callable[[], object]) -> int:
    """Runs a command; whatever it raises becomes a message and an exit code. What it prints is visible."""
    with escaping():
        try:
            result = action()
        except click.exceptions.Exit as stop:
            return stop.exit_code
        except (KeyboardInterrupt, click.Abort):
            complain("stopped")
            return INTERRUPTED
        except SystemExit:  # so click ends, quietly, when whoever reads its output has gone away
            return 0
        except Exception as failure:
            return report(failure)
        return result if isinstance(result, int) else 0


def complain(message: str) -> None:
    """One line on standard error, in the voice of all messages."""
    _say(f"error: {message}")


def _say(text: str) -> None:
    """Lines on standard error. If it takes none, the exit code says it all."""
    try:
        click.echo(text, err=True, color=True)
    except OSError:
        return


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing if no known word is near."""
    import difflib  # as `traceback` below: what goes right needs neither

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def report(failure: Exception) -> int:
    """Prints the failure, and gives the exit code."""
    if os.environ.get("DFC_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(failure)
    if isinstance(failure, click.ClickException):
        return _report_usage(failure)
    if isinstance(failure, DfcError):
        return _report_mistake(failure)
    if isinstance(failure, MemoryError):
        complain("out of memory")
        return LIMIT
    if isinstance(failure, OSError):
        where = f"{failure.filename}: " if failure.filename else ""
        complain(f"{where}{failure.strerror or failure}")
        return INPUT_OUTPUT
    complain(f"a bug in dfc ({type(failure).__name__}: {failure}); please report it (DFC_TRACEBACK=1 shows where)")
    return INTERNAL


def _report_usage(failure: click.ClickException) -> int:
    """One line; what click itself finds wrong with the words of a command is followed by where to look."""
    if type(failure).__name__ == "NoArgsIsHelpError":  # its message is the help; older versions of click lack it
        _say(failure.format_message())
        return USAGE
    complain(failure.format_message())
    context = failure.ctx if isinstance(failure, click.UsageError) else None
    if context is not None and type(failure) is not click.UsageError:
        _say(f"  `{context.command_path} --help` lists what there is")
    return USAGE


def _report_mistake(failure: DfcError) -> int:
    diagnostics = getattr(failure, "diagnostics", None)
    if diagnostics:
        from dfc.diagnostics.diagnostic import render  # only a compiler's error needs the compiler's drawing

        texts = [render(diagnostic, colour=is_terminal(sys.stderr)) for diagnostic in diagnostics]
        try:
            echo_drawn("\n\n".join(texts))
        except OSError:
            return failure.exit_code
    else:
        code = f"[{failure.code}]" if failure.code else ""
        _say(f"error{code}: {failure.message}")
    return failure.exit_code
