"""`kubectl mpi top` and `stacks` on a job that hangs in one rank: by exec as a user, by ssh as root."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.faults import until
from tests.cluster.kubectl_mpi import kubectl_mpi
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

HANGS = 1
PROGRAM = f"""\
[ $OMPI_COMM_WORLD_RANK != {HANGS} ] || {{ mkfifo /tmp/input; exec cat 0<>/tmp/input; }}
exec sleep 3600
"""


@pytest.fixture(scope="module")
def hung(submit_all: SubmitAll) -> dict[str, Submitted]:
    """A job of each transport, and one without the process view."""
    jobs = {name: MpiJob(slots=2) for name in ("exec", "plain")} | {"ssh": SshJob(slots=2)}
    for name, job in jobs.items():
        job.run("sh", "-c", PROGRAM)
        if name != "ssh":
            job.worker["securityContext"]["runAsGroup"] = 1000  # the image's user has it
        if name != "plain":
            job.spec["workerAgent"] = {"processes": True}
    found = submit_all(jobs, "baseline")
    for one in found.values():
        one.until_condition("Running")
    return found


@pytest.mark.parametrize("transport", ["exec", "ssh"])
def test_a_hung_rank_is_seen(hung: dict[str, Submitted], transport: str) -> None:
    namespace = hung[transport].namespace

    def programs() -> dict[int, str]:
        seen = json.loads(kubectl_mpi(namespace, "top", transport, "-o", "json"))["ranks"]
        return {one["rank"]: one["program"] for one in seen if not one["cpu_percent"]}

    until("all ranks hang", lambda: programs() == {0: "sleep", HANGS: "cat", 2: "sleep", 3: "sleep"})
    header, *lines = kubectl_mpi(namespace, "top", transport).splitlines()
    assert header.split() == ["RANK", "POD", "PID", "STATE", "CPU%", "MEMORY", "PROGRAM"]
    for rank, line in enumerate(lines):
        program = "cat" if rank == HANGS else "sleep"
        assert re.fullmatch(rf"{rank} +{transport}-worker-\d +\d+ +S waiting +0 +\d+ MiB +{program}", line), line
    found = kubectl_mpi(namespace, "stacks", transport)
    assert re.search(r"^ranks 0, 2-3: clock_nanosleep", found, re.MULTILINE), found
    assert re.search(rf"^rank {HANGS}: read of /tmp/input", found, re.MULTILINE), found
    assert f"rank {HANGS}: " in kubectl_mpi(namespace, "stacks", transport, "--rank", str(HANGS))
    assert f"{transport} has no rank 9" in kubectl_mpi(namespace, "stacks", transport, "--rank", "9", code=4)


def test_without_the_process_view_it_is_said_what_to_set(hung: dict[str, Submitted]) -> None:
    for command in ("top", "stacks"):
        said = kubectl_mpi(hung["plain"].namespace, command, "plain", code=1)
        assert "set spec.workerAgent: {processes: true}" in said
