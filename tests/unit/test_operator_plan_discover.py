"""Which workers elastic SSH jobs discover: those that run, as soon as there is a launcher to ask."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, RUNNING, launcher, pod, resource, workers

from agents.kube.kinds import CONFIG_MAP
from agents.operator.actions import Patch, Plan

Object = dict[str, Any]
SSH = {"spec/transport": "ssh"}
DIALECTS = pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])


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


@DIALECTS
def test_before_the_launcher_runs_they_are_all_there(version: str) -> None:
    body = resource(version, SSH, CREATED)
    assert discovered(plans.plan(body, launcher("Pending"), pod("pi-worker-0", "Pending"))) is None


@DIALECTS
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
