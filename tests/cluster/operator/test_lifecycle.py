"""A job's life: suspended, resumed, changed while it runs, cleaned up after, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted, true_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.release import Release

    Submit = Callable[[MpiJob], Submitted]

BOTH = pytest.mark.parametrize("version", ["v1", "v2beta1"])
FOREVER = ("pi", "3600")


@BOTH
def test_a_job_tells_its_story(submit: Submit, version: str) -> None:
    running = submit(MpiJob(version).run("pi", "3").gated())
    running.until_condition("Running")
    running.go_on()
    assert running.verdict() == "Succeeded", running.output
    running.until_event("MPIJobSucceeded")
    status = running.status()
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions["Created"] == ("True", "MPIJobCreated")
    assert conditions["Running"] == ("False", "MPIJobRunning")
    assert conditions["Succeeded"] == ("True", "MPIJobSucceeded")
    assert status["replicaStatuses"]["Launcher"]["succeeded"] == 1
    assert status["startTime"] <= status["completionTime"]
    reasons = [reason for reason, _ in running.events()]
    assert [reason for reason in reasons if reason in ("MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded")] == [
        *("MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded")
    ]


@BOTH
def test_a_finished_job_goes_when_its_time_has_come(submit: Submit, version: str) -> None:
    job = MpiJob(version)
    job.policy["ttlSecondsAfterFinished"] = 1
    running = submit(job)
    running.until_gone()
    running.until_nothing_left()


@BOTH
def test_a_job_is_over_at_its_deadline(submit: Submit, version: str) -> None:
    job = MpiJob(version).run(*FOREVER)
    job.policy.update({"activeDeadlineSeconds": 12, "cleanPodPolicy": "All"})
    running = submit(job)
    assert running.verdict() == "Failed"
    running.namespace.until(lambda pods: not {*job.workers} & pods.keys(), "the workers are gone")


@BOTH
def test_nothing_is_left_of_a_deleted_job(submit: Submit, version: str) -> None:
    running = submit(MpiJob(version).run(*FOREVER))
    running.until_condition("Running")
    running.delete()
    running.until_gone()
    running.until_nothing_left()


@BOTH
def test_a_suspended_job_waits_and_begins_anew(submit: Submit, version: str) -> None:
    job = MpiJob(version).run(*FOREVER)
    job.policy["suspend"] = True
    running = submit(job)
    running.until_condition("Suspended")
    assert not running.namespace.pods()
    running.change({"spec": {"runPolicy": {"suspend": False}}})
    running.until_condition("Running")
    running.change({"spec": {"runPolicy": {"suspend": True}}})
    running.until_condition("Suspended")
    running.namespace.until(lambda pods: not pods, "its pods are gone")
    running.change({"spec": {"runPolicy": {"suspend": False}}})
    running.until_condition("Running")
    assert "Suspended" not in true_conditions(running.status())


@BOTH
def test_a_worker_that_is_deleted_comes_back(submit: Submit, version: str) -> None:
    running = submit(MpiJob(version).command("/bin/sh", "-c", "echo begun; sleep 3600"))
    running.until_output("begun")
    running.namespace.replace(running.job.workers[0], grace_s=0)
    assert "Failed" not in true_conditions(running.status())


@BOTH
def test_a_job_grows_and_shrinks_while_it_runs(submit: Submit, version: str) -> None:
    job = MpiJob(version).command("/bin/sh", "-c", "echo begun; while :; do /etc/mpi/discover_hosts.sh; sleep 1; done")
    running = submit(job)
    running.until_output("begun")
    running.change({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}})
    running.until_output("pi-worker-2")
    role = running.namespace.get("Role", "pi-launcher", "rbac.authorization.k8s.io/v1")
    named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
    assert named == [["pi-worker-0", "pi-worker-1", "pi-worker-2"]]
    hostfile = running.namespace.get("ConfigMap", "pi-config")["data"]["hostfile"]
    assert len(hostfile.splitlines()) == 3
    running.change({"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}})
    running.namespace.wait_gone("pi-worker-2")
    running.namespace.wait_gone("pi-worker-1")
    assert {*running.worker_pods()} == {"pi-worker-0"}


@pytest.mark.alone
def test_an_operator_that_is_killed_makes_nothing_twice(release: Release, submit: Submit) -> None:
    running = submit(MpiJob("v2beta1"))
    for pod in release.pods():
        release.namespace.delete("Pod", pod["metadata"]["name"], grace_s=0)
    release.until_ready()
    assert running.verdict() == "Succeeded", running.output
    assert len(running.namespace.pods("training.kubeflow.org/job-role=launcher")) == 1
