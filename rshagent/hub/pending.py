"""The clients without a session: those whose first message is not complete, and those that wait for their turn.

Any process of the pod can connect, so their number, bytes and time are bounded. Beyond a bound the oldest client is
closed: our client then reconnects immediately.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agents.common.loop import Loop

CLIENTS_MAX = 1024
BYTES_MAX = 8 << 20  # of unfinished messages, and of starts that wait, together
_FIRST_S = 10.0  # for a client to say what it wants, and to read its answer
_LOOK_S = 1.0
_DESCRIPTORS = 16  # of all that we may have, to one client here: it holds four, a session five


class Client(Protocol):
    """The hub's side of a client's connection."""

    def close(self) -> None:
        """Close it."""

    def end(self, number: int) -> None:
        """End its session as by a signal, without a grace."""


class Pending:
    """Those clients, in the order in which they came."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._most = min(CLIENTS_MAX, max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _DESCRIPTORS, 1))
        self._due: dict[Client, float] = {}
        self._held: dict[Client, int] = {}  # bytes, in the order in which they began to hold some
        self._bytes = 0
        self._is_looking = False

    def __len__(self) -> int:
        return len(self._due)

    def add(self, client: Client) -> None:
        """Add a client, which must have a session or be gone within 10 s."""
        self._due[client] = self._loop.now() + _FIRST_S
        if len(self._due) > self._most:
            next(iter(self._due)).close()
        if not self._is_looking:
            self._is_looking = True
            self._loop.call_later(_LOOK_S, self._look)

    def remove(self, client: Client) -> None:
        """Remove a client that has a session now, or is closed; any other call has no effect."""
        self._due.pop(client, None)
        self._bytes -= self._held.pop(client, 0)

    def hold(self, client: Client, size: int) -> None:
        """Note how many bytes of a client wait for the rest of their message."""
        if client not in self._due:
            return
        self._bytes += size - self._held.get(client, 0)
        self._held[client] = size
        if not size:
            del self._held[client]
        while self._bytes > BYTES_MAX:
            next(iter(self._held)).close()

    def wait(self, client: Client, size: int) -> None:
        """Let a client wait for as long as it takes, with a start of so many bytes."""
        if client in self._due:
            self._due[client] = float("inf")
            self.hold(client, size)

    def _look(self) -> None:
        now = self._loop.now()
        for client in [client for client, due in self._due.items() if due <= now]:
            client.close()
        self._is_looking = bool(self._due)
        if self._is_looking:
            self._loop.call_later(_LOOK_S, self._look)
