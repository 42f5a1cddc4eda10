"""How an SSH job's workers start sshd and on which ports, and what its pods need for SSH."""

from __future__ import annotations

import getopt
import hashlib
import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from agents.job.json_object import Body
from agents.job.model import WORKER, Dialect, Job, Transport
from agents.operator.objects import injected, names, pod
from agents.operator.objects.injected import User
from agents.operator.settings import PodSettings

DEFAULT_PORT = 2222  # that any uid may take
_USUAL = (22, DEFAULT_PORT)  # OpenSSH's, and that of kubeflow's images
# On the nodes' network a port is taken by one pod of a node: below those that Linux gives out by itself, and even ones
# alone, as the worker agent has the next.
_HOST_PORTS = range(20_000, 30_000, 2)
_OPTIONS = "C:E:b:c:f:g:h:k:o:p:u:46DGQRTVdeiqrt"  # sshd's, for getopt(3)
_PROBES = ("readinessProbe", "startupProbe", "livenessProbe")


class Start(Enum):
    """What decides the workers' command."""

    DEFAULT = auto()  # no command was given: the job's sshd, by our configuration
    WRAPPED = auto()  # an sshd with its own arguments
    CUSTOM = auto()  # something that is to start an sshd


@dataclass(frozen=True, slots=True)
class Sshd:
    """The workers' sshd. `ports`: where it may be; of an sshd with a port in its arguments, that one."""

    start: Start
    ports: tuple[int, ...]
    adds_port: bool = False  # its own arguments have no port, so we add one


def sshd(job: Job) -> Sshd:
    """Return how a job's workers start sshd."""
    spec = job.worker.template.get("spec", {})
    container = pod.main_container(job, spec) if spec.get("containers") else {}
    is_hosts = spec.get("hostNetwork") is True
    chosen = job.ssh.port or (host_port(job) if is_hosts else None)
    start, words = _start(job, container)
    if start is Start.DEFAULT:
        return Sshd(start, (chosen or next(_probed(container), DEFAULT_PORT),))
    if start is Start.WRAPPED:
        if port := _port_argument(words):
            return Sshd(start, (port,))
        if chosen is not None:
            return Sshd(start, (chosen,), adds_port=True)
    if job.ssh.port:
        return Sshd(start, (job.ssh.port,))
    declared = [*_probed(container), *_ports(container).values()]
    # At a node's usual port its own sshd would answer.
    others = () if is_hosts and declared else _USUAL
    return Sshd(start, tuple(dict.fromkeys([*declared, *others])))


def expects_sshd(job: Job) -> bool:
    """Return whether the workers will have an sshd: in debug mode they may run something else."""
    return job.debug is None or sshd(job).start is not Start.CUSTOM


def is_sshd(job: Job) -> bool:
    """Return whether what the workers run is an sshd, and no script of the user's that may come to its end."""
    return job.transport is Transport.SSH and sshd(job).start is not Start.CUSTOM


def waits_inside(job: Job, container: Body) -> bool:
    """Return whether a launcher's container waits for the sshds itself: its command is known, and not debugged."""
    return bool(container.get("command")) and job.debug is None


def host_port(job: Job) -> int:
    """Return the port that a job has on the nodes' network; the next one is free for the job, too."""
    digest = hashlib.sha256(job.uid.encode()).digest()
    return _HOST_PORTS[int.from_bytes(digest[:8], "big") % len(_HOST_PORTS)]


def set_command(job: Job, container: Body) -> None:
    """Have a worker's container start sshd by our helper, unless it starts it by itself."""
    found = sshd(job)
    if found.start is Start.DEFAULT:
        config = f"{names.SSH_RUN_PATH}/sshd_config"
        container["command"] = [names.SSHD_START, job.ssh.sshd_path, "-D", "-e", "-f", config]
        container.pop("args", None)
    elif found.start is Start.WRAPPED:
        first = "command" if container.get("command") else "args"
        container[first] = [names.SSHD_START, *container[first]]
        if found.adds_port:
            last = "args" if container.get("args") else "command"
            container[last] = [*container[last], "-p", str(found.ports[0])]


def declare_port(job: Job, spec: Body, container: Body) -> None:
    """Name the port to the scheduler, where it is known: on the nodes' network no two pods of a node have it."""
    port, *others = sshd(job).ports
    if spec.get("hostNetwork") is True and not others and port not in _ports(container).values():
        added = {"containerPort": port, "hostPort": port, "protocol": "TCP"}
        container["ports"] = [*container.get("ports", []), added]


def _start(job: Job, container: Body) -> tuple[Start, Sequence[str]]:
    """Return what decides the command, and the command. In v1 and T9k's dialect arguments alone are no command."""
    command, args = container.get("command", []), container.get("args", [])
    words = [*command, *args]
    if not words or not (command or job.dialect is Dialect.V2BETA1):
        return Start.DEFAULT, ()
    return (Start.WRAPPED if os.path.basename(words[0]) == "sshd" else Start.CUSTOM), words


