"""Faults on demand: which request they meet, how often, and what they do to it.

For execs (`on="exec"`):
  http                 answers `status` (with `retry_after_s`) instead of doing anything
  no-answer            says nothing to the request, for ever
  drop-before-upgrade  resets the connection instead of answering
  drop-after-upgrade   101, then a reset; the command is not started
  dial-error           the kubelet can't be reached: 101 and a Status
  hang                 101, pongs, and nothing else: kubelet does not answer; the command is not started
  drop-after-start     the command runs; a reset at its first output (the acknowledgement), of which nothing is sent
  drop-mid-stream      a reset when `after_bytes` of output have been sent
  no-status            the stream ends properly but without a Status
  status               `data` as the Status, whatever it is
  raw                  `data` on the connection when `after_bytes` of output have been sent (garbage, oversized frames…)
  slow                 at most `bytes_per_s` in each direction
  half-open            after `after_bytes` of output nothing is read or written any more; no close
  silent               after `after_bytes` of output nothing is sent any more, not even pongs; reading continues
For `on` = another verb ("list", "get", "watch", "create", "update", "patch", "delete", "deletecollection") or "review":
  http, no-answer, drop-before-upgrade
  gone                 (watch) an ERROR event with 410
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from . import statuses
from .pipes import PIECE

REQUESTS = frozenset(
    ("exec", "list", "get", "watch", "review", "create", "update", "patch", "delete", "deletecollection")
)
_ANYWHERE = frozenset({"http", "no-answer", "drop-before-upgrade"})
_DISTURBED = {"drop-mid-stream": "cut", "half-open": "freeze", "silent": "silence"}
_OF_EXECS = frozenset(
    (*_DISTURBED, "drop-after-upgrade", "dial-error", "hang", "drop-after-start", "raw", "no-status", "status", "slow")
)
_STEP_S = 0.05  # of what is slow
_TEXTS = {401: "Unauthorized", 429: "too many requests, please try again later"}


@dataclass
class Fault:
    """One fault. It meets the requests `on`, of `pod` (None: of every pod), `times` times (None: until cleared).

    `pod` may be the name of another object.
    """

    kind: str
    on: str = "exec"
    pod: str | None = None
    times: int | None = 1
    status: int = 500
    retry_after_s: int | None = None
    after_bytes: int = 0
    bytes_per_s: int = 65536
    data: bytes = b""
    text: str = ""  # replaces the usual message

    def check(self) -> None:
        """Raises ValueError if there is no such fault."""
        if self.on not in REQUESTS:
            raise ValueError(f"a fault is on one of {', '.join(sorted(REQUESTS))}, not {self.on!r}")
        known = _ANYWHERE | (_OF_EXECS if self.on == "exec" else {"gone"} if self.on == "watch" else set())
        if self.kind not in known:
            raise ValueError(f"no fault {self.kind!r} on {self.on}; there are: {', '.join(sorted(known))}")


class Faults:
    """The faults that are set. Each request meets at most one: the first that fits."""

    def __init__(self) -> None:
        self._set: list[Fault] = []

    def add(self, **fields: Any) -> None:
        """Set a fault of these fields. Raises ValueError if there is none."""
        fault = Fault(**fields)
        fault.check()
        self._set.append(fault)

    def clear(self) -> None:
        """No more faults."""
        self._set.clear()

    def meet(self, on: str, pod: str) -> Fault | None:
        """The fault that this request meets."""
        for fault in self._set:
            if fault.on != on or fault.pod not in {None, pod}:
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._set.remove(fault)
            return fault
        return None


def reset(connection: web.Request | web.RequestHandler) -> None:
    """Reset the connection, as a crashed peer does."""
    transport = connection.transport
    if isinstance(transport, asyncio.Transport):
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def instead(fault: Fault | None, request: web.Request) -> web.Response | None:
    """What a request that meets this fault is answered before anything is done; None if it is carried out."""
    if fault is None or fault.kind not in _ANYWHERE:
        return None
    if fault.kind == "no-answer":
        await asyncio.Event().wait()  # until the client leaves
    if fault.kind == "drop-before-upgrade":
        reset(request)
        return web.Response()
    headers = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
    text = fault.text or _TEXTS.get(fault.status, "the server is out of order on purpose")
    return web.json_response(statuses.failure(fault.status, text), status=fault.status, headers=headers)


class Stream(Protocol):
    """An exec's stream, as far as a fault meets it."""

    def disturb(self, what: str) -> None:
        """Cut, freeze, silence or hold it."""

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""


class ExecHooks:
    """What a fault does to an exec, if it meets one: the session calls these at its steps."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault or Fault("")
        self._kind = self._fault.kind
        self.starts = self._kind not in {"drop-after-upgrade", "hang"}  # whether the command is started
        self.piece = max(1, int(self._fault.bytes_per_s * _STEP_S)) if self._kind == "slow" else PIECE
        """So much output is sent at once."""

    def dial_error(self) -> str | None:
        """What goes wrong between API server and kubelet."""
        if self._kind != "dial-error":
            return None
        return "error dialing backend: dial tcp 127.0.0.1:10250: connect: connection refused"

    def upgraded(self, session: Stream) -> None:
        """The 101 is sent."""
        if self._kind == "drop-after-upgrade":
            session.disturb("cut")

    def has_output(self, session: Stream) -> None:
        """Output, or the Status, is about to be sent."""
        if self._kind == "drop-after-start":
            session.disturb("cut")

    def sent(self, session: Stream, count: int) -> None:
        """So many bytes of output have been sent in all."""
        if count < self._fault.after_bytes:
            return
        if self._kind in _DISTURBED:
            session.disturb(_DISTURBED[self._kind])
        elif self._kind == "raw":
            session.write_raw(self._fault.data)
            self._kind = ""  # it is sent once

    def pause_s(self, count: int) -> float:
        """How long to wait after so many bytes in either direction."""
        return count / self._fault.bytes_per_s if self._kind == "slow" else 0.0

    def status(self, data: bytes) -> bytes | None:
        """The Status to send; None for none."""
        return {"no-status": None, "status": self._fault.data}.get(self._kind, data)
