"""One exec: a command in a pod, its pipes, and the stream to the client.

States: asked → (101) → started → process and outputs at their end → Status → close frame → closed by the client.
As in Kubernetes the end of the stream does not end the command: its stdin then ends, its output is no longer read, and
it goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from . import frames, statuses
from .loop import READ, WRITE
from .processes import TooLongError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .connection import Connection
    from .counters import Counters
    from .faults import Fault
    from .processes import PodProcesses

_STDIN_QUEUE = 1 << 20
_BIG_PIPE = 1 << 20
_CLOSE_WAIT_S = 10.0
_SLOW_STEP_S = 0.05
_output = frames.OutputFramer()


class Options:
    """What an exec request asks for."""

    __slots__ = ("command", "protocol", "stderr", "stdin", "stdout", "tty")

    def __init__(self, command: Sequence[str], protocol: str, **streams: bool) -> None:
        self.command = list(command)
        self.protocol = protocol
        self.stdin = streams["stdin"]
        self.stdout = streams["stdout"]
        self.stderr = streams["stderr"]
        self.tty = streams["tty"]

    @property
    def v5(self) -> bool:
        """Whether stdin can be half-closed."""
        return self.protocol == frames.V5


class ExecSession:
    """See above. `over` is called once, when neither stream nor command is left."""

    def __init__(
        self,
        connection: Connection,
        options: Options,
        fault: Fault | None,
        counters: Counters,
        over: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.options = options
        self.fault = fault
        self.kind = fault.kind if fault else ""
        self.exit_status: int | None = None
        self._loop = connection.loop
        self._counters = counters
        self._over = over
        self._frames = frames.FrameReader()
        self._outputs: dict[int, int] = {}  # our end of a pipe → channel
        self._paused: set[int] = set()
        self._stdin: int | None = None
        self._stdin_queue = bytearray()
        self._stdin_ending = False
        self._stdin_blocked = False
        self._sent = 0
        self._silent = False
        self._held = False
        self._acknowledged = False
        self._command_over = False
        self._finished = False
        self._is_over = False

    # The stream's beginning ------------------------------------------------------------------------------------------

    def take_over(self, early: bytes) -> None:
        """The connection is upgraded: its bytes are frames from now on."""
        self._counters.opened()
        self.connection.receive = self._receive
        self.connection.ended = self._stream_ended
        self.connection.drained = self._drained
        channel = frames.STDOUT if self.options.stdout else frames.STDERR if self.options.stderr else frames.ERROR
        self._send(frames.channel_frame(channel, b""))  # as the real one: "the connection is established"
        if early:
            self._receive(memoryview(early))

    def start(self, processes: PodProcesses, environ: dict[bytes, bytes], folder: str) -> None:
        """Start the command."""
        null = os.open(os.devnull, os.O_RDWR)
        theirs = [null, null, null]
        made: list[int] = []
        if self.options.stdin:
            theirs[0], self._stdin = os.pipe2(os.O_CLOEXEC)
            made.append(theirs[0])
            os.set_blocking(self._stdin, False)
        for channel, wanted in ((frames.STDOUT, self.options.stdout), (frames.STDERR, self.options.stderr)):
            if wanted:
                ours, theirs[channel] = os.pipe2(os.O_CLOEXEC)
                made.append(theirs[channel])
                os.set_blocking(ours, False)
                self._outputs[ours] = channel
                self._loop.add(ours, READ, self._reader(ours, channel))
        argv = [os.fsencode(word) for word in self.options.command]
        try:
            processes.exec(argv, environ, folder, theirs, self)
        except TooLongError:
            self.failed(f"exec {self.options.command[0]}: argument list too long")
        finally:
            for fd in (null, *made):
                os.close(fd)

    def fail(self, status: statuses.Status) -> None:
        """End the stream with this Status; nothing was started."""
        self._command_over = True
        self._finish(status)

    # The command -----------------------------------------------------------------------------------------------------

    def started(self, pid: int) -> None:  # noqa: ARG002 - as the listener's other words
        """It runs."""
        self._counters.running += 1

    def failed(self, text: str) -> None:
        """It could not be started."""
        self._command_over = True
        self._close_outputs()
        self._end_stdin()
        self._finish(statuses.not_started(secrets.token_hex(32), text, v5=self.options.v5))
        self._check_over()

    def exited(self, code: int) -> None:
        """It has ended; its output may still be under way."""
        self._counters.running -= 1
        self._command_over = True
        self.exit_status = code
        self._end_stdin()
        if not self.connection.open:
            self._close_outputs()
        self._check_finished()
        self._check_over()

    def _check_finished(self) -> None:
        if self._command_over and not self._outputs and not self._finished and self.exit_status is not None:
            code = self.exit_status
            v5 = self.options.v5
            self._finish(statuses.exit_code(code, self.options.command, v5=v5) if code else statuses.success())

    def _finish(self, status: statuses.Status) -> None:
        self._finished = True
        self._acknowledge()
        if not self.connection.open:
            return
        if self._held:
            return
        if self.kind == "drop-after-start":
            self.connection.close(reset=True)
            return
        data = json.dumps(status, separators=(",", ":")).encode()
        if self.kind == "status" and self.fault is not None:
            data = self.fault.data
        if self.kind != "no-status":
            self._send(frames.channel_frame(frames.ERROR, data))
        self._send(frames.close_frame())
        self._loop.call_later(_CLOSE_WAIT_S, self.connection.close)

    # Output ----------------------------------------------------------------------------------------------------------

    def _reader(self, fd: int, channel: int) -> Callable[[int], None]:
        return lambda _mask: self._read_output(fd, channel)

    def _read_output(self, fd: int, channel: int) -> None:
        data: memoryview | bytes
        try:
            if self.kind == "slow" and self.fault is not None:
                piece = os.read(fd, max(1, int(self.fault.bytes_per_s * _SLOW_STEP_S)))
                count, data = len(piece), frames.channel_frame(channel, piece)
                self._pause(fd)
                self._loop.call_later(_SLOW_STEP_S, lambda: self._resume(fd))
            else:
                count, data = _output.read(fd, channel)
        except BlockingIOError:
            return
        if count == 0:
            self._close_output(fd)
            self._check_finished()
            self._check_over()
            return
        if channel == frames.STDERR:
            self._acknowledge()
        if count >= _BIG_PIPE // 16:
            _enlarge(fd)
        if self.kind == "drop-after-start":
            self.connection.close(reset=True)
            return
        self._send(data)
        self._sent += count
        self._check_fault()
        if self.connection.congested:
            for output in tuple(self._outputs):
                self._pause(output)

    def _check_fault(self) -> None:
        fault = self.fault
        if fault is None or self._sent < fault.after_bytes:
            return
        if fault.kind == "drop-mid-stream":
            self.connection.close(reset=True)
        elif fault.kind == "raw":
            self.connection.write(fault.data)
            self.fault = None
        elif fault.kind == "half-open":
            self.connection.freeze()
        elif fault.kind == "silent":
            self._silent = True

    def _pause(self, fd: int) -> None:
        if fd in self._outputs and fd not in self._paused:
            self._paused.add(fd)
            self._loop.remove(fd)

    def _resume(self, fd: int) -> None:
        if fd in self._paused and self.connection.open:
            self._paused.remove(fd)
            self._loop.add(fd, READ, self._reader(fd, self._outputs[fd]))

    def _drained(self) -> None:
        if self.kind != "slow":
            for fd in tuple(self._paused):
                self._resume(fd)

    def _close_output(self, fd: int) -> None:
        if fd not in self._paused:
            self._loop.remove(fd)
        self._paused.discard(fd)
        del self._outputs[fd]
        os.close(fd)

    def _close_outputs(self) -> None:
        for fd in tuple(self._outputs):
            self._close_output(fd)

    def _send(self, data: bytes | memoryview) -> None:
        if not self._silent and not self._held:
            self.connection.write(data)

    def _acknowledge(self) -> None:
        if not self._acknowledged:
            self._acknowledged = True
            self._counters.unacknowledged -= 1

    # Input -----------------------------------------------------------------------------------------------------------

    def _receive(self, data: memoryview) -> None:
        try:
            messages = self._frames.feed(data)
        except frames.FramingError:
            self._send(frames.close_frame(1002))
            self.connection.close()
            return
        for opcode, payload in messages:
            self._message(opcode, payload)

    def _message(self, opcode: int, payload: bytes) -> None:
        if opcode == frames.PING:
            if self.kind != "no-pong" and not self._silent:
                self.connection.write(frames.frame(frames.PONG, payload))
        elif opcode == frames.CLOSE:
            if not self._finished:
                self._send(frames.frame(frames.CLOSE, payload[:2]))
            self.connection.close()
        elif opcode in {frames.BINARY, frames.TEXT} and payload:
            if payload[0] == frames.STDIN:
                self._write_stdin(payload)
            elif payload[0] == frames.CLOSE_CHANNEL and payload[1:2] == b"\0" and self.options.v5:
                self._stdin_ending = True
                self._flush_stdin()

    def _write_stdin(self, payload: bytes) -> None:
        if self._stdin is None or self._stdin_ending:
            return
        view = memoryview(payload)[1:]
        if not self._stdin_queue:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                pass
            except OSError:
                self._end_stdin()
                return
        if view:
            self._stdin_queue += view
            self._flush_stdin()
        if self.kind == "slow" and self.fault is not None:
            self.connection.pause_reading()
            self._loop.call_later(len(payload) / self.fault.bytes_per_s, self.connection.resume_reading)

    def _flush_stdin(self, _mask: int = 0) -> None:
        if self._stdin is None:
            return
        try:
            while self._stdin_queue:
                del self._stdin_queue[: os.write(self._stdin, self._stdin_queue)]
        except BlockingIOError:
            if not self._stdin_blocked:
                self._stdin_blocked = True
                _enlarge(self._stdin)
                self._loop.add(self._stdin, WRITE, self._flush_stdin)
        except OSError:
            self._end_stdin()  # the command has closed it: what comes is dropped
            return
        if not self._stdin_queue:
            if self._stdin_blocked:
                self._stdin_blocked = False
                self._loop.remove(self._stdin)
            if self._stdin_ending:
                self._end_stdin()
        if self.connection.open and self.kind != "slow":
            if len(self._stdin_queue) > _STDIN_QUEUE:
                self.connection.pause_reading()
            elif not self._stdin_queue:
                self.connection.resume_reading()

    def _end_stdin(self) -> None:
        if self._stdin is None:
            return
        if self._stdin_blocked:
            self._loop.remove(self._stdin)
        os.close(self._stdin)
        self._stdin = None
        self._stdin_queue.clear()
        if self.connection.open:
            self.connection.resume_reading()

    # What a test does to it ------------------------------------------------------------------------------------------

    def suffer(self, what: str) -> None:
        """Be cut (reset), frozen (neither read nor written any more), silenced (nothing is sent any more) or held.

        Held: answer pings, but nothing else comes, as when the node is gone (kubernetes#129144).
        """
        if what == "cut":
            self.connection.close(reset=True)
        elif what == "freeze":
            self.connection.freeze()
        elif what == "silence":
            self._silent = True
        elif what == "hold":
            self._held = True
        else:
            raise ValueError(f"a stream can be cut, frozen, silenced or held, not {what!r}")

    # The end ---------------------------------------------------------------------------------------------------------

    def _stream_ended(self) -> None:
        self._counters.connections -= 1
        self._counters.sessions -= 1
        self._acknowledge()
        self._end_stdin()
        for fd in tuple(self._outputs):
            self._pause(fd)
        if self._command_over:
            self._close_outputs()
        self._check_over()

    def _check_over(self) -> None:
        if self._command_over and not self.connection.open and not self._is_over:
            self._is_over = True
            self._close_outputs()
            self._over()


def _enlarge(fd: int) -> None:
    """A busy pipe gets a larger buffer, where the user's limit (pipe-user-pages-soft) allows it."""
    set_size: Any = getattr(fcntl, "F_SETPIPE_SZ", 1031)
    try:
        if fcntl.fcntl(fd, getattr(fcntl, "F_GETPIPE_SZ", 1032)) < _BIG_PIPE:
            fcntl.fcntl(fd, set_size, _BIG_PIPE)
    except OSError:
        pass
