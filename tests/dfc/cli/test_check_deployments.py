"""`dfc check` of deployment files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Command

HEAD = 'deploy 1 for "line.dfg"\n\njob ps tasks 2\n'


def write(folder: Path, text: str, name: str = "line.deploy") -> str:
    (folder / name).write_text(text)
    return name


def test_a_file_that_fits_its_program_is_accepted_in_silence(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, HEAD + 'place "**" on ps\n'), "line.dfg")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_name_that_the_program_lacks_is_shown(folder: Path, dfc: Command) -> None:
    ended = dfc("check", write(folder, HEAD + 'place "weights" on ps\n'))
    assert ended.code == 2
    assert ended.message.startswith("error[E0801]: `weights` names nothing in line.dfg\n --> line.deploy:4:7")
    assert ended.message.endswith("1 error\n")


def test_the_program_is_looked_for_beside_the_file(folder: Path, dfc: Command) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "line.deploy").write_text(HEAD)
    ended = dfc("check", "below/line.deploy")
    assert ended.code == 2
    assert "error[E0809]: cannot read line.dfg: No such file or directory" in ended.message
    (folder / "below" / "line.dfg").write_bytes((folder / "line.dfg").read_bytes())
    assert dfc("check", "below/line.deploy").code == 0


def test_mistakes_of_the_program_come_first(folder: Path, dfc: Command) -> None:
    (folder / "line.dfg").write_text("dfg 1\n\nreadonly entry f(x: f32) -> (y: f32) {\n  return z\n}\n")
    ended = dfc("check", write(folder, HEAD + 'place "nothing" on ps\n'))
    assert ended.code == 2
    assert "line.dfg:4:10" in ended.message
    assert "E0801" not in ended.message


def test_mistakes_of_the_file_need_no_program(folder: Path, dfc: Command) -> None:
    (folder / "line.dfg").unlink()
    ended = dfc("check", write(folder, HEAD + 'place "w" on pss\njob x tasks 0\n'))
    assert "2 errors" in ended.message
    assert "E0809" not in ended.message


def test_what_is_not_supported_yet_has_its_own_exit_code(folder: Path, dfc: Command) -> None:
    program = "dfg 1\n\nreadonly entry f[B](x: f32[B]) -> (y: f32) {\n  return mean(x)\n}\n"
    (folder / "mean.dfg").write_text(program)
    text = 'deploy 1 for "mean.dfg"\njob w tasks 2\nreplicate f over w with mode = "async", split = "B"\n'
    assert dfc("check", write(folder, text)).code == 3


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_other_programs_can_read_the_messages(folder: Path, dfc: Command, form: str) -> None:
    ended = dfc("check", write(folder, HEAD + 'place "weights" on ps\n'), f"--format={form}")
    assert ended.code == 2
    assert ended.err == ""
    assert "E0801" in ended.out
    if form == "json":
        label = json.loads(ended.out)["diagnostics"][0]["labels"][0]
        assert (label["file"], label["line"], label["column"]) == ("line.deploy", 4, 7)
    elif form == "sarif":
        assert json.loads(ended.out)["runs"][0]["results"][0]["ruleId"] == "E0801"
    else:
        assert ended.out.startswith("::error file=line.deploy,line=4,")


def test_a_deployment_file_is_no_program(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", write(folder, HEAD), "-o", "x.bundle")
    assert ended.code == 2
    assert "E0809" in ended.message
    assert "--deploy line.deploy" in ended.message
