"""An API server that keeps objects in memory, over plain HTTP, with the faults that a test asks for.

Pods are run by three rules: they are Running at once, a launcher succeeds when its workers run and `may_end` says so,
and a deleted pod is gone a moment later.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from agents.playground.access import user
from agents.playground.request import Request as HttpRequest
from agents.playground.rest import Response
from tests.objects import T9K, Failure, Objects, Request, plural_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.playground.watch import Watch

Body = dict[str, Any]

_BOOKMARK_S = 0.2
_ANYONE = user("anyone", ["*"])


class SharedObjects(Objects):
    """What several threads may wait for, who hold the lock `changed` when they write."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition(threading.RLock())

    def _write(self, *change: Any) -> Body:
        with self.changed:
            self.changed.notify_all()
            return super()._write(*change)


class ObjectsApi:
    """The server.

    `fault(request)` may raise Failure, or return False for no answer at all; where `forgets(request)` is True, the
    request is carried out and then not answered.
    """

    def __init__(self, port: int = 0) -> None:
        self.objects = SharedObjects()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.fault: Callable[[Request], bool] = lambda _request: True
        self.forgets: Callable[[Request], bool] = lambda _request: False
        self.may_end: Callable[[Body], bool] = lambda _launcher: True
        self.served = {"/apis/kubeflow.org/v1", f"/apis/{T9K}/v1beta1"}
        self._is_held = False  # a launcher, by `may_end` alone: what that answers changes no object
        self.epoch = 0  # watches end when it changes
        self._server: _Server | None = None
        self.port = port
        self._stop = threading.Event()
        self.start()
        self._kubelet = threading.Thread(target=self._run_pods, daemon=True)
        self._kubelet.start()

    def start(self) -> None:
        """Listen, as before an outage."""
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.api = self
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Be gone: no connection stays, and none is taken."""
        assert self._server is not None
        self.end_watches()
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._server.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._stop.set()
        self._kubelet.join(10)
        self.stop()

    def end_watches(self, *, forget: bool = False) -> None:
        """End all watches; `forget`: what they ask for next is too old."""
        with self.objects.changed:
            self.epoch += 1
            if forget:
                self.objects.forget()
            self.objects.changed.notify_all()

    def wait(self, condition: Callable[[SharedObjects], Any], timeout_s: float = 60.0) -> None:
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
        return len(ready) >= int((spec.get("worker") or spec["mpiReplicaSpecs"]["Worker"])["replicas"])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    api: ObjectsApi

    def __init__(self, *given: Any) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client or an outage that breaks a connection off is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def handle_one_request(self) -> None:
        super().handle_one_request()
        if not self.wfile.closed:
            self.wfile.flush()

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _answer(self) -> None:
        api, headers = self.server.api, {name.lower(): text for name, text in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        call = api.objects.api.read(HttpRequest(self.command, self.path, headers, body))
        try:
            if call.target is not None:
                request = Request.of(call)
                api.requests[request.verb, request.plural] += 1
                if not api.fault(request):
                    self.close_connection = True
                    return
            elif self.path not in api.served:
                raise Failure(404, "NotFound", "no such path")
            with api.objects.changed:
                answer, epoch = api.objects.api.answer(call, _ANYONE), api.epoch
            if not isinstance(answer, Response):
                self._watch(answer, epoch)
            elif call.target is not None and api.forgets(request):
                self.close_connection = True
            else:
                self._send(answer)
        except Failure as failure:
            headers = {"Retry-After": failure.retry_after} if failure.retry_after else {}
            self._send(Response.of(failure.status["code"], failure.status, **headers))

    def _watch(self, watch: Watch, epoch: int) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        objects = self.server.api.objects
        while self.server.api.epoch == epoch:
            with objects.changed:
                lines = watch.poll()
                if not lines:
                    objects.changed.wait(_BOOKMARK_S)
                    lines = watch.poll() or [watch.bookmark()]
            for line in lines:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            if watch.is_expired:
                break
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, answer: Response) -> None:
        self.send_response(answer.code)
        for name, text in {"Content-Type": answer.media, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, text)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(answer.body)


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
