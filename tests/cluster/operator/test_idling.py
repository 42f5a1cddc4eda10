"""Workers that only wait are gone a moment after their job's end or suspension: their grace period is longer than that.

Which do: tests/unit/test_operator_plan_idling.py.
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

_LONGER_S = 200


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
        ("v2beta1", ("/bin/bash", "-c", "while true; do sleep 3600; done")),
    ],
)
def test_workers_that_wait_go_with_their_job(submit: Submit, version: str, command: tuple[str, ...]) -> None:
    running = submit(idle(version, *command))
    assert running.verdict() == "Succeeded", running.output
    running.namespace.until(gone(running), "the workers are gone")


def test_workers_that_wait_go_with_a_suspension(submit: Submit) -> None:
    running = submit(idle("v2beta1", "sleep", "infinity").run("pi", "3600").annotate(worker_agent="true"))
    running.until_condition("Running")
    running.change({"spec": {"runPolicy": {"suspend": True}}})
    running.namespace.until(lambda pods: not pods, "all pods are gone")
