"""`kubectl mpi why` of jobs that run, but whose ranks wait for ever: by what their launchers wrote last, and when."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import yaml
from user_shell import Shell, manifest

from agents.client import MpiClient

if TYPE_CHECKING:
    from agents.playground.operated import Operated

AGO_S = 300


def begin(operated: Operated, job: str, last: str) -> None:
    """Submit a job, and wait until it has written a line that ends so."""
    with MpiClient(kubeconfig=operated.cluster.kubeconfig(), namespace="default") as client:
        client.submit(yaml.safe_load(job))
        name = yaml.safe_load(job)["metadata"]["name"]
        client.wait(name, until=lambda status: status.state == "Running", timeout_s=60)
        assert any(line.endswith(last) for line in client.logs(name, follow=True))


def fall_silent(operated: Operated, job: str) -> None:
    """Make it long ago that its launcher wrote."""
    log = os.path.join(operated.cluster.pod_folder(f"{job}-launcher"), "mpi.log")
    os.utime(log, (time.time() - AGO_S,) * 2)


def test_a_silent_job(shell: Shell, operated: Operated) -> None:
    begin(operated, manifest("mute", "sh", "-c", "echo step 17; exec sleep 600"), "step 17")
    fall_silent(operated, "mute")
    said = " ".join(shell.run("why", "mute").split())
    assert re.search(r"Its last output came 5 min( \d+ s)? ago: step 17\. `kubectl mpi stacks mute` could show", said)
    blind = Shell(operated.cluster.kubeconfig(operated.cluster.token("get mpijobs", "list pods", "list events")))
    assert blind.run("why", "mute").endswith(" on 2 of 2 workers.\n")
    assert re.search(r"state +ok +mute has been running", shell.run("doctor", "mute"))
    shell.run("delete", "mute")
