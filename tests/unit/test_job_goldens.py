"""Whole jobs of both dialects, and the model that they mean: `jobs/NAME.yaml` and `jobs/NAME.json`, both by hand."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
from typing import Any

import pytest
import yaml

from agents.job.model import Job
from agents.job.read import read

FOLDER = os.path.join(os.path.dirname(__file__), "jobs")
NAMES = sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER) if name.endswith(".yaml"))


def load(name: str) -> Any:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file) if name.endswith(".json") else yaml.safe_load(file)


def without_nulls(value: Any) -> Any:
    return json.loads(
        json.dumps(value), object_hook=lambda one: {key: part for key, part in one.items() if part is not None}
    )


@pytest.mark.parametrize("name", NAMES)
def test_job_is_read_as_its_dialect_means_it(name: str) -> None:
    found = read(load(f"{name}.yaml"))
    assert isinstance(found, Job), found
    read_as = json.loads(json.dumps(dataclasses.asdict(found)))
    for role in ("launcher", "worker"):
        del read_as[role]["template"]
    assert read_as == load(f"{name}.json")


@pytest.mark.parametrize("name", NAMES)
def test_templates_are_the_users(name: str) -> None:
    given = load(f"{name}.yaml")
    found = read(given)
    assert isinstance(found, Job)
    roles = given["spec"]["mpiReplicaSpecs"]
    assert found.launcher.template == without_nulls(roles["Launcher"]["template"])
    assert found.worker.template == without_nulls(roles["Worker"]["template"])


def test_there_are_goldens_of_each_kind() -> None:
    assert {name.partition("-")[0] for name in NAMES} == {"v1", "v2beta1"}
    assert all(os.path.exists(os.path.join(FOLDER, f"{name}.json")) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_that_was_read_is_freed_at_once(name: str) -> None:
    """Without a reference cycle, which holds it until the collector runs: large jobs took 250 MiB."""
    given = load(f"{name}.yaml")
    gc.collect()
    gc.disable()
    try:
        read(given)
        assert gc.collect() == 0
    finally:
        gc.enable()
