"""The server's process: the API on a loopback port, and a control channel to the handle that started it (cluster.py).

It ends, with every process of every pod, when the control channel closes: so also when whoever started it is killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import ssl
import sys
import traceback
from typing import TYPE_CHECKING, Any

from .access import Access
from .api import Api, Conversation
from .channel import Channel
from .connection import Connection
from .control import Control
from .counters import Counters
from .faults import Faults
from .kubelet import Kubelet
from .loop import READ, Loop
from .processes import Nursery
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_END_S = 10.0


def main() -> None:
    """Serve on the control channel whose file descriptor is given; its first message holds the settings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the handle's to decide
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    first = channel.wait()
    if first is not None:
        Server(channel, first[0]).run()


class Listener:
    """The port."""

    def __init__(self, loop: Loop, address: str, port: int, accepted: Callable[[socket.socket], None]) -> None:
        self._loop = loop
        self._address = address
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._accepted = accepted
        self._socket: socket.socket | None = None
        self.port = port
        self.listen(on=True)

    def listen(self, *, on: bool) -> None:
        """Take connections, or refuse them."""
        if on and self._socket is None:
            self._socket = socket.create_server((self._address, self.port), family=self._family, backlog=4096)
            self._socket.setblocking(False)
            self.port = self._socket.getsockname()[1]
            self._loop.add(self._socket.fileno(), READ, self._accept)
        elif not on and self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _accept(self, _mask: int) -> None:
        for _ in range(128):
            try:
                assert self._socket is not None
                sock, _address = self._socket.accept()
            except OSError:
                return
            self._accepted(sock)


class Server:
    """All parts of the stand-in, put together."""

    def __init__(self, channel: Channel, settings: Mapping[str, Any]) -> None:
        self._channel = channel
        self._loop = Loop()
        self._loop.on_error = self._tell_error
        self._nursery = Nursery()  # before the limit is raised: pods keep the usual one
        _raise_open_files()
        store = Store()
        kubelet = Kubelet(
            self._loop,
            store,
            self._nursery,
            settings["folder"],
            settings["environ"],
            ca=_text(settings["ca"]),
            runs_pods=settings["runs_pods"],
        )
        self._kubelet = kubelet
        counters = Counters()
        self._counters = counters
        api = Api(self._loop, store, kubelet, Access(), Faults(), counters, settings)
        self._api = api
        self._control = Control(api, self._nursery)
        self._context = _context(settings)
        self._listener = Listener(self._loop, settings["address"], settings["port"], self._converse)
        self._control.listen = self._listener.listen
        port = str(self._listener.port)
        kubelet.services = {
            "KUBERNETES_SERVICE_HOST": settings["address"],
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }
        self._loop.add(channel.fd, READ, self._read_control)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._end())
        channel.send({"ok": {"port": self._listener.port, "level": self._nursery.level}})

    def run(self) -> None:
        """Serve until the control channel closes."""
        self._loop.run()
        self._nursery.close()

    def _converse(self, sock: socket.socket) -> None:
        Conversation(self._api, Connection(self._loop, sock, self._context))

    def _read_control(self, _mask: int) -> None:
        if not self._channel.fill(socket.MSG_DONTWAIT):
            self._loop.remove(self._channel.fd)
            self._end()
            return
        while (message := self._channel.next()) is not None:
            self._control.carry_out(message[0], message[1], self._reply)

    def _reply(self, reply: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the handle is gone, which the next read tells
            self._channel.send(reply)

    def _end(self) -> None:
        self._loop.call_later(_END_S, self._loop.stop)
        self._kubelet.end_all(self._loop.stop)

    def _tell_error(self) -> None:
        self._counters.errors += 1
        traceback.print_exc()


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings["certificate"], settings["key"])
    context.load_verify_locations(settings["ca"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1  # as Go's server
    return context


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _raise_open_files() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
    os._exit(0)
