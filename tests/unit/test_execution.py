"""One exec request: what its listener hears, in order, and when it hears no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from execution_bench import ACK, Hearer, Serving, next_frame, serving, upgrade
from scripted_api import Authority, authority, certificate, read_head, read_to_end, settle
from test_streams import CLOSED, SUCCESS, message

from rshagent.stream.websocket import BINARY

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from rshagent.stream.streams import Event

__all__ = ["authority", "certificate", "serving"]


def test_a_good_one(serving: Serving) -> None:
    got: list[object] = []

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + message(2, ACK + b" 7\n") + message(1, b"out"))
        got.append(next_frame(stream))
        got.append(next_frame(stream))
        stream.sendall(message(3, SUCCESS) + CLOSED)
        read_to_end(stream)

    with serving(serve) as bench:
        hearer = Hearer()
        execution = bench.execute(hearer)
        assert hearer.heard == []
        bench.until(lambda: b"out" in hearer.heard)
        execution.send(b"typed")
        execution.close_stdin()
        bench.until(lambda: hearer.is_over)
    assert hearer.heard[:3] == ["opened", "acknowledged", b"out"]
    assert hearer.code == 0
    assert got == [(BINARY, b"\0typed"), (BINARY, b"\xff\0")]


@pytest.mark.parametrize("at", ["opened", "acknowledged", b"out"])
def test_who_closes_hears_no_more_of_what_came_with_the_same_bytes(serving: Serving, at: str | bytes) -> None:
    whole = message(2, ACK + b" 7\n") + message(1, b"out") + message(3, SUCCESS) + CLOSED

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + whole)
        read_to_end(stream)

    with serving(serve) as bench:

        def act(_: Event) -> None:
            if hearer.heard[-1] == at:
                execution.close()

        hearer = Hearer(act)
        execution = bench.execute(hearer)
        bench.until(lambda: at in hearer.heard)
        settle(bench.loop)
    assert hearer.heard[-1] == at


def test_a_refusal_names_what_was_refused_and_a_401_makes_the_token_be_read_again(
    serving: Serving, tmp_path: Path
) -> None:
    tokens: list[str] = []

    def serve(stream: socket.socket) -> None:
        tokens.append(read_head(stream).partition("Authorization: ")[2].partition("\r\n")[0])
        stream.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        read_to_end(stream)

    with serving(serve) as bench:
        for token in ("second", "third"):
            failure = bench.run().failure
            assert (failure.http_status, failure.retryable) == (401, True)
            (tmp_path / "token").write_text(token)
    # The file was read again by the use after the 401, by when it had the new token.
    assert tokens == ["Bearer first", "Bearer second"]


def test_an_untrusted_server_is_final_and_makes_the_ca_be_read_again(
    serving: Serving, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    renewed = Authority(tmp_path_factory.mktemp("renewed"), "renewed-ca")

    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + CLOSED)
        read_to_end(stream)

    with serving(serve, certificate=renewed.issue("server", "127.0.0.1")) as bench:
        (tmp_path / "ca.crt").write_bytes(renewed.pem)
        assert not bench.run().failure.retryable
        assert bench.run().heard[0] == "opened"


def test_a_token_that_can_not_be_read_is_a_failure(serving: Serving, tmp_path: Path) -> None:
    def serve(stream: socket.socket) -> None:
        assert read_to_end(stream) == b"", "a request without a token"

    with serving(serve) as bench:
        bench.engine.cluster.renew()
        (tmp_path / "token").unlink()
        failure = bench.run().failure
    assert not failure.retryable
    assert "the token can't be read" in failure.message


def test_bytes_that_make_no_sense_end_it_as_unknown(serving: Serving) -> None:
    def serve(stream: socket.socket) -> None:
        stream.sendall(upgrade(stream) + b"\xf2\x00")
        read_to_end(stream)

    with serving(serve) as bench:
        hearer = bench.run()
    assert hearer.end[0] is None
    assert hearer.end[1].startswith("the stream can't be read: ")


def test_a_server_that_is_not_there_was_not_asked(serving: Serving) -> None:
    with serving(lambda stream: stream.sendall(upgrade(stream) + CLOSED)) as bench:
        answered = Hearer()
        execution = bench.execute(answered)
        bench.until(lambda: answered.is_over)
        assert execution.is_asked
    hearer = Hearer()
    execution = bench.execute(hearer)
    bench.until(lambda: hearer.is_over)
    assert not execution.is_asked
    assert hearer.end == (None, "the API server can't be reached: Connection refused")
