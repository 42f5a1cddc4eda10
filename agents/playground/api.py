"""The API: who asks, for what, and who answers it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import traceback
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from . import controllers, exec_session, faults, logs, pods, statuses
from .exec_session import ExecSession, Options
from .request import Request
from .resources import PODS
from .rest import ObjectApi, Response
from .watch_stream import WatchStream
from .writes import RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .access import Access, User
    from .counters import Counters
    from .faults import Fault, Faults
    from .kubelet import Kubelet
    from .pipes import Stdio
    from .processes import Process
    from .resources import Target
    from .rest import Call
    from .store import Store
    from .watch import Watch


class Api:
    """Answers requests."""

    def __init__(self, store: Store, kubelet: Kubelet, users: Access, faults: Faults, counters: Counters) -> None:
        self.store = store
        self.kubelet = kubelet
        self.access = users
        self.faults = faults
        self.counters = counters
        self.objects = ObjectApi(store, accept_pod=kubelet.accept, end_pod=self._end_pod)
        later = asyncio.get_running_loop().call_later
        controllers.Collector(self.objects, later)
        controllers.JobController(self.objects, later)
        self.watches: set[WatchStream] = set()
        self.sessions: dict[ExecSession, str] = {}  # → the pod's uid

    def _end_pod(self, pod: pods.Object, grace_s: float) -> None:
        self.kubelet.delete(self.kubelet.find(pod["metadata"]["namespace"], pod["metadata"]["name"]), grace_s)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        asked = Request(request.method, request.raw_path, request.headers, await request.read())
        user = self.access.identify(request.headers.get("Authorization", ""))
        try:
            if user is None:
                raise RefusedError(statuses.failure(401, "Unauthorized"))
            call = self.objects.read(asked)
            if call.verb == "exec" and call.target is not None:
                return await self._exec(request, call, user, call.target)
            return await self._object(request, call, user)
        except RefusedError as refused:
            return _plain(Response.of(refused.status["code"], refused.status))
        except ValueError as error:
            return _plain(Response.of(400, statuses.failure(400, str(error))))
        except Exception:
            self.counters.errors += 1
            traceback.print_exc()
            raise

    def _met_fault(self, on: str, name: str) -> Fault | None:
        self.counters.requests[on] += 1
        return self.faults.meet(on, name)

    def _pod(self, named: Target) -> pods.Object:
        thing = self.store.get(PODS.key, named.namespace, named.name)
        if thing is None:
            raise RefusedError(statuses.not_found("pods", named.name))
        return thing

    # Objects ---------------------------------------------------------------------------------------------------------

    async def _object(self, request: web.Request, call: Call, user: User) -> web.StreamResponse:
        self.objects.authorize(call, user)
        fault = self._met_fault(call.verb, call.name)
        if (answer := await faults.instead(fault, request)) is not None:
            return answer
        if call.target is not None and call.target.subresource == "log":
            return await self._log(request, call.request, call.target)
        found = self.objects.answer(call, user)
        if not isinstance(found, Response):
            return await self._watch(request, found, is_gone=fault is not None)
        return _plain(found)

    async def _watch(self, request: web.Request, watch: Watch, *, is_gone: bool) -> web.StreamResponse:
        stream = WatchStream(self.store, watch, request)
        if is_gone:
            stream.fail(statuses.expired())
        self.watches.add(stream)
        try:
            return await _stream(request, stream.chunks(), "application/json")
        finally:
            self.watches.discard(stream)

    async def _log(self, request: web.Request, asked: Request, named: Target) -> web.StreamResponse:
        thing = self._pod(named)
        container = exec_session.container_of(asked, named.name, thing)
        if why := pods.waits(thing, container):
            raise exec_session.wrong(f'container "{container}" in pod "{named.name}" is waiting to start: {why}')
        if asked.flag("previous"):
            raise exec_session.wrong("the stand-in keeps no output of earlier containers apart: it is all in one log")
        path = os.path.join(self.kubelet.find(named.namespace, named.name).folder, f"{container}.log")
        lines = int(asked.first("tailLines", "-1"))
        if asked.flag("follow"):
            lines_to_come = logs.follow(path, lines, partial(self._is_over, named, container))
            return await _stream(request, lines_to_come, "text/plain")
        found = logs.tail(logs.read(path), lines)
        if asked.flag("timestamps"):
            found = logs.stamped(found, path)
        return web.Response(body=found, content_type="text/plain")

    def _is_over(self, named: Target, container: str) -> bool:
        thing = self.store.get(PODS.key, named.namespace, named.name)
        return thing is None or pods.is_over(thing, container)

    # Exec ------------------------------------------------------------------------------------------------------------

    async def _exec(self, request: web.Request, call: Call, user: User, named: Target) -> web.StreamResponse:
        asked, name = call.request, named.name
        # A WebSocket is a GET, and from Kubernetes 1.35 on it needs create too.
        self.objects.authorize(call, user, *(["get"] if asked.method == "GET" else []), "create")
        fault = self._met_fault("exec", name)
        if (answer := await faults.instead(fault, request)) is not None:
            return answer
        thing = self._pod(named)
        container = exec_session.check(asked, name, thing)
        hooks = faults.ExecHooks(fault)
        if not exec_session.offers_v5(asked):  # as golang.org/x/net/websocket refuses a handshake
            return web.Response(status=403)
        streams = {stream: asked.flag(stream) for stream in ("stdin", "stdout", "stderr", "tty")}
        options = Options(asked.query["command"], **streams)
        wrong = hooks.dial_error()
        if wrong is None and not pods.runs(thing, container):
            wrong = f'unable to upgrade connection: container not found ("{container}")'
        start = partial(self._start, options, named, container) if wrong is None else statuses.internal_error(wrong)
        session = ExecSession(request, options, hooks, self.counters, start)
        self.sessions[session] = thing["metadata"]["uid"]
        try:
            return await session.serve()
        finally:
            del self.sessions[session]

    async def _start(self, options: Options, named: Target, container: str, stdio: Stdio) -> Process:
        return await self.kubelet.find(named.namespace, named.name).runtime.exec(container, options.command, stdio)


def _plain(found: Response) -> web.Response:
    return web.Response(body=found.body, status=found.code, headers={"Content-Type": found.media, **found.headers})


async def _stream(request: web.Request, pieces: AsyncGenerator[bytes, None], media: str) -> web.StreamResponse:
    """Answer piece by piece, each a chunk, and close the connection."""
    response = web.StreamResponse(headers={"Content-Type": media})
    response.enable_chunked_encoding()
    response.force_close()
    with contextlib.suppress(ConnectionResetError):  # the client has left
        async with contextlib.aclosing(pieces):
            await response.prepare(request)
            async for piece in pieces:
                await response.write(piece)
    return response
