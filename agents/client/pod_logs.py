"""The lines of a container's log, in bounded memory, and those that explain a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

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


def lines(
    connection: Connection,
    path: str,
    container: str,
    *,
    follow: bool = False,
    previous: bool = False,
    tail: int | None = None,
    since_s: int | None = None,
    most: int | None = None,
) -> Iterator[str]:
    """Return the lines of a container; `path`: its pod's log. Raises ClientError while they are read.

    `follow`: until it ends. `previous`: of the one before its last restart. `tail`: only so many last lines. `since_s`:
    of so many last seconds. `most`: so many bytes, from the first.
    """
    query = {"container": container}
    query |= {"follow": "true"} if follow else {}
    query |= {"previous": "true"} if previous else {}
    query |= {} if tail is None else {"tailLines": str(tail)}
    query |= {} if since_s is None else {"sinceSeconds": str(since_s)}
    query |= {} if most is None else {"limitBytes": str(most)}
    return _lines(connection, path, query)


def _lines(
    connection: Connection, path: str, query: Mapping[str, str], *, read_s: float | None = None
) -> Iterator[str]:
    for line in connection.stream(path, read_s=read_s, **query).lines(_LINE_MAX):
        yield line.decode("utf-8", "replace").rstrip("\n")


def with_output(connection: Connection, facts: Facts) -> Facts:
    """Return what is known of a job with the end of the log that explains it: of what failed, or a running launcher."""
    try:
        if (end := failed_container(facts)) is not None and end.container:
            query = {"container": end.container} | ({} if end.is_current else {"previous": "true"})
            return replace(facts, output=_last_lines(connection, POD.path(facts.namespace, end.pod, "log"), query))
        if (launcher := running_launcher(facts)) is not None:
            query = {"container": launcher.state.main_container, "timestamps": "true"}
            stamped = _last_lines(connection, POD.path(facts.namespace, launcher.name, "log"), query)
            output, silent_since = last_output(stamped, launcher)
            return replace(facts, output=output, silent_since=silent_since)
    except ClientError:  # the log is gone, or its reader has no right to it: the rest is worth showing
        pass
    return facts


def _last_lines(connection: Connection, path: str, query: Mapping[str, str]) -> tuple[str, ...]:
    """Return a container's last lines: fewer if they are so long that the end is not in a bounded answer.

    Raises ClientError.
    """
    found: tuple[str, ...] = ()
    for tail in (_TAIL, LINES):
        limits = {"tailLines": str(tail), "limitBytes": str(_TAIL_BYTES)}
        found = tuple(_lines(connection, path, {**query, **limits}, read_s=_READ_S))
        if sum(len(line.encode()) + 1 for line in found) < _TAIL_BYTES:
            break
    if found and found[0].startswith(_NO_LOG):
        raise ClientError(found[0])
    return found
