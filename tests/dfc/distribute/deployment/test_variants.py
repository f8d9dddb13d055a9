"""Code that is asked for and that no task would run is a message, not left out in silence."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_target_cuda.target import SIMULATOR
from tests.support.bundles import roles_of

PROGRAM = """dfg 1

param w: f32[4] = 0.5
param t: f32[4] = 0.25

entry f(x: f32[4]) -> (y: f32) {
  let h = x * w
  return sum(h * t)
}
"""
ON_GPU = 'job worker tasks 1 with gpu = 1\nplace "**" on worker any gpu\n'


def compiled(deployment: str, *variants: str) -> bytes:
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n\n{deployment}')
    options = CompileOptions(target_options=TargetOptions(variants))
    return compile_source(SourceFile("model.dfg", PROGRAM), options, deploy).to_bytes()


@pytest.mark.parametrize(
    ("deployment", "variants", "title", "line", "helps"),
    [
        (
            "job ps tasks 1\njob worker tasks 1\n",
            ("sm_80", "sm_90+tf32"),
            "code for sm_80, sm_90+tf32 is asked for, and no line puts anything on a GPU",
            3,
            ("leave `--arch` out", 'put work on a GPU: `with gpu = 1`, and `place "**" on ps any gpu`'),
        ),
        (
            "job ps tasks 1\njob worker tasks 1 with gpu = 2\n",
            ("x86-64-v3", "sm_90"),
            "code for sm_90 is asked for, and no line puts anything on a GPU",
            4,
            ("leave `--arch` out", 'put work on a GPU: `place "**" on worker any gpu`'),
        ),
        (
            ON_GPU,
            ("x86-64-v3", SIMULATOR),
            "code for x86-64-v3 is asked for, and all tasks work on GPUs",
            3,
            ("leave `--isa` out: GPUs are named by `--arch`",),
        ),
    ],
)
def test_variants_of_devices_that_nothing_is_on_are_refused(
    deployment: str, variants: tuple[str, ...], title: str, line: int, helps: tuple[str, ...]
) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(deployment, *variants)
    (found,) = caught.value.diagnostics
    assert (found.code, found.title, found.span.line, found.helps) == ("E0815", title, line, helps)
    assert found.span.file.line_text(line).startswith("job ")


def test_each_task_takes_the_variants_that_are_for_it() -> None:
    both = 'job ps tasks 1\njob worker tasks 1 with gpu = 1\nplace "**" on worker any gpu\nplace "w" on ps\n'
    roles = roles_of(compiled(both, "x86-64-v3", SIMULATOR))
    assert b"code/x86-64-v3" in roles["role/ps-0"] and b"code/x86-64-v3" not in roles["role/worker-0"]
    assert f"code/{SIMULATOR}".encode() in roles["role/worker-0"]


def test_parts_of_entries_may_need_fewer_devices_than_the_program() -> None:
    steps = 'job ps tasks 1\njob worker tasks 1 with gpu = 1\nplace "**" on ps\nplace "f/h" on worker any gpu\n'
    compiled(f'{steps}step "f/h" from "x"\nstep "f/y" from "h"\n', "x86-64-v3", SIMULATOR)
