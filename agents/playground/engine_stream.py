"""Streams of the Docker engine: of a container, or of a command in it (Engine API, ContainerAttach and ExecStart).

Not by the SDK, which loses what comes in one packet with the answer's head.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping

_HEAD = 8  # bytes before each piece: 1 or 2 for stdout and stderr, three zeros, the length
_PIECE = 65536


class Stream:
    """One. All calls block. `is_raw`: of a terminal, all of whose output is stdout's."""

    def __init__(self, connection: socket.socket, answer: io.BufferedReader, *, is_raw: bool) -> None:
        self._connection = connection
        self._answer = answer
        self._is_raw = is_raw

    @classmethod
    def open(cls, engine: str, path: str, body: Mapping[str, Any], *, is_raw: bool) -> Stream:
        """Ask an engine, by its socket, for a stream. Raises OSError."""
        data = json.dumps(body).encode()
        head = [f"POST {path} HTTP/1.1", "Host: docker", "Connection: Upgrade", "Upgrade: tcp"]
        head += ["Content-Type: application/json", f"Content-Length: {len(data)}", "", ""]
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(engine)
            connection.sendall("\r\n".join(head).encode() + data)
            answer = connection.makefile("rb")
            status = answer.readline()
            while answer.readline().strip():
                pass
            if b" 101 " not in status:
                raise OSError(answer.read1(1024).decode(errors="replace"))
        except OSError:
            connection.close()
            raise
        return cls(connection, answer, is_raw=is_raw)

    def copy_output(self, stdout: int, stderr: int) -> None:
        """Copy the output to descriptors, until it ends; what is closed there is dropped."""
        targets = {1: stdout, 2: stderr}
        with self._connection, self._answer:
            while piece := self._next():
                kind, data = piece
                try:
                    while data and kind in targets:
                        data = data[os.write(targets[kind], data) :]
                except OSError:  # its reader has left
                    del targets[kind]

    def write(self, data: bytes) -> None:
        """Write to stdin; dropped if the command has ended."""
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def end_input(self) -> None:
        """Stdin ends."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def _next(self) -> tuple[int, bytes] | None:
        try:
            if self._is_raw:
                data = self._answer.read1(_PIECE)
                return (1, data) if data else None
            head = self._answer.read(_HEAD)
            return (head[0], self._answer.read(int.from_bytes(head[4:], "big"))) if len(head) == _HEAD else None
        except OSError:
            return None
