"""Whatever a template has: what is the user's stays, and nothing is there twice."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pod_objects import LAUNCHER, WORKER, launcher, worker
from test_job_fuzz import spoiled

from agents.job.model import Job
from agents.job.read import read
from agents.operator import objects
from agents.operator.settings import PodSettings

OUR_VARIABLES = ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "NVIDIA_VISIBLE_DEVICES", "K_MPI_JOB_ROLE", "OWN"]
OUR_VOLUMES = ["mpi-job-config", "mpi-job-config-2", "mpi-job-kubectl", "mpi-agents-run", "mpi-agents-token", "data"]
OUR_PATHS = ["/etc/mpi", "/opt/kube", "/opt/kube/", "/run/mpi-agents", "/data"]
OUR_CONTAINERS = ["hub", "kubectl-delivery", "hub-2", "mpi"]


def some(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True)


@st.composite
def template(draw: st.DrawFn) -> dict[str, Any]:
    volumes = draw(some(OUR_VOLUMES))
    first, *others = draw(st.permutations(OUR_CONTAINERS))

    def container(name: str) -> dict[str, Any]:
        paths = draw(some(OUR_PATHS)) if volumes else []
        return {
            "name": name,
            "image": "theirs",
            "env": [{"name": one, "value": "theirs"} for one in draw(some(OUR_VARIABLES))],
            "volumeMounts": [{"name": draw(st.sampled_from(volumes)), "mountPath": path} for path in paths],
        }

    return {
        "spec": {
            "initContainers": [container(name) for name in others[: draw(st.integers(0, 2))]],
            "containers": [container(first)],
            "volumes": [{"name": name, "hostPath": {"path": "/theirs"}} for name in volumes],
        }
    }


def is_beginning(given: list[Any], found: list[Any]) -> bool:
    return found[: len(given)] == given


@given(template(), st.sampled_from(["v1", "v2beta1"]))
def test_what_is_the_users_stays_and_nothing_is_there_twice(given: dict[str, Any], version: str) -> None:
    changes = {f"{role}/template": copy.deepcopy(given) for role in (LAUNCHER, WORKER)}
    for made in (launcher(version, changes)["spec"], worker(version, changes)["spec"]):
        user = given["spec"]
        assert is_beginning(user["volumes"], made["volumes"])
        containers = made.get("initContainers", []) + made["containers"]
        theirs = [one for one in containers if one["image"] == "theirs"]
        assert [one["name"] for one in theirs] == [one["name"] for one in user["initContainers"] + user["containers"]]
        for before, after in zip(user["initContainers"] + user["containers"], theirs, strict=True):
            assert is_beginning(before["env"], after["env"])
            assert is_beginning(before["volumeMounts"], after["volumeMounts"])
        volumes = [one["name"] for one in made["volumes"]]
        assert no_two(volumes)
        assert no_two([one["name"] for one in containers])
        for container in containers:
            assert no_two([one["name"] for one in container.get("env", [])])
            assert no_two([one["mountPath"] for one in container["volumeMounts"]])
        for container in containers:
            assert {one["name"] for one in container["volumeMounts"]} <= set(volumes)


def no_two(names: list[str]) -> bool:
    return len(names) == len(set(names))


@given(spoiled(), st.sampled_from(["", "volcano", "other"]))
def test_any_job_that_can_be_read_has_its_objects(resource: Any, scheduler: str) -> None:
    found = read(resource)
    if not isinstance(found, Job):
        return
    before = copy.deepcopy(found)
    settings = PodSettings(image="i", gang_scheduler=scheduler)
    hosts = range(min(found.worker.replicas, 3))
    made = [
        objects.config_map(found, settings, hosts),
        objects.service(found, settings),
        objects.service_account(found, settings),
        objects.role(found, settings, hosts),
        objects.role_binding(found, settings),
        objects.pod_group(found, settings),
        objects.launcher(found, settings),
        *(objects.worker(found, index, settings) for index in hosts),
    ]
    for one in made:
        if one is not None:
            json.dumps(one)
            assert one["metadata"]["labels"]["mpi-agents/job-uid"] == found.uid
            assert one["metadata"]["ownerReferences"][0]["uid"] == found.uid
    assert json.dumps(before.launcher.template) == json.dumps(found.launcher.template)
