"""A watch as a client gets it, until its time is over, the client leaves or a fault ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aiohttp import web

    from . import statuses
    from .store import Store
    from .watch import Watch


class WatchStream:
    """What a watch tells, as chunks to be sent."""

    def __init__(self, store: Store, watch: Watch, request: web.Request) -> None:
        self.request = request
        self._store = store
        self._watch = watch
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()  # nothing: the end

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Each event by itself."""
        self._poll()
        if self._watch.is_expired:
            self.end()
        unsubscribe = self._store.subscribe(self._watch.key, lambda _change: self._poll())
        timer = asyncio.get_running_loop().call_later(self._watch.timeout_s, self.end)
        try:
            while chunk := await self._queue.get():
                yield chunk
        finally:
            unsubscribe()
            timer.cancel()

    def fail(self, status: statuses.Status) -> None:
        """End with an ERROR event."""
        self.raw(self._watch.error(status))
        self.end()

    def end(self) -> None:
        """End as the server does when the time is over."""
        self.raw(b"")

    def raw(self, data: bytes) -> None:
        """Send these bytes as if they were an event."""
        self._queue.put_nowait(data)

    def _poll(self) -> None:
        for line in self._watch.poll():
            self.raw(line)
