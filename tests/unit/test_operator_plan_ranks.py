"""Plan: ranks that were lost while mpirun ran, as the hub's last words tell, fail a job whose launcher exits with 0."""

from __future__ import annotations

import json
from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, batch_job, launcher, resource, workers
from mpijobs import annotated

from agents.operator.actions import Plan

Object = dict[str, Any]

LAUNCHER = "spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command"
AT = 1_700_000_050  # the container was started at …000
COMPLETE = {"type": "Complete", "status": "True"}
VERSIONS = pytest.mark.parametrize("version", ["v1", "v2beta1"])


def lost(*names: str, count: int | None = None, at: Any = AT, cause: str = "the pod was deleted") -> str:
    ranks = [{"worker": name, "cause": cause, "at": at} for name in names]
    return json.dumps({"version": 1, "ranksLost": {"count": len(ranks) if count is None else count, "lost": ranks}})


def ended(message: str | None, *, name: str = "hub", phase: str = "Succeeded", **more: Any) -> Object:
    """A launcher that exited with 0. `message`: the hub's at its end; None: it runs yet."""
    pod = launcher(phase, code=0, finished="2023-11-14T22:14:10Z", **more)
    state: Object = {"running": {}} if message is None else {"terminated": {"exitCode": 0, "message": message}}
    pod["spec"]["initContainers"] = [{"name": name, "restartPolicy": "Always"}, {"name": "kubectl-delivery"}]
    pod["status"]["initContainerStatuses"] = [{"name": name, "restartCount": 0, "state": state}]
    return pod


def body_of(version: str, changes: Object | None = None) -> Object:
    return resource(version, changes, READY, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)


WORDS = "its launcher exited with 0, but ranks were lost while mpirun ran:"


@VERSIONS
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (lost("pi-worker-1"), "pi-worker-1 (the pod was deleted)"),
        (lost("pi-worker-1", "pi-worker-0", cause="x"), "pi-worker-1 (x), pi-worker-0 (x)"),
        (lost("a", "b", "c", "d", count=9, cause="x"), "a (x), b (x), c (x) and 6 more"),
        (lost("\x1b[2J\n", cause="\u202e"), "?[2J (?)"),
        ("", ""),
        (lost(), ""),
        (lost(count=3), ""),
        (lost("pi-worker-1", at=AT - 100), ""),  # in an earlier run of the container
        (lost("pi-worker-1", at=None), ""),
        (lost("pi-worker-1", at="now"), ""),
        ("its last line", ""),
        ("[" * 4096, ""),
        ("[1]", ""),
        ('{"version": 1, "ranksLost": 7}', ""),
        ('{"version": 1, "ranksLost": {"lost": [7, null], "count": "x"}}', ""),
        (lost("pi-worker-1").replace('"version": 1', '"version": 2'), ""),
    ],
)
def test_what_the_hub_tells(version: str, message: str, words: str) -> None:
    found = plans.plan(body_of(version), ended(message), *workers())
    if not words:
        assert plans.conditions(found)["Succeeded"][0] == "True"
        return
    assert plans.conditions(found)["Failed"][:2] == ("True", "RanksLost")
    assert plans.conditions(found)["Failed"][2] == f"MPIJob default/pi has failed: {WORDS} {words}"
    assert [event[:2] for event in plans.events(found)] == [("Warning", "RanksLost")]
    assert plans.status(found)["completionTime"] == "2023-11-14T22:14:10Z"
    assert plans.status(found)["replicaStatuses"]["Launcher"] == {"succeeded": 1}
    assert plans.actions(found, "create", "delete Job", "delete Pod pi-launcher") == []


