"""What `dfc place --simulate` prints: a predicted step for each number of ranks, as a table or as one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import click

from dfc.cli.tables import seconds, size, table
from dfc.distribute.simulate import DEFAULT, StepPrediction, SumPrediction
from dfc.driver.scaling import Scenario, read_network
from dfc_runtime.errors import counted

KEYS = "ranks=N or ranks=N,network=FILE"


def scenarios(stated: Sequence[str]) -> list[Scenario]:
    """From `ranks=1024,network=FILE`, once for each number of ranks. A network holds for those behind it, too."""
    read: list[Scenario] = []
    network, file = DEFAULT, ""
    for text in stated:
        pairs: dict[str, str] = {}
        for part in text.split(","):
            key, _, value = part.partition("=")
            if key in pairs:
                raise click.UsageError(f"--simulate takes {KEYS}: {key} is given twice in {text!r}")
            pairs[key] = value
        if set(pairs) - {"ranks", "network"} or not re.fullmatch("[0-9]{1,18}", pairs.get("ranks", "")):
            raise click.UsageError(f"--simulate takes {KEYS}, not {text!r}")
        if "network" in pairs:
            file = pairs["network"]
            network = read_network(file)
        read.append(Scenario(int(pairs["ranks"]), network, file))
    return read


def as_text(predictions: Sequence[StepPrediction], asked: Sequence[Scenario]) -> str:
    """A table for each entry; the sums of the most ranks."""
    blocks: list[str] = []
    columns = ["ranks", "blocks", "step", "blocks/s", "computing", "sends", "receives", "busy"]
    for entry in dict.fromkeys(each.entry for each in predictions):
        own = [each for each in predictions if each.entry == entry]
        rows = [_row(each) for each in own]
        files = ", ".join(dict.fromkeys(each.file or "a table of rates" for each in asked))
        head = f"entry {entry}: a step, predicted; network: {files}"
        lines = [head, *table([*columns, "bottleneck"], rows, right=columns)]
        last = max(own, key=lambda each: each.ranks)
        lines += ["", f"sums on {counted(last.ranks, 'rank', ',')}, and what each would take by itself"]
        lines += table(["name", "size", "added", "takes", "other ways"], [*map(_sum_row, last.sums)], ["size", "takes"])
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _sum_row(each: SumPrediction) -> list[str]:
    others = [f"{how} {seconds(took)}" for how, took in each.alone.items() if how != each.how]
    return [each.key, size(each.size), each.how, seconds(each.alone[each.how]), "; ".join(others)]


def _row(each: StepPrediction) -> list[str]:
    name, share = each.bottleneck
    return [
        f"{each.ranks:,}",
        f"{each.blocks:,}",
        seconds(each.seconds),
        f"{each.blocks / each.seconds:.3g}" if each.seconds else "",
        f"{each.computing / each.seconds:.0%}" if each.seconds else "",
        size(int(each.most_sent)),
        size(int(each.most_received)),
        f"{share:.0%}",
        name,
    ]


def as_json(predictions: Sequence[StepPrediction]) -> str:
    """The same as one object; times in seconds, sizes in bytes."""
    return json.dumps(
        {
            "predictions": [
                {
                    "entry": each.entry,
                    "ranks": each.ranks,
                    "blocks": each.blocks,
                    "seconds": each.seconds,
                    "computing": each.computing,
                    "busy": dict(each.busy),
                    "bottleneck": each.bottleneck[0],
                    "most_sent": each.most_sent,
                    "most_received": each.most_received,
                    "mean_sent": each.mean_sent,
                    "sums": [
                        {"name": one.key, "bytes": one.size, "added": one.how, "alone": dict(one.alone)}
                        for one in each.sums
                    ],
                }
                for each in predictions
            ]
        },
        indent=1,
    )
