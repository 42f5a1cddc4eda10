"""Whether a container of a live pod keeps to what our own containers always keep to. Pure.

That is the Pod Security Standard *restricted* (kubernetes.io/docs/concepts/security/pod-security-standards), and beyond
it a read-only root file system and a memory limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]

_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def violations(pod: Object, container: str) -> list[str]:
    """What this container of the pod is not to have or to do; [] if all is well."""
    spec = pod["spec"]
    all_containers = [*spec.get("initContainers", []), *spec["containers"]]
    return [*_of_pod(spec), *_of_container(spec, next(one for one in all_containers if one["name"] == container))]


def _of_pod(spec: Object) -> Iterator[str]:
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in spec.get("volumes", []):
        if not volume.keys() - {"name"} <= _VOLUMES:
            yield f"volume {volume['name']}"


def _of_container(spec: Object, container: Object) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = {**spec.get("securityContext", {}), **own}
    capabilities = own.get("capabilities", {})
    expected = {
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
        "capabilities.drop": "ALL" in capabilities.get("drop", []),
        "capabilities.add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
        "privileged": not own.get("privileged"),
        "procMount": own.get("procMount", "Default") == "Default",
        "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
        "runAsNonRoot": both.get("runAsNonRoot") is True,
        "runAsUser": both.get("runAsUser") != 0,
        "seccompProfile": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        "resources.limits.memory": "memory" in container.get("resources", {}).get("limits", {}),
    }
    yield from (name for name, is_so in expected.items() if not is_so)
