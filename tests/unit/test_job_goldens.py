"""Whole jobs and the model that they mean, both by hand: `jobs/NAME.yaml` and `jobs/NAME.json`.

T9k's are those that it has published (`jobs/t9k`), the manual's and the tutorials' examples, their images as they are.
A model of theirs stands over `defaults.json`; in a template, the command "launch_command" stands for the line's words.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shlex
from typing import Any

import pytest

from agents.job.model import Job
from agents.job.read import read
from tests import yamls

FOLDER = os.path.join(os.path.dirname(__file__), "jobs")
NAMES = sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER) if name.endswith(".yaml"))
T9KS = sorted(name.removesuffix(".yaml") for name in os.listdir(f"{FOLDER}/t9k") if name.endswith(".yaml"))


def load(name: str) -> Any:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file) if name.endswith(".json") else yamls.load(file)


def load_t9k(name: str) -> Any:
    """The job as the API server has it."""
    found = load(f"t9k/{name}.yaml")
    found["metadata"] |= {"namespace": "team-a", "uid": "77-aa", "generation": 3}
    return found


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


def expected(name: str) -> Any:
    base, over = load("t9k/defaults.json"), load(f"t9k/{name}.json")
    words = shlex.split(over["launch_command"])
    assert shlex.join(words) == over["launch_command"]
    return _merged(base, _spelled(over, words)) | {"launch_command": words}


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
    return over


def _spelled(value: Any, words: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: words if (key, one) == ("command", "launch_command") else _spelled(one, words)
            for key, one in value.items()
        }
    return [_spelled(one, words) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", T9KS)
def test_job_is_read_as_t9k_means_it(name: str) -> None:
    found = read(load_t9k(name))
    assert isinstance(found, Job), found
    assert json.loads(json.dumps(dataclasses.asdict(found))) == expected(name)


def test_all_that_t9k_has_published_is_here() -> None:
    assert {"manual", "tutorial", "generation"} == {name.partition("-")[0] for name in T9KS}
    assert len([name for name in T9KS if name.startswith("manual-")]) == 8
    assert len([name for name in T9KS if name.startswith("tutorial-")]) == 6
