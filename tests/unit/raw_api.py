"""A small client of its own for the stand-in: bytes on a TLS socket, so that a test sees what really comes."""

from __future__ import annotations

import json
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.playground import Cluster

PATIENCE_S = 20.0
STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3


def connect(cluster: Cluster) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=cluster.ca)
    plain = socket.create_connection(("127.0.0.1", cluster.port), timeout=PATIENCE_S)
    return context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)


def receive(stream: ssl.SSLSocket) -> bytes:
    """What comes next; nothing at a proper end. Raises ConnectionResetError at any other.

    Python's ssl tells a reset as an unexpected end of file.
    """
    try:
        return stream.recv(65536)
    except ssl.SSLEOFError as error:
        raise ConnectionResetError from error


class Answer:
    """An HTTP answer's head, and the bytes after it."""

    def __init__(self, stream: ssl.SSLSocket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = receive(stream)
            if not more:
                raise ConnectionResetError("closed in the head of the answer")
            data += more
        head, _, self.rest = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}


def request(
    cluster: Cluster,
    path: str,
    token: str | None,
    *,
    method: str = "GET",
    body: bytes = b"",
    media: str = "application/json",
) -> tuple[Answer, bytes]:
    """One request on a connection of its own, with its whole body."""
    with connect(cluster) as stream:
        login = f"Authorization: Bearer {token}\r\n" if token else ""
        content = f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{login}{content}\r\n"
        stream.sendall(head.encode() + body)
        answer = Answer(stream)
        data = answer.rest
        while len(data) < int(answer.headers["content-length"]):
            data += receive(stream)
        return answer, data


class RawExec:
    """An exec stream. `answer` is the HTTP answer; frames are read by `next` and `rest`."""

    def __init__(
        self,
        cluster: Cluster,
        pod: str,
        command: Sequence[str],
        *,
        token: str,
        stdin: bool = False,
        tty: bool = False,
        container: str = "",
        protocols: str = "v5.channel.k8s.io",
        namespace: str = "default",
        stderr: bool = True,
        accept: str = "*/*",
    ) -> None:
        self.stream = connect(cluster)
        words = [f"command={quote(word)}" for word in command]
        words += [f"stdin={str(stdin).lower()}", "stdout=true", f"stderr={str(stderr and not tty).lower()}"]
        words += [f"tty={str(tty).lower()}"] + ([f"container={container}"] if container else [])
        head = (
            f"GET /api/v1/namespaces/{namespace}/pods/{pod}/exec?{'&'.join(words)} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nAccept: {accept}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Sec-WebSocket-Protocol: {protocols}\r\n\r\n"
        )
        self.stream.sendall(head.encode())
        try:
            self.answer = Answer(self.stream)
        except ConnectionResetError:
            self.stream.close()
            raise
        self._data = self.answer.rest
        self.output: dict[int, bytes] = {STDOUT: b"", STDERR: b"", ERROR: b""}
        self.close_code: int | None = None

    def __enter__(self) -> RawExec:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def refusal(self) -> str:
        """The body of an answer that is no 101; of a Status its message."""
        data = self.answer.rest
        while len(data) < int(self.answer.headers["content-length"]):
            data += receive(self.stream)
        return str(json.loads(data)["message"]) if data.startswith(b"{") else data.decode()

    def send(self, channel: int, data: bytes) -> None:
        self.send_frame(2, bytes((channel,)) + data)

    def send_frame(self, opcode: int, payload: bytes) -> None:
        size, mask = len(payload), os.urandom(4)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 65536:
            head = bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2, "big")
        else:
            head = bytes((0x80 | opcode, 0xFF)) + size.to_bytes(8, "big")
        key = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        self.stream.sendall(head + mask + masked)

    def next(self) -> tuple[int, bytes] | None:
        """The next frame as (opcode, payload); None at the end. Raises ConnectionResetError."""
        while True:
            frame = self._whole_frame()
            if frame is not None:
                return frame
            more = receive(self.stream)
            if not more:
                return None
            self._data += more

    def _whole_frame(self) -> tuple[int, bytes] | None:
        data = self._data
        if len(data) < 2:
            return None
        wide = {126: 2, 127: 8}.get(data[1], 0)
        size = int.from_bytes(data[2 : 2 + wide], "big") if wide else data[1]
        if len(data) < 2 + wide + size:
            return None
        self._data = data[2 + wide + size :]
        return data[0] & 0x0F, data[2 + wide : 2 + wide + size]

    def take(self) -> bool:
        """Take one frame into `output`; False when the stream is over."""
        frame = self.next()
        if frame is None:
            return False
        opcode, payload = frame
        if opcode == 8:
            self.close_code = int.from_bytes(payload[:2], "big")
            return False
        if opcode == 2:
            self.output[payload[0]] += payload[1:]
        return True

    def until(self, channel: int, wanted: bytes) -> None:
        """Read until a channel has brought these bytes."""
        while wanted not in self.output[channel]:
            assert self.take(), f"the stream ended; so far {self.output}"

    def finish(self) -> dict[str, Any]:
        """Read to the close frame and return the Status ({} if there was none)."""
        while self.take():
            pass
        return dict(json.loads(self.output[ERROR])) if self.output[ERROR] else {}
