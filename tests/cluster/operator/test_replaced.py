"""What is edited or deleted under a job that runs: its workers' template, and its launcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import pods as of
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Object
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

BOTH = pytest.mark.parametrize("version", ["v1", "v2beta1"])
# Leaves a process in a worker when it is started for the first time, and waits; then it counts what it finds of it.
# Brackets keep the text from finding itself.
STORY = """
agent=/etc/mpi/kubexec.sh host=$(sed -n '1s/[ :].*//p' /etc/mpi/hostfile)
count='cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -c "sleep 100[0]"'
if $agent $host 'mkdir /tmp/first 2>/dev/null'
then
    $agent $host 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &'
    echo "left $($agent $host "$count")"
    sleep 3600
fi
echo "found $($agent $host "$count")"
"""


def waiting(version: str, strategy: str = "") -> MpiJob:
    """A job of three workers, whose launcher waits for /tmp/go, and then starts a rank in each."""
    job = MpiJob(version, workers=3).gated()
    if strategy:
        job.spec["workerUpdateStrategy"] = strategy
    return job


def edited(job: MpiJob, **changes: Any) -> Object:
    """Return the change of the worker's container, by a merge patch."""
    container = {**job.worker["containers"][0], **changes}
    return {"spec": {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [container]}}}}}}


def is_new(pod: of.Pod) -> bool:
    return {"name": "EDITION", "value": "2"} in pod["spec"]["containers"][0].get("env", [])


def new(pods: dict[str, of.Pod], names: list[str]) -> list[bool]:
    """Return which of these pods are there, Ready, and made from the edited template."""
    return [name in pods and of.is_ready(pods[name]) and is_new(pods[name]) for name in names]


EDIT = {"env": [{"name": "EDITION", "value": "2"}]}


@BOTH
def test_an_edited_template_is_rolled_out_from_the_top_one_worker_at_a_time(submit: Submit, version: str) -> None:
    job = waiting(version, "RollingUpdate")
    running = submit(job)
    running.until_condition("Running")
    seen: list[tuple[bool, ...]] = []  # of each worker, whether it is as it was
    ready: list[int] = []

    def are_all_new(pods: dict[str, of.Pod]) -> bool:
        if not seen:
            running.change(edited(job, **EDIT))  # of what comes then nothing is missed
        as_before = tuple(one in pods and of.is_ready(pods[one]) and not is_new(pods[one]) for one in job.workers)
        seen.extend([as_before] if seen[-1:] != [as_before] else [])
        ready.append(sum(one in pods and of.is_ready(pods[one]) for one in job.workers))
        return all(new(pods, job.workers))

    running.namespace.until(are_all_new, "all workers are of the edited template")
    assert seen == [(True, True, True), (True, True, False), (True, False, False), (False, False, False)]
    assert min(ready) == 2
    running.go_on()
    assert running.verdict() == "Succeeded", running.output
    assert running.ranks() == dict(enumerate(job.workers))


@pytest.mark.parametrize(("version", "kind"), [("v1", "Pod"), ("v2beta1", "Pod"), ("v2beta1", "Job")])
def test_a_launcher_that_is_deleted_comes_back_to_clean_workers(submit: Submit, version: str, kind: str) -> None:
    running = submit(MpiJob(version).command("/bin/bash", "-c", STORY))
    running.until_output("left 1")
    before = {name: pod["metadata"]["uid"] for name, pod in workers(running).items()}
    name = running.launcher if kind == "Pod" else "pi-launcher"
    running.namespace.delete(kind, name, api_version="v1" if kind == "Pod" else "batch/v1")
    assert running.verdict() == "Succeeded", running.output
    assert running.output.split() == ["found", "0"]
    assert {name: pod["metadata"]["uid"] for name, pod in workers(running).items()} == before


def workers(running: Submitted) -> dict[str, of.Pod]:
    """The job's worker pods by name."""
    found = running.namespace.pods(f"mpi-agents/job-uid={running.uid},mpi-agents/role=worker")
    return {pod["metadata"]["name"]: pod for pod in found}
