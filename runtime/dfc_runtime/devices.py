"""Which device a program runs on, and what is said where none can run it.

Assumes nothing of the machine: drivers find out what there is, and raise what the functions here make. Guarantees that
each message is one line that ends with what to do.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from dfc_runtime.calls.memory import in_words
from dfc_runtime.errors import BundleError, DfcError, FeedError, LimitError, UnsupportedError
from dfc_runtime.formats import fields
from dfc_runtime.formats.fields import shown
from dfc_runtime.kinds import is_whole

DEVICE_VARIABLE = "DFC_DEVICE"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""What schedulers set, often to other devices for each rank of a machine."""
NOTE = "device"
"""In the notes of a program that is one task of many: which GPU of its task it works on, and how many each task has."""
MOST_DEVICES = 1024
ON_CPU = "or compile it with --target cpu"


def device_number(stated: int | None, *, has_devices: bool) -> int:
    """The device: as stated, else `DFC_DEVICE`, else the first. Stating one for a driver without devices is an error;
    the variable speaks of those programs only that have devices."""
    detail = ""
    if stated is None:
        text = os.environ.get(DEVICE_VARIABLE, "").strip() if has_devices else ""
        if not text:
            return 0
        stated = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        detail = f", but {DEVICE_VARIABLE} is {text!r:.60}"
    if not is_whole(stated) or not 0 <= stated < MOST_DEVICES:
        raise FeedError(f"the number of a device is a whole number from 0 to {MOST_DEVICES - 1}{detail}", code="E0901")
    if not has_devices:
        text = "device chooses a GPU, and this program was compiled for the processor"
        raise FeedError(f"{text}: leave it out, or compile with --target cuda", code="E0901")
    return stated


def device_of_rank(notes: Mapping[str, object], neighbour: int, stated: int | None) -> int | None:
    """The device of a rank whose program has these notes, the rank of that number on its machine: as stated, else as
    `DFC_DEVICE` says, else each rank its own of those that are visible to it. None where the notes name no device."""
    note = notes.get(NOTE)
    if note is None or stated is not None or os.environ.get(DEVICE_VARIABLE, "").strip():
        return stated
    number, each = (fields.integer(part, NOTE, 0, MOST_DEVICES) for part in fields.items(note, NOTE))
    device = neighbour * each + number
    visible = [name for name in os.environ.get(VISIBLE_VARIABLE, "").split(",") if name.strip()]
    return device % len(visible) if visible else device


def newest(bits: Collection[str]) -> str:
    """The architecture among the bits of a device: sm_90 of compute_80, compute_90, sm_90."""
    numbers = [int(bit[3:]) for bit in bits if bit.startswith("sm_") and bit[3:].isdigit()]
    return f"sm_{max(numbers)}" if numbers else "unknown"


def no_bindings() -> DfcError:
    """The package that speaks to the driver is not installed."""
    text = "the bundle is for a GPU, and the package that speaks to its driver is not installed"
    return UnsupportedError(f"{text}: pip install 'dfc[cuda-run]', {ON_CPU}", code="E0921")


def no_driver(reason: str) -> DfcError:
    """There is no driver of the device."""
    text = f"the bundle is for a GPU, and no NVIDIA driver can be used here ({shown(reason, 120)})"
    return UnsupportedError(f"{text}: install the driver, {ON_CPU}", code="E0921")


def old_driver(installed: str, needed: str) -> DfcError:
    """The driver is older than what the program needs."""
    text = f"the NVIDIA driver here is of CUDA {installed}, and the bundle needs {needed} or newer"
    return UnsupportedError(f"{text}: install a newer driver, {ON_CPU}", code="E0922")


def no_device(requested: int, names: Sequence[str]) -> DfcError:
    """There is no device of that number. `names` are those that are there."""
    if not names:
        text = "the bundle is for a GPU, and the driver sees none (CUDA_VISIBLE_DEVICES may hide them)"
        return UnsupportedError(f"{text}: run it where there is one, {ON_CPU}", code="E0923")
    there = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
    text = f"there is no GPU {requested}; there are {shown(there, 200)}"
    return UnsupportedError(f"{text}: set device=... or {DEVICE_VARIABLE} to one of them", code="E0923")


def wrong_architecture(offered: Sequence[str], here: str) -> DfcError:
    """No image runs on the device. `here` is its architecture, such as sm_90."""
    text = f"the bundle holds code for {shown(', '.join(offered) or 'no GPU', 60)}, and this GPU is {shown(here, 20)}"
    return BundleError(f"{text}: compile it with --arch {shown(here, 20)}, {ON_CPU}", code="E0924")


def out_of_memory(what: str, needed: int, free: int, total: int) -> DfcError:
    """The memory of the device is too small; sizes in bytes."""
    text = f"{what} needs {in_words(needed)} of GPU memory, and {in_words(free)} of {in_words(total)} are free"
    return LimitError(f"{text}: feed smaller batches, or end what else uses the GPU", code="E0925")


def device_failed(what: str) -> DfcError:
    """The device or its driver reported a failure of its own, after which it takes no more calls."""
    text = f"the GPU failed: {shown(what, 200)}"
    return UnsupportedError(f"{text}; load the program again in a new process", code="E0926")
