"""One exec: what is wrong with its request, then a command in a pod, its pipes, and the WebSocket to the client.

The API server answers its own checks with an HTTP status. What kubelet finds comes after the 101: the API server
translates the streams of v5.channel.k8s.io (apiserver `pkg/util/proxy/streamtranslator.go`).

Its steps: request, 101, start of the command, end of the process and its outputs, Status, close frame, close by the
client. As in Kubernetes the end of the stream does not end the command: its stdin then ends, its output is no longer
read, and the command continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import WSCloseCode, WSMsgType, web

from . import pods, statuses
from .faults import reset
from .pipes import CLOSE_CHANNEL, ERROR, RESIZE, STDERR, STDIN, STDOUT, OutputPipe, Stdio
from .writes import RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .counters import Counters
    from .faults import ExecHooks
    from .processes import Process
    from .request import Request

V5 = "v5.channel.k8s.io"
_MAX_PAYLOAD = 32 * 1024 * 1024  # golang.org/x/net/websocket's DefaultMaxPayloadBytes
_CLOSE_WAIT_S = 10.0
_NORMAL = (1000).to_bytes(2, "big")


def check(request: Request, name: str, thing: pods.Object) -> str:
    """Return the container, or refuse what the API server does (registry/core/pod `ExecLocation`).

    Raises RefusedError.
    """
    if request.headers.get("accept") == "application/json":
        words = "the server was unable to respond with a content type that the client supports"
        raise RefusedError(statuses.failure(406, words))
    if not request.query.get("command"):
        raise wrong("you must specify at least 1 command for the container")
    if not any(request.flag(stream) for stream in ("stdin", "stdout", "stderr")):
        raise wrong("you must specify at least 1 of stdin, stdout, stderr")
    if request.flag("tty") and request.flag("stderr"):
        raise wrong("tty and stderr cannot both be true")
    container = container_of(request, name, thing)
    if not thing["spec"].get("nodeName"):
        raise wrong(f"pod {name} does not have a host assigned")
    if request.method != "GET" or request.headers.get("upgrade", "").lower() != "websocket":
        raise wrong("Upgrade request required: the stand-in has WebSockets, not SPDY")
    return container


def container_of(request: Request, name: str, thing: pods.Object) -> str:
    """The container that a request names, or the pod's only one. Raises RefusedError."""
    container, (first, *others) = request.first("container"), [one["name"] for one in thing["spec"]["containers"]]
    if container and container not in pods.container_names(thing):
        raise wrong(f"container {container} is not valid for pod {name}")
    if others and not container:
        names = " ".join([first, *others])
        raise wrong(f"a container name must be specified for pod {name}, choose one of: [{names}]")
    return container or str(first)


def wrong(message: str) -> RefusedError:
    """What is raised for a request that makes no sense."""
    return RefusedError(statuses.failure(400, message))


def offers_v5(request: Request) -> bool:
    """Whether the client knows the one subprotocol that is spoken here."""
    return V5 in (word.strip() for word in request.headers.get("sec-websocket-protocol", "").split(","))


@dataclass(frozen=True)
class Options:
    """What an exec request asks for."""

    command: list[str]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


