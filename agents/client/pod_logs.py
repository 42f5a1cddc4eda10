"""The lines of a container's log, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.client.causes import LINES
from agents.client.connection import Connection
from agents.client.facts import End
from agents.operator.kube import POD

_TAIL = 200  # lines of a failed container that are searched for the cause
_TAIL_BYTES = 256 << 10  # of them
_NO_LOG = "unable to retrieve container logs"  # the kubelet's (kuberuntime_logs.go), of a container that is removed
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
    for line in connection.lines(path, query, most=_LINE_MAX):
        yield line.decode("utf-8", "replace").rstrip("\n")


def last_lines(connection: Connection, namespace: str, end: End) -> Sequence[str]:
    """Return a failed container's last lines: fewer if they are so long that the end is not in a bounded answer."""
    path, found = POD.path(namespace, end.pod, "log"), [""]
    for tail in (_TAIL, LINES):
        found = [*lines(connection, path, end.container, previous=not end.is_current, tail=tail, most=_TAIL_BYTES)]
        if sum(len(line.encode()) + 1 for line in found) < _TAIL_BYTES:
            break
    return () if found and found[0].startswith(_NO_LOG) else found
