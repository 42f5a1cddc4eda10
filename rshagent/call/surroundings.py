"""The pod's environment: what variables, then files, then the host's name say about the launcher's pod."""

from __future__ import annotations

import os
from collections.abc import Mapping

SOCKET = "/run/mpi-agents/hub.sock"
HOSTFILE = "/etc/mpi/hostfile"
HOSTS = "/opt/kube/hosts"
_PR_SET_DUMPABLE = 4
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Say whether a switch is set, to anything but 0."""
    return environ.get(name, "") not in ("", "0")


def service_account(environ: Mapping[str, str]) -> str:
    """Return the folder with the pod's token, CA and namespace."""
    return environ.get("MPI_AGENT_SERVICE_ACCOUNT") or SERVICE_ACCOUNT


def namespace(environ: Mapping[str, str]) -> str:
    """Return the namespace of calls that name none."""
    named = read(f"{service_account(environ)}/namespace") or b""
    return environ.get("MPI_AGENT_NAMESPACE") or os.fsdecode(named).strip() or "default"


def own_name(environ: Mapping[str, str]) -> str:
    """Return the launcher pod's name."""
    return environ.get("POD_NAME") or environ.get("HOSTNAME") or os.uname().nodename


def launcher(environ: Mapping[str, str]) -> str:
    """Return the launcher's name in the process tags in workers."""
    return environ.get("MPI_AGENT_LAUNCHER") or own_name(environ)


def first_process() -> str:
    """Return the start time of PID 1, as client_launcher.c does; "0" where that can't be read."""
    try:
        with open("/proc/1/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return "0"


def shared_first_process() -> str:
    """Return the start time of PID 1 where that may outlive our container: it is the pod's or the node's; else ""."""
    ours = read("/proc/self/cgroup")
    return "" if ours and read("/proc/1/cgroup") == ours else first_process()


def life(environ: Mapping[str, str], instance: str, shared: str) -> str:
    """Return the prefix of the instances that live as long as this one: of all mount namespaces of its container.

    They have its PID 1. If that outlives containers (`shared`), a restarted container has it too: "".
    """
    began, dash, _ = instance.partition("-")
    if environ.get("MPI_AGENT_INSTANCE") or not dash or not began.isdecimal() or began in ("0", shared):
        return ""
    return f"{began}-"


def instance_of(launcher: str, pod: str, instance: str) -> str:
    """Return the name of this run that is unique among the launcher's pods, too, if it has several.

    A batch Job's retry is another pod, and may be on another node, where the same numbers come again.
    """
    return instance if pod == launcher else f"{pod}_{instance}"  # no pod's name has a "_"


def hide() -> None:
    """Keep processes of other containers out of what this one has open, in memory, and under /proc/PID/root.

    Where a pod's containers share a process namespace, those of the same user, root too, would reach the token by it.
    With CAP_SYS_PTRACE they still do. Not by `ctypes`, which costs a megabyte.
    """
    import _ctypes  # noqa: PLC0415

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")  # type: ignore[arg-type]  # ourselves
    _ctypes.call_cdeclfunction(prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0))


def read(path: str) -> bytes | None:
    """Return a file's content, None where there is none. Raises OSError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
