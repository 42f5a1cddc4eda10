"""Where clients connect: a TLS port that refuses connections on demand, and the connections that are open."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_MAX_HEAD = 1024 * 1024  # Go's http.DefaultMaxHeaderBytes
_MAX_BODY = 3 * 1024 * 1024


class Listener:
    """The API server's port. `port` is known once it is open."""

    def __init__(
        self, settings: Mapping[str, Any], handle: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> None:
        self.port = settings["port"]
        self._settings = settings
        self._listener: asyncio.Server | None = None
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,  # a request ends when its client leaves
            max_line_size=_MAX_HEAD,
            max_field_size=_MAX_HEAD,
        )

    async def open(self) -> None:
        """Accept connections from now on."""
        if self._runner.server is None:
            await self._runner.setup()
        server = self._runner.server
        assert server is not None
        if self._listener is None:
            self._listener = await asyncio.get_running_loop().create_server(
                server,
                self._settings["address"],
                self.port,
                ssl=_context(self._settings),
                backlog=4096,
                ssl_shutdown_timeout=1,
            )
            self.port = self._listener.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Refuse new connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    @property
    def connections(self) -> list[web.RequestHandler]:
        """The clients' connections."""
        assert self._runner.server is not None
        return self._runner.server.connections


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings["certificate"], settings["key"])
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1  # as Go's server
    return context
