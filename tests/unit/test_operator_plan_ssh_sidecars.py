"""What a job says of our sidecars that don't start, as their postStart hook, which prepares ssh, has failed."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, launcher, pod, resource, workers

from agents.common.not_ready import not_ready
from agents.common.pods import parse
from agents.kube.kinds import POD
from agents.operator.trim import trim

Object = dict[str, Any]

SSH = {"spec/transport": "ssh"}
WHY = "ssh-privatekey in the job's ssh Secret is broken: delete the Secret, and the operator makes a new pair"


def ended(code: int) -> Object:
    words = {
        "reason": "Completed" if code == 0 else "Error",
        "message": WHY,
        "startedAt": plans.START,
        "finishedAt": plans.START,
    }
    return {"terminated": {"exitCode": code, **words}}


# As the kubelet tells of it (kubernetes, pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses): an init container
# that exited with 0 is never Waiting, though a sidecar is started again; one that failed is, unless the pod's policy is
# Never.
STATES = {
    "ended as it was told": {"state": ended(0)},
    "killed, in a pod that never restarts": {"state": ended(137)},
    "its hook failed": {
        "state": {"waiting": {"reason": "PostStartHookError", "message": "Exec lifecycle hook failed"}},
        "lastState": ended(143),
    },
    "is held back": {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        "lastState": ended(143),
    },
}  # fmt: skip
EACH_STATE = pytest.mark.parametrize("state", STATES.values(), ids=STATES)


def that_does_not_start(name: str, sidecar: str, state: Object) -> Object:
    found = pod(name, "Pending")
    found["spec"]["initContainers"] = [{"name": sidecar, "restartPolicy": "Always", "image": "ours"}]
    status = {"name": sidecar, "ready": False, "started": False, "restartCount": 4, **state}
    found["status"]["initContainerStatuses"] = [status]
    waits = {"name": "mpi", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    found["status"]["containerStatuses"] = [waits]
    return {"metadata": found["metadata"], **trim(POD, found)}


@plans.DIALECTS
@EACH_STATE
def test_a_launcher_says_why_its_ssh_is_not_prepared(version: str, state: Object) -> None:
    stuck = that_does_not_start("pi-launcher", "kubectl-delivery", state)
    found = plans.plan(resource(version, SSH, CREATED), stuck, *workers())
    status, reason, words = plans.conditions(found)["LauncherWaiting"]
    assert (status, reason) == ("True", "LauncherInTrouble")
    assert words.startswith("pi-launcher init container kubectl-delivery ")
    assert words.endswith(f": {WHY}")
    assert ("Warning", "LauncherInTrouble", words) in plans.events(found)


@plans.DIALECTS
@EACH_STATE
def test_a_worker_says_so_too(version: str, state: Object) -> None:
    stuck = that_does_not_start("pi-worker-1", "worker-agent", state)
    found = plans.plan(resource(version, SSH, CREATED), launcher(), workers()[0], stuck)
    status, reason, words = plans.conditions(found)["WorkersReady"]
    assert (status, reason) == ("False", "WorkersInTrouble")
    assert "worker-1 init container worker-agent " in words
    assert WHY in words


def test_a_sidecar_that_ends_behind_its_pods_own_container_is_no_trouble() -> None:
    stuck = that_does_not_start("pi-worker-1", "worker-agent", STATES["ended as it was told"])
    stuck["status"]["phase"] = "Running"
    stuck["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    found = plans.plan(resource("v1", SSH, CREATED), launcher(), workers()[0], stuck)
    assert "worker-1 container mpi ended by itself (exit 0)" in plans.conditions(found)["WorkersReady"][2]


def failed_beside_a_sidecar(name: str) -> Object:
    """Its program exited with 3, and the kubelet had to kill what was to stay with it."""
    found = pod(name, "Failed", code=3, said="no such input")
    found["spec"]["initContainers"] = [{"name": "agent", "restartPolicy": "Always"}]
    killed = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": plans.START}}
    found["status"]["initContainerStatuses"] = [{"name": "agent", "state": killed, "restartCount": 0}]
    return {"metadata": found["metadata"], **trim(POD, found)}


def test_a_launcher_failed_as_its_program_did_and_not_as_the_sidecar_behind_it() -> None:
    """By exit code 137 it would be tried again."""
    body = resource("v1", {**SSH, "spec/mpiReplicaSpecs/Launcher/restartPolicy": "ExitCode"}, CREATED)
    found = plans.plan(body, failed_beside_a_sidecar("pi-launcher"), *workers())
    assert "pi-launcher: container mpi exited with 3: no such input" in plans.conditions(found)["Failed"][2]


def test_so_did_a_worker() -> None:
    body = resource("v1", {**SSH, "spec/mpiReplicaSpecs/Worker/restartPolicy": "ExitCode"}, CREATED)
    failed = failed_beside_a_sidecar("pi-worker-1")
    found = plans.plan(body, launcher(), workers()[0], failed)
    assert "pi-worker-1: container mpi exited with 3: no such input" in plans.conditions(found)["Failed"][2]
    lack = not_ready(parse(failed))
    assert lack is not None
    assert lack.detail == "container mpi exited with 3: no such input"
