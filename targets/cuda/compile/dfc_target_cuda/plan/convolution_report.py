"""What `dfc inspect` tells of convolutions: which kernels cuDNN may make, which need not run then, and why not.

Assumes launches that say what they make. A kernel that makes a convolution in one launch and not in another is told of
by the first launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.kernels.convolution import SUMS
from dfc.kernels.program import EntryProgram, Launch, Program, walk
from dfc_target_cuda.kernels.kernel_code import KernelCode
from dfc_target_cuda.libraries.convolutions import described, unmade


def convolution_makers(program: Program, code: KernelCode) -> dict[int, str]:
    """By number of the kernel: what there is to say of it."""
    found: dict[int, str] = {}
    for entry in program.entries:
        launches = {step.number: step for step in walk(entry.steps) if isinstance(step, Launch)}
        for launch in launches.values():
            said = "; ".join(_said(entry, launch, launches, code))
            if said:
                found.setdefault(launch.kernel, said)
    return found


def _replaced(entry: EntryProgram, launch: Launch, launches: dict[int, Launch], code: KernelCode) -> bool:
    """Whether it may be made by other means, or left out."""
    pending = [launch]
    while pending:
        one = pending.pop()
        choice, faults = code.choices[one.kernel], code.texts[one.kernel].faults
        if one.convolution is not None and not unmade(entry, one, choice, faults=faults):
            continue
        if not one.only_for:
            return False
        pending += [launches[number] for number in one.only_for]
    return True


def _said(entry: EntryProgram, launch: Launch, launches: dict[int, Launch], code: KernelCode) -> Iterator[str]:
    if launch.convolution is not None:
        choice = code.choices[launch.kernel]
        reason = unmade(entry, launch, choice, faults=code.texts[launch.kernel].faults)
        what = described(launch.convolution)
        if reason:
            yield f"{what}, but cuDNN does not make it: {reason}"
        elif SUMS in launch.convolution.buffers and choice.apart is not None:
            yield f"{what}: cuDNN may make it, and {code.texts[choice.apart.kernel].name} the rest"
        else:
            yield f"{what}: cuDNN may make it"
    if launch.only_for and all(_replaced(entry, launches[number], launches, code) for number in launch.only_for):
        names = dict.fromkeys(code.texts[launches[number].kernel].name for number in launch.only_for)
        yield f"not run where cuDNN makes {', '.join(names)}"
