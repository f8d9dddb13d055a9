"""The bundles of a measurement: the network, and what changes its images if they are to be changed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dfc_runtime
from dfc.deferred.dataclasses import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dfc.cli.networks.batches import Change


@dataclass(frozen=True, slots=True)
class Programs:
    """Bundles, as bytes; `distortions` is none where images stay as they are."""

    network: bytes
    distortions: bytes | None = None

    def write(self, folder: Path) -> None:
        """Into a folder that ranks read them from."""
        (folder / "network.bundle").write_bytes(self.network)
        if self.distortions is not None:
            (folder / "distortions.bundle").write_bytes(self.distortions)

    @contextmanager
    def change(self, threads: int | None) -> Generator[Change | None]:
        """What becomes of images, if anything does."""
        if self.distortions is None:
            yield None
            return
        module = dfc_runtime.loads(self.distortions, threads=threads)
        distort = module.entries["distort"].function

        def change(pixels: NDArray[np.uint8], first: int) -> NDArray[np.float32]:
            return cast("NDArray[np.float32]", cast(Any, distort(images=pixels, first=first)))

        try:
            yield change
        finally:
            module.close()


def read_programs(folder: Path) -> Programs:
    """What `Programs.write` has written."""
    distortions = folder / "distortions.bundle"
    return Programs(
        (folder / "network.bundle").read_bytes(), distortions.read_bytes() if distortions.exists() else None
    )
