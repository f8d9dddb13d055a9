"""Markdown documents as the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$", re.M | re.S
)


@dataclass(frozen=True)
class CodeBlock:
    """One fenced block; `line` is that of its fence, `heading` the text of the heading it stands under."""

    path: Path
    line: int
    language: str
    text: str
    heading: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"


def code_blocks(path: Path) -> list[CodeBlock]:
    """All fenced blocks of a document, in order."""
    text = path.read_text(encoding="utf-8")
    blocks: list[CodeBlock] = []
    for match in FENCE.finditer(text):
        headings = re.findall(r"^#+ (.*)$", text[: match.start()], re.M)
        line = text.count("\n", 0, match.start()) + 1
        language = match["language"].strip()
        blocks.append(CodeBlock(path, line, language, match["body"], headings[-1] if headings else ""))
    return blocks


def links(path: Path) -> list[str]:
    """The targets of all links of a document that stay inside the repository, without their anchors."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)
    return [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("#")]
