"""The hub's side of a client's connection: its messages, its descriptors, its session (docs/protocol.md)."""

from __future__ import annotations

import array
import json
import os
import select
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from agents.common.text import printable, shown
from rshagent.call import arguments, discovery, explain, hosts, kubectl_get, parsed, surroundings
from rshagent.call.bootstrap import MAX_ARGUMENT, Mark
from rshagent.hub import cuts, resume_token
from rshagent.hub.admission import SHORT_TEXT
from rshagent.native import protocol
from rshagent.net.stdio import Stdio
from rshagent.session import decisions
from rshagent.session.session import Session
from rshagent.session.target import ExecTarget, Options
from rshagent.stream.status import AGENT_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.kubectl_get import Query
    from rshagent.call.parsed import Call
    from rshagent.hub.server import Hub

_ANCILLARY = socket.CMSG_SPACE(protocol.FDS * array.array("i").itemsize)
_READ_SIZE = 64 * 1024
_CUT = int(socket.MSG_CTRUNC)  # as an enumeration's member it makes another one of each result
_SESSION_BYTES = 8
_TOO_LONG = f"a command for the launcher itself can't have more than {MAX_ARGUMENT} bytes (execve(2))"


class ClientConnection:
    """A connected client, from its first byte to the exit code that it is sent."""

    def __init__(self, hub: Hub, sock: socket.socket) -> None:
        self._hub, self._sock = hub, sock
        self._inbox = protocol.Inbox()
        self._out = bytearray()
        self._fds: list[int] = []
        self._session: Session | None = None
        self._size = 0  # of what it asked for, in bytes
        self._is_open = True
        self._is_waiting = False  # with all that it has to say: for the workers to be known, or for room
        self._is_last = False  # its answer waits to be sent, or was: nothing more is read
        self._resumes = False  # what it asks for may run already
        self._early_signals: list[int] = []  # that came while it waited
        hub.pending.add(self)
        hub.loop.add(sock.fileno(), select.EPOLLIN, self._ready)

    def close(self) -> None:
        """Let go of the client; its session, if any, has ended."""
        if self._is_open:
            self._is_open = False
            self._hub.loop.remove(self._sock.fileno())
            self._sock.close()
            self._drop_fds()
            self._hub.forget(self)

    def end(self, number: int) -> None:
        """End the client's session as by a signal, without a grace: the hub itself has been told to end."""
        if self._session is not None:
            self._session.end(number, 0)
        else:
            self.close()

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._flush()
        if self._is_open and events & ~select.EPOLLOUT:
            if self._is_last:
                self.close()
            else:
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
            self.abandon()
            return
        try:
            self._inbox.feed(data, fds)
            if len(self._inbox.fds) + len(self._fds) > protocol.FDS:
                raise protocol.ProtocolError(f"more than {protocol.FDS} files came")
            while self._is_open and not self._is_last and (message := self._inbox.next()) is not None:
                self._take(message, is_cut=bool(flags & _CUT))
            if not self._is_waiting:
                self._hub.pending.hold(self, self._inbox.size)
        except protocol.ProtocolError as error:
            session, self._session = self._session, None
            self._fail(f"the client and the hub do not speak the same protocol: {error}")
            if session is not None:
                session.end(None)

    def abandon(self) -> None:
        """Let go of a client that has died, or after an error of our own, and end its session."""
        session, self._session = self._session, None
        self.close()
        if session is not None:
            session.end(None)

    def _take(self, message: protocol.Message, *, is_cut: bool) -> None:
        self._fds += message.fds
        if message.kind == protocol.CHECK:
            self._send(protocol.encode(protocol.OK))
        elif message.kind == protocol.SIGNAL:
            self._take_signal(message.number_to(protocol.SIGNAL_MAX))
        elif self._session is not None or self._is_waiting:
            raise protocol.ProtocolError("a second start on one connection")
        elif message.kind == protocol.ENDING:
            self._take_ending(message.number_to(protocol.GRACE_MAX_S))
        elif message.kind not in (protocol.START, protocol.RESUME):
            raise protocol.ProtocolError(f"a message of the unknown kind {message.kind}")
        else:
            self._open(message, is_cut=is_cut)

    def _open(self, message: protocol.Message, *, is_cut: bool) -> None:
        """Take what a connection begins with."""
        self._size = len(message.payload)
        if is_cut or len(self._fds) != protocol.FDS:
            self._fail(
                "stdin, stdout and stderr did not reach the hub: it is out of descriptors, or the container runtime or "
                "a security module keeps them from being passed between this pod's containers"
            )
        elif self._hub.is_full:
            self._fail(f"the hub holds {self._hub.sessions_max} sessions, which is as many as it can")
        elif message.kind == protocol.START:
            self._start(message.payload)
        else:
            self._resumes = True
            self._resume(message.payload)

    def _take_signal(self, number: int) -> None:
        if self._session is not None:
            self._session.signal(number)
        elif self._is_waiting and not self._resumes and number not in decisions.PASSED_ON:  # nothing was started
            self._finish(protocol.exit_message(decisions.told_to_end(number).code))
        elif self._is_waiting and number not in self._early_signals:
            self._early_signals.append(number)

    def _take_ending(self, grace_s: int) -> None:
        """Take the preStop hook's word, which is a process of our container: of our user, and one that we can see."""
        process, user, _ = array.array("I", self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if process == 0 or user != os.geteuid():  # 0: of another process namespace
            self._fail("only a process of the hub's own container and user may tell it that the pod ends")
            return
        self._hub.pod_ends(grace_s)
        self._send(protocol.encode(protocol.OK))

    def _start(self, payload: bytes) -> None:
        """Do what START asks for. Who has to wait does so with the payload: taken apart, it is many times as large."""
        start = protocol.Start.unpack(payload)
        if start.argv[1:2] == [arguments.DISCOVER]:
            self._discover()
            return
        if self._hub.refusal:
            self._fail(self._hub.refusal)
            return
        environ = {parsed.text_of(name): parsed.text_of(value) for name, value in start.env.items()}
        try:
            call = arguments.parse(start.argv)
            found = self._hub.workers.resolve(call.host, call.namespace, self._hub.engine.pods)
            call.container = self._container(call.container or environ.get("MPI_AGENT_CONTAINER") or None)
        except (parsed.UsageError, hosts.UnknownHost) as error:
            if not self._once_known(error, partial(self._start, payload)):
                self._fail(self._hub.no_hostfile() or str(error))
            return
        if surroundings.is_on(environ, "MPI_AGENT_EXPLAIN"):
            self._explain(call, found, environ)
        elif call.query is not None:
            self._show_pods(call.text, call.query, payload)
        elif isinstance(found, str):
            self._run_there(call.text, null_stdin=not call.wants_stdin)
        elif len(call.text) <= SHORT_TEXT or not self._waits(
            partial(self._hub.admission.once_room, len(call.text)), partial(self._start, payload)
        ):
            self._start_in(found, call, start, environ)

    def _discover(self) -> None:
        """Have the client print which hosts there are, as far as that was ever known."""
        found = self._hub.hosts_now()
        if found is not None:
            self._run_there(discovery.answer(found), null_stdin=True)
        elif not self._waits(self._hub.admission.once_answered, self._discover):
            self._fail(f"the workers are not known: {self._hub.why_unwatched}")

    def _show_pods(self, text: bytes, query: Query, payload: bytes) -> None:
        """Have the client print the job's workers, as far as that was ever known: `kubectl get pods`."""
        found = self._hub.pods_now()
        if found is not None:
            answer = query.answer(found, self._hub.engine.cluster.namespace, time.time())
            self._run_there(text + answer, null_stdin=False)
        elif not self._waits(self._hub.admission.once_answered, partial(self._start, payload)):
            answer = kubectl_get.failure(f"the workers are not known: {self._hub.why_unwatched}")
            self._run_there(text + answer, null_stdin=False)

    def _once_known(self, error: Exception, go: Callable[[], None]) -> bool:
        """Try an unknown host again once the hub, which has just started, has its list of workers; say whether."""
        return isinstance(error, hosts.UnknownHost) and self._waits(self._hub.admission.once_listed, go)

    def _waits(self, once: Callable[[object, Callable[[], None]], bool], go: Callable[[], None]) -> bool:
        """Call `go()` after a wait of `admission`; False if there is none."""
        if not once(self, partial(self._again, go)):
            return False
        self._is_waiting = True
        self._inbox.most = protocol.TICKET_MAX
        self._hub.pending.wait(self, self._size)  # last: it may close the client, which then waits for nothing
        return True

    def _again(self, go: Callable[[], None]) -> None:
        """Go on after a wait."""
        self._is_waiting = False
        if self._is_open and not self._is_last:
            self._hub.pending.hold(self, 0)
            go()

    def _container(self, asked: str | None) -> str | None:
        """Return the container to exec into: where the hub was given one, that is the only one."""
        named = self._hub.container
        if named and asked is not None and asked != named:
            raise parsed.UsageError(
                f"the container {shown(asked)} can't be reached: this job's hub execs into {named!r}"
            )
        return named or asked

    def _start_in(self, worker: hosts.Worker, call: Call, start: protocol.Start, environ: dict[str, str]) -> None:
        instance = start.instance.decode("ascii", "replace")
        life = surroundings.life(environ, instance, self._hub.shared_first_process)
        try:
            mark = Mark(
                self._hub.engine.launcher, worker.pod, self._hub.instance(instance), os.urandom(_SESSION_BYTES).hex()
            )
            target = ExecTarget(worker.namespace, worker.pod, call.container)
        except ValueError as error:
            self._fail(str(error))
            return
        options = Options(
            has_output=decisions.has_output(call.text, environ.get("MPI_AGENT_LOST_OUTPUT", "")),
            text_by_stdin=surroundings.is_on(environ, "MPI_AGENT_TEXT_BY_STDIN"),
            wants_terminal=call.wants_terminal,
            is_traced=surroundings.is_on(environ, "MPI_AGENT_TRACE"),
            caller=cuts.valid_caller(environ.get("MPI_AGENT_CALLER", "")),
            life=life and self._hub.instance(life),
        )
        self._make(target, mark, options, wants_stdin=call.wants_stdin).start(call.text)
        self._pass_on_early_signals()

    def _explain(self, call: Call, found: hosts.Worker | str, environ: dict[str, str]) -> None:
        """Have the client print what would be asked: the hub waits for nobody's stdout."""
        if self._size > MAX_ARGUMENT:  # as JSON, and quoted, it is several times as long
            self._fail(_TOO_LONG)
            return
        shown = json.dumps(explain.describe(call, found, environ)).replace("'", "'\\''")
        self._run_there(f"printf '%s\\n' '{shown}'".encode(), null_stdin=True)

    def _run_there(self, text: bytes, *, null_stdin: bool) -> None:
        if len(text) > MAX_ARGUMENT:
            self._fail(_TOO_LONG)
            return
        self._finish(protocol.local_message(text, null_stdin=null_stdin))

    def _resume(self, token: bytes) -> None:
        """Take over a session of the hub that was here before us."""
        try:
            target, mark, pid, options = resume_token.read(token)
            options = options._replace(caller=cuts.valid_caller(options.caller))
            found = self._hub.workers.resolve(target.pod, target.namespace, self._hub.engine.pods)
            target.container = self._container(target.container)
        except (ValueError, TypeError, RecursionError, hosts.UnknownHost, parsed.UsageError) as error:
            if self._once_known(error, partial(self._resume, token)):
                return
            self._fail(self._hub.no_hostfile() or f"the session to resume does not belong to this job: {error}")
            return
        known = isinstance(found, hosts.Worker) and (found.namespace, found.pod) == (target.namespace, target.pod)
        if not known or mark.launcher != self._hub.engine.launcher:
            self._fail("the session to resume does not belong to this job")
            return
        self._make(target, mark, options, wants_stdin=False).resume(pid)
        self._pass_on_early_signals()

    def _pass_on_early_signals(self) -> None:
        for number in self._early_signals:
            if self._session is not None:
                self._session.signal(number)

    def _make(self, target: ExecTarget, mark: Mark, options: Options, *, wants_stdin: bool) -> Session:
        stdin, stdout, stderr = self._fds
        self._fds = []
        self._hub.pending.remove(self)
        self._inbox.most = protocol.TICKET_MAX
        stdio = Stdio(self._hub.loop, stdin, stdout, stderr, reads_stdin=wants_stdin)
        self._session = Session(self._hub.engine, target, mark, stdio, options, self._ended, self._requested)
        self._hub.begin(self._session)
        return self._session

    def _requested(self, session: Session) -> None:
        """Give the client what another hub needs to find the session again."""
        self._send(protocol.encode(protocol.TICKET, resume_token.write(session)))

    def _ended(self, session: Session) -> None:
        self._session = None
        self._hub.ended(session)
        self._finish(protocol.exit_message(session.facts.code))

    def _fail(self, text: str) -> None:
        line = printable(text)
        self._hub.log(f"refused: {line}")
        self._finish(protocol.fail_message(AGENT_FAILED, line))

    def _finish(self, answer: bytes) -> None:
        """Send the last words: nothing more is read, and the connection is closed when they have left."""
        if self._is_last or not self._is_open:
            return
        self._drop_fds()
        self._inbox = protocol.Inbox()
        self._is_last = True
        self._hub.pending.remove(self)
        self._hub.pending.add(self)
        self._out += answer
        self._flush()

    def _send(self, data: bytes) -> None:
        if self._is_open and not self._is_last:
            self._out += data
            self._flush()

    def _flush(self) -> None:
        try:
            with memoryview(self._out) as view:
                sent = self._sock.send(view)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.abandon()
            return
        del self._out[:sent]
        if self._is_last and not self._out:
            self.close()
            return
        # Who does not read its answers is not read from, either: they would pile up here.
        self._hub.loop.modify(self._sock.fileno(), select.EPOLLOUT if self._out else select.EPOLLIN)

    def _drop_fds(self) -> None:
        for fd in (*self._fds, *self._inbox.take_fds()):
            os.close(fd)
        self._fds = []


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
