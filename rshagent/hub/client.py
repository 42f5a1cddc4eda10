"""One client of the hub: its messages, its descriptors, its launch (docs/protocol.md)."""

from __future__ import annotations

import array
import json
import os
import select
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

from rshagent import arguments, discovery, explain, hosts, protocol, surroundings
from rshagent.bootstrap import Mark
from rshagent.execution import Where
from rshagent.launch import Launch
from rshagent.status import AGENT_FAILED
from rshagent.stdio import Stdio

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.arguments import Call
    from rshagent.hub.server import Hub

_FDS = 3
_ANCILLARY = socket.CMSG_SPACE(_FDS * array.array("i").itemsize)
_READ_SIZE = 64 * 1024
_SESSION_BYTES = 8


class Client:
    """A connected client, from its first byte to the exit code that it is sent."""

    def __init__(self, hub: Hub, sock: socket.socket) -> None:
        self._hub, self._sock = hub, sock
        self._inbox = protocol.Inbox()
        self._out = bytearray()
        self._fds: list[int] = []
        self._launch: Launch | None = None
        self._is_open = True
        self._is_last = False  # what waits to be sent is the last
        hub.loop.add(sock.fileno(), select.EPOLLIN, self._ready)

    def close(self) -> None:
        """Let go of the client; its launch, if any, has ended."""
        if self._is_open:
            self._is_open = False
            self._hub.loop.remove(self._sock.fileno())
            self._sock.close()
            self._drop_fds()
            self._hub.forget(self)

    def abandon(self) -> None:
        """Let go after an error of our own."""
        self._gone()

    def end(self, number: int) -> None:
        """End the client's session as by a signal, without a grace: the hub itself has been told to end."""
        if self._launch is not None:
            self._launch.end(number, 0)
        else:
            self.close()

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._flush()
        if self._is_open and events & ~select.EPOLLOUT:
            self._receive()

    def _receive(self) -> None:
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(_READ_SIZE, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, flags = b"", [], 0
        fds = _descriptors(ancillary)
        if not data:
            self._gone()
            return
        try:
            self._inbox.feed(data, fds)
            while self._is_open and (message := self._inbox.next()) is not None:
                self._take(message, is_cut=bool(flags & socket.MSG_CTRUNC))
        except protocol.ProtocolError as error:
            launch, self._launch = self._launch, None
            self._fail(f"the client and the hub do not speak the same protocol: {error}")
            self._is_last = True
            self._flush()
            if launch is not None:
                launch.end(None)

    def _gone(self) -> None:
        """End the session of a client that has died."""
        launch, self._launch = self._launch, None
        self.close()
        if launch is not None:
            launch.end(None)

    def _take(self, message: protocol.Message, *, is_cut: bool) -> None:
        self._fds += message.fds
        if message.kind == protocol.CHECK:
            self._send(protocol.encode(protocol.OK))
        elif message.kind == protocol.ENDING:
            self._hub.pod_ends(message.number())
            self._send(protocol.encode(protocol.OK))
        elif message.kind == protocol.SIGNAL:
            if self._launch is not None:
                self._launch.signal(message.number())
        elif self._launch is not None:
            raise protocol.ProtocolError("a second start on one connection")
        elif message.kind not in (protocol.START, protocol.RESUME):
            raise protocol.ProtocolError(f"a message of the unknown kind {message.kind}")
        elif is_cut or len(self._fds) != _FDS:
            self._fail(
                "stdin, stdout and stderr did not reach the hub: it is out of descriptors, or the container runtime or "
                "a security module keeps them from being passed between this pod's containers"
            )
        elif message.kind == protocol.START:
            self._start(protocol.Start.unpack(message.payload))
        else:
            self._resume(message.payload)

    def _start(self, start: protocol.Start) -> None:
        if arguments.asks_for_hosts(start.argv):
            self._discover()
            return
        if self._hub.refusal:
            self._fail(self._hub.refusal)
            return
        environ = {os.fsdecode(name): os.fsdecode(value) for name, value in start.env.items()}
        try:
            call = arguments.parse(start.argv)
            found = self._hub.workers.resolve(call.host, call.namespace, self._hub.engine.pods)
            call.container = self._container(call.container or environ.get("MPI_AGENT_CONTAINER") or None)
        except (arguments.UsageError, hosts.UnknownHost) as error:
            if not self._once_known(error, partial(self._start, start)):
                self._fail(self._hub.no_hostfile() or str(error))
            return
        if surroundings.is_on(environ, "MPI_AGENT_EXPLAIN"):
            self._explain(call, found, environ)
        elif isinstance(found, str):
            self._run_there(call.text, null_stdin=not call.wants_stdin)
        else:
            self._launch_in(found, call, start, environ)

    def _discover(self) -> None:
        """Have the client print which hosts there are, as far as that was ever known."""
        found = self._hub.hosts_now()
        if found is not None:
            self._run_there(discovery.answer(found), null_stdin=True)
        elif not self._hub.once_told(lambda: self._discover() if self._is_open else None):
            self._fail(f"the workers are not known: {self._hub.why_unwatched}")

    def _once_known(self, error: Exception, go: Callable[[], None]) -> bool:
        """Try an unknown host again once the hub, which has just started, has its list of workers; say whether."""
        return isinstance(error, hosts.UnknownHost) and self._hub.once_known(lambda: go() if self._is_open else None)

    def _container(self, asked: str | None) -> str | None:
        """Return the container to exec into: where the hub was given one, that is the only one."""
        named = self._hub.container
        if named is not None and asked not in (None, named):
            raise arguments.UsageError(f"the container {asked!r} can't be reached: this job's hub execs into {named!r}")
        return named or asked

    def _launch_in(self, worker: hosts.Worker, call: Call, start: protocol.Start, environ: dict[str, str]) -> None:
        hub = self._hub
        instance = surroundings.instance_of(hub.engine.launcher, hub.pod, start.instance.decode("ascii", "replace"))
        try:
            mark = Mark(hub.engine.launcher, worker.pod, instance, os.urandom(_SESSION_BYTES).hex())
            where = Where(worker.namespace, worker.pod, call.container)
        except ValueError as error:
            self._fail(str(error))
            return
        launch = self._make(where, mark, wants_stdin=call.wants_stdin)
        launch.is_traced = surroundings.is_on(environ, "MPI_AGENT_TRACE")
        launch.wants_terminal = call.wants_terminal
        launch.text_by_stdin |= surroundings.is_on(environ, "MPI_AGENT_TEXT_BY_STDIN")
        launch.start(call.text)

    def _explain(self, call: Call, found: hosts.Worker | str, environ: dict[str, str]) -> None:
        """Have the client print what would be asked: the hub waits for nobody's stdout."""
        shown = json.dumps(explain.describe(call, found, environ)).replace("'", "'\\''")
        self._run_there(f"printf '%s\\n' '{shown}'".encode(), null_stdin=True)

    def _run_there(self, text: bytes, *, null_stdin: bool) -> None:
        self._drop_fds()
        self._send(protocol.local_message(text, null_stdin=null_stdin))

    def _resume(self, ticket: bytes) -> None:
        """Take over a session of the hub that was here before us."""
        try:
            where, mark, pid, has_output = read_ticket(ticket)
            found = self._hub.workers.resolve(where.pod, where.namespace, self._hub.engine.pods)
            where.container = self._container(where.container)
        except (ValueError, TypeError, RecursionError, hosts.UnknownHost, arguments.UsageError) as error:
            if self._once_known(error, partial(self._resume, ticket)):
                return
            self._fail(self._hub.no_hostfile() or f"the session that is to be resumed is none of this job's: {error}")
            return
        known = isinstance(found, hosts.Worker) and (found.namespace, found.pod) == (where.namespace, where.pod)
        if not known or mark.launcher != self._hub.engine.launcher:
            self._fail("the session that is to be resumed is none of this job's")
            return
        self._make(where, mark, wants_stdin=False).resume(pid, has_output=has_output)

    def _make(self, where: Where, mark: Mark, *, wants_stdin: bool) -> Launch:
        stdin, stdout, stderr = self._fds
        self._fds = []
        stdio = Stdio(self._hub.loop, stdin, stdout, stderr, reads_stdin=wants_stdin)
        self._launch = Launch(self._hub.engine, where, mark, stdio, self._ended, self._asked)
        return self._launch

    def _asked(self, launch: Launch) -> None:
        """Give the client what another hub needs to find the session again."""
        self._send(protocol.encode(protocol.TICKET, write_ticket(launch)))

    def _ended(self, launch: Launch) -> None:
        self._launch = None
        self._hub.ended(launch)
        self._send(protocol.exit_message(launch.code))

    def _fail(self, text: str) -> None:
        self._hub.log(f"refused: {text}")
        self._drop_fds()
        self._send(protocol.fail_message(AGENT_FAILED, text))

    def _send(self, data: bytes) -> None:
        if self._is_open:
            self._out += data
            self._flush()

    def _flush(self) -> None:
        try:
            with memoryview(self._out) as view:
                sent = self._sock.send(view)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._gone()
            return
        del self._out[:sent]
        if self._is_last and not self._out:
            self.close()
            return
        self._hub.loop.modify(self._sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if self._out else 0))

    def _drop_fds(self) -> None:
        for fd in (*self._fds, *self._inbox.take_fds()):
            os.close(fd)
        self._fds = []


def write_ticket(launch: Launch) -> bytes:
    """Return what finds a session again; nothing in it is secret."""
    mark, where = launch.mark, launch.where
    parts = [where.namespace, where.pod, where.container, mark.launcher, mark.instance, mark.session]
    return json.dumps([*parts, launch.pid, launch.has_output]).encode()


def read_ticket(ticket: bytes) -> tuple[Where, Mark, int | None, bool]:
    """Read a ticket, which came from outside: raises ValueError, TypeError or RecursionError for a bad one."""
    parts: Any = json.loads(ticket)
    namespace, pod, container, launcher, instance, session, pid, has_output = parts
    if not all(isinstance(part, str) for part in (namespace, pod, launcher, instance, session)):
        raise TypeError("a part of the ticket is no string")
    if not isinstance(container, str | None) or not isinstance(pid, int | None) or isinstance(pid, bool):
        raise TypeError("a part of the ticket has the wrong type")
    if not isinstance(has_output, bool):
        raise TypeError("a part of the ticket is neither true nor false")
    return Where(namespace, pod, container), Mark(launcher, pod, instance, session), pid, has_output


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
