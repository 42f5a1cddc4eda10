"""Why a launcher failed whose container is restarted in place: its batch Job says so as long as its pod is there."""

from __future__ import annotations

from typing import Any

import pytest

from agents.job.model import Dialect, Job, RestartPolicy, Role, Transport
from agents.operator.planning.launcher import Launcher, Stage, state_of
from agents.operator.planning.view import Observed, View
from agents.operator.settings import PodSettings

Object = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "mpi"}]}}
JOB = Job(
    name="pi",
    namespace="n",
    uid="u",
    generation=1,
    api_version="kubeflow.org/v2beta1",
    dialect=Dialect.V2BETA1,
    transport=Transport.EXEC,
    launcher=Role(1, RestartPolicy.ON_FAILURE, TEMPLATE),
    worker=Role(1, RestartPolicy.NEVER, TEMPLATE),
)
RUNS_AGAIN = {
    "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:04Z"}},
}
WAITS = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:04Z"}},
}


def seen(condition: str, container: Object, *, is_going: bool = True) -> Launcher:
    """What is state_ofd of a launcher's Job with this condition, whose pod's container is so."""
    message = "Job has reached the specified backoff limit"
    failed = {"type": condition, "status": "True", "reason": "BackoffLimitExceeded", "message": message}
    metadata: Object = {
        "name": "pi-launcher-x",
        "uid": "p",
        "labels": {"mpi-agents/role": "launcher"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if is_going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    pod = {"metadata": metadata, "status": {"phase": "Running", "containerStatuses": [{"name": "mpi", **container}]}}
    launcher_job = {"metadata": {"name": "pi-launcher", "uid": "j"}, "status": {"conditions": [failed]}}
    observed = Observed({"metadata": {"name": "pi", "namespace": "n"}}, pods=(pod,), launcher_job=launcher_job)
    return state_of(View(JOB, observed, PodSettings(image="ours"), 1767225610.0))


@pytest.mark.parametrize("condition", ["FailureTarget", "Failed"])
@pytest.mark.parametrize(
    ("container", "why"), [(RUNS_AGAIN, "container mpi exited with 137 (OOMKilled)"), (WAITS, "mpi exited with 3")]
)
def test_the_message_says_how_its_container_failed(condition: str, container: Object, why: str) -> None:
    found = seen(condition, container)
    assert found.stage is Stage.FAILED
    assert found.message.startswith("Job has reached the specified backoff limit: pi-launcher-x: ")
    assert found.message.endswith(why)


def test_a_job_that_will_fail_is_waited_for_until_its_pods_go() -> None:
    assert seen("FailureTarget", RUNS_AGAIN, is_going=False).stage is Stage.RUNNING