@VERSIONS
@pytest.mark.parametrize(
    "changes", [{"spec/ranksLost": "Ignore"}, annotated(ranks_lost="Ignore")], ids=["field", "annotation"]
)
def test_losses_that_are_ignored_are_an_event(version: str, changes: Object) -> None:
    found = plans.plan(body_of(version, changes), ended(lost("pi-worker-1", cause="x")), *workers())
    assert plans.conditions(found)["Succeeded"][0] == "True"
    assert plans.events(found)[1][:2] == ("Warning", "WorkersLost")
    assert "Ranks were lost while mpirun ran: pi-worker-1 (x)" in plans.conditions(found)["Succeeded"][2]


@VERSIONS
def test_an_elastic_job_loses_ranks_by_design(version: str) -> None:
    changes = {LAUNCHER: ["horovodrun", "--min-np", "1"]}
    for pod in (ended(lost("pi-worker-1")), ended(None, phase="Running")):
        found = plans.plan(body_of(version, changes), pod, *workers())
        assert plans.conditions(found)["Succeeded"][0] == "True"
        assert len(plans.events(found)) == 1


@VERSIONS
@pytest.mark.parametrize("name", ["hub", "hub-2"])
def test_a_success_waits_for_the_hubs_end(version: str, name: str) -> None:
    body = body_of(version, {"spec/runPolicy/activeDeadlineSeconds": 60})
    waiting = ended(None, name=name, phase="Running")
    assert plans.plan(body, waiting, *workers()) == Plan()
    waiting["status"]["conditions"] = []  # no longer Ready, on a busy node for seconds: no trouble
    assert plans.plan(body, waiting, *workers()) == Plan()
    found = plans.plan(body, ended(lost("pi-worker-1"), name=name, phase="Running"), *workers())
    assert plans.conditions(found)["Failed"][1] == "RanksLost"


@VERSIONS
@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"beside": [{"name": "mesh", "state": {"running": {}}}]}, "hub"),  # the hub isn't told to end
        ({"deleted": "2023-11-14T22:15:20Z"}, "hub"),  # it may be gone before its exit is reported
        ({}, "hubble"),  # the user's
    ],
)
def test_it_waits_only_while_the_hub_is_being_ended(version: str, more: Object, name: str) -> None:
    pod = ended(None, phase="Running", name=name, **more)
    if "deleted" in more:
        pod["metadata"]["deletionGracePeriodSeconds"] = 30
    found = plans.plan(body_of(version), pod, *workers())
    assert plans.conditions(found)["Succeeded"][0] == "True"


@VERSIONS
def test_a_suspension_waits_for_the_hubs_end_too(version: str) -> None:
    body = body_of(version, {"spec/runPolicy/suspend": True})
    assert plans.plan(body, ended(None, phase="Running"), *workers()) == Plan()
    assert plans.conditions(plans.plan(body, ended(""), *workers()))["Succeeded"][0] == "True"


@VERSIONS
def test_by_ssh_nobody_knows(version: str) -> None:
    body = body_of(version, {"spec/transport": "ssh"})
    pod = ended(lost("pi-worker-1"), name="kubectl-delivery")
    found = plans.plan(body, pod, *workers())
    assert plans.conditions(found)["Succeeded"][0] == "True"


def test_a_job_that_is_complete_waits_for_its_pod_to_be_seen() -> None:
    """Jobs and pods have separate watches."""
    body = body_of("v2beta1")
    assert plans.plan(body, launcher(), *workers(), launcher_job=batch_job(COMPLETE)) == Plan()
    found = plans.plan(body, ended(lost("pi-worker-1")), *workers(), launcher_job=batch_job(COMPLETE))
    assert plans.conditions(found)["Failed"][1] == "RanksLost"


@VERSIONS
def test_a_launcher_that_failed_has_failed_by_itself(version: str) -> None:
    failed = ended(lost("pi-worker-1"), phase="Failed")
    failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 3
    found = plans.plan(body_of(version), failed, *workers())
    assert "RanksLost" not in str(plans.steps(found))


UNUSED = '{"version": 1, "sessions": 0}'
STARTED_NOTHING = "The launcher exited with 0 and started nothing in the job's 2 workers"


