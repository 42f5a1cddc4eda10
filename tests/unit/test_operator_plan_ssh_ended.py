"""Workers that ended with 0 while the launcher runs: an sshd's is lost, any other has done what it was to do."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, launcher, pod, resource, workers

Object = dict[str, Any]

WORKER = "spec/mpiReplicaSpecs/Worker"
COMMAND = f"{WORKER}/template/spec/containers/0/command"
ENDED = pod("pi-worker-1", "Succeeded", code=0, why="Completed")
REPLACED = [["delete Pod pi-worker-1"], ["create Pod pi-worker-1"]]


def running(version: str, transport: str, command: list[str] | None, policy: str = "Never") -> Object:
    changes: Object = {"spec/transport": transport, f"{WORKER}/restartPolicy": policy}
    if command:
        changes[COMMAND] = command
    return resource(version, changes, READY, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)


def acts(body: Object, version: str, *pods: Object, **more: Any) -> list[list[str]]:
    """What is done about the workers' pods."""
    steps = plans.steps(plans.plan(body, launcher(), *pods, **more))
    return [acting for step in steps if (acting := [one for one in step if "Pod pi-worker-" in one])]


@pytest.mark.parametrize(
    ("version", "policy"),
    [("v2beta1", "Never"), ("v2beta1", "OnFailure"), ("v1", "Never"), ("v1", "OnFailure"), ("v1", "ExitCode")],
)
@pytest.mark.parametrize("command", [None, ["/usr/sbin/sshd", "-De"]])
def test_an_sshd_that_ended_comes_back(version: str, policy: str, command: list[str] | None) -> None:
    """With Always the kubelet starts it again in its pod."""
    body = running(version, "ssh", command, policy)
    assert acts(body, version, workers()[0], ENDED) == REPLACED


def test_one_that_ends_again_and_again_comes_back_ever_later() -> None:
    finished = "2023-11-14T22:15:00Z"  # NOW
    more = {"created": "2023-11-14T22:14:59Z", "finished": finished, "annotations": {"mpi-agents/restarts": "2"}}
    ended = pod("pi-worker-1", "Succeeded", code=0, **more)
    body = running("v2beta1", "ssh", None)
    assert acts(body, "v2beta1", workers()[0], ended, now=plans.NOW + 19) == []
    assert acts(body, "v2beta1", workers()[0], ended, now=plans.NOW + 20) == REPLACED


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_the_first_return_waits_for_sidecars_and_for_a_launcher_that_ends_its_sshds_as_its_last_act(phase: str) -> None:
    """A pod that is deleted before it is over takes its score with it, and would come back without a pause."""
    ended = pod("pi-worker-1", phase, code=0, finished="2023-11-14T22:15:00Z")  # NOW
    body = running("v2beta1", "ssh", None)
    assert acts(body, "v2beta1", workers()[0], ended, now=plans.NOW + 9) == []
    assert acts(body, "v2beta1", workers()[0], ended, now=plans.NOW + 10) == REPLACED


def test_what_failed_is_replaced_at_once_when_its_pod_is_over_and_not_before() -> None:
    body = running("v2beta1", "ssh", None)
    for phase, done in (("Running", []), ("Failed", REPLACED)):
        killed = pod("pi-worker-1", phase, code=137, finished="2023-11-14T22:15:00Z")
        assert acts(body, "v2beta1", workers()[0], killed, now=plans.NOW) == done


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize(
    ("transport", "command"), [("ssh", ["/start.sh"]), ("exec", None), ("exec", ["/usr/sbin/sshd"])]
)
def test_what_else_ended_stays_as_it_is(version: str, transport: str, command: list[str] | None) -> None:
    """As with kubeflow, which makes a worker only where there is none (v0.8.2, getOrCreateWorker)."""
    assert acts(running(version, transport, command), version, workers()[0], ENDED) == []


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_none_comes_back_when_the_launcher_has_succeeded(version: str) -> None:
    body = running(version, "ssh", None)
    after = launcher("Succeeded", code=0)
    found = plans.plan(body, after, workers()[0], ENDED)
    assert plans.conditions(found)["Succeeded"][0] == "True"
    assert not [one for step in plans.steps(found) for one in step if one.startswith("create")]
