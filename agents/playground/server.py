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
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .access import Access
from .api import Api
from .channel import Channel
from .control import Control
from .counters import Counters
from .faults import Faults
from .kubelet import Kubelet
from .listener import Listener
from .processes import Zygote
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

_END_S = 10.0


def main() -> None:
    """Serve on the control channel whose file descriptor is given; its first message holds the settings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the handle's to decide
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    zygote = Zygote()  # before the limit is raised: pods keep the usual one
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    first = channel.receive()
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
        self._kubelet: Kubelet
        self._control: Control

    async def run(self) -> None:
        """Serve until the control channel closes."""
        loop, settings = asyncio.get_running_loop(), self._settings
        loop.set_exception_handler(self._tell_error)
        loop.add_signal_handler(signal.SIGTERM, self._end)
        faulthandler.register(signal.SIGUSR1, file=2)
        store = Store()
        users = Access()
        self._kubelet = Kubelet(store, self._zygote, settings, users)
        api = Api(store, self._kubelet, users, Faults(), self._counters)
        listener = Listener(settings, api.handle)
        await listener.open()
        self._kubelet.node.services = {
            "KUBERNETES_SERVICE_HOST": settings["address"],
            "KUBERNETES_SERVICE_PORT": str(listener.port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(listener.port),
        }
        self._control = Control(api, listener)
        loop.add_reader(self._channel.fd, self._read_control)
        self._channel.send({"ok": {"port": listener.port, "level": self._zygote.level}, "number": settings["number"]})
        await self._over.wait()

    def _read_control(self) -> None:
        message = self._channel.receive()
        if message is not None:
            self._kubelet.node.background(self._answer(*message))
            return
        asyncio.get_running_loop().remove_reader(self._channel.fd)
        self._end()

    async def _answer(self, message: dict[str, Any], fds: list[int]) -> None:
        answer = await self._control.answer(message, fds)
        with contextlib.suppress(OSError):  # the handle is gone, which the next read tells
            self._channel.send(answer)

    def _end(self) -> None:
        asyncio.get_running_loop().call_later(_END_S, self._over.set)
        self._kubelet.node.background(self._kubelet.end_all()).add_done_callback(lambda _task: self._over.set())

    def _tell_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError):  # a connection's are the client's doing
            self._counters.errors += 1
            sys.stderr.write(f"{context['message']}\n")
            traceback.print_exception(error)


if __name__ == "__main__":
    main()
    os._exit(0)