@VERSIONS
@pytest.mark.parametrize(
    ("message", "changes", "is_told"),
    [
        (UNUSED, {}, True),
        ("", {}, False),  # a hub with sessions, or one that was killed
        ('{"version": 1, "sessions": 7}', {}, False),
        ('{"version": 1, "sessions": false}', {}, False),
        ('{"version": 1, "sessions": "0"}', {}, False),
        ('{"version": 2, "sessions": 0}', {}, False),
        (UNUSED, {"spec/transport": "ssh"}, False),  # no hub: a container of the user's may have its name
        (UNUSED, {"spec/tools": ["kubectl"]}, False),
        (UNUSED, {"spec/mpiReplicaSpecs/Launcher/template/spec/automountServiceAccountToken": True}, False),
        (UNUSED, {"spec/runMode": {"debug": {"enabled": True}}}, False),
        (UNUSED, {"spec/runLauncherAsWorker": True}, False),
    ],
)
def test_a_success_without_a_session_is_suspicious(version: str, message: str, changes: Object, is_told: bool) -> None:
    found = plans.plan(body_of(version, changes), ended(message), *workers())
    assert plans.conditions(found)["Succeeded"][0] == "True"
    told = [event for event in plans.events(found) if event[1] == "WorkersUnused"]
    assert ("WorkersUnused" in plans.conditions(found)) is bool(told) is is_told
    if is_told:
        assert plans.conditions(found)["WorkersUnused"][:2] == ("True", "WorkersUnused")
        assert plans.conditions(found)["WorkersUnused"][2].startswith(STARTED_NOTHING)
        assert told[0][0] == "Warning"
        assert plans.status(found)["conditions"][-1]["type"] == "Succeeded"


SSH: Object = {"spec/transport": "ssh"}


@VERSIONS
@pytest.mark.parametrize(
    ("message", "changes", "name", "is_told"),
    [
        (UNUSED, {}, "kubectl-delivery", True),
        (UNUSED, {}, "kubectl-delivery-2", True),
        (UNUSED, {}, "hub", False),
        ("", {}, "kubectl-delivery", False),  # logins, or a delivery that was killed
        ("stopped", {}, "kubectl-delivery", False),
        (UNUSED, {"spec/runLauncherAsWorker": True}, "kubectl-delivery", False),
        (UNUSED, {"spec/runMode": {"debug": {"enabled": True}}}, "kubectl-delivery", False),
    ],
)
def test_by_ssh_delivery_tells_of_it_after_the_jobs_end(
    version: str, message: str, changes: Object, name: str, is_told: bool
) -> None:
    body = body_of(version, SSH | changes)
    found = plans.plan(body, ended(None, name=name, phase="Running"), *workers())
    assert plans.conditions(found)["Succeeded"][0] == "True"
    assert "WorkersUnused" not in plans.conditions(found)
    body["status"] = plans.status(found)
    later = plans.plan(body, ended(message, name=name), *workers())
    told = [event[:2] for event in plans.events(later)]
    assert told == [("Warning", "WorkersUnused")] * is_told
    if is_told:
        assert plans.conditions(later)["WorkersUnused"][2].startswith(STARTED_NOTHING)
        assert plans.status(later)["conditions"][-1]["type"] == "Succeeded"
        body["status"] = plans.status(later)
        assert plans.plan(body, ended(message, name=name), *workers()) == Plan()


def test_without_workers_none_is_unused() -> None:
    body = body_of("v1", {plans.WORKER + "/replicas": 0})
    assert "WorkersUnused" not in plans.conditions(plans.plan(body, ended(UNUSED)))


@VERSIONS
def test_a_failure_without_a_session_speaks_for_itself(version: str) -> None:
    failed = ended(UNUSED, phase="Failed")
    failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = 3
    assert "WorkersUnused" not in str(plans.plan(body_of(version), failed, *workers()).steps)
