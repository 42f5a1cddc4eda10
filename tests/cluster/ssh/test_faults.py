"""Faults under jobs by ssh: sshd ends, the Secret is damaged or goes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.kube import until
from tests.cluster.manifests import WAITS
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from tests.cluster.kube import Object
    from tests.cluster.operator.submitted import Submitted
    from tests.cluster.ssh.conftest import SubmitAll

RENEWED_S = 200.0  # a kubelet may mount a Secret as it was, and look again after a minute and a half
# Waits at its first try to be told to fail, which the container's restart remembers by a volume.
FAILS_ONCE = (
    "if mkdir /tries/first 2>/dev/null;then echo first try;while [ ! -e /tries/go ];do sleep 0.1;done;exit 5;fi;"
    "exec mpirun -n 1 pi"
)
BROKEN = "ssh-privatekey in the job's ssh Secret is broken"
KILL_SSHD = ("/bin/sh", "-c", "kill -KILL $(cat /run/mpi-agents/ssh/sshd.pid)")


def waiting(restart: str = "Never") -> SshJob:
    """A job whose user starts mpirun by hand."""
    job = SshJob(workers=1)
    job.command(*WAITS)
    job.spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = restart
    # In a process namespace of its own, sshd is the first process, which no signal from inside kills.
    job.worker["shareProcessNamespace"] = True
    return job


@pytest.fixture(scope="module")
def running(submit_all: SubmitAll) -> dict[str, Submitted]:
    """All jobs, submitted."""
    computing = SshJob(workers=1)
    computing.run("pi", "20")
    restarted, replaced = waiting("OnFailure"), waiting()
    ended = waiting()
    ended.command("sleep", "inf")  # as a first process it receives no signal when it is deleted, and is no success
    ended.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    ended.spec["runPolicy"] = {"backoffLimit": 1}
    again = SshJob(workers=1)
    again.command("/bin/sh", "-c", FAILS_ONCE)
    again.launcher["volumes"] = [{"name": "tries", "emptyDir": {}}]
    again.launcher["containers"][0]["volumeMounts"] = [{"name": "tries", "mountPath": "/tries"}]
    again.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    jobs = {"computing": computing, "restarted": restarted, "replaced": replaced, "broken": waiting(), "ended": ended}
    return submit_all({**jobs, "again": again}, "baseline")


def kill_sshd(one: Submitted) -> None:
    """Kill sshd in the worker, once the launcher's container runs."""
    one.until_condition("Running")
    one.namespace.wait_ready(one.job.workers)  # before its sshd answers there is nothing to kill
    killed = one.namespace.exec_in(one.job.workers[0], KILL_SSHD, "mpi")
    assert not killed.errors, killed.errors


def launch(one: Submitted) -> None:
    """Start mpirun by hand."""
    done = one.namespace.exec_in(one.launcher, ["mpirun", "-n", "1", "pi"], "mpi")
    assert f"rank 0 of 1 on {one.job.workers[0]}" in done.output, done.output + done.errors


def new_secret(one: Submitted, old: Object) -> Object:
    """Wait until the job has another Secret than that."""
    path = one.namespace.path("Secret", old["metadata"]["name"])

    def found() -> Object | None:
        there = one.namespace.api.find(path)
        return there if there and there["metadata"]["uid"] != old["metadata"]["uid"] else None

    return until(f"{one.job.name} has another Secret", found)


def break_key(one: Submitted) -> None:
    """Put into the job's Secret what is no key."""
    garbage = base64.b64encode(b"no key at all").decode()
    one.namespace.patch("Secret", f"{one.job.name}-ssh", {"data": {"ssh-privatekey": garbage}})


def test_a_secret_that_is_deleted_comes_back_and_the_job_goes_on(running: dict[str, Submitted]) -> None:
    one = running["computing"]
    one.until_output("rank 0 of 1")
    before = one.namespace.get("Secret", "computing-ssh")
    launcher = one.launcher
    one.namespace.delete("Secret", "computing-ssh")
    after = new_secret(one, before)
    assert after["data"]["ssh-publickey"] != before["data"]["ssh-publickey"]
    assert one.verdict() == "Succeeded", one.output
    assert one.launcher == launcher


def test_an_sshd_that_is_killed_comes_back(running: dict[str, Submitted]) -> None:
    one = running["restarted"]
    worker = one.job.workers[0]
    kill_sshd(one)
    log = one.namespace.wait_log(worker, "worker-agent", "sshd answers again at port 2222")
    assert "sshd is gone from port 2222: " in log
    assert "killed" in log
    one.namespace.wait(worker, lambda pod: of.is_ready(pod) and of.restarts(pod, "mpi") == 1, "is ready again")
    launch(one)


def test_a_worker_that_may_not_be_restarted_is_replaced(running: dict[str, Submitted]) -> None:
    one = running["replaced"]
    worker = one.job.workers[0]
    uid = one.namespace.wait_ready([worker])[worker]["metadata"]["uid"]
    kill_sshd(one)
    one.namespace.wait_another(worker, uid)
    launch(one)


def test_a_broken_key_is_told_and_a_deleted_secret_heals_it(running: dict[str, Submitted]) -> None:
    one = running["broken"]
    worker = one.job.workers[0]
    uid = one.namespace.wait_ready([worker])[worker]["metadata"]["uid"]
    break_key(one)
    one.namespace.delete("Pod", worker, grace_s=1)
    one.until(
        lambda status: any(BROKEN in said["message"] for said in status["conditions"]),
        "says that the key is broken",
    )
    secret = one.namespace.get("Secret", "broken-ssh")
    one.namespace.delete("Secret", "broken-ssh")
    new_secret(one, secret)
    one.namespace.delete("Pod", worker, grace_s=1)
    one.namespace.wait_another(worker, uid, RENEWED_S)


def test_a_launcher_with_a_broken_key_fails_as_its_policies_say(running: dict[str, Submitted]) -> None:
    one = running["ended"]
    one.until_condition("Running")
    break_key(one)
    # One failure for the job's controller; the next launcher's is one more than `backoffLimit`.
    one.namespace.delete("Pod", one.launcher, grace_s=1)
    assert one.verdict() == "Failed"
    message = one.condition("Failed")["message"]
    assert "exited with 13: " in message
    assert BROKEN in message


def test_a_launcher_that_is_started_again_waits_for_a_worker_that_comes_back(running: dict[str, Submitted]) -> None:
    one = running["again"]
    worker = one.job.workers[0]
    one.until_output("first try")
    one.namespace.delete("Pod", worker, grace_s=1)
    one.namespace.exec_in(one.launcher, ["touch", "/tries/go"], "mpi")
    assert one.verdict() == "Succeeded", one.output
    assert f"rank 0 of 1 on {worker}" in one.output
    pod = one.launcher_pod()
    assert pod is not None
    assert of.restarts(pod, "mpi") == 1, "no try met a worker that was away"
    assert "was restarted" in one.namespace.logs(one.launcher, "kubectl-delivery")
