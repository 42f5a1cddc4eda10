"""What to prepare, and for whom: the MPI_SSH_* variables, which the operator sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from sshd_bootstrap import paths
from sshd_bootstrap.exits import USAGE, BootstrapError

# In the user's own ~/.ssh, where ssh to other hosts must work as before: names of an MPIJob's pods, in every dialect.
JOB_HOSTS = ("*-worker-*", "*-launcher*")
OUR_IMAGES_UID = 65532  # the uid of our image if the pod names none

_UNPRIVILEGED_PORTS = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
_HOST = re.compile(r"[a-z0-9*][a-z0-9.*-]*")
_Choice = TypeVar("_Choice", bound=StrEnum)


class Role(StrEnum):
    """Whose pod it is."""

    LAUNCHER = "launcher"
    WORKER = "worker"


class User(StrEnum):
    """How well the uid of the user's container is known; the preparation runs as that uid if it can."""

    NAMED = "named"
    ASSUMED = "assumed"  # the template names none: root
    UNKNOWN = "unknown"  # the platform assigns one to all containers of a pod, or the image names it


class Passwd(StrEnum):
    """Where /etc/passwd in the user's containers comes from."""

    IMAGE = "image"
    GENERATED = "generated"


class HostKeys(StrEnum):
    """By which host keys the workers' sshds identify themselves."""

    JOB = "job"
    IMAGE = "image"  # not known before the first connection


@dataclass(frozen=True, slots=True)
class Settings:
    """One preparation. `ports`: where an sshd may be, ours first. Paths: `paths` says whose view each is."""

    role: Role
    keys: str = paths.KEYS
    volume: str = paths.VOLUME
    mount_path: str = paths.MOUNT
    run_path: str = paths.RUN
    ports: tuple[int, ...] = (2222,)
    user: User = User.NAMED
    passwd: Passwd = Passwd.IMAGE
    host_keys: HostKeys = HostKeys.JOB
    job_hosts: tuple[str, ...] = JOB_HOSTS  # patterns of the pods' names, in the user's own ~/.ssh
    has_own_config: bool = False  # sshd runs by the image's own sshd_config
    waits_inside: bool = False  # a launcher: its command is started by HELPER
    follows: bool = False  # a launcher: its workers take new keys from the Secret, and so does it
    tools: str = paths.TOOLS
    uid: int = field(default_factory=os.geteuid)
    gid: int = field(default_factory=os.getegid)
    agent_port: int | None = None  # at which the worker agent answers, whose hook this is
    unprivileged_ports: int = 1024  # the first port that any uid may take (net.ipv4.ip_unprivileged_port_start)

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> Settings:
        """Read the variables; what isn't set has its default. Raises BootstrapError for what can't be understood."""
        return cls(
            role=_choice(environ, "MPI_SSH_ROLE", Role, Role.WORKER),
            keys=_folder(environ, "MPI_SSH_KEYS", paths.KEYS),
            volume=_folder(environ, "MPI_SSH_VOLUME", paths.VOLUME),
            mount_path=_folder(environ, "MPI_SSH_MOUNT_PATH", paths.MOUNT),
            run_path=_folder(environ, "MPI_SSH_RUN_PATH", paths.RUN),
            ports=_ports(environ, "MPI_SSH_PORTS") or (2222,),
            user=_choice(environ, "MPI_SSH_USER", User, User.NAMED),
            passwd=_choice(environ, "MPI_SSH_PASSWD", Passwd, Passwd.IMAGE),
            host_keys=_choice(environ, "MPI_SSH_HOST_KEYS", HostKeys, HostKeys.JOB),
            job_hosts=_hosts(environ, "MPI_SSH_HOSTS") or JOB_HOSTS,
            has_own_config=_truth(environ, "MPI_SSH_OWN_CONFIG"),
            waits_inside=_truth(environ, "MPI_AGENT_STAYS"),
            follows=_truth(environ, "MPI_SSH_FOLLOW"),
            tools=_folder(environ, "MPI_AGENT_TOOLS", paths.TOOLS),
            agent_port=next(iter(_ports(environ, "MPI_WORKER_PORT")), None),
            unprivileged_ports=_unprivileged_ports(),
        )

    @property
    def has_helper(self) -> bool:
        """Whether the user's container is started by our program."""
        return self.role is Role.WORKER or self.waits_inside

    @property
    def port(self) -> int:
        """The port of an sshd that runs by our configuration."""
        return self.ports[0]

    @property
    def is_owner(self) -> bool:
        """Whether the files belong to the uid of the user's container, as far as is known.

        Where the platform assigns uids, all containers of a pod have the same, and ours is not the image's own.
        """
        if self.user is User.ASSUMED:
            return self.mount_path == paths.MOUNT
        return self.user is User.NAMED or self.uid != OUR_IMAGES_UID


def _choice(environ: Mapping[str, str], name: str, choices: type[_Choice], default: _Choice) -> _Choice:
    text = environ.get(name) or default
    try:
        return choices(text)
    except ValueError:
        raise BootstrapError(USAGE, f"{name} is {text!r}, and must be {' or '.join(choices)}") from None


def _truth(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name) or "false"
    if text not in ("true", "false"):
        raise BootstrapError(USAGE, f"{name} is {text!r}, and must be true or false")
    return text == "true"


def _folder(environ: Mapping[str, str], name: str, default: str) -> str:
    """Return a path that a line of OpenSSH's configuration can hold in quotes."""
    path = environ.get(name) or default
    if not path.startswith("/") or any(char in path for char in '"\n%\\$') or not path.isprintable():
        raise BootstrapError(USAGE, f"{name} is {path!r}: give an absolute path without quotes, %, $ and \\")
    return path.rstrip("/") or "/"


def _ports(environ: Mapping[str, str], name: str) -> tuple[int, ...]:
    text = environ.get(name) or ""
    words = text.split()
    ports = tuple(int(word) for word in words if word.isascii() and word.isdigit() and 0 < int(word) < 65536)
    if text and (not words or len(ports) != len(words)):
        raise BootstrapError(USAGE, f"{name} is {text!r}: give ports, 1 to 65535, with spaces between")
    return ports


def _hosts(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return patterns of host names that a line of OpenSSH's configuration can hold."""
    text = environ.get(name) or ""
    hosts = tuple(text.split())
    if text and (not hosts or not all(_HOST.fullmatch(one) for one in hosts)):
        raise BootstrapError(USAGE, f"{name} is {text!r}: give host names, * for any text, with spaces between")
    return hosts


def _unprivileged_ports() -> int:
    try:
        with open(_UNPRIVILEGED_PORTS, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1024
