"""What our containers are in the user's pod: small, without privileges, and alone with the token."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from mpijobs import job
from pod_objects import CONTAINER, EXEC, LAUNCHER, WORKER, Object, launcher, ours, worker

from agents.common.quantity import format_quantity, parse_quantity
from agents.operator import objects
from agents.operator.settings import PodSettings

SPEC = f"{LAUNCHER}/template/spec"
RESOURCES = f"{LAUNCHER}/{CONTAINER}/resources"
ALL = {"cpu": "2", "memory": "1Gi"}


def test_our_containers_come_last_and_delivery_behind_the_hub() -> None:
    pod = launcher(changes={f"{SPEC}/initContainers": [{"name": "a", "image": "a"}]})
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["a", "hub", "kubectl-delivery"]


@pytest.mark.parametrize(
    ("changes", "is_guaranteed"),
    [
        ({}, False),
        ({RESOURCES: {"limits": ALL}}, True),
        ({RESOURCES: {"limits": ALL, "requests": {"cpu": "2000m", "memory": "1024Mi"}}}, True),
        ({RESOURCES: {"limits": ALL, "requests": {"cpu": 1}}}, False),
        ({RESOURCES: {"limits": {"cpu": 2}}}, False),
        ({RESOURCES: {"limits": {"cpu": "0", "memory": "1Gi"}}}, False),
        ({RESOURCES: {"limits": {"cpu": "1e999", "memory": "1Gi"}}}, False),
        ({RESOURCES: {"limits": ALL}, f"{SPEC}/initContainers": [{"name": "a", "image": "a"}]}, False),
        (
            {
                RESOURCES: {"limits": ALL},
                f"{SPEC}/initContainers": [{"name": "a", "image": "a", "resources": {"limits": ALL}}],
            },
            True,
        ),
    ],
)
def test_a_guaranteed_pod_stays_guaranteed(changes: Object, is_guaranteed: bool) -> None:
    for container in ours(launcher(changes=changes)):
        asked = container["resources"]
        assert (asked["requests"] == asked["limits"]) is is_guaranteed
        assert asked["limits"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ("1", {"hub": "50m", "kubectl-delivery": "50m", "worker-agent": "10m", "sshd-bootstrap": "50m"}),
        ("0.05", {"hub": "50m", "kubectl-delivery": "50m", "worker-agent": "10m", "sshd-bootstrap": "50m"}),
        ("20m", {"hub": "20m", "kubectl-delivery": "20m", "worker-agent": "10m", "sshd-bootstrap": "20m"}),
    ],
)
def test_cpu_is_limited_as_the_operator_is_told_and_requests_are_no_more(limit: str, asked: Object) -> None:
    found: Object = {}
    for has_agent in (True, False):
        settings = PodSettings(image="mpi-agents:1", cpu_limit=limit, has_worker_agent=has_agent)
        pods = (launcher(settings=settings), objects.worker(job("v2beta1"), 0, settings))
        found |= {one["name"]: one["resources"] for pod in pods for one in ours(pod)}
    assert {name: one["limits"]["cpu"] for name, one in found.items()} == dict.fromkeys(asked, limit)
    assert {name: one["requests"]["cpu"] for name, one in found.items()} == asked


def test_a_guaranteed_pod_has_a_limit_of_its_own() -> None:
    settings = PodSettings(image="mpi-agents:1", cpu_limit="20m")
    for container in ours(launcher(changes={RESOURCES: {"limits": ALL}}, settings=settings)):
        assert container["resources"]["requests"]["cpu"] == container["resources"]["limits"]["cpu"] == "200m"


def test_disk_is_limited_only_where_the_user_limits_it() -> None:
    """A pod may use what its containers' limits add up to: ours alone would evict the user's."""
    both = [{"name": name, "image": "i", "resources": {"limits": {"ephemeral-storage": "1Gi"}}} for name in ("a", "b")]
    asked = ours(launcher(changes={f"{SPEC}/containers": both}))[0]["resources"]
    assert asked["limits"]["ephemeral-storage"] == asked["requests"]["ephemeral-storage"] == "64Mi"
    assert asked["requests"]["cpu"] == "50m"
    asked = ours(launcher(changes={f"{SPEC}/containers": [both[0], {"name": "b", "image": "i"}]}))[0]["resources"]
    assert "ephemeral-storage" not in asked["limits"]


def test_a_pod_with_resources_of_its_own_is_asked_for_no_more() -> None:
    assert [one["resources"] for one in ours(launcher(changes={f"{SPEC}/resources": {"limits": ALL}}))] == [{}, {}]


@pytest.mark.parametrize(
    ("user", "pod", "found"),
    [
        (65532, {}, 65532),
        (7, {"runAsUser": 0}, 7),
        (None, {}, None),
        (None, {"runAsUser": 9}, None),
        (None, {"runAsUser": 0}, 65532),
    ],
)
def test_our_user_is_the_platforms_where_it_assigns_one(user: int | None, pod: Object, found: int | None) -> None:
    made = launcher(
        changes={f"{SPEC}/securityContext": pod}, settings=PodSettings(image="mpi-agents:1", run_as_user=user)
    )
    assert [one["securityContext"].get("runAsUser") for one in ours(made)] == [found, found]
    assert [one["securityContext"]["runAsNonRoot"] for one in ours(made)] == [True, True]
    assert made["spec"]["securityContext"] == pod


def test_pull_secrets_are_added_once() -> None:
    settings = PodSettings(image="mpi-agents:1", image_pull_secrets=("ours", "both"))
    given = [{"name": "both"}, {"name": "theirs"}]
    assert launcher(changes={f"{SPEC}/imagePullSecrets": given}, settings=settings)["spec"]["imagePullSecrets"] == [
        *given,
        {"name": "ours"},
    ]
    assert "imagePullSecrets" not in launcher()["spec"]
    assert "imagePullSecrets" not in objects.worker(job("v1"), 0, settings)["spec"]


@pytest.mark.parametrize("asked", [None, False, True])
def test_a_token_is_in_the_users_container_only_if_asked_for(asked: bool | None) -> None:
    changes = (
        {}
        if asked is None
        else {f"{role}/template/spec/automountServiceAccountToken": asked for role in (LAUNCHER, WORKER)}
    )
    assert objects.has_api_token(job("v1", changes)) is (asked is True)
    for pod in (launcher(changes=changes), worker(changes=changes)):
        assert pod["spec"]["automountServiceAccountToken"] is (asked is True)
        mounted = {one["name"] for container in pod["spec"]["containers"] for one in container["volumeMounts"]}
        assert "mpi-agents-token" not in mounted


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_mesh_is_asked_for_native_sidecars_unless_the_user_says_otherwise(version: str) -> None:
    given = {"sidecar.istio.io/nativeSidecar": "false"}
    pod = launcher(version, {f"{LAUNCHER}/template/metadata/annotations": given}, PodSettings(image="i"))
    annotations = pod["metadata"]["annotations"]
    assert annotations["sidecar.istio.io/nativeSidecar"] == "false"
    assert annotations["traffic.sidecar.istio.io/excludeOutboundPorts"] == "443"


@pytest.mark.parametrize(("limit", "suspended"), [(None, False), (0, True)])
def test_a_batch_job_has_its_limit_and_is_suspended_with_its_job(limit: int | None, suspended: bool) -> None:
    policy = {"suspend": suspended} | ({} if limit is None else {"backoffLimit": limit})
    spec = objects.launcher(job("v2beta1", EXEC | {"spec/runPolicy": policy}), PodSettings(image="i"))["spec"]
    assert spec.get("backoffLimit") == limit
    assert spec.get("suspend", False) is suspended
    assert "ttlSecondsAfterFinished" not in spec


@pytest.mark.parametrize(
    ("text", "value", "rendered"),
    [
        ("0", Fraction(0), "0"),
        ("500m", Fraction(1, 2), "500m"),
        (".5", Fraction(1, 2), "500m"),
        (2, Fraction(2), "2"),
        (1.5, Fraction(3, 2), "1500m"),
        ("3.", Fraction(3), "3"),
        ("2Gi", Fraction(2 * 2**30), "2147483648"),
        ("1.5Ki", Fraction(1536), "1536"),
        ("3k", Fraction(3000), "3000"),
        ("12e3", Fraction(12000), "12000"),
        ("5E-1", Fraction(1, 2), "500m"),
        ("2E", Fraction(2 * 10**18), "2000000000000000000"),
        ("100n", Fraction(1, 10**7), "1m"),
        ("-1", Fraction(-1), "-1"),
    ],
)
def test_quantities(text: Any, value: Fraction, rendered: str) -> None:
    assert parse_quantity(text) == value
    assert format_quantity(value) == rendered


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "Gi", "1gi", "1e", "1e999", "0x1", "\u0661", "1/2", "nan", None, True, [], {}]
)
def test_what_is_no_quantity(text: Any) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


VOLUMES = {  # what we add, by the pods that have it
    "exec": ("mpi-job-config", "mpi-job-kubectl", "mpi-agents-run", "mpi-agents-token"),
    "ssh": ("mpi-job-config", "mpi-job-ssh", "ssh-auth", "mpi-agents-orders"),
}
MOUNTS: list[Object] = [
    {"volumeMounts": [{"mountPath": "/theirs"}]},
    {"volumeMounts": [{"mountPath": "/theirs", "subPath": "token", "readOnly": True}]},
    {"volumeMounts": [{"mountPath": "/theirs", "subPathExpr": "$(HOME)"}]},
    {"volumeDevices": [{"devicePath": "/dev/theirs"}]},
]


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])
@pytest.mark.parametrize("field", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("transport", list(VOLUMES))
def test_what_a_template_mounts_and_does_not_define_stays_undefined(
    version: str, field: str, mount: Object, transport: str
) -> None:
    """By a free name of ours the user's container would get the token, or the private key."""
    key = next(iter(mount))
    wanted = [name for one in VOLUMES[transport] for name in (one, f"{one}-2")]
    container = {"name": "theirs", "image": "i", key: [one | {"name": name} for one in mount[key] for name in wanted]}
    spec = "spec/worker/template/spec" if version == "t9k" else f"{SPEC}/{field}"
    specs = (spec,) if version == "t9k" else (spec, f"{WORKER}/template/spec/{field}")
    first = {"name": "mpi-worker" if version == "t9k" else "mpi", "image": "i"}
    entries = [first, container] if field == "containers" else [container]
    changes = {f"{one}/{field}" if version == "t9k" else one: entries for one in specs}
    made = job(version, changes | {"spec/transport": transport})
    settings = PodSettings(image="mpi-agents:1", annotations={})
    launched = objects.launcher(made, settings)
    for pod in (launched["spec"].get("template", launched), objects.worker(made, 0, settings)):
        spec_of = pod["spec"]
        names = [one["name"] for one in spec_of["volumes"]]
        assert len(names) == len(set(names))
        if any(one["name"] == "theirs" for one in spec_of.get(field, [])):
            assert not set(names) & set(wanted)
        for one in ours(pod) if "initContainers" in spec_of else ():
            assert {mounted["name"] for mounted in one.get("volumeMounts", [])} <= set(names)


