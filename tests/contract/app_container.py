"""A real mpi-runner as a container's entrypoint, and mpi-wrap in front of it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scripted_hub import SANITIZERS, Connection

from rshagent.native import client_build, protocol
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATIENCE_S = 60
CONTAINER_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# That of the application container, not of the test.
CONTAINER = {"PATH": CONTAINER_PATH, "HOME": "/home/of-app", "HOSTNAME": "app-host", "APP": "of the image"}
NULL = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


class Container:
    """One application container."""

    def __init__(
        self,
        programs: Programs,
        folder: Path,
        name: str = "app",
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.wrap = programs.wrap
        self.folder = folder
        self.socket = folder / f"{name}.sock"
        self.log = folder.parent / f"{name}.log"
        self.started: list[subprocess.Popen[bytes]] = []
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*prefix, programs.runner, "--socket", self.socket],
                env={**SANITIZERS, **(CONTAINER if env is None else env)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(lambda: self.socket.exists() and self._answers(), "mpi-runner listens")

    def _answers(self) -> bool:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), Peer(self.socket) as peer:
            peer.send(protocol.encode(protocol.CHECK))
            return peer.kind() == protocol.OK
        return False

    def spawn(self, *command: str | bytes | Path, env: Mapping[str, str] | None = None, **options: Any) -> Popen:
        """Start mpi-wrap with a command, in an environment of its own."""
        process = subprocess.Popen(
            [self.wrap, *command],
            env={"MPI_WRAP_FOLDER": os.fspath(self.folder), **SANITIZERS, **(env or {})},
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )
        self.started.append(process)
        return process

    def run(
        self,
        *command: str | bytes | Path,
        input: bytes | None = None,  # noqa: A002 (as in subprocess)
        **options: Any,
    ) -> tuple[int, bytes, str]:
        """Run a command to its end: exit code, stdout, stderr."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.spawn(*command, **options)
        out, err = process.communicate(input, PATIENCE_S)
        return process.returncode, out or b"", (err or b"").decode()

    def below(self) -> list[int]:
        """All processes below the runner, zombies too."""
        parents = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with (
                    contextlib.suppress(FileNotFoundError, ProcessLookupError),
                    open(f"/proc/{entry}/stat", "rb") as stat,
                ):
                    parents[int(entry)] = int(stat.read().rpartition(b")")[2].split()[1])
        found = [self.process.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found[1:]

    def until_idle(self) -> None:
        """Wait until nothing is left below the runner."""
        until(lambda: not self.below(), lambda: f"processes are left: {self.below()}")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self) -> None:
        left = self.below()
        self.process.kill()
        self.process.wait()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


Popen = subprocess.Popen[bytes]


class Peer(Connection):
    """Who sends a runner what it likes."""

    def __init__(self, path: Path) -> None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(PATIENCE_S)
            sock.connect(os.fspath(path))
        except OSError:
            sock.close()
            raise
        super().__init__(sock)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, *argv: bytes, fds: Sequence[int] = (NULL,) * 3, cwd: bytes = b"/", **env: bytes) -> None:  # type: ignore[override]
        """Send START whole."""
        variables = {name.encode(): value for name, value in env.items()}
        payload = protocol.Start(list(argv), variables, cwd, b"0-0").pack()
        self.push(protocol.encode(protocol.START, payload), fds)

    def push(self, data: bytes, fds: Sequence[int] = (NULL,) * 3) -> None:
        """Send data with files, as much of it as is taken."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sent = socket.send_fds(self.socket, [data], list(fds))
            self.socket.sendall(data[sent:])

    def kind(self) -> int | None:
        """Kind of the next message, None if there is none."""
        message = self.read()
        return None if message is None else message.kind

    def answer(self) -> tuple[int, str]:
        """The last message: the code and the text of EXIT or FAIL."""
        message = self.read()
        while message is not None and message.kind == protocol.TICKET:
            message = self.read()
        assert message is not None, "the runner closed the connection without an answer"
        assert message.kind in (protocol.EXIT, protocol.FAIL)
        return message.number(), message.payload[4:].decode()

    def until_closed(self) -> None:
        while self.read() is not None:
            pass


class Programs:
    """mpi-runner and mpi-wrap of one build: `static`, as in images; `sanitized`; `hasty`, which waits a second."""

    def __init__(self, build: str) -> None:
        is_static = build == "static"
        patience = {"PATIENCE_S": 1} if build == "hasty" else {}
        term = {} if is_static else {"TERM_S": 1}
        kept = partial(client_build.kept, sanitize=not is_static)
        self.wrap = Path(kept("mpi-wrap", client_build.WRAP, constants=patience))
        self.runner = Path(kept("mpi-runner", client_build.RUNNER, constants=patience | term))


@pytest.fixture(scope="session", params=["sanitized"])
def programs(request: pytest.FixtureRequest) -> Programs:
    return Programs(request.param)


@pytest.fixture
def sockets(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


@pytest.fixture
def app(programs: Programs, sockets: Path) -> Iterator[Container]:
    container = Container(programs, sockets)
    container.until_idle()  # the session that answered CHECK has ended
    yield container
    container.end()


in_static_build, in_hasty_build, in_both_builds = (
    pytest.mark.parametrize("programs", builds, indirect=True)
    for builds in (["static"], ["hasty"], ["static", "sanitized"])
)
FIXTURES = programs, sockets, app  # a module of tests adopts them by these names
