"""`dfc test`: the tests that stand in a program."""

from __future__ import annotations

from collections.abc import Iterable

import click

import dfc_runtime
from dfc.cli.programs import count, print_warnings, source_of
from dfc.cli.values import settings
from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc_runtime import ModuleEntry, RunError

FAILED = 2


@click.command("test", short_help="Run the tests written in a program.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("-k", "word", metavar="WORD", help="Only the tests whose name contains WORD.")
@click.option("--target", default="cpu", show_default=True, help="What the tests run on: cpu or cuda.")
@click.option("--device", type=click.IntRange(min=0), help="With --target cuda: which GPU (the first).")
def command(files: tuple[str, ...], pairs: tuple[str, ...], word: str | None, target: str, device: int | None) -> int:
    """Runs the `test` items of each FILE, each on freshly initialised state."""
    failures = total = 0
    options = CompileOptions(target=target, settings=tuple(settings(pairs).items()), with_tests=True)
    for path in files:
        bundle = api.compile_source(source_of(path), options)
        print_warnings(bundle.diagnostics)
        chosen = [each.name for each in bundle.manifest.entries if each.is_test and (word is None or word in each.name)]
        if not chosen:  # nothing is loaded, which may need a GPU that is not here
            click.echo(f"{path}: no tests" + (f" with {word!r} in their names" if word is not None else ""))
            continue
        total += len(chosen)
        module = dfc_runtime.loads(bundle.to_bytes(), device=device)
        failures += _run(path, module, [module.tests[name] for name in chosen])
        type(module).close(module)  # which an entry of that name would hide
    click.echo(f"{count(total - failures, 'test')} passed" + (f", {failures} failed" if failures else ""))
    return FAILED if failures else 0


def _run(path: str, module: dfc_runtime.Module, tests: Iterable[ModuleEntry]) -> int:
    failures = 0
    for test in tests:
        type(module).init(module)
        try:
            test()
        except RunError as failure:
            failures += 1
            click.echo(f"FAILED  {path}: {test.name}\n  {failure}")
        else:
            click.echo(f"ok      {path}: {test.name}")
    return failures
