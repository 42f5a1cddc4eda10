"""What is replaced under a job: workers of an edited template, and a launcher that is deleted or tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

EDITION = {"name": "EDITION", "value": "2"}
BOTH = pytest.mark.parametrize("version", ["v1", "v2beta1"])
# The first time it leaves a process in a worker, and does what THEN is; then it counts what it finds of it. Brackets
# keep the text from finding itself.
STORY = """
agent=/etc/mpi/kubexec.sh host=$(sed -n '1s/[ :].*//p' /etc/mpi/hostfile)
count='cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -c "sleep 100[0]"'
if $agent $host 'mkdir /tmp/first 2>/dev/null'
then
    $agent $host 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &'
    $agent $host "$count >/tmp/first/left"
    THEN
fi
echo "left $($agent $host 'cat /tmp/first/left') found $($agent $host "$count")"
"""


def telling(version: str, then: str) -> MpiJob:
    """A job whose launcher is that story."""
    return MpiJob(version).command("/bin/bash", "-c", STORY.replace("THEN", then))


def is_new(pod: of.Pod) -> bool:
    return EDITION in pod["spec"]["containers"][0].get("env", [])


@BOTH
def test_an_edited_template_is_rolled_out_from_the_top_one_worker_at_a_time(submit: Submit, version: str) -> None:
    job = MpiJob(version, workers=3).gated()
    job.spec["workerUpdateStrategy"] = "RollingUpdate"
    running = submit(job)
    running.until_condition("Running")
    seen: list[tuple[bool, ...]] = []  # of each worker, whether it is as it was
    ready: list[int] = []

    def are_all_new(pods: dict[str, of.Pod]) -> bool:
        if not seen:
            container = {**job.worker["containers"][0], "env": [EDITION]}
            template = {"template": {"spec": {"containers": [container]}}}
            running.change({"spec": {"mpiReplicaSpecs": {"Worker": template}}})  # of what comes then nothing is missed
        as_before = tuple(one in pods and of.is_ready(pods[one]) and not is_new(pods[one]) for one in job.workers)
        seen.extend([as_before] if seen[-1:] != [as_before] else [])
        ready.append(sum(one in pods and of.is_ready(pods[one]) for one in job.workers))
        return all(one in pods and of.is_ready(pods[one]) and is_new(pods[one]) for one in job.workers)

    running.namespace.until(are_all_new, "all workers are of the edited template")
    assert seen == [(True, True, True), (True, True, False), (True, False, False), (False, False, False)]
    assert min(ready) == 2
    running.go_on()
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(job.workers))


@pytest.mark.parametrize(("version", "kind"), [("v1", "Pod"), ("v2beta1", "Pod"), ("v2beta1", "Job")])
def test_a_launcher_that_is_deleted_comes_back_to_clean_workers(submit: Submit, version: str, kind: str) -> None:
    running = submit(telling(version, "echo waiting; sleep 3600"))
    running.until_output("waiting")
    before = {name: pod["metadata"]["uid"] for name, pod in running.worker_pods().items()}
    name = running.launcher if kind == "Pod" else "pi-launcher"
    running.namespace.delete(kind, name, api_version="v1" if kind == "Pod" else "batch/v1")
    assert running.verdict() == "Succeeded", running.output
    assert running.output.split() == ["left", "1", "found", "0"]
    assert {name: pod["metadata"]["uid"] for name, pod in running.worker_pods().items()} == before


@pytest.mark.parametrize(("version", "policy"), [("v1", "OnFailure"), ("v2beta1", "OnFailure"), ("v2beta1", "Never")])
def test_a_retry_begins_with_a_clean_worker_side(submit: Submit, version: str, policy: str) -> None:
    """In place, or by a new pod."""
    job = telling(version, "exit 1")
    job.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = policy
    job.policy["backoffLimit"] = 2
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert running.output.split() == ["left", "1", "found", "0"]
