"""What reaches a terminal is shown, not obeyed: names, messages and texts of others, from every command and form."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dfc.cli import output
from dfc.cli.failures import guarded
from dfc.cli.main import COMMANDS, cli
from dfc.driver import api
from dfc_runtime.records.example import encode_example
from dfc_runtime.records.framing import frame
from dfc_runtime.terminal import visible
from tests.support.bundles import sealed, with_manifest
from tests.support.command_line import fork
from tests.support.sweeping import few

OBEYED = "\x1b]0;owned\x07\x1b[2J\x9b31m\x1b[1;31m\x7f\x08\r\u202eevil\u2066\u200f\u061c\u2028"
"""Titles, colours and the cursor; text turned around; other ends of lines."""
TURNED = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
OWN = re.compile(r"\x1b\[(?:0|1|1;31|1;33|1;34)m")
BAR = re.compile(r"\x1b\[(\d*[KA]|\?25[lh]|[\d;]*m)|\r")
"""What draws the bar of a run."""
NAME = f"p{OBEYED}".replace("/", "")

PROGRAM = f"""dfg 1

## A program {OBEYED}

param w: f32[3] = 0

## Predicts {OBEYED}
entry predict[B](feed_x: f32[B, 3]) -> (result_y: f32[B]) {{
  debug.print("x {OBEYED}")
  assert 1 <= B, "too few {OBEYED}"
  summary.scalar("tag {OBEYED}", 1.0)
  return feed_x @ w
}}

entry train[B](feed_x: f32[B, 3]) -> (loss: f32) {{
  let loss = mean(feed_x @ w)
  w -= grad(loss, w)
  return loss
}}

test "named {OBEYED}" {{ assert 1 > 2, "told {OBEYED}" }}
test "good {OBEYED}" {{ assert 1 < 2 }}
"""
DEPLOY = """deploy 1 for "line.dfg"

