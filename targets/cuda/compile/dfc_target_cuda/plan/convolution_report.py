"""What `dfc inspect` says of convolutions: which kernels cuDNN may make, and why not.

Assumes kernels that are matched to convolutions. A kernel that is launched with several types of buffers is described
by its first launch.
"""

from __future__ import annotations

from dfc.kernels.matching.convolution import SUMS, Convolved
from dfc.kernels.matching.convolutions import launches_in_line
from dfc.kernels.program import EntryProgram, Launch, Program
from dfc_target_cuda.kernels.kernel_code import KernelCode
from dfc_target_cuda.libraries.convolutions import described, unmade


def convolution_makers(program: Program, code: KernelCode) -> dict[int, str]:
    """By number of the kernel: what there is to say of it."""
    makers: dict[int, str] = {}
    for entry in program.entries:
        for launch in launches_in_line(entry.steps):
            one = code.choices[launch.kernel].convolution
            if one is not None:
                makers.setdefault(launch.kernel, _maker(entry, launch, one, code))
    return makers


def _maker(entry: EntryProgram, launch: Launch, one: Convolved, code: KernelCode) -> str:
    choice, what = code.choices[launch.kernel], described(one)
    reason = unmade(entry, launch, one, choice, faults=code.texts[launch.kernel].faults)
    if reason:
        return f"{what}, but cuDNN does not make it: {reason}"
    if SUMS in one.slots and choice.apart is not None:
        return f"{what}: cuDNN may make it, and {code.texts[choice.apart.kernel].name} the rest"
    return f"{what}: cuDNN may make it"
