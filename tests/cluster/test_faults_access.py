"""The agents lose the API server, or what it allowed them, for a while: they say so, and continue when it is back."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.faults import Ranks, container, until
from tests.cluster.jobs import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.faults import Node
    from tests.cluster.kube import Namespace
    from tests.cluster.running import Running

    Start = Callable[[Job], Running]

RBAC = "rbac.authorization.k8s.io/v1"
SETTLE_S = 60.0  # for so long a session whose stream was lost waits for an answer
UNTIL = 'until "$@"; do echo "mpirun ended with $?"; sleep 1; done'


def test_the_api_server_goes_and_comes_back_while_workers_are_waited_for(
    start: Start, node: Node, namespace: Namespace
) -> None:
    job = Job("openmpi4").run("pi")
    job.of("StatefulSet")["spec"]["replicas"] = 0
    running = start(job)
    namespace.wait_log(running.launcher, "delivery", "not created yet")
    node.api_server.stop(signal.SIGKILL)
    node.start_api_server()
    namespace.patch("StatefulSet", "pi-worker", {"spec": {"replicas": 2}}, "apps/v1")
    assert running.end() == 0, running.output
    assert "pi is approximately" in running.output
    log = namespace.logs(running.launcher, "delivery")
    assert "the API server closed the connection" in log or "the API server can't be reached" in log
    assert "2/2 ready" in log


def test_the_role_is_missing_when_workers_are_waited_for(start: Start, namespace: Namespace) -> None:
    job = Job("openmpi4").run("pi")
    job.launcher["restartPolicy"] = "OnFailure"
    role = job.of("Role")
    job.objects.remove(role)
    running = start(job)
    ended = namespace.wait(
        running.launcher,
        lambda pod: any(one["name"] == "delivery" and one.get("restartCount") for one in of.statuses(pod)),
        "has had delivery end",
        60,
    )
    last = next(one for one in of.statuses(ended) if one["name"] == "delivery")["lastState"]["terminated"]
    assert last["exitCode"] == 12
    assert 'verbs: ["get", "list", "watch"]' in last["message"]
    namespace.apply([role])
    assert running.end() == 0, running.output
    assert "pi is approximately" in running.output


@pytest.mark.usefixtures("local")
def test_the_role_is_taken_away_before_the_launch_and_given_back(start: Start, namespace: Namespace) -> None:
    job = Job("openmpi4").run("pi")
    running = start(job.command("/bin/sh", "-c", UNTIL, "sh", *job.main["command"]).gated())
    running.until_started()
    namespace.delete("Role", "pi-launcher", api_version=RBAC)
    until(
        "the API server knows that the Role is gone",
        lambda: not namespace.may_exec("pi-launcher", "pi-worker-0", "get"),
    )
    container(namespace, running.launcher).touch("/tmp/go")
    output = running.until_output("mpirun ended with", deadline_s=60)
    assert "mpirun ended with 0" not in output
    assert "rshagent: pi-worker-0: exec is forbidden" in output or "rshagent: pi-worker-1: exec is forbidden" in output
    namespace.apply([job.of("Role")])
    assert running.end() == 0, running.output
    assert "pi is approximately" in running.output


def test_the_role_is_taken_away_and_given_back_while_the_api_server_restarts(
    start: Start, node: Node, namespace: Namespace
) -> None:
    ranks = Ranks(start(Ranks.job(Job("openmpi5"), 7)))
    namespace.delete("Role", "pi-launcher", api_version=RBAC)
    node.restart_api_server()
    namespace.wait_log(ranks.running.launcher, "hub", "listing the pods is forbidden")
    namespace.apply([ranks.running.job.of("Role")])
    ranks.go_on()
    ranks.assert_ended_undisturbed(SETTLE_S)


def test_the_key_of_all_service_accounts_is_replaced(start: Start, node: Node, namespace: Namespace) -> None:
    job = Ranks.job(Job("openmpi5"), 7)
    ranks = Ranks(start(job))
    with node.another_service_account_key():
        # Until the kubelet has brought a new token, the hub is refused; the kubelet does so as soon as it restarts.
        ranks.go_on()
        ranks.assert_ended_undisturbed(SETTLE_S)
