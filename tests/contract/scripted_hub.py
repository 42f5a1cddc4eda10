"""A hub that does what a test tells it, message by message, and the real client in front of it."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rshagent.native import client_build, protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PATIENCE_S = 60  # how long a test waits for something that ought to come immediately
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:exitcode=99", "UBSAN_OPTIONS": "print_stacktrace=1"}


class Connection:
    """One connection of a client, from the hub's side."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(PATIENCE_S)
        self.socket = connected
        self._inbox = protocol.Inbox()
        self._taken: list[int] = []
        self._asked = False

    def read(self) -> protocol.Message | None:
        """The next message; None if the client closed the connection instead."""
        while (message := self._inbox.next()) is None:
            try:
                data, fds, flags, _ = socket.recv_fds(self.socket, 65536, 8)
            except ConnectionResetError:
                return None
            assert not flags & socket.MSG_CTRUNC
            if not data:
                return None
            self._inbox.feed(data, list(fds))
        self._taken += message.fds
        self._asked = True
        return message

    def expect(self, kind: int) -> protocol.Message:
        message = self.read()
        assert message is not None, "the client closed the connection"
        assert message.kind == kind
        return message

    def start(self) -> protocol.Start:
        return protocol.Start.unpack(self.expect(protocol.START).payload)

    def signal(self) -> int:
        return self.expect(protocol.SIGNAL).number()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ticket(self, ticket: bytes = b"ticket") -> None:
        self.send(protocol.encode(protocol.TICKET, ticket))

    def finish(self, data: bytes) -> None:
        """Answer what was asked with the last words: as in a real hub, the client's files are closed first."""
        if not self._asked:
            self.expect(protocol.START)
        self.close_files()
        self.send(data)

    def exit(self, code: int) -> None:
        self.finish(protocol.exit_message(code))

    def close(self) -> None:
        self.socket.close()
        self.close_files()

    def close_files(self) -> None:
        for fd in [*self._taken, *self._inbox.take_fds()]:
            os.close(fd)
        self._taken = []


class ScriptedHub:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: list[Connection] = []
        self.listen()

    def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(PATIENCE_S)
        self.listener.bind(os.fspath(self.path))
        self.listener.listen(256)

    def accept(self) -> Connection:
        connection = Connection(self.listener.accept()[0])
        self._connections.append(connection)
        return connection

    def stop(self) -> None:
        """As a hub that is killed: its connections end, its socket's file stays."""
        self.listener.close()
        for connection in self._connections:
            connection.close()
        self._connections = []


class Clients:
    """Starts clients of one build for one test, and ends those that it left."""

    def __init__(self, program: Path, hub: ScriptedHub) -> None:
        self.program = program
        self.hub = hub
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *arguments: str | bytes,
        command: Sequence[str | bytes | Path] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        cwd: Path | None = None,
        before: Callable[[], object] | None = None,
        close_fds: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Run the client, or `command` (which runs it), with the hub's socket in its environment."""
        client = subprocess.Popen(
            [*(command or [self.program]), *(arguments or ("worker-0", "true"))],
            env={"MPI_AGENT_SOCKET": os.fspath(self.hub.path), **SANITIZERS, **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            preexec_fn=before,  # noqa: PLW1509 (no test has threads)
            close_fds=close_fds,
            process_group=0,  # its parent is in another group of its session, so SIGTSTP can stop it (setpgid(2))
        )
        self.started.append(client)
        return client

    def end(self) -> None:
        for client in self.started:
            if client.poll() is None:
                client.kill()
        self.hub.stop()  # it may hold their files
        for client in self.started:
            client.communicate()


def ended(client: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for a client's end: its exit code, and what it wrote to stderr."""
    _, stderr = client.communicate(timeout=PATIENCE_S)
    return client.returncode, (stderr or b"").decode()


def output(client: subprocess.Popen[bytes], stdin: bytes | None = None) -> tuple[int, bytes]:
    """Wait for a client's end that says nothing of its own: its exit code, and its stdout."""
    stdout, stderr = client.communicate(stdin, timeout=PATIENCE_S)
    assert not stderr
    return client.returncode, stdout


def launcher(folder: Path, name: str) -> Path:
    """A launcher by its name in /proc/PID/comm, which is that of its executable."""
    script = folder / name
    script.write_text('#!/bin/sh\n"$@" &\nwait\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="session", params=["sanitized"])
def build(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def program(build: str) -> Path:
    return Path(client_build.kept("rshagent", sanitize=build == "sanitized"))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ScriptedHub]:
    hub = ScriptedHub(tmp_path / "hub.sock")
    yield hub
    hub.stop()


@pytest.fixture
def clients(program: Path, hub: ScriptedHub) -> Iterator[Clients]:
    clients = Clients(program, hub)
    yield clients
    clients.end()


in_static_build, in_both_builds = (
    pytest.mark.parametrize("build", builds, indirect=True) for builds in (["static"], ["static", "sanitized"])
)
FIXTURES = build, program, hub, clients  # a module of tests adopts them by these names
