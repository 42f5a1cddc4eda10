"""The worker agent beside sshd: ready by its banner, metrics, the process view, and no rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local.daemons import until
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

# What the image has that speaks to a Unix socket; curl --unix-socket is what a user takes.
LOOK = r"""
use IO::Socket::UNIX;
my $socket = IO::Socket::UNIX->new(Peer => "/run/mpi-agents/ssh/worker.sock") or die "no socket: $!";
print $socket "GET /processes HTTP/1.0\r\n\r\n";
print((split /\r\n\r\n/, join("", <$socket>))[1]);
"""


@pytest.fixture(scope="module")
def running(submit_all: SubmitAll) -> Submitted:
    """A job whose ranks compute until it is deleted, and whose workers share their process namespace."""
    # Whose rank a process is may be read by the same uid and group alone, and not as root without root's capabilities.
    job = SshJob("openmpi5", workers=1, slots=2).run_as(1000, home="/home/mpiuser")
    job.worker["securityContext"]["runAsGroup"] = 1000
    job.worker["shareProcessNamespace"] = True
    job.run("pi", "3600")
    one = submit_all({"long": job}, "baseline")["long"]
    one.until_output("rank 1 of 2")
    return one


def test_a_worker_is_ready_when_its_sshd_answers(running: Submitted) -> None:
    worker = running.namespace.wait_ready(running.job.workers)[running.job.workers[0]]
    assert running.ask_agent("readyz")
    agent = next(one for one in worker["spec"]["initContainers"] if one["name"] == "worker-agent")
    assert agent["restartPolicy"] == "Always"
    assert not [one for one in agent.get("volumeMounts") or () if "serviceaccount" in one["mountPath"]]


def test_metrics_tell_of_ranks(running: Submitted) -> None:
    until("both ranks in the metrics", lambda: running.ranks_of_agent() >= {"0", "1"}, 60)


def test_the_process_view_is_read_on_a_local_socket(running: Submitted) -> None:
    def looked() -> str:
        return running.namespace.exec_in(running.job.workers[0], ["perl", "-e", LOOK], "mpi").output

    until("the socket answers", lambda: bool(looked()), 30)
    found = json.loads(looked())["processes"]
    assert {one["rank"] for one in found if one["name"] == "pi"} == {0, 1}, found
