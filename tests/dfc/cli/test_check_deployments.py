"""`dfc check` of deployment files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.cli.commands import check_command
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


def test_mistakes_of_every_kind_are_told_at_once_in_their_order(folder: Path, dfc: Command) -> None:
    lines = [
        'place "weights" on pss',
        'place "**" on "/job:ps/tsk:1"',
        'shard "nothing" axis 0 over workers',
        'colocate "w" with "nobody"',
        'replicate tran over boss with mode = "sync", split = "B"',
        'step "h/y"',
        "plac it",
    ]
    ended = dfc("check", write(folder, HEAD + "\n".join(lines) + "\n"), "--format", "json")
    told = json.loads(ended.out)["diagnostics"]
    found = [(each["labels"][0]["line"], each["code"]) for each in told]
    assert found == [
        (4, "E0801"),
        (4, "E0805"),
        (5, "E0182"),
        (6, "E0801"),
        (6, "E0805"),
        (7, "E0801"),
        (8, "E0808"),
        (8, "E0805"),
        (9, "E0801"),
        (10, "E0180"),
    ]


def test_what_is_cut_into_blocks_and_placed_elsewhere_is_told(folder: Path, dfc: Command) -> None:
    entry = "entry f[B](x: f32[B, 3]) -> (y: f32) {\n  let y = mean(square(x @ w))\n  w -= grad(y, w)\n  return y\n}"
    (folder / "line.dfg").write_text(f"dfg 1\n\nparam w: f32[3] = 1\n\n{entry}\n")
    replicated = 'job worker tasks 2\nreplicate f over worker with mode = "sync", split = "B"\n'
    ended = dfc("check", write(folder, HEAD + replicated + 'place "**" on ps\n'))
    assert ended.code == 2
    assert "error[E0802]: `f/x` is computed in blocks by all tasks of `worker`" in ended.message
    assert "help: leave it with the others, on `worker`" in ended.message


def test_watching_notices_changes_of_the_program_in_another_folder(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "places").mkdir()
    text = 'deploy 1 for "../model.dfg"\n\njob ps tasks 2\nplace "v" on ps\n'
    write(folder, text, "places/model.deploy")
    program = "dfg 1\n\nfrom .names import start\n\nparam {name}: f32 = start()\n"
    write(folder, "dfg 1\n\nfn start() -> f32 = 1.0\n", "names.dfg")
    write(folder, program.format(name="w"), "model.dfg")
    later = [
        lambda: write(folder, program.format(name="v"), "model.dfg"),
        lambda: write(folder, "dfg 1\n\nfn begin() -> f32 = 1.0\n", "names.dfg"),
        lambda: write(folder, text + 'place "u" on ps\n', "places/model.deploy"),
    ]

    def meanwhile(_seconds: float) -> None:
        if not later:
            raise KeyboardInterrupt
        later.pop(0)()

    monkeypatch.setattr(check_command.time, "sleep", meanwhile)
    ended = dfc("check", "--watch", "places/model.deploy")
    assert [line[:12] for line in ended.err.splitlines() if line.startswith(("error[", "no errors"))] == [
        "error[E0801]",
        "no errors",
        "error[E0203]",
        "error[E0203]",
    ]


def test_what_is_not_supported_yet_has_its_own_exit_code(folder: Path, dfc: Command) -> None:
    program = "dfg 1\n\nreadonly entry f[B](x: f32[B]) -> (y: f32) {\n  return mean(x)\n}\n"
    (folder / "mean.dfg").write_text(program)
    text = 'deploy 1 for "mean.dfg"\njob w tasks 2\nreplicate f over w with mode = "sync", split = "B", backups = 1\n'
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


def test_a_program_in_place_of_a_deployment_file_is_one_mistake(folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--deploy", "line.dfg")
    assert ended.code == 2
    assert ended.message.startswith("error[E0809]: this is a program, and a deployment file is expected\n --> line.dfg")
    assert ended.message.count("error[") == 1


@pytest.mark.parametrize("first", ["", 'deploy 1 for ""\n'])
def test_a_file_without_the_name_of_a_program_is_for_no_other_program(first: str, folder: Path, dfc: Command) -> None:
    ended = dfc("compile", "line.dfg", "--deploy", write(folder, first + "job ps tasks 2\n"))
    assert ended.code == 2
    assert ended.message.startswith("error[E0180]")
    assert ended.message.count("error[") == 1