def test_a_volume_that_the_template_defines_itself_stays_its_own() -> None:
    """Also a token: whoever writes the template may ask for one."""
    token = {"name": "mpi-agents-token", "projected": {"sources": [{"serviceAccountToken": {"path": "mine"}}]}}
    mount = [{"name": "mpi-agents-token", "mountPath": "/mine"}]
    pod = launcher(changes={f"{SPEC}/volumes": [token], f"{LAUNCHER}/{CONTAINER}/volumeMounts": mount})
    assert token in pod["spec"]["volumes"]
    assert {one["name"] for container in ours(pod) for one in container["volumeMounts"]} >= {"mpi-agents-token-2"}


@pytest.mark.parametrize(
    "refers",
    [
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"containerName": "hub", "resource": "limits.cpu"}}}]},
        {"targetContainerName": "hub"},
    ],
)
def test_a_container_that_a_template_refers_to_and_does_not_have_stays_missing(refers: Object) -> None:
    pod = launcher(changes={f"{SPEC}/initContainers": [{"name": "theirs", "image": "i", **refers}]})
    assert [one["name"] for one in ours(pod)] == ["hub-2", "kubectl-delivery"]


@pytest.mark.parametrize("source", ["downwardAPI", "projected"])
def test_a_container_that_a_volume_refers_to_stays_missing(source: str) -> None:
    items = {"items": [{"path": "cpu", "resourceFieldRef": {"containerName": "hub", "resource": "limits.cpu"}}]}
    given = {"downwardAPI": items} if source == "downwardAPI" else {"projected": {"sources": [{"downwardAPI": items}]}}
    pod = launcher(changes={f"{SPEC}/volumes": [{"name": "theirs", **given}]})
    assert [one["name"] for one in ours(pod)] == ["hub-2", "kubectl-delivery"]
