"""An API server that keeps objects in memory, over plain HTTP, with the faults that a test asks for.

Pods are run by three rules: they are Running at once, a launcher succeeds when its workers run and `may_end` says so,
and a deleted pod is gone a moment later.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from stored_objects import T9K, Failure, Objects, Place, conditions, matches, merged, only_metadata, plural_of, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Body = dict[str, Any]

_PATH = re.compile(r"^/apis?/(?:([^/]+)/)?v[0-9a-z]+/(?:namespaces/([^/]+)/)?([a-z]+)(?:/([^/]+))?(?:/([^/]+))?$")
_BOOKMARK_S = 0.2


@dataclass
class Request:
    """What a fault is asked about."""

    verb: str
    plural: str  # T9k's have their group behind it
    name: str
    partial: bool = False  # asks for metadata alone
    namespace: str = ""


class ObjectsApi:
    """The server.

    `fault(request)` may raise Failure, or return False for no answer at all; where `forgets(request)` is True, the
    request is carried out and then not answered.
    """

    def __init__(self, port: int = 0) -> None:
        self.objects = Objects()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.fault: Callable[[Request], bool] = lambda _request: True
        self.forgets: Callable[[Request], bool] = lambda _request: False
        self.may_end: Callable[[Body], bool] = lambda _launcher: True
        self.served = {"/apis/kubeflow.org/v1", f"/apis/{T9K}/v1beta1"}
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
                self.objects.compacted = self.objects.version + 1
                self.objects.version += 1
            self.objects.changed.notify_all()

    def wait(self, condition: Callable[[Objects], Any], timeout_s: float = 60.0) -> None:
        """Wait until the objects meet a condition."""
        with self.objects.changed:
            assert self.objects.changed.wait_for(lambda: condition(self.objects), timeout_s), self.picture()

    def picture(self) -> str:
        jobs = [*self.objects.select("mpijobs", "", ""), *self.objects.select(f"mpijobs.{T9K}", "", "")]
        return str([(job["metadata"]["name"], conditions(job)) for job in jobs])

    def _run_pods(self) -> None:
        objects = self.objects
        seen = 0
        while not self._stop.is_set():
            with objects.changed:
                objects.changed.wait(0.05)
                if objects.version == seen:
                    continue
                for pod in objects.select("pods", "", ""):
                    after = self._next(pod)
                    if after is not None:
                        objects.put("pods", after, "MODIFIED")
                    elif "deletionTimestamp" in pod["metadata"]:
                        objects.put("pods", pod, "DELETED")
                seen = objects.version

    def _next(self, pod: Body) -> Body | None:
        phase = pod.get("status", {}).get("phase", "Pending")
        is_launcher = pod["metadata"].get("labels", {}).get("mpi-agents/role") == "launcher"
        if "deletionTimestamp" in pod["metadata"] or phase == "Succeeded":
            return None
        if phase == "Pending":
            return {**pod, "status": running(pod)}
        if is_launcher and self._has_workers(pod) and self.may_end(pod):
            return {**pod, "status": {"phase": "Succeeded", "conditions": []}}
        return None

    def _has_workers(self, launcher: Body) -> bool:
        owner = launcher["metadata"]["ownerReferences"][0]
        job = self.objects.get((plural_of(owner), launcher["metadata"]["namespace"], owner["name"]))
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
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        try:
            found = _PATH.match(parts.path)
            if found is None:
                self._discover(parts.path)
                return
            group, namespace, plural, name, subresource = (text or "" for text in found.groups())
            plural = f"{plural}.{group}" if group == T9K else plural
            verb = self._verb(name, query)
            self.server.api.requests[verb, plural] += 1
            partial = "as=PartialObjectMetadata" in self.headers.get("Accept", "")
            request = Request(verb, plural, name or body.get("metadata", {}).get("name", ""), partial, namespace)
            if not self.server.api.fault(request):
                self.close_connection = True
            elif verb == "watch":
                self._watch(plural, namespace, query, partial=partial)
            else:
                with self.server.api.objects.changed:
                    answer = self._do(verb, (plural, namespace, name), subresource, query, body)
                if self.server.api.forgets(request):
                    self.close_connection = True
                    return
                self._send(201 if verb == "create" else 200, only_metadata(answer) if partial else answer)
        except Failure as failure:
            status = {"kind": "Status", "status": "Failure", "reason": failure.reason, "message": str(failure)}
            headers = {"Retry-After": failure.retry_after} if failure.retry_after else {}
            self._send(failure.code, status | {"code": failure.code}, headers)

    def _verb(self, name: str, query: dict[str, str]) -> str:
        if self.command == "GET":
            return "get" if name else "watch" if query.get("watch") else "list"
        if self.command == "DELETE":
            return "delete" if name else "deletecollection"
        return {"POST": "create", "PUT": "update", "PATCH": "patch"}[self.command]

    def _do(self, verb: str, place: Place, subresource: str, query: dict[str, str], body: Body) -> Body:
        objects, selector = self.server.api.objects, query.get("labelSelector", "")
        plural, namespace, _ = place
        match verb:
            case "get":
                return objects.get(place)
            case "list":
                return self._list(plural, namespace, query)
            case "create":
                return objects.create(plural, namespace, body)
            case "update":
                return objects.replace(place, body, subresource)
            case "patch":
                return objects.put(plural, merged(objects.get(place), body), "MODIFIED")
            case "delete":
                return objects.delete(place, body.get("preconditions", {}).get("uid", ""))
        for each in objects.select(plural, namespace, selector):
            objects.delete((plural, each["metadata"]["namespace"], each["metadata"]["name"]))
        return {"kind": "List", "items": []}

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> Body:
        objects = self.server.api.objects
        items = objects.select(plural, namespace, query.get("labelSelector", ""))
        if field := query.get("fieldSelector"):
            items = [each for each in items if each["metadata"]["name"] == field.removeprefix("metadata.name=")]
        begin, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(objects.version)}
        if begin + limit < len(items):
            metadata["continue"] = str(begin + limit)
        return {"kind": "List", "metadata": metadata, "items": items[begin : begin + limit]}

    def _watch(self, plural: str, namespace: str, query: dict[str, str], *, partial: bool) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        for event in self._events(plural, namespace, query):
            told = {**event, "object": only_metadata(event["object"])} if partial else event
            data = json.dumps(told, separators=(",", ":")).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, plural: str, namespace: str, query: dict[str, str]) -> Iterator[Body]:
        api, version = self.server.api, int(query["resourceVersion"])
        objects, epoch, place = api.objects, api.epoch, 0
        if version < objects.compacted:
            yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
            return
        while api.epoch == epoch:
            with objects.changed:
                objects.changed.wait_for(self._is_new(place, epoch), _BOOKMARK_S)
                fresh, place, now = objects.log[place:], len(objects.log), objects.version
            for at, event, its, body in fresh:
                here = at > version and its == plural and namespace in {"", body["metadata"].get("namespace")}
                if here and matches(body, query.get("labelSelector", "")):
                    yield {"type": event, "object": body}
            if not fresh:
                yield {"type": "BOOKMARK", "object": {"kind": "x", "metadata": {"resourceVersion": str(now)}}}

    def _is_new(self, place: int, epoch: int) -> Callable[[], bool]:
        api = self.server.api
        return lambda: len(api.objects.log) > place or api.epoch != epoch

    def _discover(self, path: str) -> None:
        if path in self.server.api.served:
            self._send(200, {"kind": "APIResourceList", "resources": [{"name": "mpijobs"}]})
        else:
            raise Failure(404, "NotFound", "no such path")

    def _send(self, code: int, body: Body, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(code)
        for name, text in {
            **(headers or {}),
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
