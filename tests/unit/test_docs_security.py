"""SECURITY.md says of each of our containers what the objects and the chart do."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import job
from test_chart import VALUES, installed
from test_docs_tables import quoted, rows, section

from agents.operator import objects
from agents.operator.objects import rbac
from agents.operator.settings import PodSettings

SETTINGS = PodSettings(image="ours", annotations={})
USER = 1234
CASES = {
    "hub": ("exec", True, "launcher"),
    "kubectl-delivery": ("exec", True, "launcher"),
    "kubectl-delivery by ssh": ("ssh", True, "launcher"),
    "worker-agent": ("ssh", True, "worker"),
    "sshd-bootstrap": ("ssh", False, "worker"),
}


def table(title: str) -> list[list[str]]:
    return rows(section("SECURITY.md", title))[1:]


def pod_spec(transport: str, has_agent: bool, role: str) -> dict[str, Any]:
    user = {"runAsUser": USER}
    changes = {"spec/transport": transport, "spec/workerAgent": has_agent}
    for one in ("Launcher", "Worker"):
        changes[f"spec/mpiReplicaSpecs/{one}/template/spec/securityContext"] = user
    made = job("v1", changes)
    body = objects.launcher(made, SETTINGS) if role == "launcher" else objects.worker(made, 0, SETTINGS)
    return dict(body["spec"])


@pytest.mark.parametrize("case", CASES)
def test_containers_in_jobs_are_as_the_page_says(case: str) -> None:
    name, spec = case.partition(" ")[0], pod_spec(*CASES[case])
    (row,) = [one for one in table("## What each container may do") if quoted(one[0]) == [name]]
    (container,) = [one for one in spec["initContainers"] if one["name"] == name]
    context = container["securityContext"]
    is_by_ssh = CASES[case][0] == "ssh"
    uid = row[2].rpartition("by ssh ")[2] if is_by_ssh else row[2]
    assert context["runAsUser"] == (USER if "user container's" in uid and is_by_ssh else 65532)
    token = [one for one in container.get("volumeMounts", []) if "/var/run/secrets" in one["mountPath"]]
    assert bool(token) == ("projected" in row[3] and not is_by_ssh)
    assert all(one["readOnly"] for one in token)
    ports = [str(one["containerPort"]) for one in container.get("ports", [])]
    assert all(f"TCP {port}" in row[4] for port in ports)
    assert bool(ports) == ("TCP" in row[4])
    assert spec["automountServiceAccountToken"] is False


def test_every_container_of_ours_is_on_the_page() -> None:
    named = {name for row in table("## What each container may do") for name in quoted(row[0])}
    made = {one["name"] for case in CASES.values() for one in pod_spec(*case)["initContainers"]}
    (operator,) = installed("Deployment", "mpi-agents")["spec"]["template"]["spec"]["containers"]
    assert named == made | {operator["name"]}


def test_the_operator_is_as_the_page_says() -> None:
    pod = installed("Deployment", "mpi-agents")["spec"]["template"]["spec"]
    (row,) = [one for one in table("## What each container may do") if quoted(one[0]) == ["operator"]]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert row[2].startswith(f"{pod['securityContext']['runAsUser']} ")
    assert f"TCP {VALUES['metrics']['port']} " in row[4]


def test_a_launchers_rights_are_as_the_page_says() -> None:
    made = job("v1", {"spec/transport": "exec"})
    (row,) = [one for one in table("## Rights") if one[0] == "a launcher by exec"]
    told = [part.split(" pods")[0] for part in row[1].split("; ")]
    rules = rbac.rules(made, [0, 1])
    assert [quoted(part) for part in told] == [rule["verbs"] for rule in rules]
    assert [rule["resources"] for rule in rules] == [["pods"], ["pods/exec"]]
    assert rules[1]["resourceNames"] == [made.worker_name(0), made.worker_name(1)]
    assert rbac.service_account(job("v1", {"spec/transport": "ssh"}), SETTINGS) is None
