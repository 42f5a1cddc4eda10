"""`why` before a job has pods: it is new, invalid, queued, suspended or refused; or it is being deleted."""

from __future__ import annotations

from typing import Any

import pytest
from client_jobs import NOW, at, event, facts, job, pod
from why_cases import LAUNCHER, UP, Case, check

from agents.client.facts import Facts
from agents.client.model import State

QUOTA = 'pods "pi-worker-0" is forbidden: exceeded quota: team, requested: cpu=8, used: cpu=0, limited: cpu=4'


def gone(pod_: dict[str, Any]) -> dict[str, Any]:
    return {**pod_, "metadata": {**pod_["metadata"], "deletionTimestamp": at(290)}}


CASES: dict[str, Case] = {
    "just created": (
        Facts(job("v1"), (), NOW - 299),
        State.PENDING,
        "",
        ["pi was just created."],
    ),
    "no operator": (
        facts(job("v2beta1")),
        State.PENDING,
        "NoOperator",
        ["No operator has taken up pi in 5 min.", "Is an MPI operator installed", "namespace default?"],
    ),
    "invalid and nobody says so": (
        facts(job("v1", changes={"spec/slotsPerWorker": 0})),
        State.BLOCKED,
        "Invalid",
        ["pi is not valid: spec.slotsPerWorker: ", "submit it again"],
    ),
    "invalid": (
        facts(job("v2beta1", "ValidationError", message="spec.slotsPerWorker: must be 1 or more")),
        State.BLOCKED,
        "ValidationError",
        ["pi can't start (ValidationError): spec.slotsPerWorker: must be 1 or more.", "Correct the job"],
    ),
    "left to another operator": (
        facts(job("v1", "OtherOperator", message="The job is left to another operator for MPIJobs, seen by its Lease")),
        State.PENDING,
        "OtherOperator",
        ["pi has not started: The job is left to another operator for MPIJobs, seen by its Lease."],
    ),
    "left to another operator, which runs it": (
        facts(job("v1", "OtherOperator", "Running"), *UP, pod(LAUNCHER, "ready")),
        State.RUNNING,
        "",
        ["pi has been running for 5 min on 2 of 2 workers."],
    ),
    "left to another controller": (
        facts(job("v2beta1", changes={"spec/runPolicy/managedBy": "kueue.x-k8s.io/multikueue"})),
        State.PENDING,
        "ManagedElsewhere",
        ["left to kueue.x-k8s.io/multikueue"],
    ),
    "suspended": (
        facts(job("v1", "Suspended", changes={"spec/runPolicy/suspend": True})),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods.", "Set runPolicy.suspend"],
    ),
    "suspended, and no operator is there": (
        facts(job("v1", changes={"spec/runPolicy/suspend": True})),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods."],
    ),
    "paused, and a pod ends slowly": (
        facts(job("t9k", "Paused", changes={"spec/runMode/pause/enabled": True}), gone(UP[0])),
        State.SUSPENDED,
        "Suspended",
        ["; pi-worker-0 is still there."],
    ),
    "suspended, with a gang scheduler's queue": (
        facts(
            job(
                "v1",
                "Suspended",
                changes={"spec/runPolicy": {"suspend": True, "schedulingPolicy": {"queue": "gang"}}},
            )
        ),
        State.SUSPENDED,
        "Suspended",
        ["pi is suspended and has no pods."],
    ),
    "queued by Kueue": (
        facts(
            job(
                "v2beta1",
                "Suspended",
                changes={"spec/runPolicy/suspend": True, "metadata/labels": {"kueue.x-k8s.io/queue-name": "gpu"}},
            )
        ),
        State.QUEUED,
        "NotAdmitted",
        ["pi has waited in queue gpu to be admitted for 5 min.", "get workloads"],
    ),
    "quota, by our operator": (
        facts(job("v1", "Created", "CreationRefused", message=f"Pod pi-worker-0: {QUOTA}")),
        State.BLOCKED,
        "QuotaExceeded",
        ["can't create its pods: exceeded quota: team, requested: cpu=8, used: cpu=0, limited: cpu=4."],
    ),
    "quota, by mpi-operator's event": (
        facts(job("v2beta1", "Created"), events=(event(f"worker pod created failed: {QUOTA}", "MPIJobFailed"),)),
        State.BLOCKED,
        "QuotaExceeded",
        ["exceeded quota: team", "have the quota raised"],
    ),
    "quota, and mpi-operator has written no condition": (
        facts(job("v2beta1"), events=(event(f"worker pod created failed: {QUOTA}", "MPIJobFailed"),)),
        State.BLOCKED,
        "QuotaExceeded",
        ["exceeded quota: team"],
    ),
    "quota, by the event of the launcher's Job": (
        facts(job("v2beta1", "Created"), *UP, events=(event(f"Error creating: {QUOTA}", kind="Job"),)),
        State.BLOCKED,
        "QuotaExceeded",
        ["exceeded quota: team"],
    ),
    "an old quota event, and all pods are there": (
        facts(job("v1", "Running"), *UP, pod(LAUNCHER, "ready"), events=(event(f"Error creating: {QUOTA}"),)),
        State.RUNNING,
        "",
        ["pi has been running for 5 min on 2 of 2 workers."],
    ),
    "pod security": (
        facts(
            job("v2beta1", "Created"),
            events=(event('pods "pi-worker-0" is forbidden: violates PodSecurity "restricted:latest": x'),),
        ),
        State.BLOCKED,
        "CreationRefused",
        ["violates PodSecurity", "Correct the pod templates"],
    ),
    "being deleted": (
        facts(job("v1", "Running", changes={"metadata/deletionTimestamp": at(290)}), UP[0], UP[1]),
        State.DELETING,
        "Deleted",
        ["pi is being deleted; pi-worker-0 and pi-worker-1 are still there."],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_why(name: str) -> None:
    check(*CASES[name])
