"""A launcher whose pod is evicted says nothing about its program: another one takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import pods as of
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted, true_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    Submit = Callable[[MpiJob], Submitted]

SAVES = "trap 'echo saved; exit $0' TERM; echo up; until [ -e /tmp/go ]; do sleep 0.1; done"


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_that_is_drained_is_made_anew(submit: Submit, version: str, code: int) -> None:
    job = MpiJob(version).command("/bin/sh", "-c", SAVES, str(code))
    job.policy.update(cleanPodPolicy="All", backoffLimit=0)
    running = submit(job)
    running.until_condition("Running")
    running.until_output("up")
    namespace, first = running.namespace, running.launcher_pod()
    assert first is not None
    workers = {pod["metadata"]["uid"] for pod in namespace.pods("mpi-agents/role=worker")}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first["metadata"]["name"]}}
    namespace.api.call("post", f"{namespace.path('Pod', first['metadata']['name'])}/eviction", eviction)

    def is_another(pods: dict[str, of.Pod]) -> bool:
        launchers = [pod for pod in pods.values() if pod["metadata"]["labels"].get("mpi-agents/role") == "launcher"]
        return any(
            pod["metadata"]["uid"] != first["metadata"]["uid"] and of.is_running(pod, "mpi") for pod in launchers
        )

    namespace.until(is_another, "another launcher runs", 90.0)
    assert not {"Succeeded", "Failed"} & true_conditions(running.status())
    assert {pod["metadata"]["uid"] for pod in namespace.pods("mpi-agents/role=worker")} == workers
    running.until_output("up")
    running.go_on()
    assert running.verdict() == "Succeeded"
