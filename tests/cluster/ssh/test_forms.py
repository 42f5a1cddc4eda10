"""What a job may ask for: where it runs, what its ranks have, who looks after it. All jobs run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from tests.cluster import pods as of
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

GREETING = "two words, a 'quote' and a $sign"


def on_the_hosts_network() -> SshJob:
    job = SshJob(workers=1)
    for pod in (job.launcher, job.worker):
        pod["hostNetwork"] = True
    return job


def told() -> SshJob:
    """Ranks have the variables of their own container, whatever is in them."""
    job = SshJob(slots=1)
    job.worker["containers"][0]["env"] = [
        {"name": "GREETING", "value": GREETING.replace("$", "$$")},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "PATH", "value": "/opt/own:/usr/local/bin:/usr/bin:/bin"},
    ]
    job.run("/bin/sh", "-c", 'echo "$(hostname): $GREETING, $PATH, ${NODE:+on a node}"')
    return job


def bare() -> SshJob:
    return SshJob().set(workerAgent=False)


def alone(job: SshJob) -> SshJob:
    """Its mpirun gets no hostfile."""
    job.command("/bin/sh", "-c", "unset OMPI_MCA_orte_default_hostfile; mpirun -n 1 --oversubscribe true")
    job.launcher["terminationGracePeriodSeconds"] = 30  # what its sidecar has to report
    return job


@pytest.fixture(scope="module")
def running(submit_all: SubmitAll) -> dict[str, Submitted]:
    """All jobs, submitted."""
    jobs = {
        "host-network": on_the_hosts_network(),
        "told": told(),
        "bare": bare(),
        "alone": alone(SshJob()),
        "alone-restricted": alone(SshJob().run_as(123_456).restrict()),
    }
    return submit_all(jobs, "privileged")


def test_sshd_shares_its_hosts_network(running: dict[str, Submitted]) -> None:
    one = running["host-network"]
    assert one.verdict() == "Succeeded", one.output
    assert len(one.ranks()) == 1
    worker = one.namespace.get("Pod", one.job.workers[0])
    ports = [port for spec in containers(worker) for port in spec.get("ports") or ()]
    assert any(20000 <= port["containerPort"] < 30000 and port["hostPort"] == port["containerPort"] for port in ports)


def test_ranks_have_their_containers_environment(running: dict[str, Submitted]) -> None:
    one = running["told"]
    assert one.verdict() == "Succeeded", one.output
    lines = [f"{worker}: {GREETING}, /opt/own:/usr/local/bin:/usr/bin:/bin, on a node" for worker in one.job.workers]
    assert sorted(one.output.splitlines()) == lines


def test_the_worker_agent_can_be_left_out(running: dict[str, Submitted]) -> None:
    one = running["bare"]
    assert one.verdict() == "Succeeded", one.output
    assert one.ranks() == dict(enumerate(one.job.workers))
    worker = one.namespace.get("Pod", one.job.workers[0])
    assert [container["name"] for container in worker["spec"]["initContainers"]] == ["sshd-bootstrap"]


@pytest.mark.parametrize("name", ["alone", "alone-restricted"])
def test_a_launcher_that_logs_in_nowhere_is_reported(name: str, running: dict[str, Submitted]) -> None:
    one = running[name]
    assert one.verdict() == "Succeeded", one.output
    one.until_event("WorkersUnused")
    assert "started nothing in the job's 2 workers" in one.condition("WorkersUnused")["message"]
    assert running["bare"].verdict() == "Succeeded"
    assert not [event for event in running["bare"].events() if event[0] == "WorkersUnused"]


def containers(pod: of.Pod) -> list[of.Pod]:
    """All containers of a pod."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
