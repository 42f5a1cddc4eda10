"""/opt/kube/kubectl in the launcher: the real one where the job asks for it, and no token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

ANYONE = 1_234_567
REAL = """
set -eu
test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token
/opt/kube/kubectl version --client
! /opt/kube/kubectl --request-timeout=5s get pods
mpirun -n 2 pi
"""


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize("transport", ["exec", "ssh"])
def test_the_real_one_is_there_if_the_job_asks_for_it(submit: Submit, version: str, transport: str) -> None:
    job = MpiJob(version) if transport == "exec" else SshJob(version=version).run_as(ANYONE).restrict()
    job.command("/bin/sh", "-c", REAL)
    if version == "v1":
        job.annotate(tools="kubectl")
    else:
        job.spec["tools"] = ["kubectl"]
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert "Client Version: v" in running.output
    assert sorted(running.ranks()) == [0, 1]
