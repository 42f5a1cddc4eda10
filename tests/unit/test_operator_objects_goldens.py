"""Whole jobs of all dialects and every object that is made of them: `objects/NAME.yaml`, by hand."""

from __future__ import annotations

import os
from typing import Any

import pytest
from mpijobs import job, read_job

from agents.job.model import Job
from agents.operator import objects
from agents.operator.settings import PodSettings
from tests import yamls

FOLDER = os.path.join(os.path.dirname(__file__), "objects")


def load(name: str) -> Any:
    with open(os.path.join(FOLDER, f"{name}.yaml"), encoding="utf-8") as file:
        return yamls.load(file)


def hashed(body: Any, launcher: str, worker: str) -> Any:
    """A golden with the hashes that no hand can write."""
    if isinstance(body, dict):
        return {key: hashed(value, launcher, worker) for key, value in body.items()}
    if isinstance(body, list):
        return [hashed(value, launcher, worker) for value in body]
    return {"LAUNCHER": launcher, "WORKER": worker}.get(body, body) if isinstance(body, str) else body


def everything(found: Job, settings: PodSettings) -> list[Any]:
    """All objects of a job, with the last of its workers."""
    hosts = range(found.worker.replicas)
    made = [
        objects.config_map(found, settings, hosts),
        objects.secret(found, settings),
        objects.service_account(found, settings),
        objects.role(found, settings, hosts),
        objects.role_binding(found, settings),
        objects.service(found, settings),
        objects.pod_group(found, settings),
        objects.launcher(found, settings),
        objects.worker(found, found.worker.replicas - 1, settings),
    ]
    return [one for one in made if one is not None]


@pytest.mark.parametrize("name", ["v1", "v2beta1", "v2beta1-ssh", "t9k-ssh"])
def test_objects_are_those_of_the_dialect(name: str) -> None:
    golden = load(name)
    found = read_job(golden["job"])
    hashes = objects.template_hash(found.launcher), objects.template_hash(found.worker)
    assert everything(found, PodSettings(**golden["settings"])) == hashed(golden["objects"], *hashes)


@pytest.mark.parametrize(("name", "source"), [("v2beta1-ssh-pi", None), ("v1-horovod", "../jobs/v1-horovod")])
def test_a_job_that_users_have_is_run_as_it_is(name: str, source: str | None) -> None:
    golden = load(name)
    found = read_job(golden["job"] if source is None else load(source))
    *_, launcher, worker = everything(found, PodSettings(**golden["settings"]))
    pod = launcher if launcher["kind"] == "Pod" else launcher["spec"]["template"]
    assert pod["spec"] == golden["pods"]["launcher"]
    assert worker["spec"] == golden["pods"]["worker"]


@pytest.mark.parametrize("golden", [pytest.param(golden, id=name) for name, golden in load("variants").items()])
def test_variants_differ_where_they_should(golden: Any) -> None:
    found = job(golden["version"], golden.get("changes"))
    made = everything(found, PodSettings(image="mpi-agents:1", annotations={}, **golden.get("settings", {})))
    if "kinds" in golden:
        assert [one["kind"] for one in made] == golden["kinds"]
    *_, launcher, worker = made
    pods = {"launcher": launcher if launcher["kind"] == "Pod" else launcher["spec"]["template"], "worker": worker}
    for role, pod in pods.items():
        wanted = golden.get(role, {})
        assert {path: part(pod, path, value) for path, value in wanted.items()} == wanted


def part(body: Any, path: str, wanted: Any) -> Any:
    """What is at a path, None if nothing is; of named things their names, where names are what is wanted."""
    for key in path.split("/"):
        if isinstance(body, list):
            body = next((one for one in body if one["name"] == key), None)
        elif body is not None:
            body = body.get(key.replace("~", "/"))
    if isinstance(body, list) and isinstance(wanted, list) and all(isinstance(one, str) for one in wanted):
        return [one["name"] if isinstance(one, dict) else one for one in body]
    return body


@pytest.mark.parametrize(("name", "variables"), load("environments").items())
def test_launchers_are_told_of_their_agent_and_hosts(name: str, variables: dict[str, str]) -> None:
    version, implementation, *transport = name.split()
    given = {
        "spec/transport": transport[0] if transport else "exec",
        "spec/mpiImplementation": implementation,
        "spec/slotsPerWorker": 3,
    }
    made = objects.launcher(job(version, given), PodSettings(image="i"))
    pod = made["spec"] if made["kind"] == "Pod" else made["spec"]["template"]["spec"]
    found = pod["containers"][0]["env"]
    assert {one["name"]: one["value"] for one in found} == variables
    assert len(found) == len(variables)