def _port_argument(words: Sequence[str]) -> int | None:
    """Return the port in an sshd's arguments."""
    try:
        options, _ = getopt.getopt(list(words[1:]), _OPTIONS)
    except getopt.GetoptError:
        return None
    for name, value in options:
        key, _, text = value.replace("=", " ", 1).strip().partition(" ")
        if name == "-p" or (name == "-o" and key.lower() == "port"):
            return _port(value if name == "-p" else text.strip())
    return None


def _ports(container: Body) -> dict[str, int]:
    """Return the TCP ports that a container declares, by their names."""
    found = {}
    for one in container.get("ports", []):
        number = _port(one.get("containerPort"))
        if number is not None and one.get("protocol", "TCP") == "TCP":
            found[str(one.get("name", number))] = number
    return found


def _probed(container: Body) -> Iterator[int]:
    """Give the ports at which probes look for a listener."""
    for name in _PROBES:
        looked_at = container.get(name, {}).get("tcpSocket")
        port = looked_at.get("port") if isinstance(looked_at, Mapping) else None
        number = _port(port)
        if number is None and isinstance(port, str):
            number = _ports(container).get(port)
        if number is not None:
            yield number


def _port(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536 else None


_SIZE = "4Mi"  # of all that is prepared


class Ssh:
    """ssh in one pod: add it to the pod's spec, then let our containers in that prepare it."""

    def __init__(self, job: Job, role: str, settings: PodSettings, spec: Body) -> None:
        self._job, self._role, self._settings, self._spec = job, role, settings, spec
        self._main = pod.main_container(job, spec)
        self.user: User = injected.user_of(self._main, spec, settings)
        self._has_passwd = injected.has_generated_passwd(job, self.user, settings)
        self._keys = pod.add_volume(spec, names.SSH_KEYS_VOLUME, _keys(job))
        self._volume = pod.add_volume(spec, names.SSH_VOLUME, {"emptyDir": {"medium": "Memory", "sizeLimit": _SIZE}})

    def mount(self) -> None:
        """Mount what is prepared in the user's container: neither the Secret nor what is another container's."""
        self._mount("auth", self._job.ssh.mount_path, is_read_only=True)
        self._mount("run", names.SSH_RUN_PATH)
        if self._role == WORKER and self.user.uid == injected.ROOT:
            self._mount("empty", names.SSH_EMPTY_PATH)
        if self._has_passwd:
            self._mount("passwd", "/etc/passwd", is_read_only=True)
            self._mount("group", "/etc/group", is_read_only=True)

    def prepare_in(self, container: Body) -> None:
        """Give one of our containers what it takes to prepare ssh.

        A sidecar's hook prepares it: no container behind it starts before.
        """
        if container.get("restartPolicy") == "Always":
            container["lifecycle"] = {"postStart": {"exec": {"command": ["sshd-bootstrap"]}}}
        container["env"] = [*container.get("env", []), *self._environment()]
        pod.mount(container, self._keys, names.SSH_KEYS_PATH, is_read_only=True)
        pod.mount(container, self._volume, names.SSH_PATH)

    def _mount(self, folder: str, path: str, *, is_read_only: bool = False) -> None:
        pod.mount(self._main, self._volume, path, folder=folder, is_read_only=is_read_only)

    def _environment(self) -> list[Body]:
        found = sshd(self._job)
        variables = {
            "MPI_SSH_ROLE": self._role,
            "MPI_SSH_KEYS": names.SSH_KEYS_PATH,
            "MPI_SSH_VOLUME": names.SSH_PATH,
            "MPI_SSH_MOUNT_PATH": self._job.ssh.mount_path,
            "MPI_SSH_RUN_PATH": names.SSH_RUN_PATH,
            "MPI_SSH_PORTS": " ".join(map(str, found.ports)),
            "MPI_SSH_USER": self.user.known_by,
            "MPI_SSH_PASSWD": "generated" if self._has_passwd else "image",
            "MPI_SSH_HOST_KEYS": "image" if found.start is Start.CUSTOM else "job",
        }
        if found.start is not Start.DEFAULT:
            variables["MPI_SSH_OWN_CONFIG"] = "true"
        if self._job.dialect is Dialect.VIRTUAL:  # by its own name: other hosts may be called *-node-* and *-login*
            hosts = (f"{names.worker_hostname(self._job, 0)[:-1]}*", f"{names.launcher_hostname(self._job)}*")
            variables["MPI_SSH_HOSTS"] = " ".join(hosts)
        return pod.variables(variables)


def _keys(job: Job) -> Body:
    return {"secret": {"secretName": job.secret_name, "defaultMode": 0o444}}
