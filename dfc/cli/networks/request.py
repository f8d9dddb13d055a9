"""What was asked of `dfc bench cnn`, and what follows from it: the bundle, the deployment, the title."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping

from dfc.cli.networks import batches
from dfc.cli.networks.batches import Batch, Change
from dfc.cli.networks.jobs import Jobs
from dfc.cli.networks.programs import Programs
from dfc.cli.networks.steps import Steps
from dfc.cli.networks.variables import deployment
from dfc.cli.networks.zoo import NETWORKS, in_zoo, program_of
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.devices import ON_CPU
from dfc_runtime.driver import find_driver
from dfc_runtime.errors import DfcError, UnsupportedError, counted
from dfc_runtime.formats.element_types import SIZES

RATE = 1e-4
"""Of the training step: so small that numbers stay finite on labels by chance."""


@dataclass(frozen=True, slots=True)
class Request:
    """A network at its sizes, with `batch` images for each device; `images` come from `data_dir` if it is given."""

    model: str
    mode: str
    steps: Steps
    jobs: Jobs
    batch: int
    image: int
    narrow: int
    classes: int
    data_dir: str | None
    is_distorted: bool
    warm_up: int
    count: int
    as_json: bool
    threads: int | None

    @property
    def ranks(self) -> int:
        return len(self.jobs.processes)

    @property
    def is_apart(self) -> bool:
        """Whether each rank runs a program for one."""
        return self.ranks > 1 and self.mode == "independent"

    @property
    def settings(self) -> Mapping[str, int | float]:
        return {"IMAGE": self.image, "NARROW": self.narrow, "CLASSES": self.classes, "RATE": RATE}

    @property
    def title(self) -> str:
        source = "images that are made up" if self.data_dir is None else self.data_dir
        source += ", changed by chance" if self.is_distorted else ""
        ranks = counted(self.ranks, "rank")
        narrow = f", channels divided by {self.narrow}" if self.narrow > 1 else ""
        steps = f"{counted(self.count, 'step')} after {self.warm_up}"
        sizes = f"{self.jobs.devices} x {self.batch} images of {self.image} x {self.image}"
        return f"{self.model}{narrow}, {self.mode}{self.steps.title} on {ranks}: {sizes}, {source}, {steps}"

    @property
    def facts(self) -> Mapping[str, object]:
        """For JSON."""
        return {
            "model": self.model,
            "variable_update": self.mode,
            "staged_vars": self.steps.mode == "staged",
            "cross_replica_sync": self.steps.mode != "async",
            "backup_workers": self.steps.backups,
            "ranks": self.ranks,
            "batch_size": self.batch,
            "image_size": self.image,
            "narrow": self.narrow,
            "data_dir": self.data_dir,
            "distortions": self.is_distorted,
            "num_warmup_batches": self.warm_up,
            "num_batches": self.count,
        }

    def check_machine(self) -> None:
        """What would be missing after minutes of compiling: `FileError` if there are no files to take images from,
        `UnsupportedError` without the GPUs of a worker."""
        if self.data_dir is not None:
            batches.files_in(self.data_dir)
        try:
            for number in range(self.jobs.gpus):
                find_driver("cuda").bits(number)
        except DfcError as problem:
            text = problem.message.replace(ON_CPU, "or leave out --num_gpus")
            raise UnsupportedError(text, code=problem.code) from None

    def batches(self, rank: int, change: Change | None) -> Generator[Batch]:
        """For the rank that feeds: what a call of all devices takes, or a batch of the rank's own."""
        size = self.batch if self.is_apart else self.batch * self.jobs.devices * self.steps.in_a_call
        first = rank * self.batch
        if self.data_dir is None:
            return batches.synthetic(size, self.image, self.classes, first, change)
        return batches.of_files(self.data_dir, size, self.image, self.classes, first, change)

    def deployment(self) -> str:
        """The deployment file, "" if each rank runs the program by itself."""
        sizes = self._sizes() if self.jobs.servers and not self.steps.is_at_owner else {}
        return deployment(self.mode, self.steps, self.jobs, NETWORKS[self.model].file, sizes)

    def compiled(self) -> Programs:
        """The bundles."""
        # Ranks that are given a bundle do without the compiler.
        from dfc.diagnostics.source import SourceFile
        from dfc.driver import api
        from dfc.ir.options import CompileOptions

        path, text = program_of(NETWORKS[self.model]), self.deployment()
        is_on_gpu = self.jobs.gpus > 0 and not text
        options = CompileOptions("cuda" if is_on_gpu else "cpu", tuple(self.settings.items()))
        deploy = SourceFile(path.with_suffix(".deploy").name, text) if text else None
        network = api.compile_source(api.read(path), options, deploy).to_bytes()
        if not self.is_distorted:
            return Programs(network)
        on_host = CompileOptions("cpu", (("IMAGE", self.image),))
        return Programs(network, api.compile_source(api.read(in_zoo("distortions.dfg")), on_host).to_bytes())

    def _sizes(self) -> Mapping[str, int]:
        """The bytes of each variable."""
        from dfc.driver import api

        resources = api.graph(api.read(program_of(NETWORKS[self.model])), self.settings).resources
        return {
            name: math.prod(extent.evaluate({}) for extent in each.type.shape) * SIZES[str(each.type.machine)]
            for name, each in resources.items()
        }
