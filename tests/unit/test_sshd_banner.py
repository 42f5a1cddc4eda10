"""What an sshd says first, and everything else that may answer at its port."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshd_bootstrap import banner

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN = b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10\r\n"
FOUND = {
    DEBIAN: "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10",
    b"SSH-1.99-x\n": "SSH-1.99-x",
    b"welcome\r\nto SSH-\r\n" + DEBIAN: "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10",
    DEBIAN + b"\x00\x00\x05\xec\n": "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10",
}


@pytest.mark.parametrize(("received", "expected"), FOUND.items())
def test_banners(received: bytes, expected: str) -> None:
    assert banner.find(received) == expected
    assert banner.is_banner(received)


@given(st.integers(0, len(DEBIAN) - 1))
def test_a_part_of_one_is_none_yet(end: int) -> None:
    assert banner.find(DEBIAN[:end]) is None


@given(st.binary(max_size=20_000))
def test_anything_else_is_none_and_has_an_end(received: bytes) -> None:
    try:
        found = banner.find(received)
    except banner.NotSshError:
        assert len(received) >= 8192
    else:
        assert found is None or found.startswith("SSH-")


@contextmanager
def answering(said: bytes, *, closes: bool) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            connection, _ = server.accept()
            connection.sendall(said)
            held.append(connection)
            if closes:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()
        for connection in held:
            connection.close()


def test_asking() -> None:
    with answering(DEBIAN, closes=False) as port:
        assert banner.ask("127.0.0.1", port, 10) == "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10"


def test_what_closes_the_connection() -> None:
    with (
        answering(b"Exceeded MaxStartups\r\n", closes=True) as port,
        pytest.raises(banner.NotSshError, match="closed the connection and said 'Exceeded MaxStartups'"),
    ):
        banner.ask("127.0.0.1", port, 10)


def test_what_says_nothing() -> None:
    with answering(b"", closes=False) as port, pytest.raises(TimeoutError):
        banner.ask("127.0.0.1", port, 0.05)


def test_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        banner.ask("127.0.0.1", port, 10)
