"""Ordinary requests to the API server: one answer, or a stream of them (a watch)."""

from __future__ import annotations

from collections.abc import Callable

from agents.common.loop import Loop
from rshagent.net.cluster import Cluster, ConfigError
from rshagent.net.connection import Link, Lost, Owner
from rshagent.net.http import BodyReader, Head, HeadReader, HttpError

BODY_MAX = 4 << 20  # a pod has up to 1.5 MiB (etcd's limit)


class Get(Owner):
    """A GET. `on_head(head)`, then `on_body(bytes)` as it comes, then `on_end(lost)`: None for a whole answer."""

    __slots__ = ("_body", "_cluster", "_head", "_is_over", "_link", "_on_body", "_on_end", "_on_head", "_target")

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        target: str,
        *,
        on_head: Callable[[Head], None],
        on_body: Callable[[bytes], None],
        on_end: Callable[[Lost | None], None],
    ) -> None:
        self._cluster, self._target = cluster, target
        self._on_head, self._on_body, self._on_end = on_head, on_body, on_end
        self._head: HeadReader | None = HeadReader()
        self._body: BodyReader | None = None
        self._is_over = False
        self._link = Link(loop, cluster, self)

    def close(self) -> None:
        """Close; nothing is called after this."""
        self._is_over = True
        self._link.close()

    def opened(self) -> None:
        """Send the request."""
        try:
            authorization = self._cluster.authorization()
        except ConfigError as error:
            self._end(Lost(str(error)))
            return
        lines = [
            f"GET {self._cluster.path}{self._target} HTTP/1.1",
            f"Host: {self._cluster.authority}",
            "Accept: application/json",
            "User-Agent: mpi-agents",
        ]
        if authorization is not None:
            lines.append(f"Authorization: {authorization}")
        self._link.send("\r\n".join((*lines, "", "")).encode("latin-1"))

    def received(self, data: memoryview) -> None:
        """Read head and body."""
        try:
            if self._head is not None:
                head = self._head.feed(data)
                if head is None:
                    return
                data, self._head = memoryview(self._head.rest), None
                self._body = BodyReader(head)
                self._on_head(head)
                if self._is_over:
                    return
            assert self._body is not None
            body = self._body.feed(data)
        except HttpError as error:
            self._end(Lost(f"the API server's answer can't be read: {error}"))
            return
        if body:
            self._on_body(body)
        if self._body.done and not self._is_over:
            self._end(None)

    def closed(self, lost: Lost) -> None:
        """Report an answer that was cut off, or never came."""
        self._on_end(lost)

    def _end(self, lost: Lost | None) -> None:
        self.close()
        self._on_end(lost)


class TooLong(Lost):
    """The answer is longer than what is taken of one."""

    __slots__ = ()


def get(loop: Loop, cluster: Cluster, target: str, on_done: Callable[[Head | None, bytes, Lost | None], None]) -> Get:
    """GET `target` whole: `on_done(head, body, None)`, or `on_done(None or head, b"", lost)`."""
    heads: list[Head] = []
    body = bytearray()

    def take(data: bytes) -> None:
        body.extend(data)
        if len(body) > BODY_MAX:
            request.close()
            on_done(heads[0], b"", TooLong(f"the API server's answer is longer than {BODY_MAX >> 20} MiB"))

    def end(lost: Lost | None) -> None:
        on_done(heads[0] if heads else None, bytes(body), lost)

    request = Get(loop, cluster, target, on_head=heads.append, on_body=take, on_end=end)
    return request