class ExecSession:
    """See above. `start` starts the command, or is the Status that tells why not."""

    def __init__(
        self,
        request: web.Request,
        options: Options,
        hooks: ExecHooks,
        counters: Counters,
        start: Callable[[Stdio], Awaitable[Process]] | statuses.Status,
    ) -> None:
        self.request = request
        self.options = options
        self._hooks = hooks
        self._counters = counters
        self._start = start
        self._websocket = web.WebSocketResponse(
            protocols=(V5,),
            autoclose=False,
            autoping=False,
            compress=False,
            max_msg_size=_MAX_PAYLOAD,
            decode_text=False,
        )
        self._stdio = Stdio()
        self._command: asyncio.Task[statuses.Status] | None = None
        self._sent = 0  # bytes of output
        self._disturbance = ""  # hold, silence or freeze: see `disturb`
        self._is_acknowledged = False
        self._is_finished = False
        self._has_left = False  # the client

    async def serve(self) -> web.WebSocketResponse:
        """Answer 101, start the command, and serve the stream until it ends."""
        sending: asyncio.Task[None] | None = None
        self._counters.opened()
        try:
            await self._websocket.prepare(self.request)
            self._hooks.upgraded(self)
            # As the real one, which thereby tells that the connection is established.
            await self._send(STDOUT if self.options.stdout else STDERR if self.options.stderr else ERROR)
            if self._hooks.starts:
                wanted = self.options
                await self._stdio.open(stdin=wanted.stdin, stdout=wanted.stdout, stderr=wanted.stderr, tty=wanted.tty)
                self._command = asyncio.create_task(self._run())
                sending = asyncio.create_task(self._send_all(self._command))
            await self._receive()
        except ConnectionResetError:
            pass  # the client has left, as a write tells
        finally:
            self._has_left = True
            self._counters.sessions -= 1
            self._acknowledge()
            if sending is not None:
                sending.cancel()
            if self._stdio.stdin is not None:
                self._stdio.stdin.abort()
            if self._command is None or self._command.done():
                self._stdio.close()
        self._close()
        return self._websocket

    async def _run(self) -> statuses.Status:
        """The command, to its end; its output may still be under way, or be held open by what it left behind."""
        try:
            if isinstance(self._start, dict):
                return self._start
            process = await self._start(self._stdio)
            self._stdio.close_theirs()
            self._counters.running += bool(process.pid)  # the pod may have ended before it could start
            code = await process.wait()
            self._counters.running -= bool(process.pid)
        except OSError as error:
            return statuses.not_started(self.options.command, error.errno or 0, secrets.token_hex(32))
        finally:
            self._stdio.close_theirs()
            if self._has_left:
                self._stdio.close()
            elif self._stdio.stdin is not None:
                self._stdio.stdin.abort()
        return statuses.exit_code(code) if code else statuses.success()

    async def _send_all(self, command: asyncio.Task[statuses.Status]) -> None:
        """Send the output, and when all of it is sent how the command ended."""
        await asyncio.gather(*map(self._pump, self._stdio.outputs))
        status = await asyncio.shield(command)
        self._acknowledge()
        self._is_finished = True
        self._hooks.has_output(self)
        data = self._hooks.status(json.dumps(status, separators=(",", ":")).encode())
        if data is not None:
            await self._send(ERROR, data)
        if not self._has_left and not self._disturbance:
            with contextlib.suppress(ConnectionResetError):
                await self._websocket.send_frame(_NORMAL, WSMsgType.CLOSE)
            await asyncio.sleep(_CLOSE_WAIT_S)
            self._close()

    # The streams -----------------------------------------------------------------------------------------------------

    async def _pump(self, pipe: OutputPipe) -> None:
        while data := await pipe.read(self._hooks.piece):
            if pipe.channel == STDERR:
                self._acknowledge()
            self._hooks.has_output(self)
            await self._send(pipe.channel, data)
            self._sent += len(data)
            self._hooks.sent(self, self._sent)
            await asyncio.sleep(self._hooks.pause_s(len(data)))  # 0: the other sessions' turn

    async def _send(self, channel: int, data: bytes = b"") -> None:
        if not self._has_left and not self._disturbance:
            with contextlib.suppress(ConnectionResetError):  # the client has left
                await self._websocket.send_bytes(bytes((channel,)) + data)

    def _acknowledge(self) -> None:
        if not self._is_acknowledged:
            self._is_acknowledged = True
            self._counters.unacknowledged -= 1

    async def _receive(self) -> None:
        """Take what the client sends, until it leaves."""
        while True:
            message = await self._websocket.receive()
            if self._disturbance == "freeze":
                await asyncio.Event().wait()  # until the client closes the connection
            if message.type in {WSMsgType.BINARY, WSMsgType.TEXT}:
                if message.data:
                    await self._take(message.data[0], message.data[1:])
            elif message.type is WSMsgType.PING:
                if self._disturbance != "silence":
                    await self._websocket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                if message.type is WSMsgType.CLOSE and not self._is_finished and not self._disturbance:
                    await self._websocket.close(code=message.data or WSCloseCode.OK)
                return

    async def _take(self, channel: int, data: bytes) -> None:
        stdin = self._stdio.stdin
        if channel == STDIN and stdin is not None:
            await stdin.write(data)
            if pause_s := self._hooks.pause_s(len(data)):
                await asyncio.sleep(pause_s)
        elif channel == CLOSE_CHANNEL and data == b"\0" and stdin is not None:
            stdin.end()
        elif channel == RESIZE:
            size = json.loads(data)
            self._stdio.resize(int(size.get("Height", 0)), int(size.get("Width", 0)))

    # What may be done to them ----------------------------------------------------------------------------------------

    def disturb(self, what: str) -> None:
        """Be cut (reset), frozen (neither read nor written any more), silenced (nothing is sent any more) or held.

        Held: pings are answered, but nothing else comes, as when the node is gone (kubernetes#129144).
        """
        transport = self.request.transport
        if what == "cut":
            reset(self.request)
            return
        self._disturbance = what
        if what == "freeze" and transport is not None:
            transport.pause_reading()

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are, whether they are frames or not."""
        if self.request.transport is not None:
            self.request.transport.write(data)

    def _close(self) -> None:
        if self.request.transport is not None:
            self.request.transport.close()
