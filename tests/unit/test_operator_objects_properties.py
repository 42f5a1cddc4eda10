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
OUR_VOLUMES = [
    *("mpi-job-config", "mpi-job-config-2", "mpi-job-kubectl", "mpi-agents-run", "mpi-agents-token", "data"),
    *("ssh-auth", "ssh-auth-2", "mpi-job-ssh", "mpi-agents-orders"),
]
OUR_PATHS = [
    *("/etc/mpi", "/opt/kube", "/opt/kube/", "/run/mpi-agents", "/data"),
    *("/root/.ssh", "/root/.ssh/", "/run/mpi-agents/ssh", "/run/sshd", "/etc/passwd"),
]
OUR_CONTAINERS = ["hub", "kubectl-delivery", "hub-2", "mpi", "worker-agent", "sshd-bootstrap"]
KEYS = {"auth", "run", "empty", "passwd", "group"}  # what the user's container may have of what is prepared for ssh


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
            "securityContext": draw(st.sampled_from([{}, {"runAsUser": 0}, {"runAsUser": 123456}])),
            "hostNetwork": draw(st.booleans()),
            "volumes": [{"name": name, "hostPath": {"path": "/theirs"}} for name in volumes],
        }
    }


def is_beginning(given: list[Any], found: list[Any]) -> bool:
    return found[: len(given)] == given


def jobs() -> st.SearchStrategy[dict[str, Any]]:
    """Changes that say by what, and with which container, the workers are reached."""
    return st.fixed_dictionaries(
        {"spec/transport": st.sampled_from(["exec", "ssh"]), "spec/workerAgent": st.booleans()}
    )


@given(template(), jobs(), st.sampled_from(["v1", "v2beta1"]))
def test_what_is_the_users_stays_and_nothing_is_there_twice(
    given: dict[str, Any], changes: dict[str, Any], version: str
) -> None:
    changes = changes | {f"{role}/template": copy.deepcopy(given) for role in (LAUNCHER, WORKER)}
    for made in (launcher(version, changes)["spec"], worker(version, changes)["spec"]):
        user = given["spec"]
        assert is_beginning(user["volumes"], made["volumes"])
        assert made["securityContext"] == user["securityContext"]
        containers = made.get("initContainers", []) + made["containers"]
        theirs = [one for one in containers if one["image"] == "theirs"]
        assert [one["name"] for one in theirs] == [one["name"] for one in user["initContainers"] + user["containers"]]
        for before, after in zip(user["initContainers"] + user["containers"], theirs, strict=True):
            assert is_beginning(before["env"], after.get("env", []))
            assert is_beginning(before["volumeMounts"], after["volumeMounts"])
        volumes = [one["name"] for one in made["volumes"]]
        assert no_two(volumes)
        assert no_two([one["name"] for one in containers])
        for container in containers:
            assert no_two([one["name"] for one in container.get("env", [])])
            assert no_two([one["mountPath"] for one in container["volumeMounts"]])
            assert {one["name"] for one in container["volumeMounts"]} <= set(volumes)


@given(template(), jobs(), st.sampled_from(["v1", "v2beta1"]))
def test_users_containers_have_no_more_of_what_is_secret_than_ssh_needs(
    given: dict[str, Any], changes: dict[str, Any], version: str
) -> None:
    changes = changes | {f"{role}/template": copy.deepcopy(given) for role in (LAUNCHER, WORKER)}
    for made in (launcher(version, changes)["spec"], worker(version, changes)["spec"]):
        theirs = {one["name"] for one in given["spec"]["volumes"]}
        sources = {one["name"]: one for one in made["volumes"] if one["name"] not in theirs}
        secret = {name for name, one in sources.items() if "secret" in one or "projected" in one}
        memory = {name for name, one in sources.items() if one.get("emptyDir", {}).get("medium") == "Memory"}
        assert len(memory) == (changes["spec/transport"] == "ssh")
        for container in made.get("initContainers", []) + made["containers"]:
            if container["image"] != "theirs":
                continue
            mounts = [one for one in container["volumeMounts"] if one["name"] in sources]
            assert not [one for one in mounts if one["name"] in secret]
            assert {one.get("subPath") for one in mounts if one["name"] in memory} <= KEYS
            assert not mounts or container["name"] == given["spec"]["containers"][0]["name"]


@given(template(), jobs())
def test_ours_are_restricted_but_for_root_where_the_user_is(given: dict[str, Any], changes: dict[str, Any]) -> None:
    """Pod Security's level restricted (kubernetes.io/docs/concepts/security/pod-security-standards)."""
    changes = changes | {f"{role}/template": copy.deepcopy(given) for role in (LAUNCHER, WORKER)}
    user = given["spec"]["securityContext"].get("runAsUser", 0)
    for made in (launcher("v1", changes)["spec"], worker("v1", changes)["spec"]):
        for container in made.get("initContainers", []):
            if container["image"] == "theirs":
                continue
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
            assert context["runAsUser"] in {user, 65532}
            assert context["runAsNonRoot"] is (context["runAsUser"] != 0)


def no_two(names: list[str]) -> bool:
    return len(names) == len(set(names))


@given(spoiled(), st.sampled_from(["", "volcano", "t9k", "other"]), st.booleans())
def test_any_job_that_can_be_read_has_its_objects(resource: Any, scheduler: str, has_volumes: bool) -> None:
    found = read(resource)
    if not isinstance(found, Job):
        return
    before = copy.deepcopy(found)
    settings = PodSettings(image="i", gang_scheduler=scheduler, has_image_volumes=has_volumes)
    hosts = range(min(found.worker.replicas, 3))
    made = [
        objects.config_map(found, settings, hosts),
        objects.secret(found, settings),
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
    assert json.dumps(before.worker.template) == json.dumps(found.worker.template)
