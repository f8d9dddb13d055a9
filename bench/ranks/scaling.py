"""A training step on more and more ranks: predicted by `dfc place --simulate`, and measured where there are processors.

    python -m bench.ranks.scaling [--ranks 3] [--network FILE] [--out docs/figures]

Measured: the digits of the samples, `BATCH` images a block and a block a rank, one thread each, the best of many steps;
and the network between two ranks (`bench.ranks.network`), if no file says what that is. What a kernel takes is from a
profile of one rank. Predicted: the same step for as many ranks, and for more; the error is predicted ÷ measured. Writes
`scaling.json` and the chart `scaling.svg`, and prints the table. Needs an MPI.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
BATCH = 64
PREDICTED = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, HEIGHT, MARGIN = 560, 340, 60


def deployment(ranks: int) -> str:
    """A block for each rank."""
    settings = f'mode = "sync", split = "B", blocks = {ranks}'
    return f'deploy 1 for "digits.dfg"\n\njob worker tasks {ranks}\n\nreplicate train over worker with {settings}\n'


def on_ranks(ranks: int, module: str, *arguments: str) -> Mapping[str, object]:
    """What rank 0 of a program prints, as JSON."""
    sibling = Path(sys.executable).parent / "mpiexec"
    launcher = str(sibling) if sibling.exists() else shutil.which("mpiexec") or "mpiexec"
    command = [launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def measured_steps(most: int) -> dict[int, float]:
    """Seconds of a step, by the number of ranks."""
    seconds: dict[int, float] = {}
    for ranks in range(1, most + 1):
        report = on_ranks(ranks, "bench.ranks.data_parallel")
        rates = report["images_per_second_and_rank"]
        assert isinstance(rates, dict)
        seconds[ranks] = BATCH / float(rates["digits"])
    return seconds


def predicted_steps(folder: Path, network: Path) -> list[Mapping[str, object]]:
    """What `dfc place --simulate` says."""
    program, deploy, profile = SAMPLES / "digits.dfg", folder / "digits.deploy", folder / "profile.json"
    deploy.write_text(deployment(1), encoding="utf-8")
    (folder / "digits.dfg").write_text(program.read_text(encoding="utf-8"), encoding="utf-8")
    feeds = folder / "feeds"
    _write_feeds(feeds)
    dfc = [sys.executable, "-m", "dfc"]
    train = [*dfc, "run", str(program), "train", "--threads", "1", "--steps", "400", "--profile", str(profile)]
    values = [f"images={feeds}.npz:images", f"labels={feeds}.npz:labels", "rate=0.1"]
    for each in values:
        train += ["--feed", each]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
    simulate = [*dfc, "place", str(folder / "digits.dfg"), "--deploy", str(deploy), "--profile", str(profile)]
    simulate += ["--size", f"B={BATCH}", "--format", "json"]
    for ranks in PREDICTED:
        simulate += ["--simulate", f"ranks={ranks},network={network}"]
    report = json.loads(subprocess.run(simulate, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return [each for each in report["predictions"] if each["entry"] == "train"]


def _write_feeds(path: Path) -> None:
    with np.load(SAMPLES / "data" / "digits.npz") as data:
        np.savez(path, images=data["train_images"][:BATCH], labels=data["train_labels"][:BATCH])


def table(predictions: Sequence[Mapping[str, object]], measured: Mapping[int, float]) -> str:
    """Markdown."""
    lines = ["| ranks | predicted | measured | predicted ÷ measured | bottleneck |", "|---:|---:|---:|---:|---|"]
    for each in predictions:
        ranks, seconds = int(str(each["ranks"])), float(str(each["seconds"]))
        known = measured.get(ranks)
        cells = ("", "") if known is None else (f"{known * 1e6:,.0f} µs", f"{seconds / known:.2f}")
        lines.append(f"| {ranks:,} | {seconds * 1e6:,.0f} µs | {cells[0]} | {cells[1]} | {each['bottleneck']} |")
    return "\n".join(lines)


def chart(predictions: Sequence[Mapping[str, object]], measured: Mapping[int, float]) -> str:
    """Seconds of a step over ranks, both logarithmic, as SVG: the predicted line, and measured points."""
    points = [(int(str(each["ranks"])), float(str(each["seconds"]))) for each in predictions]
    low = math.floor(math.log10(min(s for _, s in [*points, *measured.items()])))
    high = math.ceil(math.log10(max(s for _, s in [*points, *measured.items()])))
    last = math.log2(points[-1][0])

    def x(ranks: int) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * math.log2(ranks) / last

    def y(seconds: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (math.log10(seconds) - low) / (high - low)

    line = " ".join(f"{x(ranks):.1f},{y(seconds):.1f}" for ranks, seconds in points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        '<text x="12" y="22">A step of digits.dfg, 64 images a rank: predicted (line), measured (points)</text>',
    ]
    for power in range(low, high + 1):
        height, shown = y(10.0**power), f"{10.0 ** (power + 3):g} ms"
        parts.append(f'<line x1="{MARGIN}" y1="{height:.1f}" x2="{WIDTH - MARGIN}" y2="{height:.1f}" stroke="#ccc"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{height + 4:.1f}" text-anchor="end">{shown}</text>')
    for ranks, _ in points[::2]:
        parts.append(f'<text x="{x(ranks):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{ranks:,}</text>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2f7d4f" stroke-width="2"/>')
    parts += [f'<circle cx="{x(r):.1f}" cy="{y(s):.1f}" r="4" fill="#b5452c"/>' for r, s in measured.items()]
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">ranks</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="a training step on more and more ranks")
    parser.add_argument("--ranks", type=int, default=3, help="measure up to so many")
    parser.add_argument("--network", type=Path, help="a description of a network; without it, that of this machine")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = asked.network or folder / "network.json"
        if asked.network is None:
            on_ranks(2, "bench.ranks.network", str(network))
        measured, predictions = measured_steps(asked.ranks), predicted_steps(folder, network)
        described = json.loads(network.read_text(encoding="utf-8"))
    document = {"network": described, "measured": measured, "predictions": predictions}
    (asked.out / "scaling.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (asked.out / "scaling.svg").write_text(chart(predictions, measured), encoding="utf-8")
    print(json.dumps(described), table(predictions, measured), sep="\n\n")


if __name__ == "__main__":
    main()
