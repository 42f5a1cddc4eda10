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
import struct
import termios
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import frames, statuses
from .pipes import OutputPipe, Stdio

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .counters import Counters
    from .faults import Fault
    from .pipes import InputPipe
    from .processes import PodProcesses

_CLOSE_WAIT_S = 10.0
_SLOW_STEP_S = 0.05


@dataclass(frozen=True)
class Options:
    """What an exec request asks for, and which runtime answers it."""

    command: list[str]
    protocol: str
    runtime: str
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @property
    def v5(self) -> bool:
        """Whether stdin can be half-closed, and statuses pass through the API server."""
        return self.protocol == frames.V5


class ExecSession:
    """See above. `over` is called once, when neither stream nor command is left."""

    def __init__(
        self,
        connection: Connection,
        options: Options,
        fault: Fault | None,
        counters: Counters,
        over: Callable[[], object],
    ) -> None:
        self.connection = connection
        self.options = options
        self._loop = connection.loop
        self._fault = fault
        self._kind = fault.kind if fault else ""
        self._counters = counters
        self._over: Callable[[], object] | None = over
        self._frames = frames.FrameReader()
        self._outputs: list[OutputPipe] = []
        self._stdin: InputPipe | None = None
        self._terminal: int | None = None
        self._sent = 0  # bytes of output
        self._silent = False  # nothing is sent any more
        self._held = False  # nothing but pongs
        self._acknowledged = False
        self._exit_code: int | None = None
        self._command_over = False
        self._finished = False

    # The beginning ---------------------------------------------------------------------------------------------------

    def take_over(self, early: bytes) -> None:
        """The connection is upgraded: its bytes, some of which may be here already, are frames from now on."""
        self._counters.opened()
        self.connection.receive = self._receive
        self.connection.ended = self._stream_ended
        self.connection.drained = self._resume_outputs
        # As the real one, which thereby tells that the connection is established.
        channel = frames.STDOUT if self.options.stdout else frames.STDERR if self.options.stderr else frames.ERROR
        self._send(frames.channel_frame(channel, b""))
        if early:
            self._receive(memoryview(early))

    def start(self, processes: PodProcesses, environ: dict[bytes, bytes], folder: str) -> None:
        """Start the command."""
        options = self.options
        stdio = Stdio(self._loop, self._read_output, self._stdin_crowded)
        if options.tty:
            stdio.open_terminal(stdin=options.stdin)
        else:
            stdio.open_pipes(stdin=options.stdin, stdout=options.stdout, stderr=options.stderr)
        self._stdin, self._outputs, self._terminal = stdio.stdin, stdio.outputs, stdio.terminal
        argv = [os.fsencode(word) for word in options.command]
        processes.exec(argv, environ, folder, stdio.theirs, self, stdio.tty)
        stdio.close_theirs()

    def hang(self) -> None:
        """Start nothing and say nothing; pings are answered."""
        self._command_over = self._held = True

    def fail(self, status: statuses.Status) -> None:
        """End the stream with this Status; nothing was started."""
        self._command_over = True
        self._finish(status)

    # The command -----------------------------------------------------------------------------------------------------

    def started(self, pid: int) -> None:  # noqa: ARG002 - as the other listeners'
        """It runs."""
        self._counters.running += 1

    def failed(self, error: int) -> None:
        """It could not be started."""
        self._command_over = True
        self._close_pipes()
        refusal = statuses.not_started(
            self.options.command, error, secrets.token_hex(32), self.options.runtime, v5=self.options.v5
        )
        if refusal.text:
            self._send(frames.channel_frame(refusal.channel, refusal.text.encode()))
        self._finish(refusal.status)
        self._check_over()

    def exited(self, code: int) -> None:
        """It has ended; its output may still be under way, or be held open by a process that it left behind."""
        self._counters.running -= 1
        self._command_over = True
        self._exit_code = code
        if self._stdin is not None:
            self._stdin.close()
        if not self.connection.open:
            self._close_pipes()
        self._check_finished()
        self._check_over()

    def _check_finished(self) -> None:
        if self._exit_code is None or self._finished or any(pipe.open for pipe in self._outputs):
            return
        if self._exit_code == 0:
            self._finish(statuses.success())
        else:
            self._finish(statuses.exit_code(self._exit_code, self.options.command, v5=self.options.v5))

    def _finish(self, status: statuses.Status) -> None:
        self._finished = True
        self._acknowledge()
        if not self.connection.live or self._held or self._silent:
            return
        if self._kind == "drop-after-start":
            self.connection.close(reset=True)
            return
        if self._kind == "status" and self._fault is not None:
            self._send(frames.channel_frame(frames.ERROR, self._fault.data))
        elif self._kind != "no-status":
            self._send(frames.channel_frame(frames.ERROR, json.dumps(status, separators=(",", ":")).encode()))
        self._send(frames.close_frame())
        self._loop.call_later(_CLOSE_WAIT_S, self.connection.close)

    # Output ----------------------------------------------------------------------------------------------------------

    def _read_output(self, pipe: OutputPipe) -> None:
        count, data = self._read_slowly(pipe) if self._kind == "slow" else pipe.read()
        if count < 0:
            return
        if count == 0:
            pipe.close()
            self._check_finished()
            self._check_over()
            return
        if pipe.channel == frames.STDERR:
            self._acknowledge()
        if self._kind == "drop-after-start":
            self.connection.close(reset=True)
            return
        self._send(data)
        self._sent += count
        if self._fault is not None and self._sent >= self._fault.after_bytes:
            self._meet_fault(self._fault)
        if self.connection.congested:
            for output in self._outputs:
                output.pause()

    def _read_slowly(self, pipe: OutputPipe) -> tuple[int, memoryview | bytes]:
        assert self._fault is not None
        pipe.pause()
        self._loop.call_later(_SLOW_STEP_S, lambda: pipe.resume() if self.connection.open else None)
        return pipe.read_little(max(1, int(self._fault.bytes_per_s * _SLOW_STEP_S)))

    def _resume_outputs(self) -> None:
        if self._kind != "slow":
            for pipe in self._outputs:
                pipe.resume()

    def _close_pipes(self) -> None:
        for pipe in self._outputs:
            pipe.close()
        if self._stdin is not None:
            self._stdin.close()

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
            if opcode == frames.PING:
                if self._kind != "no-pong" and not self._silent:
                    self.connection.write(frames.frame(frames.PONG, payload))
            elif opcode == frames.CLOSE:
                if not self._finished:
                    self._send(frames.frame(frames.CLOSE, payload[:2]))
                self.connection.close()
            elif opcode in {frames.BINARY, frames.TEXT} and payload:
                self._message(payload[0], memoryview(payload)[1:])
        if self._stdin is not None:
            self._stdin.flush()

    def _message(self, channel: int, data: memoryview) -> None:
        if channel == frames.STDIN and self._stdin is not None:
            self._stdin.write(data)
            if self._kind == "slow" and self._fault is not None:
                self.connection.pause_reading()
                self._loop.call_later(len(data) / self._fault.bytes_per_s, self.connection.resume_reading)
        elif channel == frames.CLOSE_CHANNEL and bytes(data) == b"\0" and self.options.v5:
            if self._stdin is not None:
                self._stdin.end()
        elif channel == frames.RESIZE and self._terminal is not None and not self._command_over:
            size = json.loads(bytes(data))
            lines, columns = int(size.get("Height", 0)), int(size.get("Width", 0))
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _stdin_crowded(self, crowded: bool) -> None:  # noqa: FBT001 - it is all that is said
        if crowded:
            self.connection.pause_reading()
        else:
            self.connection.resume_reading()

    # The end ---------------------------------------------------------------------------------------------------------

    def suffer(self, what: str) -> None:
        """Be cut (reset), frozen (neither read nor written any more), silenced (nothing is sent any more) or held.

        Held: pings are answered, but nothing else comes, as when the node is gone (kubernetes#129144).
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
            raise ValueError(f"a stream can be given to: cut, freeze, silence, hold; not {what!r}")

    def _meet_fault(self, fault: Fault) -> None:
        if fault.kind == "raw":
            self.connection.write(fault.data)
            self._fault = None
        effect = {"drop-mid-stream": "cut", "half-open": "freeze", "silent": "silence"}.get(fault.kind)
        if effect is not None:
            self.suffer(effect)

    def _stream_ended(self) -> None:
        self._counters.connections -= 1
        self._counters.sessions -= 1
        self._acknowledge()
        if self._stdin is not None:
            self._stdin.close()
        for pipe in self._outputs:
            pipe.pause()
        if self._command_over:
            self._close_pipes()
        self._check_over()

    def _check_over(self) -> None:
        if self._command_over and not self.connection.open and self._over is not None:
            over, self._over = self._over, None
            self._close_pipes()
            over()
