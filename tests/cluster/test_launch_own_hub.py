"""Without a hub in the launcher pod: the first client starts one for its container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
# Where the hub was is seen before the container and whatever runs in it are gone.
SEEN = """"$@" || exit
for place in /opt/kube/hub /tmp/.mpi-agents-* /dev/shm/.mpi-agents-*; do
    [ ! -S $place/hub.sock ] || echo in $place
done"""


@pytest.mark.parametrize(("read_only", "seen"), [(True, "/.mpi-agents-"), (False, "in /opt/kube/hub")])
@pytest.mark.parametrize("example", ["openmpi4", "openmpi5"])
def test_a_launcher_without_a_hub_beside_it(start: Start, example: str, read_only: bool, seen: str) -> None:
    job = Job(example).run("pi")
    delivery = job.init("delivery")
    delivery["command"] = ["mpi-delivery", "client", "direct"]
    job.launcher["initContainers"] = [delivery]
    mounts = {one["name"]: one for one in job.main["volumeMounts"] if one["name"] != "run"}
    mounts["tools"]["readOnly"] = read_only
    job.main["volumeMounts"] = [*mounts.values(), TOKEN]  # whoever calls the API server needs it
    running = start(job.command("/bin/sh", "-c", SEEN, "sh", *job.main["command"]))
    assert running.end() == 0, running.output
    assert running.ranks() == dict(enumerate(running.job.workers))
    assert seen in running.output.splitlines()[-1]
    assert "rshagent" not in running.output
    running.assert_nothing_left()
