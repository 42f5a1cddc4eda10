"""Workers that only wait are gone a moment after their job's end or suspension; others have the time that they ask for.

The former have a grace period that is longer than the tests wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster import pods as of
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

_LONGER_S, _OWN_S = 200, 20
_FOREVER = ("pi", "3600")
_SUSPENDED = {"spec": {"runPolicy": {"suspend": True}}}


def idle(version: str, *command: str) -> MpiJob:
    job = MpiJob(version)
    job.worker["containers"][0]["command"] = [*command]
    job.worker["terminationGracePeriodSeconds"] = _LONGER_S
    job.policy["cleanPodPolicy"] = "Running"
    return job


def gone(running: Submitted) -> Callable[[dict[str, of.Pod]], bool]:
    return lambda pods: not {*running.job.workers} & pods.keys()


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("v1", ("sleep", "infinity")),
        ("v1", ("/bin/sh", "-c", "echo prepared && sleep infinity")),
        ("v2beta1", ("tail", "-f", "/dev/null")),
        ("v2beta1", ("/bin/bash", "-c", "while true; do sleep 3600; done")),
    ],
)
def test_workers_that_wait_go_with_their_job(submit: Submit, version: str, command: tuple[str, ...]) -> None:
    running = submit(idle(version, *command))
    assert running.verdict() == "Succeeded", running.output
    running.namespace.until(gone(running), "the workers are gone")


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_workers_that_wait_go_with_a_suspension(submit: Submit, version: str) -> None:
    running = submit(idle(version, "sleep", "infinity").run(*_FOREVER).annotate(worker_agent="true"))
    running.until_condition("Running")
    running.change(_SUSPENDED)
    running.namespace.until(lambda pods: not pods, "all pods are gone")


def told(job: MpiJob) -> None:
    job.worker["containers"][0]["command"] = ["sh", "-c", "trap 'sleep 1; exit 0' TERM; sleep infinity & wait"]


def hooked(job: MpiJob) -> None:
    job.worker["containers"][0]["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "1"]}}}


def accompanied(job: MpiJob) -> None:
    job.worker["containers"].append({**job.worker["containers"][0], "name": "logs"})
