"""A user's pod template: what no API server would take is told with its path; the rest is left to the API server.

What comes out has the types of a pod wherever our own containers, volumes and variables are put beside the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agents.job.fields import Fields, kind

if TYPE_CHECKING:
    from agents.job.model import Object

_DEEPEST = 64  # a pod's own fields are less than 20 deep
_CONTAINER_LISTS = ("env", "envFrom", "ports", "volumeMounts")
_CONTAINER_OBJECTS = ("resources", "securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_TEXT_LISTS = ("command", "args")
_GPU = "gpu"  # "nvidia.com/gpu", "amd.com/gpu": kubeflow looks for these letters anywhere in the name


def read_template(role: Fields) -> Object:
    """Return a role's template without its nulls."""
    given = role.child("template")
    template = Fields(_without_nulls(given, given.value), given.path, given.problems)
    metadata = template.child("metadata")
    for key in ("labels", "annotations"):
        _all_text(metadata.child(key, is_map=True))
    spec = template.child("spec")
    for container in (*_objects(spec, "initContainers"), *_objects(spec, "containers")):
        _check_container(container)
    if not spec.value.get("containers"):
        spec.add("must have at least one container", "containers")
    for key in ("volumes", "imagePullSecrets", "tolerations"):
        for _ in _objects(spec, key):
            pass
    for key in ("restartPolicy", "serviceAccountName", "hostname", "subdomain", "schedulerName", "dnsPolicy"):
        spec.text(key)
    for key in ("hostNetwork", "automountServiceAccountToken", "shareProcessNamespace"):
        spec.flag(key)
    _all_text(spec.child("nodeSelector", is_map=True))
    spec.child("securityContext")
    dns = spec.child("dnsConfig")
    for key in ("searches", "nameservers"):
        _texts(dns, key)
    return template.value


def container_names(template: Object) -> list[str]:
    """Return the names of a template's containers, as far as they have any."""
    names = (container.get("name") for container in _containers(template))
    return [name for name in names if name and isinstance(name, str)]


def wants_gpu(template: Object) -> bool:
    """Return whether a container of a template has a limit for a GPU."""
    resources = (container.get("resources") for container in _containers(template))
    limits = (one.get("limits") for one in resources if isinstance(one, Mapping))
    return any(_GPU in name for limit in limits if isinstance(limit, Mapping) for name in limit)


def _containers(template: Object) -> list[Object]:
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    return [one for one in containers if isinstance(one, Mapping)] if isinstance(containers, list) else []


def _check_container(container: Fields) -> None:
    if not container.text("name"):
        container.add("must have a name", "name")
    for key in _TEXT_LISTS:
        _texts(container, key)
    for key in _CONTAINER_LISTS:
        for one in _objects(container, key):
            if key == "env" and not one.text("name"):
                one.add("must have a name", "name")
            if key == "volumeMounts":
                one.text("mountPath")
    for key in _CONTAINER_OBJECTS:
        container.child(key)
    for key in ("limits", "requests"):
        container.child("resources").child(key, is_map=True)


def _objects(fields: Fields, key: str) -> Iterator[Fields]:
    for index, one in enumerate(_list(fields, key)):
        path = f"{fields.at(key)}[{index}]"
        found = Fields(one, path, fields.problems)
        if found.is_object:
            yield found
        elif one is None:
            found.add("must be an object, not null")


def _texts(fields: Fields, key: str) -> None:
    for index, one in enumerate(_list(fields, key)):
        if not isinstance(one, str):
            fields.add(f"must be text, not {kind(one)}", f"{key}[{index}]")


def _list(fields: Fields, key: str) -> list[Any]:
    value = fields.value.get(key)
    if value is None or isinstance(value, list):
        return value or []
    fields.add(f"must be a list, not {kind(value)}", key)
    return []


def _all_text(fields: Fields) -> None:
    for key in fields.value:
        fields.text(key)


def _without_nulls(fields: Fields, value: Any, depth: int = 0) -> Any:
    """Return the value with every key gone that holds null, which is how YAML has `env:` and Kubernetes has nothing."""
    if depth > _DEEPEST:
        if depth == _DEEPEST + 1:
            fields.add("is nested too deeply for a pod")
        return None
    if isinstance(value, Mapping):
        return {key: _without_nulls(fields, one, depth + 1) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(fields, one, depth + 1) for one in value]
    return value
