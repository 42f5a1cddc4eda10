"""A pod's container as the Docker engine takes it (Engine API, ContainerCreate). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.common.quantity import parse_quantity

from . import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .volumes import Mount

Object = dict[str, Any]

_PAUSE = "/usr/local/lib/mpi-agents/pause"  # in our image
_TERMINATION_LOG = "/dev/termination-log"
_WORDS = ("command", "args")
_HOSTS = "/etc/hosts"
_NANO = 10**9


def sandbox(pod: Object, *, image: str, network: str, shared_memory: str) -> Object:
    """What holds a pod's network, host name and shared memory. Raises ValueError."""
    host: Object = {"NetworkMode": network, "IpcMode": "shareable"}
    if shared_memory:
        host["ShmSize"] = int(parse_quantity(shared_memory))
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return {"Image": image, "Entrypoint": [_PAUSE], "Cmd": [], "Hostname": name[:63], "HostConfig": host}


def container(
    pod: Object,
    spec: Object,
    *,
    environ: Mapping[str, str],
    mounts: Sequence[Mount],
    sandbox: str,
    hosts: str,
    termination_log: str,
    cpus: int,
) -> Object:
    """A container in a sandbox; `hosts` and `termination_log` are files, `cpus` the machine's. Raises ValueError."""
    command, args = ([manifest.expanded(str(word), environ) for word in spec.get(key) or ()] for key in _WORDS)
    shared = f"container:{sandbox}"
    log = spec.get("terminationMessagePath") or _TERMINATION_LOG
    host: Object = {
        "NetworkMode": shared,
        "IpcMode": shared,
        "LogConfig": {"Type": "none"},
        "Mounts": [
            {"Type": "bind", "Source": source, "Target": target, "ReadOnly": is_read_only}
            for target, source, is_read_only in (*mounts, (_HOSTS, hosts, False), (log, termination_log, False))
        ],
        **_limits(spec, cpus),
        **_security(pod, spec),
    }
    if pod["spec"].get("shareProcessNamespace"):
        host["PidMode"] = shared
    config: Object = {
        "Image": spec["image"],
        "Env": [f"{name}={value}" for name, value in environ.items()],
        "HostConfig": host,
        "OpenStdin": bool(spec.get("stdin")),
    }
    if command:
        config["Entrypoint"] = command
    if command or args:
        config["Cmd"] = args
    if spec.get("workingDir"):
        config["WorkingDir"] = spec["workingDir"]
    if user := _user(pod, spec):
        config["User"] = user
    return config


def _user(pod: Object, spec: Object) -> str:
    """UID:GID, as far as the manifest says; the image's without."""
    given = {**(pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    uid, gid = given.get("runAsUser"), given.get("runAsGroup")
    if uid is None:
        return ""
    return f"{uid}:{gid}" if gid is not None else str(uid)


def _security(pod: Object, spec: Object) -> Object:
    own = spec.get("securityContext") or {}
    given = pod["spec"].get("securityContext") or {}
    groups = [*(given.get("supplementalGroups") or ()), *([given["fsGroup"]] if "fsGroup" in given else ())]
    capabilities = own.get("capabilities") or {}
    host: Object = {
        "CapAdd": list(capabilities.get("add") or ()),
        "CapDrop": list(capabilities.get("drop") or ()),
        "GroupAdd": [str(group) for group in groups],
        "Privileged": bool(own.get("privileged")),
        "ReadonlyRootfs": bool(own.get("readOnlyRootFilesystem")),
    }
    if own.get("allowPrivilegeEscalation") is False:
        host["SecurityOpt"] = ["no-new-privileges"]
    return host


def _limits(spec: Object, cpus: int) -> Object:
    """Limits of CPU, at most the machine's, and of memory."""
    limits = (spec.get("resources") or {}).get("limits") or {}
    found: Object = {}
    if "cpu" in limits:
        found["NanoCpus"] = min(int(parse_quantity(limits["cpu"]) * _NANO), cpus * _NANO)
    if "memory" in limits:
        found["Memory"] = found["MemorySwap"] = int(parse_quantity(limits["memory"]))
    return found
