"""Plan: jobs by ssh, what is made for them, their sshds that end, sidecars that don't start, and whom they discover."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, launcher, pod, resource, workers

from agents.common.not_ready import not_ready
from agents.common.pods import parse
from agents.job.model import KeyType
from agents.kube.kinds import CONFIG_MAP, POD
from agents.operator.actions import Create, Patch, Plan
from agents.operator.trim import trim

Object = dict[str, Any]

SSH = {"spec/transport": "ssh"}
NONE: Any = dict.fromkeys(("config_map", "service", "secret"))


@plans.DIALECTS
def test_an_ssh_job_has_keys_and_no_rights(version: str) -> None:
    found = plans.plan(resource(version, SSH), **NONE)
    assert plans.steps(found)[0] == ["write"]
    assert plans.actions(found, "create") == [
        "create ConfigMap pi-config",
        "create Secret pi-ssh",
        "create Service pi",
        f"create {plans.LAUNCHERS[version]}",
        "create Pod pi-worker-0",
        "create Pod pi-worker-1",
    ]
    (keys,) = (one for step in found.steps for one in step if isinstance(one, Create) and one.key_type)
    assert keys.key_type is KeyType.ED25519
    assert "data" not in keys.body
    assert keys.body["type"] == "kubernetes.io/ssh-auth"
    assert keys.body["metadata"]["ownerReferences"][0]["uid"] == "1-2"


@plans.DIALECTS
def test_a_secret_that_is_gone_comes_back_and_nothing_else_is_touched(version: str) -> None:
    body = resource(version, SSH, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)
    found = plans.plan(body, launcher(), *workers(), secret=None)
    assert [words for step in plans.steps(found) for words in step if words != "write"] == ["create Secret pi-ssh"]


# Workers that ended with 0 while the launcher runs: an sshd's is lost, any other has done what it was to do.

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


# Our sidecars that don't start, as their postStart hook, which prepares ssh, has failed.

WHY = "ssh-privatekey in the job's ssh Secret is broken: delete the Secret, and the operator makes a new pair"


def ended_with(code: int) -> Object:
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
    "ended as it was told": {"state": ended_with(0)},
    "killed, in a pod that never restarts": {"state": ended_with(137)},
    "its hook failed": {
        "state": {"waiting": {"reason": "PostStartHookError", "message": "Exec lifecycle hook failed"}},
        "lastState": ended_with(143),
    },
    "is held back": {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        "lastState": ended_with(143),
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


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
def test_a_pod_failed_as_its_program_did_and_not_as_the_sidecar_behind_it(role: str) -> None:
    """By exit code 137 it would be tried again."""
    body = resource("v1", {**SSH, f"spec/mpiReplicaSpecs/{role}/restartPolicy": "ExitCode"}, CREATED)
    name = {"Launcher": "pi-launcher", "Worker": "pi-worker-1"}[role]
    failed = failed_beside_a_sidecar(name)
    others = [one for one in (launcher(), *workers()) if one["metadata"]["name"] != name]
    words = "container mpi exited with 3: no such input"
    assert f"{name}: {words}" in plans.conditions(plans.plan(body, failed, *others))["Failed"][2]
    lack = not_ready(parse(failed))
    assert lack is not None
    assert lack.detail == words


# Which workers elastic jobs discover: those that run, as soon as there is a launcher to ask.

WITH_T9K = pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])


def discovered(found: Plan) -> list[str] | None:
    """The workers in the script as it is from now on; None where it stays."""
    patches = [one for step in found.steps for one in step if isinstance(one, Patch) and one.kind == CONFIG_MAP]
    if not patches:
        return None
    data = patches[0].body["data"]
    assert data["hostfile"].count("slots=") == 2
    return [
        line.removeprefix("echo ").partition(":")[0].partition(".")[0]
        for line in data["discover_hosts.sh"].splitlines()[1:]
    ]


@WITH_T9K
def test_before_the_launcher_runs_they_are_all_there(version: str) -> None:
    body = resource(version, SSH, CREATED)
    assert discovered(plans.plan(body, launcher("Pending"), pod("pi-worker-0", "Pending"))) is None


@WITH_T9K
@pytest.mark.parametrize(
    "lost", [pod("pi-worker-0", "Failed", code=1), pod("pi-worker-0", deleted="2023-11-14T22:14:00Z"), None]
)
def test_a_worker_that_is_lost_is_no_host_until_it_runs_again(version: str, lost: Object | None) -> None:
    body = resource(version, SSH, CREATED, RUNNING)
    there = [one for one in (launcher(), lost, pod("pi-worker-1")) if one is not None]
    found = plans.plan(body, *there)
    assert discovered(found) == ["pi-worker-1"]
    data = next(one.body["data"] for step in found.steps for one in step if isinstance(one, Patch))
    before = {**(plans.observed(body).config_map or {}), "data": data}
    assert discovered(plans.plan(body, *there, config_map=before)) is None
    assert discovered(plans.plan(body, launcher(), *workers(), config_map=before)) == [
        "pi-worker-0",
        "pi-worker-1",
    ]


def test_by_exec_the_hub_knows() -> None:
    body = resource("v1", {}, CREATED, RUNNING)
    assert discovered(plans.plan(body, launcher(), pod("pi-worker-1"))) is None
