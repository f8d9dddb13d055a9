"""`dfc check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.cli.commands import check_command
from dfc.elaborate.names.modules import library_tree
from dfc.syntax.reader.language import Language
from dfc.syntax.reader.tokens import Lexed
from tests.support.command_line import Command

MISTAKE = "dfg 1\n\nfn half(n: i32) -> i32 = n / 2\n"
UNSUPPORTED = "dfg 1\n\nqueue names: string = fifo(capacity = 3)\n"
RIGHT = "dfg 1\n\nfn half(n: i32) -> i32 = n // 2\n"


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return name


def test_a_right_program_is_met_with_silence(folder: Path, dfc: Command) -> None:
    ended = dfc("check", "line.dfg")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_mistake_is_told_with_its_place(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "half.dfg", MISTAKE))
    assert ended.code == 2
    assert ended.err.startswith("error[E0303]: ")
    assert " --> half.dfg:3:28\n" in ended.err
    assert ended.err.endswith("\n\n1 error\n")


@pytest.mark.parametrize("options", [(), ("--shapes",)])
def test_a_text_is_read_once(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    read: list[str] = []
    lex = Language.lex

    def noted(language: Language, text: str) -> Lexed:
        read.append(text)
        return lex(language, text)

    monkeypatch.setattr(Language, "lex", noted)
    library_tree.cache_clear()
    text = "dfg 1\n\nimport std.losses\n\nfn total[N](x: f32[N]) -> f32 = sum(x)\n"
    assert dfc("check", *options, write(folder, "once.dfg", text)).code == 0
    assert read.count(text) == 1
    assert dfc("check", *options, write(folder, "again.dfg", text + "# another file\n")).code == 0
    assert len(read) == len(set(read)) == 3  # both, and that of the library


def test_mistakes_of_several_files_are_counted_together(folder: Path, dfc: Command) -> None:
    names = [write(folder, name, MISTAKE) for name in ("a.dfg", "b.dfg")]
    ended = dfc("check", *names, "line.dfg")
    assert ended.code == 2
    assert [line for line in ended.err.splitlines() if "-->" in line] == [" --> a.dfg:3:28", " --> b.dfg:3:28"]
    assert ended.err.endswith("\n\n2 errors\n")


def test_what_is_not_supported_has_a_code_of_its_own(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "queue.dfg", UNSUPPORTED))
    assert ended.code == 3
    assert "error[E1001]" in ended.message
    assert " --> queue.dfg:3:14\n" in ended.err


def test_a_mistake_beside_what_is_not_supported_is_a_mistake(folder: Path, dfc: Command) -> None:
    assert dfc("check", write(folder, "a.dfg", MISTAKE), write(folder, "b.dfg", UNSUPPORTED)).code == 2


def test_a_warning_is_told_and_forgiven(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "bare.dfg", "const A = 1\n"))
    assert ended.code == 0
    assert ended.err.startswith("warning[W0001]: ")


def test_a_program_comes_from_standard_input(folder: Path, dfc: Command) -> None:
    assert dfc("check", "-", stdin=RIGHT.encode()).code == 0
    ended = dfc("check", "-", stdin=MISTAKE.encode())
    assert ended.code == 2
    assert " --> <stdin>:3:28\n" in ended.err


def test_a_setting_reaches_the_program(folder: Path, dfc: Command) -> None:
    assert dfc("check", "line.dfg", "--set", "WIDTH=8").code == 0
    assert "E0315" in dfc("check", "line.dfg", "--set", "WIDTH=wide").message
    assert "E0309" in dfc("check", "line.dfg", "--set", "WIDTH=-1").message


@pytest.mark.parametrize(
    ("pair", "told"),
    [("WIDTH", "not of the form NAME=VALUE"), ("=3", "not of the form NAME=VALUE"), ("HEIGHT=3", "`HEIGHT`")],
)
def test_a_setting_nobody_asks_for_is_refused(pair: str, told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("check", "line.dfg", "--set", pair)
    assert ended.code == 2
    assert told in ended.message


def test_a_setting_given_twice_is_refused(folder: Path, dfc: Command) -> None:
    assert "given twice" in dfc("check", "line.dfg", "--set", "WIDTH=3", "--set", "WIDTH=4").message


def test_shapes_lists_the_checks_of_a_call(folder: Path, dfc: Command) -> None:
    text = "dfg 1\n\nreadonly entry largest[N](x: f32[N]) -> (y: f32) where N >= 3 {\n  return max(x)\n}\n"
    ended = dfc("check", write(folder, "largest.dfg", text), "--shapes")
    assert ended.code == 0
    assert ended.out == "largest: N >= 3  (declared with `where`, largest.dfg:3:56)\n"


@pytest.mark.parametrize(
    ("name", "told"),
    [("missing.dfg", "there is no file missing.dfg"), (".", ". is a folder; name the .dfg files in it")],
)
def test_a_file_that_is_none_is_refused(name: str, told: str, folder: Path, dfc: Command) -> None:
    ended = dfc("check", name)
    assert (ended.code, ended.err) == (2, f"error: {told}\n")


@pytest.mark.parametrize("data", [b"\xff\xfe", b"dfg 1\n\0", b"", b"\xef\xbb\xbf", b"(" * 5000, b"\x1b[31m" * 20])
def test_any_bytes_are_told_in_messages(data: bytes, folder: Path, dfc: Command) -> None:
    (folder / "strange.dfg").write_bytes(data)
    ended = dfc("check", "strange.dfg")
    assert ended.code in (0, 2)
    assert "\x1b" not in ended.err


def test_json_holds_what_the_text_says(folder: Path, dfc: Command) -> None:
    ended = dfc(
        "check", write(folder, "half.dfg", MISTAKE), write(folder, "bare.dfg", "const A = 1\n"), "--format=json"
    )
    told = json.loads(ended.out)
    assert (ended.code, ended.err) == (2, "")
    assert (told["errors"], told["warnings"]) == (1, 1)
    first = told["diagnostics"][0]
    assert (first["code"], first["severity"]) == ("E0303", "error")
    assert first["labels"][0] | {"text": ""} == {
        "file": "half.dfg", "line": 3, "column": 28, "end_line": 3, "end_column": 29, "text": "", "primary": True
    }  # fmt: skip
    assert "write `n // 2` for the whole part" in first["helps"]


def test_json_carries_the_edits_of_a_help(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "a half.dfg", MISTAKE), "--format=json")
    first = json.loads(ended.out)["diagnostics"][0]
    fix = first["fixes"][0]
    (edit,) = fix["edits"]
    assert (fix["help"], edit["text"]) == ("write `n // 2` for the whole part", "//")
    line = MISTAKE.splitlines()[edit["line"] - 1]
    assert line[edit["column"] - 1 : edit["end_column"] - 1] == "/"


def test_sarif_carries_the_edits_of_a_help(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "a half.dfg", MISTAKE), "--format=sarif")
    fix = json.loads(ended.out)["runs"][0]["results"][0]["fixes"][0]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert fix["description"]["text"] == "write `n // 2` for the whole part"
    assert change["artifactLocation"]["uri"].endswith("a%20half.dfg")
    assert replacement["insertedContent"] == {"text": "//"}
    region = replacement["deletedRegion"]
    assert region["endColumn"] - region["startColumn"] == 1


def test_sarif_names_rule_level_and_region(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "a half.dfg", MISTAKE), "--format=sarif")
    log = json.loads(ended.out)
    assert (ended.code, log["version"]) == (2, "2.1.0")
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "dfc"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E0303"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("E0303", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20half.dfg"
    assert place["region"] == {"startLine": 3, "startColumn": 28, "endLine": 3, "endColumn": 29}
    assert "n // 2" in result["message"]["text"]


def test_github_gets_one_command_a_message(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, "a,b.dfg", MISTAKE), "--format=github")
    (line,) = ended.out.splitlines()
    assert ended.code == 2
    assert line.startswith("::error file=a%2Cb.dfg,line=3,endLine=3,col=28,endColumn=29,title=E0303::`/` is for")
    assert "%0Ahelp: write `n // 2` for the whole part" in line


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_a_right_program_has_no_messages_in_any_form(form: str, folder: Path, dfc: Command) -> None:
    ended = dfc("check", "line.dfg", f"--format={form}")
    assert (ended.code, ended.err) == (0, "")
    assert "E0" not in ended.out


def test_watching_checks_again_when_a_file_has_changed(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write(folder, "half.dfg", MISTAKE)
    later = [lambda: write(folder, name, RIGHT), lambda: (folder / name).unlink(), lambda: write(folder, name, MISTAKE)]

    def meanwhile(_seconds: float) -> None:
        if not later:
            raise KeyboardInterrupt
        later.pop(0)()

    monkeypatch.setattr(check_command.time, "sleep", meanwhile)
    ended = dfc("check", "--watch", name)
    assert ended.code == 130
    assert [line[:12] for line in ended.err.splitlines() if line.startswith(("error[", "no errors"))] == [
        "error[E0303]",
        "no errors",
        "error[E0303]",
    ]


def test_watching_notices_what_is_imported(folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "helpers.dfg", "dfg 1\n\nfn twice(x: f32) -> f32 = x * 2\n")
    name = write(folder, "main.dfg", "dfg 1\n\nfrom .helpers import thrice\n\nfn f(x: f32) -> f32 = thrice(x)\n")
    later = [lambda: write(folder, "helpers.dfg", "dfg 1\n\nfn thrice(x: f32) -> f32 = x * 3\n")]

    def meanwhile(_seconds: float) -> None:
        if not later:
            raise KeyboardInterrupt
        later.pop(0)()

    monkeypatch.setattr(check_command.time, "sleep", meanwhile)
    ended = dfc("check", "--watch", name)
    assert [line[:12] for line in ended.err.splitlines() if line.startswith(("error[", "no errors"))] == [
        "error[E0203]",
        "no errors",
    ]


def test_standard_input_cannot_be_watched(folder: Path, dfc: Command) -> None:
    assert dfc("check", "--watch", "-").code == 2
