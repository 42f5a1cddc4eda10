"""How the workers of an ssh job start sshd, and at which ports it may be: read from their template."""

from __future__ import annotations

import getopt
import hashlib
import os.path
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from agents.job.model import Dialect, Transport
from agents.operator.objects import names, pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.job.model import Job

Body = dict[str, Any]

DEFAULT_PORT = 2222  # that any uid may take
_USUAL = (22, DEFAULT_PORT)  # OpenSSH's, and that of kubeflow's images
# On the nodes' network a port is taken by one pod of a node: below those that Linux gives out by itself, and even ones
# alone, as the worker agent has the next.
_HOST_PORTS = range(20_000, 30_000, 2)
_OPTIONS = "C:E:b:c:f:g:h:k:o:p:u:46DGQRTVdeiqrt"  # sshd's, for getopt(3)
_PROBES = ("readinessProbe", "startupProbe", "livenessProbe")


class Start(Enum):
    """Who says what the workers run."""

    OURS = auto()  # no command was given: the job's sshd, by our configuration
    WRAPPED = auto()  # an sshd with its own arguments
    THEIRS = auto()  # something that is to start an sshd


@dataclass(frozen=True, slots=True)
class Sshd:
    """The workers' sshd. `ports`: where it may be; of an sshd that is told its port, that one."""

    start: Start
    ports: tuple[int, ...]
    tells_port: bool = False  # its own arguments say no port, and ours do


def sshd(job: Job) -> Sshd:
    """Return how a job's workers start sshd."""
    spec = job.worker.template.get("spec", {})
    container = pod.main_container(job, spec) if spec.get("containers") else {}
    is_hosts = spec.get("hostNetwork") is True
    chosen = job.ssh.port or (host_port(job) if is_hosts else None)
    start, words = _start(job, container)
    if start is Start.OURS:
        return Sshd(start, (chosen or next(_probed(container), DEFAULT_PORT),))
    if start is Start.WRAPPED:
        if port := _told(words):
            return Sshd(start, (port,))
        if chosen is not None:
            return Sshd(start, (chosen,), tells_port=True)
    if job.ssh.port:
        return Sshd(start, (job.ssh.port,))
    declared = [*_probed(container), *_ports(container).values()]
    # At a node's usual port its own sshd would answer.
    others = () if is_hosts and declared else _USUAL
    return Sshd(start, tuple(dict.fromkeys([*declared, *others])))


def is_expected(job: Job) -> bool:
    """Return whether the workers will have an sshd: who debugs a job may run something else in them."""
    return job.debug is None or sshd(job).start is not Start.THEIRS


def is_sshd(job: Job) -> bool:
    """Return whether what the workers run is an sshd, and no script of the user's that may come to its end."""
    return job.transport is Transport.SSH and sshd(job).start is not Start.THEIRS


def waits_inside(job: Job, container: Body) -> bool:
    """Return whether a launcher's container waits for the sshds itself: its command is known, and not debugged."""
    return bool(container.get("command")) and job.debug is None


def let_wait(container: Body) -> None:
    """Have a launcher's container begin its command when delivery, beside it, says so."""
    container["command"] = [names.SSHD_START, "--when-ready", *container["command"]]


def host_port(job: Job) -> int:
    """Return the port that a job has on the nodes' network; the next one is free for the job, too."""
    digest = hashlib.sha256(job.uid.encode()).digest()
    return _HOST_PORTS[int.from_bytes(digest[:8], "big") % len(_HOST_PORTS)]


def set_command(job: Job, container: Body) -> None:
    """Have a worker's container start sshd by our helper, unless it starts it by itself."""
    found = sshd(job)
    if found.start is Start.OURS:
        config = f"{names.SSH_RUN_PATH}/sshd_config"
        container["command"] = [names.SSHD_START, job.ssh.sshd_path, "-D", "-e", "-f", config]
        container.pop("args", None)
    elif found.start is Start.WRAPPED:
        first = "command" if container.get("command") else "args"
        container[first] = [names.SSHD_START, *container[first]]
        if found.tells_port:
            last = "args" if container.get("args") else "command"
            container[last] = [*container[last], "-p", str(found.ports[0])]


def declare_port(job: Job, spec: Body, container: Body) -> None:
    """Name the port to the scheduler, where it is known: on the nodes' network no two pods of a node have it."""
    port, *others = sshd(job).ports
    if spec.get("hostNetwork") is True and not others and port not in _ports(container).values():
        added = {"containerPort": port, "hostPort": port, "protocol": "TCP"}
        container["ports"] = [*container.get("ports", []), added]


def _start(job: Job, container: Body) -> tuple[Start, Sequence[str]]:
    """Return who says what runs, and its words. In v1 and T9k's dialect arguments alone are no command."""
    command, args = container.get("command", []), container.get("args", [])
    words = [*command, *args]
    if not words or not (command or job.dialect is Dialect.V2BETA1):
        return Start.OURS, ()
    return (Start.WRAPPED if os.path.basename(words[0]) == "sshd" else Start.THEIRS), words


def _told(words: Sequence[str]) -> int | None:
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
