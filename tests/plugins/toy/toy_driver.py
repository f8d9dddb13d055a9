"""The run half of the target: must import without the compiler."""

from dfc_driver_cpu.driver import CpuDriver


class PortableDriver(CpuDriver):
    """Runs what PortableTarget made, on one thread."""

    def __init__(self, **parts: object) -> None:
        super().__init__(**{**parts, "threads": 1})  # type: ignore[arg-type]
