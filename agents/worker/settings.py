"""The worker agent's settings: only environment variables, so that a pod's template shows all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agents.common import durations

PORT = 9470
COMMANDS = "/etc/mpi-orders/order"
GRACE_S = 60.0


class SettingsError(ValueError):
    """An invalid variable: one line that names it and says what it should be."""


class Settings(NamedTuple):
    """Where things are, and how long orphans may live."""

    ports: tuple[int, ...] = ()
    """Where sshd may listen, the likeliest first; none: this job has no sshd."""
    keys: str = ""
    """The Secret's folder; empty: nothing to rotate."""
    volume: str = ""
    """The memory volume with the folders auth and run; empty without sshd."""
    http_port: int = PORT
    socket: str = ""
    """The Unix socket; empty: none."""
    commands: str = COMMANDS
    grace_s: float = GRACE_S
    """How long orphans may outlive their launch."""


def read(environ: Mapping[str, str]) -> Settings:
    """Read the environment. Raises SettingsError."""
    ports = tuple(_port(word, "MPI_SSH_PORTS") for word in environ.get("MPI_SSH_PORTS", "").split())
    volume = environ.get("MPI_SSH_VOLUME") or ("/mpi-ssh" if ports else "")
    return Settings(
        ports=ports,
        keys=environ.get("MPI_SSH_KEYS") or ("/etc/mpi-ssh" if ports else ""),
        volume=volume,
        http_port=_port(environ.get("MPI_WORKER_PORT") or str(PORT), "MPI_WORKER_PORT"),
        socket=environ.get("MPI_WORKER_SOCKET", f"{volume}/run/worker.sock" if volume else ""),
        commands=environ.get("MPI_WORKER_ORDERS") or COMMANDS,
        grace_s=_duration(environ.get("MPI_WORKER_GRACE", ""), "MPI_WORKER_GRACE"),
    )


def _port(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536):
        raise SettingsError(f"{name}: {text!a} is not a port: use a number from 1 to 65535")
    return int(text)


def _duration(text: str, name: str) -> float:
    if not text:
        return GRACE_S
    try:
        return durations.parse(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
