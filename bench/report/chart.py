"""The chart of a run: for each case a bar as long as the ratio to the best peer, and a mark where its target is.

An SVG written by hand: one bar chart is not worth a plotting library, and the text of it can be compared in a test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from bench.report.arithmetic import Record, best_peer, share_of_limit

ROW, LABEL, WIDTH, TOP, NOTE = 20, 170, 420, 60, 190
LEAST, MOST = 0.5, 8.0
"""The ends of the logarithmic axis."""
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 8)
FASTER_COLOUR, SLOWER_COLOUR, LINE = "#2f7d4f", "#b5452c", "#555"


def position(ratio: float) -> float:
    """From the left end of the axis; what is outside lies on its ends."""
    inside = min(max(ratio, LEAST), MOST)
    return WIDTH * math.log(inside / LEAST) / math.log(MOST / LEAST)


def draw(document: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The chart as SVG."""
    rows = [(record, best) for record in document["cases"] if (best := best_peer(record))]
    height, width = TOP + ROW * len(rows) + 20, LABEL + WIDTH + NOTE
    machine, options = document["machine"], document["options"]
    isa = options["isa"] or machine["instruction_set"]
    head = f"Best peer ÷ dfc. {machine['processor']}, {isa}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20">{escape(head)}</text>',
        *_axis(height),
        *(line for number, (record, best) in enumerate(rows) for line in _row(number, record, best, titles)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(height: int) -> Sequence[str]:
    lines: list[str] = []
    for tick in TICKS:
        x = LABEL + position(tick)
        weight = 2 if tick == 1 else 0.5
        lines.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 16}" stroke="{LINE}"'
                     f' stroke-width="{weight}"/>')  # fmt: skip
        lines.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{tick:g}</text>')
    return lines


def _row(number: int, record: Record, best: tuple[str, float], titles: Mapping[str, str]) -> Sequence[str]:
    name, ratio = best
    y, start, end = TOP + ROW * number, LABEL + position(1), LABEL + position(ratio)
    colour = FASTER_COLOUR if ratio >= 1 else SLOWER_COLOUR
    share, target = share_of_limit(record), record["target"]["ratio"]
    label = escape(record["case"])
    note = f"{ratio:.2f} of {titles.get(name, name)}" + (f", {share:.0%} of limit" if share is not None else "")
    lines = [
        f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{label}</text>',
        f'<rect x="{min(start, end):.1f}" y="{y + 3}" width="{abs(end - start):.1f}" height="12" fill="{colour}"/>',
        f'<text x="{LABEL + WIDTH + 8}" y="{y + 12}">{escape(note)}</text>',
    ]
    if target is not None:
        x = LABEL + position(target)
        lines.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 18}" stroke="black" stroke-width="2"/>')
    return lines
