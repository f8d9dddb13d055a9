"""`dfc data make`: files of examples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import click

from dfc.cli.data.examples import Examples
from dfc.cli.data.publishing import SHARDS, described, publish
from dfc.cli.data.sources import READERS, examples_of
from dfc.cli.data.synthetic import from_nothing, parse
from dfc_runtime.records.example import encode_example
from dfc_runtime.terminal import in_one_line

AT_ONCE = 256
"""Examples that are written at once."""


@click.command("make", short_help="Make files of examples of arrays, tables, texts or images.")
@click.argument("out", metavar="OUT.rec")
@click.argument("more", nargs=-1, metavar="")
@click.option("--from", "first", multiple=True, metavar="FILES...", help="What examples are made of; see above.")
@click.option("--as", "kind", type=click.Choice(list(READERS)), help="How FILES are read, whatever their names.")
@click.option("--feature", "pairs", multiple=True, metavar="NAME[=ARRAY]", help="Take this one, under this name.")
@click.option("--synthetic", metavar="SPEC", help="Make examples up: image=u8[784],label=i64..10.")
@click.option("--count", type=click.IntRange(0), help="How many examples are made up.")
@click.option("--seed", type=int, help="Other numbers for --synthetic.  [default: 0]")
@click.option("--shards", type=SHARDS, help="Write OUT-00000-of-0000N.rec and so on, example i to file i mod N.")
@click.option("--index", "with_index", is_flag=True, help="Write OUT.rec.index, so that opening it takes no time.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
def command(
    out: str,
    more: tuple[str, ...],
    first: tuple[str, ...],
    kind: str | None,
    pairs: tuple[str, ...],
    synthetic: str | None,
    count: int | None,
    seed: int | None,
    shards: int | None,
    with_index: bool,
    force: bool,
) -> int:
    """Makes examples of FILES and writes them to OUT.rec.

    \b
    .npz     each array is a feature, each row an example
    .npy     the same, a feature a file
    .csv     each column is a feature; the first line names them
    .txt     each line is an example, the feature `text`
    .parquet each column is a feature, each row an example; so it is in .arrow and .feather
    .tar     files of one name are an example, each a feature by its ending
    folder   FOLDER/CLASS/IMAGE: image, label, class, file

    A file is there whole or not at all, and nothing is overwritten without --force.
    """
    paths = [*first, *more]
    if (synthetic is None) == (not paths):
        raise click.UsageError("say what examples are made of: --from FILES, or --synthetic SPEC --count N")
    if synthetic is None:
        if (count, seed) != (None, None):
            raise click.UsageError("--count and --seed are for --synthetic")
        _check_order(out, first, more)
        examples = examples_of(paths, kind, _features(pairs))
    else:
        if count is None or kind is not None or pairs:
            raise click.UsageError("--synthetic wants --count N, and neither --as nor --feature")
        examples = from_nothing(parse(synthetic), count, seed or 0)
    writer = publish(out, _records(examples), shards=shards, force=force, with_index=with_index)
    click.echo(f"wrote {described(writer, 'examples')}")
    return 0


def _features(pairs: tuple[str, ...]) -> dict[str, str]:
    """Names of features, and what they are called in the source."""
    features: dict[str, str] = {}
    for pair in pairs:
        name, _, old = pair.partition("=")
        if not name or name in features:
            raise click.UsageError(f"--feature {pair!r} names {'one twice' if name else 'none'}")
        features[name] = old or name
    return features


def _check_order(out: str, first: tuple[str, ...], more: tuple[str, ...]) -> None:
    """A source where the new file is to be named would be overwritten by --force."""
    if more and not first:
        raise click.UsageError(f"write --from before {in_one_line(more[0])}")
    if out in (*first, *more) or os.path.splitext(out)[1].lower().removeprefix(".") in READERS:
        raise click.UsageError(f"{in_one_line(out)} is a source: the new file comes first, OUT.rec --from FILES")


def _records(examples: Examples) -> Iterator[list[bytes]]:
    while some := [encode_example(example) for example in islice(examples, AT_ONCE)]:
        yield some
