"""The server's process: the API on a loopback port, and a control channel to the handle that started it (cluster.py).

It ends, with every process of every pod, when the control channel closes: so also when whoever started it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import resource
import signal
import socket
import ssl
import sys
import traceback
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .access import Access
from .api import Api
from .channel import Channel
from .control import Control
from .counters import Counters
from .faults import Faults
from .kubelet import Kubelet
from .processes import Zygote
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

_END_S = 10.0
_MAX_HEAD = 1024 * 1024  # Go's http.DefaultMaxHeaderBytes
_MAX_BODY = 3 * 1024 * 1024


def main() -> None:
    """Serve on the control channel whose file descriptor is given; its first message holds the settings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the handle's to decide
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    zygote = Zygote()  # before the limit is raised: pods keep the usual one
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    first = channel.wait()
    if first is not None:
        asyncio.run(Server(channel, zygote, first[0]).run())
    zygote.close()


class Server:
    """All parts of the stand-in, put together."""

    def __init__(self, channel: Channel, zygote: Zygote, settings: Mapping[str, Any]) -> None:
        self._channel = channel
        self._zygote = zygote
        self._settings = settings
        self._counters = Counters()
        self._over = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._runner: web.AppRunner
        self._kubelet: Kubelet
        self._control: Control
        self.port = settings["port"]

    async def run(self) -> None:
        """Serve until the control channel closes."""
        loop, settings = asyncio.get_running_loop(), self._settings
        loop.set_exception_handler(self._tell_error)
        loop.add_signal_handler(signal.SIGTERM, self._end)
        faulthandler.register(signal.SIGUSR1, file=2)
        store = Store()
        users = Access()
        self._kubelet = Kubelet(store, self._zygote, settings, users)
        api = Api(store, self._kubelet, users, Faults(), self._counters, settings)
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", api.handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,  # a request ends when its client leaves
            max_line_size=_MAX_HEAD,
            max_field_size=_MAX_HEAD,
        )
        await self._runner.setup()
        await self.listen(on=True)
        self._kubelet.services = {
            "KUBERNETES_SERVICE_HOST": settings["address"],
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(self.port),
        }
        self._control = Control(api, self)
        loop.add_reader(self._channel.fd, self._read_control)
        self._channel.send({"ok": {"port": self.port, "level": self._zygote.level}, "number": settings["number"]})
        await self._over.wait()

    @property
    def connections(self) -> list[web.RequestHandler]:
        """The clients' connections."""
        assert self._runner.server is not None
        return self._runner.server.connections

    async def listen(self, *, on: bool) -> None:
        """Take connections, or refuse them."""
        if on and self._listener is None:
            assert self._runner.server is not None
            self._listener = await asyncio.get_running_loop().create_server(
                self._runner.server,
                self._settings["address"],
                self.port,
                ssl=_context(self._settings),
                backlog=4096,
                ssl_shutdown_timeout=1,
            )
            self.port = self._listener.sockets[0].getsockname()[1]
        elif not on and self._listener is not None:
            self._listener.close()
            self._listener = None

    def _read_control(self) -> None:
        if not self._channel.fill(socket.MSG_DONTWAIT):
            asyncio.get_running_loop().remove_reader(self._channel.fd)
            self._end()
            return
        while (message := self._channel.next()) is not None:
            self._kubelet.background(self._answer(*message))

    async def _answer(self, message: dict[str, Any], fds: list[int]) -> None:
        answer = await self._control.answer(message, fds)
        with contextlib.suppress(OSError):  # the handle is gone, which the next read tells
            self._channel.send(answer)

    def _end(self) -> None:
        asyncio.get_running_loop().call_later(_END_S, self._over.set)
        self._kubelet.background(self._kubelet.end_all()).add_done_callback(lambda _task: self._over.set())

    def _tell_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError):  # a connection's are the client's doing
            self._counters.errors += 1
            sys.stderr.write(f"{context['message']}\n")
            traceback.print_exception(error)


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings["certificate"], settings["key"])
    context.load_verify_locations(settings["ca"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1  # as Go's server
    return context


if __name__ == "__main__":
    main()
    os._exit(0)
