from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc

SOURCE = """
const WIDTH = setting("WIDTH", 4)
param w: f32[WIDTH] = 2
entry scale(x: f32[WIDTH]) -> f32[WIDTH] { return w * x }
test "nothing" { assert 1 == 1 }
"""


def test_a_program_is_compiled_from_text_and_runs() -> None:
    bundle = dfc.compile(text=SOURCE)
    assert bundle.entries == ("scale", "init")
    model = dfc.loads(bundle.to_bytes())
    np.testing.assert_array_equal(model.scale(np.ones(4, "f4")), [2, 2, 2, 2])


def test_a_program_is_compiled_from_a_file_with_settings(tmp_path: Path) -> None:
    path = tmp_path / "scale.dfg"
    path.write_text(SOURCE)
    saved = dfc.compile(path, settings={"WIDTH": 2}).save(tmp_path / "scale.bundle")
    model = dfc.load(saved)
    assert model.name == "scale"
    assert model.state["w"].shape == (2,)
    assert dict(model.manifest.settings) == {"WIDTH": 2}
    assert dfc.inspect(saved).source == SOURCE


def test_every_mistake_is_in_the_error() -> None:
    with pytest.raises(dfc.CompileError) as caught:
        dfc.compile(text="entry a() -> f32 { return nothing }\nentry b() -> f32 { return nobody }\n")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics if diagnostic.is_error] == ["E0201", "E0201"]
    assert caught.value.spans[0].line == 1
    assert caught.value.exit_code == 2


def test_a_deployment_file_makes_a_bundle_for_ranks(tmp_path: Path) -> None:
    (tmp_path / "x.deploy").write_text('deploy 1 for "x.dfg"\njob worker tasks 2\n')
    bundle = dfc.compile(text=SOURCE, deploy=tmp_path / "x.deploy")
    cluster = bundle.manifest.cluster
    assert cluster is not None
    assert [(job.name, job.tasks) for job in cluster.jobs] == [("worker", 2)]


def test_what_is_not_supported_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.deploy").write_text(
        'deploy 1 for "x.dfg"\njob worker tasks 2\nreplicate scale over worker with mode = "sync", backups = 1\n'
    )
    with pytest.raises(dfc.CompileError, match="there are no backup tasks"):
        dfc.compile(text=SOURCE, deploy=tmp_path / "x.deploy")
    with pytest.raises(dfc.UnsupportedError, match="there is no target 'abacus'"):
        dfc.compile(text=SOURCE, target="abacus")


def test_wrong_use_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        dfc.compile()
    with pytest.raises(TypeError):
        dfc.compile("a.dfg", text=SOURCE)


def test_a_program_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(dfc.FileError, match=r"cannot read .*absent\.dfg: No such file"):
        dfc.compile(tmp_path / "absent.dfg")


def test_errors_share_a_root_and_have_exit_codes() -> None:
    codes = {
        dfc.FeedError: 2, dfc.RunError: 2, dfc.UnsupportedError: 3, dfc.BundleError: 4, dfc.CheckpointError: 5,
        dfc.FileError: 6, dfc.LimitError: 7, dfc.RankError: 75,
    }  # fmt: skip
    for kind, code in codes.items():
        assert issubclass(kind, dfc.DfcError)
        assert kind("message").exit_code == code
