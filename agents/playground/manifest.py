"""What a pod's manifest asks for, as a process can have it: command, environment, folders. Pure.

A container's paths are the pod's own where pods can have mounts (`Volumes.shown`); a path that can't be shown there is
rewritten to the folder behind it, in commands, in variables and in what config maps hold.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Object = dict[str, Any]

_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.][-A-Za-z0-9_.]*)\))")
_AGENTS_PATHS = {  # what the agents use where nothing is said
    "MPI_AGENT_SOCKET": "/run/mpi-agents/hub.sock",
    "MPI_AGENT_HOSTFILE": "/etc/mpi/hostfile",
    "MPI_AGENT_HOSTS": "/opt/kube/hosts",
    "TARGET_DIR": "/opt/kube",
}


class ManifestError(Exception):
    """The stand-in can't do what the pod asks for: a line for the container's status."""


@dataclass(frozen=True)
class Call:
    """How a container's process is started. Without `argv` it has none: it is as if it slept for ever."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    folder: str | None


def call(
    pod: Object,
    container: Object,
    given: Mapping[str, str],
    values: Callable[[str, str, str], str | None],
    rewritten: Mapping[str, str],
) -> Call:
    """A container's call. `given`: what the cluster puts into each environment. Raises ManifestError."""
    environ = variables(pod, container, given, values)
    if rewritten:
        environ = {**_AGENTS_PATHS, **environ}
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if words and not container.get("command"):
        raise ManifestError("the stand-in has no images, so no entrypoint: arguments need a command")
    argv = tuple(moved(expanded(str(word), environ), rewritten) for word in words)
    moved_environ = {name: moved(value, rewritten) for name, value in environ.items()}
    folder = container.get("workingDir")
    return Call(argv, moved_environ, None if folder is None else moved(folder, rewritten))


def variables(
    pod: Object, container: Object, given: Mapping[str, str], values: Callable[[str, str, str], str | None]
) -> dict[str, str]:
    """A container's variables, `given` among them. Raises ManifestError."""
    found = dict(given)
    for one in container.get("env") or ():
        value = _value(pod, container, one, found, values)
        if value is not None:
            found[one["name"]] = value
    return found


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """$(NAME) as Kubernetes expands it: unknown names stay, $$ is a dollar sign."""

    def replace(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return environ.get(found[2], found[0])

    return _REFERENCE.sub(replace, text)


def moved(text: str, rewritten: Mapping[str, str]) -> str:
    """A text with the paths that can't be shown replaced by where their files are."""
    for path, folder in rewritten.items():
        text = re.sub(rf"(?<![-\w./]){re.escape(path)}(?![-\w.])", folder.replace("\\", r"\\"), text)
    return text


def paths(pod: Object) -> dict[str, str]:
    """What the pod's containers see, the same in all of them: path → volume's name and path in it.

    Volumes with a token are left out, so that only those containers have it that mount it (`token_volume`). Raises
    ManifestError if containers want different things at one path.
    """
    secret = {one["name"] for one in pod["spec"].get("volumes") or () if _has_token(one)}
    found: dict[str, str] = {}
    for container in containers(pod):
        for mount in container.get("volumeMounts") or ():
            if mount["name"] in secret:
                continue
            source = os.path.join(mount["name"], mount.get("subPath", "")).rstrip("/")
            if found.setdefault(mount["mountPath"].rstrip("/"), source) != source:
                raise ManifestError(f"the stand-in's containers share one view: two volumes at {mount['mountPath']}")
    return found


def token_volume(pod: Object, container: Object) -> str:
    """The volume with a ServiceAccount's token that a container mounts; "" if none."""
    mounted = {mount["name"] for mount in container.get("volumeMounts") or ()}
    tokens = (one["name"] for one in pod["spec"].get("volumes") or () if _has_token(one))
    return next((name for name in tokens if name in mounted), "")


def containers(pod: Object) -> list[Object]:
    """All containers, init containers first."""
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def field(pod: Object, path: str) -> str:
    """A field by the downward API. Raises ManifestError."""
    found = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if found:
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    if path in {"metadata.labels", "metadata.annotations"}:
        pairs = (pod["metadata"].get(path.partition(".")[2]) or {}).items()
        return "".join(f'{key}="{value}"\n' for key, value in pairs)
    value: Any = pod
    for name in ("status.podIP" if path == "status.podIPs" else path).split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict | list):
        raise ManifestError(f"no field {path} for a container")
    return "" if value is None else str(value)


def _has_token(volume: Object) -> bool:
    return any("serviceAccountToken" in one for one in (volume.get("projected") or {}).get("sources") or ())


def _value(
    pod: Object,
    container: Object,
    variable: Object,
    environ: Mapping[str, str],
    values: Callable[[str, str, str], str | None],
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expanded(str(variable.get("value", "")), environ)
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        kind, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return str(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))
    for name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if name in source:
            wanted = source[name]
            value = values(kind, wanted["name"], wanted["key"])
            if value is None and not wanted.get("optional"):
                raise ManifestError(f'{kind.lower()} "{wanted["name"]}" or its key {wanted["key"]} not found')
            return value
    raise ManifestError(f"the stand-in has no such source of a variable: {', '.join(source)}")
