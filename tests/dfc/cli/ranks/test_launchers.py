"""Who started a process, by the variables that launchers and schedulers really set."""

from __future__ import annotations

import pytest

from dfc.cli.ranks.launchers import Launched, is_rank, launched, separated

HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "3", "PMI_FD": "7", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}
OPEN_MPI = {"PMIX_RANK": "2", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "prterun-1"}
SLURM = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4"}
SRUN = {**SLURM, "SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}
SRUN_PMI2 = {**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4", "PMI_JOBID": "77.0"}
SRUN_PMIX = {**SRUN, "PMIX_RANK": "3", "PMIX_NAMESPACE": "slurm.pmix.77.0"}
SCRIPT = {**SLURM, "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_TASK_PID": "5"}
SHELL = {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "PMI_RANK": "0"}
PALS = {"PALS_RANKID": "5", "PALS_SIZE": "8", "PALS_NODEID": "1"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"PATH": "/bin"}, None),
        (HYDRA, Launched(1, 3)),
        (OPEN_MPI, Launched(2, 4)),
        (SRUN, Launched(3, 4)),
        (SRUN_PMI2, Launched(3, 4)),
        (SRUN_PMIX, Launched(3, 4)),
        (SCRIPT, None),
        (SHELL, Launched(0, -1)),
        (PALS, Launched(5, 8)),
        ({"PMI_RANK": "one", "PMI_SIZE": ""}, None),
    ],
)
def test_rank_and_size_are_what_the_launcher_says(environment: dict[str, str], found: Launched | None) -> None:
    assert launched(environment) == found
    assert is_rank(starts_ranks=False, environment=environment) is (found is not None)


def test_a_shell_in_an_allocation_can_start_ranks() -> None:
    for environment in (SCRIPT, SHELL, {"PATH": "/bin"}):
        assert not is_rank(starts_ranks=True, environment=environment)
    for environment in (HYDRA, OPEN_MPI, SRUN_PMI2, SRUN_PMIX):
        assert is_rank(starts_ranks=True, environment=environment)
    assert is_rank(starts_ranks=False, environment={"DFC_JOB": "/tmp/job"})


def test_processes_that_mpi_does_not_connect_are_found_out() -> None:
    assert separated(1, SRUN).startswith("4 processes were started, but MPI connects 1 of them\n  start them with")
    for environment, size in ((SRUN_PMIX, 4), (HYDRA, 3), (SHELL, 1), ({}, 1), ({}, 4)):
        assert separated(size, environment) == ""
