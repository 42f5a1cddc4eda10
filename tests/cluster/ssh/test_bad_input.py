"""What can't work by ssh is said in one line, where its user looks first: in the job's own conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import image
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

MAIL = """
use IO::Socket::INET;
my $mail = IO::Socket::INET->new(LocalPort => 2222, Listen => 9, ReuseAddr => 1) or die;
while (my $client = $mail->accept) { print $client "220 mail\\r\\n"; close $client }
"""
RUN = "/run/mpi-agents/ssh"


def small() -> SshJob:
    """The kubelet starts the same pod's container again, so what it said last stays to be seen."""
    job = SshJob(workers=1)
    job.spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "OnFailure"
    return job


def without_sshd() -> SshJob:
    job = small()
    job.worker["containers"][0]["image"] = image("openmpi4")
    return job


def with_its_port_taken() -> SshJob:
    job = small()
    mail = {
        "name": "mail",
        "image": image("openmpi4-ssh"),
        "command": ["perl", "-e", MAIL],
        "restartPolicy": "Always",
        "startupProbe": {"tcpSocket": {"port": 2222}, "periodSeconds": 1},
    }
    job.worker["initContainers"] = [mail]
    return job


def as_another_user() -> SshJob:
    """The template names no uid, and its container continues as another than root, as an image may by itself."""
    job = small()
    change = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]
    start = [f"{RUN}/sshd-start", "/usr/sbin/sshd", "-D", "-e", "-f", f"{RUN}/sshd_config"]
    job.worker["containers"][0]["command"] = [*change, *start]
    return job


@pytest.fixture(scope="module")
def running(submit_all: SubmitAll) -> dict[str, Submitted]:
    """All jobs, submitted."""
    jobs = {"no-sshd": without_sshd(), "port-taken": with_its_port_taken(), "another-user": as_another_user()}
    return submit_all(jobs, "baseline")


SAID = {
    "no-sshd": "no sshd in this image (asked for: /usr/sbin/sshd): put it in by apt-get install openssh-server",
    "port-taken": "port 2222 is in use already: name another (ssh.port)",
    "another-user": "this container runs as uid 1000, and the ssh keys are uid 0's: set securityContext.runAsUser",
}


@pytest.mark.parametrize("name", SAID)
def test_a_worker_that_can_have_no_sshd_says_why(running: dict[str, Submitted], name: str) -> None:
    one = running[name]
    one.until(  # both at one time: a container that is tried again runs for a moment
        lambda status: any(
            (said["type"], said["reason"]) == ("WorkersReady", "WorkersInTrouble") and SAID[name] in said["message"]
            for said in status.get("conditions") or ()
        ),
        f"says {SAID[name]!r}",
    )


def test_the_launcher_says_what_listens_instead(running: dict[str, Submitted]) -> None:
    one = running["port-taken"]
    one.until(lambda _: one.launcher, "has a launcher")
    one.namespace.wait_log(one.launcher, "kubectl-delivery", 'no sshd on port 2222: what listens there says "220 mail"')
