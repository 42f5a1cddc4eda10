"""The playground's objects and watches over plain HTTP, in threads of the test's process, with the faults it asks for.

Pods are run by three rules: they are Running immediately, a launcher succeeds when its workers run and `may_end` says
so, and a deleted pod is gone a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from aiohttp import web

from agents.playground import faults
from agents.playground.access import user
from agents.playground.request import Request as HttpRequest
from agents.playground.rest import Call, Response
from agents.playground.watch import Watch
from agents.playground.watch_stream import WatchStream
from tests.objects import T9K, Failure, Objects, Request, plural_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agents.playground.store import Change

Body = dict[str, Any]

_ANYONE = user("anyone", ["*"])
_END_S = 20.0


class SharedObjects(Objects):
    """What several threads may wait for, who hold the lock `changed` when they write.

    The server's watches are told in its own loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.changed = threading.Condition(threading.RLock())
        self._loop = loop

    def subscribe(self, key: str, tell: Callable[..., None]) -> Callable[[], None]:
        """Tell once at first: another thread may have written between a watch's first look and this."""

        def soon(change: Change | None) -> None:
            self._loop.call_soon_threadsafe(tell, change)

        end = super().subscribe(key, soon)
        soon(None)
        return end

    def _write(self, *change: Any) -> Body:
        with self.changed:
            self.changed.notify_all()
            return super()._write(*change)


class _SharedWatch(Watch):
    def poll(self) -> list[bytes]:
        assert isinstance(self._store, SharedObjects)
        with self._store.changed:
            return super().poll()


