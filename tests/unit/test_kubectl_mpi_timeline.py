"""What has happened to a job, from created to ended."""

from __future__ import annotations

from typing import Any

import pytest
from client_jobs import BEGAN, at, condition, facts, job, pod

from agents.client.timeline import timeline

QUEUED: dict[str, Any] = {"metadata/labels": {"kueue.x-k8s.io/queue-name": "gpu"}}


def changed(kind: str, after_s: float, status: str = "True") -> dict[str, Any]:
    return {**condition(kind, status), "lastTransitionTime": at(after_s)}


def ready(name: str, after_s: float) -> dict[str, Any]:
    """A worker that was created ten seconds before."""
    made = pod(name, "ready")
    made["metadata"]["creationTimestamp"] = at(after_s - 10)
    for one in made["status"]["conditions"]:
        one["lastTransitionTime"] = at(after_s)
    return made


LAUNCHER = pod("pi-launcher", "succeeded", started=45, ended=100)
WORKERS = [ready("pi-worker-0", 40), ready("pi-worker-1", 42)]
DONE = [changed("Suspended", 25, "False"), changed("Running", 46, "False"), changed("Succeeded", 101)]
BEGIN = [(0, "created"), (25, "admitted by queue gpu")]
END = [(45, "launcher pi-launcher started"), (100, "launcher pi-launcher ended with exit code 0"), (101, "succeeded")]


@pytest.mark.parametrize(
    ("conditions", "pods", "steps"),
    [
        (DONE, [LAUNCHER, *WORKERS], [*BEGIN, (30, "first worker created"), (42, "all 2 workers ready"), *END]),
        (DONE, [LAUNCHER, WORKERS[0]], [*BEGIN, (30, "first worker created"), *END]),
        (DONE, [LAUNCHER], [*BEGIN, *END]),
        ([changed("WorkersReady", 42), *DONE], [LAUNCHER], [*BEGIN, (42, "all 2 workers ready"), *END]),
        ([changed("Suspended", 25)], [], [(0, "created"), (25, "suspended")]),
        ([], [], [(0, "created")]),
    ],
)
def test_steps(conditions: list[Any], pods: list[Any], steps: list[tuple[int, str]]) -> None:
    resource = job("v1", changes=QUEUED)
    resource["status"] = {"conditions": conditions}
    assert [(one.at - BEGAN, one.what) for one in timeline(facts(resource, *pods))] == steps


def test_a_job_that_goes_on_without_a_queue_was_resumed() -> None:
    resource = job("v1")
    resource["status"] = {"conditions": [changed("Suspended", 25, "False")]}
    assert [one.what for one in timeline(facts(resource))] == ["created", "resumed"]
