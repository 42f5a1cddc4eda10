"""The lines of a container's log, in bounded memory, and those that explain a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypedDict, Unpack

from agents.client.causes import LINES
from agents.client.connection import Connection
from agents.client.diagnosis import failed_container, running_launcher
from agents.client.errors import ClientError
from agents.client.facts import Facts
from agents.client.silence import last_output
from agents.kube.kinds import POD

_TAIL = 200  # lines of a container that are searched for the cause
_TAIL_BYTES = 256 << 10  # of them
_NO_LOG = "unable to retrieve container logs"  # the kubelet's (kuberuntime_logs.go), of a container that is removed
_READ_S = 60.0  # how long a node may take to answer with them
_LINE_MAX = 64 << 10  # bytes of a line that is held until its end


class Lines(TypedDict, total=False):
    """Which lines of a container's log. None: all."""

    follow: bool  # until the container ends
    previous: bool  # of the container before its last restart
    timestamps: bool  # each with its time before it
    tail: int | None  # number of last lines
    since_s: int | None  # only the last seconds
    most: int | None  # bytes, from the start


_QUERY = {"tail": "tailLines", "since_s": "sinceSeconds", "most": "limitBytes"}  # others have the API's names


def lines(
    connection: Connection,
    namespace: str,
    pod: str,
    container: str,
    *,
    read_s: float | None = None,
    **which: Unpack[Lines],
) -> Iterator[str]:
    """Give lines of a container's log; `read_s`: how long it may be silent. Raises ClientError."""
    asked = {_QUERY.get(key, key): str(value).lower() for key, value in which.items() if value is not None}
    path, query = POD.path(namespace, pod, "log"), {"container": container, **asked}
    for line in connection.stream(path, read_s=read_s, **query).lines(_LINE_MAX):
        yield line.decode("utf-8", "replace").rstrip("\n")


def with_output(connection: Connection, facts: Facts) -> Facts:
    """Return what is known of a job with the end of the log that explains it: of what failed, or a running launcher."""
    try:
        if (end := failed_container(facts)) is not None and end.container:
            output = _last_lines(connection, facts.namespace, end.pod, end.container, previous=not end.is_current)
            return replace(facts, output=output)
        if (launcher := running_launcher(facts)) is not None:
            where = (facts.namespace, launcher.name, launcher.state.main_container)
            stamped = _last_lines(connection, *where, timestamps=True)
            output, silent_since = last_output(stamped, launcher)
            return replace(facts, output=output, silent_since=silent_since)
    except ClientError:  # the log is gone, or its reader has no right to it: the rest is worth showing
        pass
    return facts


def _last_lines(
    connection: Connection, namespace: str, pod: str, container: str, **which: Unpack[Lines]
) -> tuple[str, ...]:
    """Return a container's last lines: fewer if they are so long that the end is not in a bounded answer.

    Raises ClientError.
    """
    found: tuple[str, ...] = ()
    for tail in (_TAIL, LINES):
        which |= {"tail": tail, "most": _TAIL_BYTES}
        found = tuple(lines(connection, namespace, pod, container, read_s=_READ_S, **which))
        if sum(len(line.encode()) + 1 for line in found) < _TAIL_BYTES:
            break
    if found and found[0].startswith(_NO_LOG):
        raise ClientError(found[0])
    return found
