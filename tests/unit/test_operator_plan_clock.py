"""Plan, by a leader whose clock is behind the last leader's."""

from __future__ import annotations

import plans
import pytest
from job_states import CREATED, READY, RUNNING, launcher, resource, running, workers

LATER = "2023-11-14T22:16:40Z"  # 100 s after NOW


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
@plans.DIALECTS
def test_how_a_job_ended_is_written_before_its_pods_go_whatever_the_clock_says(version: str, policy: str) -> None:
    """Without that the next plan would find no launcher, and run the job once more."""
    changes = {"spec/runPolicy/cleanPodPolicy": policy}
    body = resource(version, changes, READY, CREATED, RUNNING, lastReconcileTime=LATER)
    found = plans.plan(body, launcher("Succeeded", code=0), *workers())
    assert plans.steps(found)[0] == ["write"]
    assert [one["type"] for one in plans.status(found)["conditions"]][-1] == "Succeeded"
    removed = {
        "None": [],
        "Running": ["delete all workers"],
        "All": ["delete all workers", f"delete {plans.LAUNCHERS[version]}"],
    }
    assert plans.steps(found)[1] == ["tell MPIJobSucceeded", *removed[policy]]


def test_what_is_not_urgent_is_written_as_well_and_tells_the_present_time() -> None:
    """Else nothing would be written until the last leader's time is reached."""
    body = running("v1") | {"status": running("v1")["status"] | {"lastReconcileTime": LATER}}
    found = plans.plan(body, launcher(), *workers(ready=False))
    assert plans.status(found)["lastReconcileTime"] == "2023-11-14T22:15:00Z"
    settled = plans.plan(body, launcher(), *workers())
    assert (settled.steps, settled.requeue_at) == ((), None)
