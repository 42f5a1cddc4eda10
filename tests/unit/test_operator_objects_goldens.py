"""Whole jobs of both dialects and every object that is made of them: `objects/NAME.yaml`, by hand."""

from __future__ import annotations

import os
from typing import Any

import pytest
import yaml
from mpijobs import job

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.settings import PodSettings

FOLDER = os.path.join(os.path.dirname(__file__), "objects")


def load(name: str) -> Any:
    with open(os.path.join(FOLDER, f"{name}.yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


def hashed(body: Any, launcher: str, worker: str) -> Any:
    """A golden with the hashes that no hand can write."""
    if isinstance(body, dict):
        return {key: hashed(value, launcher, worker) for key, value in body.items()}
    if isinstance(body, list):
        return [hashed(value, launcher, worker) for value in body]
    return {"LAUNCHER": launcher, "WORKER": worker}.get(body, body) if isinstance(body, str) else body


@pytest.mark.parametrize("name", ["v1", "v2beta1"])
def test_objects_are_those_of_the_dialect(name: str) -> None:
    golden = load(name)
    found = read(golden["job"])
    assert isinstance(found, Job), found
    settings = PodSettings(**golden["settings"])
    hosts = range(found.worker.replicas)
    made = [
        objects.config_map(found, settings, hosts),
        objects.service_account(found, settings),
        objects.role(found, settings, hosts),
        objects.role_binding(found, settings),
        objects.service(found, settings),
        objects.launcher(found, settings),
        objects.worker(found, found.worker.replicas - 1, settings),
    ]
    hashes = objects.template_hash(found.launcher), objects.template_hash(found.worker)
    assert [one for one in made if one is not None] == hashed(golden["objects"], *hashes)


@pytest.mark.parametrize(("name", "variables"), load("environments").items())
def test_launchers_are_told_of_their_agent_and_hosts(name: str, variables: dict[str, str]) -> None:
    version, implementation = name.split()
    given = {"spec/transport": "exec", "spec/mpiImplementation": implementation, "spec/slotsPerWorker": 3}
    made = objects.launcher(job(version, given), PodSettings(image="i"))
    pod = made["spec"] if made["kind"] == "Pod" else made["spec"]["template"]["spec"]
    found = pod["containers"][0]["env"]
    assert {one["name"]: one["value"] for one in found} == variables
    assert len(found) == len(variables)
