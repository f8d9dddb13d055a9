"""The launcher of the tests says what became of ranks, however they end."""

import os
import select
from collections.abc import Mapping

from tests.support.rank_launcher import launch


def test_a_rank_that_ends_with_an_answer_unread_ends_the_job_with_its_code() -> None:
    def work(variables: Mapping[str, str]) -> None:
        end = int(variables["PMI_FD"])
        if variables["PMI_RANK"] == "0":
            os.write(end, b"cmd=init pmi_version=1 pmi_subversion=1\n")
            select.select([end], [], [])  # the answer lies there, and closing loses it: the launcher sees a reset
            os._exit(3)

    assert launch(2, work, seconds=60) == 3


def test_a_rank_that_asks_and_ends_at_once_ends_the_job_with_its_code() -> None:
    def work(variables: Mapping[str, str]) -> None:
        if variables["PMI_RANK"] == "0":
            os.write(int(variables["PMI_FD"]), b"cmd=get_maxes\n" * 1000)
            os._exit(4)

    assert launch(2, work, seconds=60) == 4
