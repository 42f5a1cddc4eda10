"""A connection through an HTTP proxy: how it is asked, what it may not see, and what is said where it fails."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from scripted_api import (
    Authority,
    Server,
    authority,
    certificate,
    cluster_at,
    greet,
    linked,
    lost_of,
    read_head,
    until,
)

from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["authority", "certificate"]


class Proxy:
    """An HTTP proxy that connects to one server, whatever it is asked for; `asked` is the heads that it was sent."""

    def __init__(self, target: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n") -> None:
        self.asked: list[str] = []
        self._target, self._answer = target, answer

    def __call__(self, stream: socket.socket) -> None:
        self.asked.append(read_head(stream))
        with contextlib.suppress(ConnectionError):  # who is refused need not hear all of it
            for byte in self._answer:
                stream.sendall(bytes((byte,)))
        if b" 200 " not in self._answer:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as onward:
            back = threading.Thread(target=self._pump, args=(onward, stream), daemon=True)
            back.start()
            self._pump(stream, onward)
            back.join(20)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.mark.parametrize(
    ("credentials", "authorization"),
    [("", None), ("user:pass@", "Basic dXNlcjpwYXNz"), ("a%40b:%25@", "Basic YUBiOiU=")],
)
def test_through_a_proxy_with_and_without_authentication(
    authority: Authority, certificate: tuple[Path, Path], credentials: str, authorization: str | None
) -> None:
    with Server(greet, certificate) as server:
        proxy = Proxy(server.port)
        with Server(proxy) as proxy_server:
            # `localhost` would never go through a proxy; TLS still is with, and verified for, the server's own name.
            environ = {"HTTPS_PROXY": f"http://{credentials}127.0.0.1:{proxy_server.port}/"}
            other = authority.issue("proxied", "api.example")
            server.context.load_cert_chain(*other)  # type: ignore[union-attr]
            loop, owner, link = linked(cluster_at(6443, authority.path, host="api.example", environ=environ))
            link.send(b"world")
            until(loop, lambda: owner.data == b"hello world")
            link.close()
    (head,) = proxy.asked
    lines = head.split("\r\n")
    assert lines[:2] == ["CONNECT api.example:6443 HTTP/1.1", "Host: api.example:6443"]
    sent = [line.partition(": ")[2] for line in lines if line.startswith("Proxy-Authorization")]
    assert sent == ([authorization] if authorization else [])
    assert "secret" not in head, "the token is not the proxy's business"


PROXY_ANSWERS = [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy refused to connect to the API server (407)"),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", "(502)"),
    (b"SOCKS?\r\n\r\n", "the proxy's answer can't be read"),
    (b"", "the proxy's answer can't be read: it closed the connection"),
]


@pytest.mark.parametrize(("answer", "words"), PROXY_ANSWERS)
def test_a_proxy_that_refuses(authority: Authority, answer: bytes, words: str) -> None:
    with Server(Proxy(0, answer)) as proxy_server:
        environ = {"HTTPS_PROXY": f"http://user:pass@127.0.0.1:{proxy_server.port}"}
        lost = lost_of(cluster_at(6443, authority.path, host="api.example", environ=environ))
    assert words in lost.reason
    assert "pass" not in lost.reason
    assert not lost.is_final


def test_a_proxy_that_is_not_there(authority: Authority) -> None:
    environ = {"HTTPS_PROXY": f"http://127.0.0.1:{free_port()}"}
    lost = lost_of(cluster_at(6443, authority.path, host="api.example", environ=environ))
    assert lost.reason == "the proxy can't be reached: Connection refused"
