"""`dfc fmt`."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import Command

LOOSE = "dfg 1\n\nfn f( x:f32 )->f32=x*2\n"
TIDY = "dfg 1\n\nfn f(x: f32) -> f32 = x * 2\n"


def test_a_file_is_formatted_in_place(folder: Path, dfc: Command) -> None:
    (folder / "a.dfg").write_text(LOOSE)
    ended = dfc("fmt", "a.dfg", "line.dfg")
    assert (ended.code, ended.out, ended.err) == (0, "1 file formatted\n", "")
    assert (folder / "a.dfg").read_text() == TIDY


def test_a_tidy_file_is_left_alone(folder: Path, dfc: Command) -> None:
    (folder / "a.dfg").write_text(TIDY)
    before = (folder / "a.dfg").stat().st_mtime_ns
    ended = dfc("fmt", "a.dfg")
    assert (ended.code, ended.out) == (0, "")
    assert (folder / "a.dfg").stat().st_mtime_ns == before


def test_check_names_the_files_and_changes_none(folder: Path, dfc: Command) -> None:
    (folder / "a.dfg").write_text(LOOSE)
    (folder / "b.dfg").write_text(TIDY)
    ended = dfc("fmt", "--check", "a.dfg", "b.dfg")
    assert (ended.code, ended.out, ended.err) == (2, "", "a.dfg is not formatted\n")
    assert (folder / "a.dfg").read_text() == LOOSE
    assert dfc("fmt", "--check", "b.dfg").code == 0


def test_standard_input_goes_to_standard_output(folder: Path, dfc: Command) -> None:
    ended = dfc("fmt", "-", stdin=LOOSE.encode())
    assert (ended.code, ended.out, ended.err) == (0, TIDY, "")
    assert dfc("fmt", "--check", "-", stdin=LOOSE.encode()).code == 2
    assert dfc("fmt", "--check", "-", stdin=TIDY.encode()).code == 0


def test_a_program_with_mistakes_is_not_touched(folder: Path, dfc: Command) -> None:
    broken = "dfg 1\n\nfn f(x: f32) -> f32 = (x\n"
    (folder / "a.dfg").write_text(broken)
    ended = dfc("fmt", "a.dfg")
    assert ended.code == 2
    assert "error[E0112]" in ended.message
    assert (folder / "a.dfg").read_text() == broken


def test_a_deployment_file_is_formatted_too(folder: Path, dfc: Command) -> None:
    loose = 'deploy 1 for "line.dfg"\njob  w tasks 2  with cpu=4 # four\n'
    tidy = 'deploy 1 for "line.dfg"\njob w tasks 2 with cpu = 4  # four\n'
    (folder / "line.deploy").write_text(loose)
    assert dfc("fmt", "--check", "line.deploy").code == 2
    assert dfc("fmt", "line.deploy").out == "1 file formatted\n"
    assert (folder / "line.deploy").read_text() == tidy
    assert dfc("fmt", "-", stdin=loose.encode()).out == tidy


def test_a_link_stays_one_and_permissions_stay(folder: Path, dfc: Command) -> None:
    (folder / "a.dfg").write_text(LOOSE)
    (folder / "a.dfg").chmod(0o750)
    (folder / "b.dfg").symlink_to("a.dfg")
    assert dfc("fmt", "b.dfg").code == 0
    assert (folder / "b.dfg").is_symlink()
    assert (folder / "a.dfg").read_text() == TIDY
    assert (folder / "a.dfg").stat().st_mode & 0o777 == 0o750
