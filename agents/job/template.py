"""Reads a user's pod template: reports what no API server would accept; the rest is left to the API server.

What comes out has a pod's types wherever our own containers, volumes and variables are put beside the user's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agents.job.fields import Fields, Settings, one_of
from agents.job.json_object import Object

TEMPLATE_MAX = 1 << 20  # bytes as JSON: etcd takes no object of more than 1.5 MiB, and a pod has more than its template
PODS_MAX = 256 << 20  # bytes of a role's pods together: etcd has 2 GiB by default, for all that is in the cluster
_INSTEAD = "put scripts and data into a ConfigMap, an image or a volume"
_DEEPEST = 64  # a pod's own fields are less than 20 deep
_GPU = "gpu"  # nvidia.com/gpu, amd.com/gpu: kubeflow looks for these letters anywhere in the name

_POD_TEXTS = ("restartPolicy", "serviceAccountName", "hostname", "subdomain", "schedulerName", "dnsPolicy")
_POD_FLAGS = ("hostNetwork", "automountServiceAccountToken", "shareProcessNamespace")
_POD_OBJECTS = ("securityContext", "dnsConfig")
_POD_LISTS = {"volumes": ("name",), "tolerations": ()}  # with what their objects must have
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_CONTAINER_TEXTS = ("image", "restartPolicy")
_CONTAINER_OBJECTS = ("securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_CONTAINER_LISTS = {
    "env": ("name",),
    "envFrom": (),
    "ports": (),
    "volumeMounts": ("name", "mountPath"),
    "volumeDevices": ("name",),
}


class _TooDeepError(Exception):
    """No pod, and more than the recursion here can take."""


def read_template(role: Fields, *, is_whole: bool = True) -> Object:
    """Return a role's template without its nulls. One that is not whole is laid over another, and may be empty."""
    given = role.child("template")
    try:
        template = given.instead(_without_nulls(given.value))
    except _TooDeepError:
        given.add("is nested too deeply for a pod")
        return {}
    metadata, spec = template.child("metadata"), template.child("spec")
    for texts in (metadata.child("labels", is_map=True), metadata.child("annotations", is_map=True)):
        for key in texts.value:
            texts.text(key)
    for key in _POD_TEXTS:
        spec.text(key)
    for key in _POD_FLAGS:
        spec.flag(key)
    for key in _POD_OBJECTS:
        spec.child(key)
    _check_lists(spec, _POD_LISTS)
    for secret in spec.objects("imagePullSecrets"):
        secret.text("name")
    spec.child("dnsConfig").texts("searches")
    if is_whole and spec.value.get("containers") in (None, []):
        spec.add("must have at least one container", "containers")
    for container in (one for key in _CONTAINERS for one in spec.objects(key)):
        _check_container(container)
    return template.value


def read_containers(fields: Fields, key: str) -> list[Fields]:
    """Return the containers of the list at a key, without their nulls."""
    try:
        given = fields.instead({key: _without_nulls(fields.value.get(key))})
    except _TooDeepError:
        fields.add("is nested too deeply for a pod", key)
        return []
    containers = list(given.objects(key))
    for container in containers:
        _check_container(container)
    return containers


def check_size(role: Fields, template: Object, replicas: int) -> None:
    """Record what makes a role's pods too many bytes: of one, or of all together."""
    size = len(json.dumps(template, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    if size > TEMPLATE_MAX:
        role.add(f"must be at most {TEMPLATE_MAX} bytes, not {size}: {_INSTEAD}", "template")
    elif size * replicas > PODS_MAX:
        message = f"must be at most {PODS_MAX} bytes in all pods of the role, not {replicas} times {size}"
        role.add(f"{message}: {_INSTEAD}", "template")


def container_names(template: Object, *lists: str) -> list[str]:
    """Return the names of a template's containers, as far as they have any; `lists`: of other kinds of them."""
    names = (container.get("name") for key in lists or ("containers",) for container in _containers(template, key))
    return [name for name in names if name and isinstance(name, str)]


def main_container(template: Object, name: str) -> Object:
    """Return the container that a job's processes or its launcher run in: the one of this name, else the first."""
    containers = _containers(template)
    return next((one for one in containers if one.get("name") == name), containers[0])


def read_main_container(settings: Settings, template: Object, whose: str) -> str:
    """Return the name of the container that ranks run in, one of the template's; "" for the first."""
    name, known = settings.text("mainContainer"), container_names(template)
    if name and known and name not in known:
        settings.add(f'"{name}" is none of the {whose}\': {one_of(known)}', "mainContainer")
    return name


def with_container(template: Object, container: Object) -> Object:
    """Return a template with this container in the place of the one of its name."""
    spec = template["spec"]
    containers = [container if one["name"] == container["name"] else one for one in spec["containers"]]
    return {**template, "spec": {**spec, "containers": containers}}


def wants_gpu(template: Object) -> bool:
    """Return whether a container of a template has a limit for a GPU."""
    resources = (container.get("resources") for container in _containers(template))
    limits = (one.get("limits") for one in resources if isinstance(one, Mapping))
    return any(_GPU in name for limit in limits if isinstance(limit, Mapping) for name in limit)


def _containers(template: Object, key: str = "containers") -> list[Object]:
    spec = template.get("spec")
    containers = spec.get(key) if isinstance(spec, Mapping) else None
    return [one for one in containers if isinstance(one, Mapping)] if isinstance(containers, list) else []


def _check_container(container: Fields) -> None:
    container.needed("name")
    for key in _CONTAINER_TEXTS:
        container.text(key)
    for key in _CONTAINER_OBJECTS:
        container.child(key)
    for key in ("command", "args"):
        container.texts(key)
    _check_lists(container, _CONTAINER_LISTS)
    resources = container.child("resources")
    for key in ("limits", "requests"):
        resources.child(key, is_map=True).quantities()


def _check_lists(fields: Fields, lists: Mapping[str, tuple[str, ...]]) -> None:
    for key, needed in lists.items():
        found = fields.value.get(key)
        if isinstance(found, list) and all(_has_texts(one, needed) for one in found):
            continue  # as most have, and there are environments of thousands of variables
        for one in fields.objects(key):
            for name in needed:
                one.needed(name)


def _has_texts(value: object, names: tuple[str, ...]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) and value[name] for name in names)


def _without_nulls(value: Any, depth: int = 0) -> Any:
    """Return the value without keys that hold null: YAML's `env:` with nothing after it is no `env` for Kubernetes."""
    if depth > _DEEPEST:
        raise _TooDeepError
    if isinstance(value, str):  # as most are: a look at what a Mapping is takes longer
        return value
    if isinstance(value, Mapping):
        return {key: _without_nulls(one, depth + 1) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one, depth + 1) for one in value]
    return value