job worker tasks 2
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
"""


def is_obeyed(char: str) -> bool:
    kind = unicodedata.category(char)
    if kind in ("Cc", "Cs", "Zl", "Zp"):
        return char not in "\n\t"
    return unicodedata.bidirectional(char) in TURNED or char in "\u200e\u200f\u061c"


def obeyed(text: str) -> set[str]:
    return {char for char in text if is_obeyed(char)}


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    encoding = "utf-8"  # type: ignore[assignment]
    errors = "strict"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


class Pipe(Terminal):
    def isatty(self) -> bool:
        return False


Shown = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=[Terminal, Pipe])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """A command on a terminal, or beside one: its exit code and all that was printed."""

    def run(*words: object, stdin: str = "") -> tuple[int, str, str]:
        out, err = request.param(), request.param()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = guarded(lambda: cli.main([str(word) for word in words], prog_name="dfc", standalone_mode=False))
        assert "a bug in dfc" not in err.getvalue() and "Traceback" not in err.getvalue(), err.getvalue()
        return code, out.getvalue(), err.getvalue()

    run.is_terminal = request.param is Terminal  # type: ignore[attr-defined]
    yield run


@pytest.fixture(scope="module")
def bundles() -> dict[str, bytes]:
    """Bundles whose tables say such things, too: as compiled, with other names, for two ranks."""
    plain = api.compile(text=PROGRAM).to_bytes()
    with_names = [b'"predict"', b'"feed_x"', b'"result_y"', b'"w"', b'"<text>"', b'"default"']

    def rename(manifest: dict[str, object]) -> None:
        text = json.dumps(manifest, ensure_ascii=False)
        for each in with_names:
            old = each.decode()
            text = text.replace(old, json.dumps(old[1:-1] + OBEYED, ensure_ascii=False))
        manifest.clear()
        manifest.update(json.loads(text))

    return {"plain": plain, "renamed": sealed(with_manifest(plain, rename))}


@pytest.fixture
def here(tmp_path: Path, bundles: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DFC_TRACEBACK", raising=False)
    Path("line.dfg").write_text(PROGRAM)
    Path("line.deploy").write_text(DEPLOY)
    Path(f"good{NAME}.deploy").write_text(DEPLOY)
    Path(f"{NAME}.dfg").write_text(PROGRAM)
    Path(f"bad{NAME}.dfg").write_text(f'dfg 1\nentry f() {{ let x = "{OBEYED}" + y }} # {OBEYED}\n{OBEYED}\n')
    Path(f"{NAME}.deploy").write_text(DEPLOY.replace("worker over", "worker").replace("line.dfg", f"none{OBEYED}.dfg"))
    for name, data in bundles.items():
        Path(f"{name}.bundle").write_bytes(data)
        Path(f"{name}{NAME}.bundle").write_bytes(data)
    Path(f"broken{NAME}.bundle").write_bytes(bundles["plain"][:-9])
    np.save("x.npy", np.ones((4, 3), np.float32))
    np.save("none.npy", np.ones((0, 3), np.float32))
    np.savez("x.npz", **{NAME.replace("\x00", ""): np.ones(3)})
    records = frame([encode_example({NAME: [NAME.encode(), OBEYED.encode()]}), NAME.encode(), b"last"])
    records[-1] ^= 1
    Path(f"{NAME}.rec").write_bytes(records)
    Path(f"{NAME}.csv").write_text(f"a{OBEYED},b\n1\n")
    event = {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 5, "cat": "kernel", "name": NAME, "args": {"place": NAME}}
    trace = {"otherData": {"program": NAME, "ranks": [{"rank": 0, "name": NAME}]}, "traceEvents": [event]}
    Path("t.json").write_text(json.dumps(trace))
    Path("u.json").write_text(json.dumps({**trace, "otherData": {"program": NAME, NAME: 1}}))
    return tmp_path


BAD = f"bad{NAME}.dfg"
FEED = ("--feed", "feed_x=x.npy")
LINES: dict[str, list[tuple[object, ...]]] = {
    "bench": [("cnn", "--model", NAME), ("cnn", "--data_dir", NAME), ("cnn", "--ps_hosts", NAME), ("cnn", f"--{NAME}"),
              ("cnn", "--model", "alexnet", "--variable_update", NAME), (NAME,), ()],
    "check": [(), (NAME,), *[(f, "--format", form) for f in (BAD, f"{NAME}.dfg", f"{NAME}.deploy")
                    for form in ("text", "json", "sarif", "github")], (f"{NAME}.dfg", "--shapes"),
              ("line.dfg", "--set", NAME), ("line.dfg", "--format", NAME), (f"--{NAME}",)],
    "compile": [(f"{NAME}.dfg", "-o", f"o{NAME}.bundle"), (BAD, "-o", "o"), ("line.dfg", "-o", f"no/{NAME}"),
                ("line.dfg", "-o", "o", "--print-after", NAME), ("line.dfg", "-o", "o", "--target", NAME)],
    "data": [("inspect", f"{NAME}.rec"), ("inspect", f"{NAME}.rec", "--json"), ("inspect", f"{NAME}.csv", NAME, "."),
             ("inspect", f"{NAME}.rec", "--record", "0"), ("inspect", f"{NAME}.rec", "--record", "0", "--json"),
             ("make", f"o{NAME}.rec", "--from", "x.npz"), ("make", "o.rec", "--from", f"{NAME}.csv"),
             ("make", f"no/{NAME}.rec", "--from", "x.npz"), ("make", "o.rec", "--from", "x.npz", "--feature", NAME),
             ("make", "o.rec", "--from", NAME), ("make", "o.rec", "--synthetic", NAME, "--count", "1"),
             ("shuffle", f"{NAME}.rec", "--out", f"o{NAME}.rec", "--on-error", "skip"), (NAME,), ()],
    "explain": [(NAME,), ()],
    "fmt": [("--check", f"{NAME}.dfg"), ("--check", BAD), ("--check", f"{NAME}.deploy"), (NAME,)],
    "gradcheck": [(f"{NAME}.dfg",), (BAD,), ("line.dfg", "--set", f"a={NAME}")],
    "inspect": [(f"{name}{NAME}.bundle",) for name in ("plain", "renamed", "broken", "none")],
    "ops": [(NAME,), ()],
    "params": [(f"renamed{NAME}.bundle",), ("renamed.bundle", "--json"), (f"{NAME}.dfg",), (BAD,)],
    "place": [(f"{NAME}.dfg", "--deploy", "line.deploy"), ("line.dfg", "--deploy", "line.deploy", "--only", NAME),
              ("line.dfg", "--deploy", f"good{NAME}.deploy", "--format", "json"),
              ("line.dfg", "--deploy", f"good{NAME}.deploy"), ("line.dfg", "--deploy", f"{NAME}.deploy"),
              ("line.dfg", "--deploy", "line.deploy", "--profile", "u.json")],
    "run": [(f"plain{NAME}.bundle", "predict", *FEED), ("renamed.bundle", f"predict{OBEYED}", *FEED),
            ("renamed.bundle", "predict", *FEED), ("plain.bundle", "predict", "--feed", "feed_x=none.npy"),
            ("plain.bundle", "predict", *FEED, "--json"), ("plain.bundle", NAME), (f"{NAME}.dfg", "predict", *FEED),
            ("plain.bundle", "predict", "--feed", f"feed_x=x.npz:{OBEYED}"),
            ("plain.bundle", "predict", "--feed", NAME),
            ("plain.bundle", "predict", "--feed", f"feed_x={NAME}.npy"), ("plain.bundle", "--fetch", NAME),
            ("plain.bundle", "predict", *FEED, "--batch", "2"), (f"broken{NAME}.bundle", "predict", *FEED),
            ("plain.bundle", "train", *FEED, "--batch", "2", "--state", f"s{NAME}"), (BAD, "predict"),
            ("plain.bundle", "predict", *FEED, "--out", f"no/{NAME}"), (f"{NAME}.bundle", "predict"),
            ("plain.bundle", "--fetch", "predict/loss", *FEED), ("renamed.bundle", "--fetch", f"predict/x{OBEYED}")],
    "show": [("line.dfg", "--after", NAME), (BAD,), (f"{NAME}.dfg", "--deploy", "line.deploy", "--role", NAME)],
    "speed": [("line.dfg", NAME), (BAD, "predict"), (f"{NAME}.dfg", "predict"), (f"broken{NAME}.bundle", "predict"),
              ("line.dfg", "predict", "--size", NAME), ("line.dfg", "predict", "--size", f"{NAME}=3"),
              ("line.dfg", "predict", "--feed", f"{NAME}=3"), ("plain.bundle", "predict", *FEED)],
    "test": [(f"{NAME}.dfg",), (f"{NAME}.dfg", "-k", NAME), ("line.dfg", "--target", NAME), (BAD,)],
    "trace": [("t.json",), ("u.json",), (NAME,), (f"{NAME}.dfg",)],
    "verify": [(f"{name}{NAME}.bundle",) for name in ("plain", "renamed", "broken", "none")],
    "why": [(f"{NAME}.dfg",), (BAD,), ("line.dfg", NAME), ("line.dfg", "--set", f"a={NAME}")],
    NAME: [()],
}  # fmt: skip
LINE_PAIRS = [(command, words) for command, lines in LINES.items() for words in lines]
ON_TERMINAL = [pytest.param(Terminal, *pair, id=f"Terminal-{number}") for number, pair in enumerate(LINE_PAIRS)]
IN_PIPE = [pytest.param(Pipe, *pair, id=f"Pipe-{number}") for number, pair in enumerate(LINE_PAIRS)]


def test_every_command_is_tried() -> None:
    assert LINES.keys() >= COMMANDS.keys()


@pytest.mark.parametrize(
    ("shown", "command", "words"), [*ON_TERMINAL, *few(IN_PIPE, len(IN_PIPE) // 6)], indirect=["shown"]
)
def test_nothing_is_obeyed(command: str, words: tuple[object, ...], here: Path, shown: Shown) -> None:
    """A pipe and a terminal differ in what is drawn, not in what is written: a few lines of each kind do for pipes."""
    _, out, err = shown(command, *words)
    shown_text = out + err
    if shown.is_terminal:  # type: ignore[attr-defined]
        own = "check" in command or "error[" in err or "warning[" in err or command == "ops"
        shown_text = OWN.sub("", shown_text) if own else shown_text
        shown_text = BAR.sub("", shown_text) if command == "run" else shown_text
    assert obeyed(shown_text) == set()
    if "json" in words or "sarif" in words or "--json" in words:
        assert isinstance(json.loads(out), dict)


@pytest.mark.parametrize(
    "words",
    [("fmt", "-"), ("inspect", "renamed.bundle", "--source"), ("show", "line.dfg")],
    ids=["fmt", "source", "show"],
)
def test_a_program_is_data_beside_a_terminal(words: tuple[str, ...], here: Path, shown: Shown) -> None:
    code, out, _ = shown(*words, stdin=PROGRAM)
    assert code == 0
    if shown.is_terminal:  # type: ignore[attr-defined]
        assert obeyed(out) == set()
        assert "\\x1b[2J" in out and "\\u202e" in out
    else:
        assert "\x1b[2J" in out


def test_a_message_draws_nothing_of_others_in_colours(here: Path, shown: Shown) -> None:
    _, _, err = shown("check", BAD)
    assert err.count("bad") and "\\x1b[1;31m" in err
    if shown.is_terminal:  # type: ignore[attr-defined]
        assert "\x1b[1;31merror" in err


def test_what_was_printed_and_asserted_can_be_read(here: Path, shown: Shown) -> None:
    _, out, err = shown("run", "plain.bundle", "predict", *FEED)
    wrapped = (out if shown.is_terminal else err).replace("\n", "")  # type: ignore[attr-defined]
    assert visible(OBEYED) in wrapped
    assert visible(OBEYED) in shown("run", "plain.bundle", "predict", "--feed", "feed_x=none.npy")[2]
    out = shown("test", "line.dfg")[1]
    assert f"named {visible(OBEYED)}" in out and f"good {visible(OBEYED)}" in out


@pytest.mark.timeout(180)
def test_what_ranks_say_is_shown(here: Path) -> None:
    pytest.importorskip("mpi4py")
    Path("spread.bundle").write_bytes(api.compile("line.dfg", deploy="line.deploy").to_bytes())
    ended = fork("run", "-n", "2", "spread.bundle", "predict", *FEED, folder=here)
    assert ended.code == 0 and visible(OBEYED) in ended.err
    failed = fork("run", "-n", "2", "spread.bundle", "predict", "--feed", "feed_x=none.npy", folder=here)
    assert failed.code == 2 and visible(OBEYED) in failed.err
    assert obeyed(ended.out + ended.err + failed.out + failed.err) == set()


def test_what_is_no_text_is_spelled(shown: Shown, here: Path) -> None:
    """Bytes of a file name that are no text, and letters that the stream lacks."""
    assert "\\udcff" in shown("check", "no\udcff.dfg")[2]
    Path("é\udcff.dfg").write_text("const A: int = y\n")
    for form in ("text", "json", "sarif", "github"):
        shown("check", "é\udcff.dfg", "--format", form)
    Path("é\udcff.dfg").write_text(PROGRAM)
    for words in (("show",), ("params",), ("test",), ("compile", "-o", "o\udcff.bundle"), ("gradcheck",)):
        code, _, err = shown(words[0], "é\udcff.dfg", *words[1:])
        assert code == 0 or words == ("test",), err
    assert shown("verify", "o\udcff.bundle")[0] == 0
    assert shown("inspect", "o\udcff.bundle")[0] == 0


def test_a_stream_that_lacks_letters_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "latin-1"))
    with output.escaping():
        print("größer ≥")
        sys.stdout.flush()
    assert written.getvalue() == "größer \\u2265\n".encode("latin-1")


def test_all_that_may_be_obeyed_and_nothing_else_is_escaped() -> None:
    escaped = {char for char in map(chr, range(0x110000)) if is_obeyed(char)} | set(map(chr, range(0x206A, 0x2070)))
    shown_text = "".join(char for char in map(chr, range(0x110000)) if char not in escaped)
    assert visible(shown_text) == shown_text
    assert [hex(ord(char)) for char in escaped if visible(char) == char] == []
    assert visible("größe\n\té 漢 👩‍💻") == "größe\n\té 漢 👩‍💻"
