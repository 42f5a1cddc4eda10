"""T9k's published jobs and what they mean: `jobs/t9k/NAME.yaml`, and by hand `NAME.json` over `defaults.json`.

The manual's and the tutorials' examples, their images as they are. In an expected template, the command
"launch_command" stands for the words of the line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from typing import Any

import pytest
import yaml

from agents.job.model import Job
from agents.job.read import read

FOLDER = os.path.join(os.path.dirname(__file__), "jobs", "t9k")
NAMES = sorted(name.removesuffix(".yaml") for name in os.listdir(FOLDER) if name.endswith(".yaml"))


def load(name: str) -> Any:
    """The job as the API server has it."""
    with open(os.path.join(FOLDER, f"{name}.yaml"), encoding="utf-8") as file:
        found = yaml.safe_load(file)
    found["metadata"] |= {"namespace": "team-a", "uid": "77-aa", "generation": 3}
    return found


def expected(name: str) -> Any:
    with open(os.path.join(FOLDER, "defaults.json"), encoding="utf-8") as file:
        base = json.load(file)
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as file:
        over = json.load(file)
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


@pytest.mark.parametrize("name", NAMES)
def test_job_is_read_as_t9k_means_it(name: str) -> None:
    found = read(load(name))
    assert isinstance(found, Job), found
    assert json.loads(json.dumps(dataclasses.asdict(found))) == expected(name)


def test_all_that_is_published_is_here() -> None:
    assert {"manual", "tutorial", "generation"} == {name.partition("-")[0] for name in NAMES}
    assert len([name for name in NAMES if name.startswith("manual-")]) == 8
    assert len([name for name in NAMES if name.startswith("tutorial-")]) == 6