class ObjectsApi:
    """The server.

    `fault(request)` may raise Failure, or return False for no answer at all, or take its time; where `forgets(request)`
    is True, the request is carried out and then not answered.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.objects = SharedObjects(self._loop)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.fault: Callable[[Request], bool] = lambda _request: True
        self.forgets: Callable[[Request], bool] = lambda _request: False
        self.may_end: Callable[[Body], bool] = lambda _launcher: True
        self.served = {"/apis/kubeflow.org/v1", f"/apis/{T9K}/v1beta1"}
        self.port = 0
        self._is_held = False  # a launcher, by `may_end` alone: what that answers changes no object
        self._watches: set[WatchStream] = set()
        self._answering = ThreadPoolExecutor(128)  # more than an operator asks at a time: faults may hold them up
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._loop.run_forever, self._run_pods)]
        self._threads[0].start()
        self._run(self._set_up())
        self.start()
        self._threads[1].start()

    async def _set_up(self) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_END_S)

    def start(self) -> None:
        """Listen, as before an outage."""
        self._run(self._listen())

    async def _listen(self) -> None:
        assert self._runner.server is not None
        self._listener = await self._loop.create_server(self._runner.server, "127.0.0.1", self.port, backlog=128)
        self.port = self._listener.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Be gone: no connection stays, and none is taken."""
        self._run(self._cut(is_gone=True))

    def cut(self) -> None:
        """Break all connections off."""
        self._run(self._cut(is_gone=False))

    async def _cut(self, *, is_gone: bool) -> None:
        if is_gone:
            # Who is being accepted is let in first: else asyncio forgets the connection, open.
            for socket in self._listener.sockets:
                self._loop.remove_reader(socket.fileno())
            for _ in range(4):
                await asyncio.sleep(0)
            self._listener.close()
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            faults.reset(connection)

    def close(self) -> None:
        self._stop.set()
        self._threads[1].join(_END_S)
        self.stop()
        self._run(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads[0].join(_END_S)
        self._loop.close()
        self._answering.shutdown(wait=False)

    def end_watches(self, *, forget: bool = False) -> None:
        """End all watches; `forget`: what they ask for next is too old."""
        with self.objects.changed:
            if forget:
                self.objects.forget()
            for watch in tuple(self._watches):
                self._loop.call_soon_threadsafe(watch.end)

    def wait(self, condition: Callable[[SharedObjects], Any], timeout_s: float = 150.0) -> None:
        """Wait until the objects meet a condition."""
        with self.objects.changed:
            assert self.objects.changed.wait_for(lambda: condition(self.objects), timeout_s), self.picture()

    def picture(self) -> str:
        jobs = [*self.objects.select("mpijobs"), *self.objects.select(f"mpijobs.{T9K}")]
        return str([(job["metadata"]["name"], conditions(job)) for job in jobs])

    def _run_pods(self) -> None:
        objects = self.objects
        seen = 0
        while not self._stop.is_set():
            with objects.changed:
                objects.changed.wait(0.05)
                if objects.version == seen and not self._is_held:
                    continue
                self._is_held = False
                for pod in objects.select("pods"):
                    after = self._next(pod)
                    if after is not None:
                        objects.put("pods", after)
                    elif "deletionTimestamp" in pod["metadata"]:
                        objects.end(pod)
                objects.collect()
                seen = objects.version

    def _next(self, pod: Body) -> Body | None:
        phase = pod.get("status", {}).get("phase", "Pending")
        is_launcher = pod["metadata"].get("labels", {}).get("mpi-agents/role") == "launcher"
        if "deletionTimestamp" in pod["metadata"] or phase == "Succeeded":
            return None
        if phase == "Pending":
            return {**pod, "spec": {**pod["spec"], "nodeName": "node-1"}, "status": running(pod)}
        if is_launcher and self._has_workers(pod):
            if self.may_end(pod):
                return {**pod, "status": {"phase": "Succeeded", "conditions": []}}
            self._is_held = True
        return None

    def _has_workers(self, launcher: Body) -> bool:
        owner = launcher["metadata"]["ownerReferences"][0]
        job = self.objects.at((plural_of(owner), launcher["metadata"]["namespace"], owner["name"]))
        uid = launcher["metadata"]["labels"]["mpi-agents/job-uid"]
        workers = self.objects.select("pods", "", f"mpi-agents/job-uid={uid},mpi-agents/role=worker")
        ready = [each for each in workers if each.get("status", {}).get("phase") == "Running"]
        spec = job["spec"]
        workers_spec = spec.get("worker") or spec.get("nodes") or spec["mpiReplicaSpecs"]["Worker"]
        return len(ready) >= int(workers_spec["replicas"])

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked = HttpRequest(request.method, request.raw_path, request.headers, await request.read())
        call = self.objects.api.read(asked)
        try:
            found = await self._loop.run_in_executor(self._answering, self._answer, call)
        except Failure as failure:
            again = {"Retry-After": failure.retry_after} if failure.retry_after else {}
            found = Response.of(failure.status["code"], failure.status, **again)
        if isinstance(found, Call):
            return await self._watch(request, found)
        if found is None:
            faults.reset(request)
            return web.Response()
        return web.Response(body=found.body, status=found.code, headers={"Content-Type": found.media, **found.headers})

    def _answer(self, call: Call) -> Response | Call | None:
        """The answer; the call itself where it is a watch, None where there is no answer."""
        if call.target is None:
            if call.request.path not in self.served:
                raise Failure(404, "NotFound", "no such path")
        else:
            request = Request.of(call)
            self.requests[request.verb, request.plural] += 1
            if not self.fault(request):
                return None
            if call.verb == "watch":
                return call
        with self.objects.changed:
            answer = self.objects.api.answer(call, _ANYONE)
        assert isinstance(answer, Response)
        return None if call.target is not None and self.forgets(request) else answer

    async def _watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        assert call.target is not None
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        response.force_close()
        with self.objects.changed:  # `end_watches` comes before it is made, or ends it
            stream = WatchStream(self.objects, _SharedWatch(self.objects, call.target, call.request), request)
            self._watches.add(stream)
        with contextlib.suppress(ConnectionResetError):
            async with contextlib.aclosing(stream.chunks()) as chunks:
                await response.prepare(request)
                async for chunk in chunks:
                    await response.write(chunk)
        self._watches.discard(stream)
        return response


def running(pod: Body) -> Body:
    """The status of a pod that runs."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    containers = [
        {"name": each["name"], "ready": True, "restartCount": 0, "state": state} for each in pod["spec"]["containers"]
    ]
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": containers}


def conditions(job: Body) -> list[str]:
    """The types of a job's conditions that hold."""
    return [each["type"] for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"]
