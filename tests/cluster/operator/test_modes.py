"""kubeflow's jobs have T9k's run mode: debugged by hand, then paused, then run as resumeSpecs say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.running import ranks_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]


def by_field(**modes: bool) -> dict[str, Any]:
    return {"spec": {"runMode": {name: {"enabled": enabled} for name, enabled in modes.items()}}}


def by_annotation(**modes: bool) -> dict[str, Any]:
    return {"metadata": {"annotations": {f"mpi-agents/{name}": str(on).lower() for name, on in modes.items()}}}


@pytest.mark.parametrize(("version", "switch"), [("v1", by_annotation), ("v2beta1", by_field)])
def test_a_job_is_debugged_paused_and_resumed(submit: Submit, version: str, switch: Any) -> None:
    job = MpiJob(version)
    line = job.main["command"]
    job.command("/bin/false")
    job.spec["runMode"] = {"pause": {"resumeSpecs": [{"type": "launcher", "command": line}]}}
    for part, value in switch(debug=True).items():
        job.body[part] |= {key: {**job.body[part].get(key, {}), **one} for key, one in value.items()}
    everywhere = dict(enumerate(job.workers))
    running = submit(job)
    running.until_condition("Running")
    for _ in range(2):
        done = running.namespace.exec_in(running.launcher, line, job.main["name"])
        assert done.code == 0, done.errors
        assert ranks_in(done.output) == everywhere

    running.change(switch(debug=False, pause=True))
    running.until_condition("Suspended")
    running.namespace.until(lambda pods: not pods, "its pods are gone")
    running.change(switch(pause=False))
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == everywhere
