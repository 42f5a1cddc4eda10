"""Pods as the API shows them, state by state."""

from __future__ import annotations

from typing import Any

import pytest

from agents.playground import Pod, pod_status, pods, resources, table


def shown(state: str, **more: Any) -> dict[str, Any]:
    thing = pods.new_object(Pod("w-0"))
    sidecar = {"name": "agent", "image": "any", "restartPolicy": "Always"}
    thing["spec"]["initContainers"] = [{"name": "setup", "image": "any"}, sidecar]
    thing["status"] = pod_status.status_of(thing, state, address="127.64.0.9", **more)
    return thing


def why(thing: dict[str, Any]) -> tuple[str, str]:
    """State and reason of the main container."""
    ((state, details),) = thing["status"]["containerStatuses"][0]["state"].items()
    return state, details.get("reason", "")


@pytest.mark.parametrize(
    ("state", "phase", "main", "ready"),
    [
        ("scheduled", "Pending", ("waiting", "ContainerCreating"), False),
        ("initializing", "Pending", ("waiting", "PodInitializing"), False),
        ("pulling", "Pending", ("waiting", "ContainerCreating"), False),
        ("image-pull-backoff", "Pending", ("waiting", "ImagePullBackOff"), False),
        ("invalid-image-name", "Pending", ("waiting", "InvalidImageName"), False),
        ("config-error", "Pending", ("waiting", "CreateContainerConfigError"), False),
        ("crash-loop", "Running", ("waiting", "CrashLoopBackOff"), False),
        ("running", "Running", ("running", ""), False),
        ("ready", "Running", ("running", ""), True),
        ("succeeded", "Succeeded", ("terminated", "Completed"), False),
        ("failed", "Failed", ("terminated", "Error"), False),
        ("oom-killed", "Failed", ("terminated", "OOMKilled"), False),
    ],
)
def test_states(state: str, phase: str, main: tuple[str, str], ready: bool) -> None:
    thing = shown(state)
    assert thing["status"]["phase"] == phase
    assert why(thing) == main
    conditions = {one["type"]: one["status"] for one in thing["status"]["conditions"]}
    assert conditions["Ready"] == ("True" if ready else "False")
    assert conditions["PodScheduled"] == "True"


def test_states_without_containers() -> None:
    assert "containerStatuses" not in shown("pending")["status"]
    unschedulable = shown("unschedulable", message="0/3 nodes are available")["status"]
    assert unschedulable["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available",
        "lastTransitionTime": "",
    }
    evicted = shown("evicted")["status"]
    assert (evicted["phase"], evicted["reason"]) == ("Failed", "Evicted")


def test_what_can_be_execed_into() -> None:
    assert pods.runs(shown("ready"), "worker")
    assert pods.runs(shown("ready"), "agent")
    assert not pods.runs(shown("ready"), "setup")
    assert not pods.runs(shown("pulling"), "worker")
    assert not pods.runs(shown("failed"), "worker")


def test_exit_codes_and_messages() -> None:
    terminated = shown("failed", exit_code=3)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (3, "Error")
    assert shown("oom-killed")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    waiting = shown("image-pull-backoff")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'Back-off pulling image "docker.io/library/stand-in:latest"'


def test_each_pod_has_an_address_of_its_own() -> None:
    addresses = [pods.new_address() for _ in range(70_000)]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("127.") for address in addresses)


def test_the_table_for_people() -> None:
    cells = {
        state: table.table(resources.PODS, [shown(state)], {})["rows"][0]["cells"][1:3]
        for state in ("ready", "running", "image-pull-backoff", "oom-killed", "evicted", "pending")
    }
    assert cells == {
        "ready": ["1/1", "Running"],
        "running": ["0/1", "Running"],
        "image-pull-backoff": ["0/1", "ImagePullBackOff"],
        "oom-killed": ["0/1", "OOMKilled"],
        "evicted": ["0/1", "Evicted"],
        "pending": ["0/1", "Pending"],
    }
