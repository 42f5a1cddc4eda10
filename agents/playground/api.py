"""The API: who asks, for what, and who answers it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from . import frames, http1, pods, selector, statuses
from .exec_session import ExecSession, Options
from .watch import Lister, Watch

if TYPE_CHECKING:
    from .access import Access, User
    from .connection import Connection
    from .counters import Counters
    from .faults import Fault, Faults
    from .kubelet import Kubelet
    from .loop import Loop
    from .store import Store

_PODS = re.compile(r"^/api/v1/(?:namespaces/([^/]+)/)?pods(?:/([^/]+))?(?:/([^/]+))?/?$")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Api:
    """What all connections share."""

    def __init__(
        self, loop: Loop, store: Store, kubelet: Kubelet, access: Access, faults: Faults, counters: Counters, minor: int
    ) -> None:
        self.loop = loop
        self.store = store
        self.kubelet = kubelet
        self.access = access
        self.faults = faults
        self.counters = counters
        self.minor = minor  # of Kubernetes 1.x
        self.lister = Lister(store)
        self.watches: set[Watch] = set()
        self.sessions: dict[ExecSession, str] = {}  # → the pod's uid


class Conversation:
    """One connection's requests, one after the other."""

    def __init__(self, api: Api, connection: Connection) -> None:
        self._api = api
        self._connection = connection
        self._reader = http1.RequestReader()
        self._busy = False  # a watch or an exec has taken the connection over
        api.counters.connections += 1
        connection.receive = self._receive
        connection.ended = self._ended

    def _ended(self) -> None:
        self._api.counters.connections -= 1

    def _receive(self, data: memoryview) -> None:
        self._reader.feed(data)
        while not self._busy and self._connection.open:
            try:
                request = self._reader.next()
            except http1.BadRequestError as error:
                self._answer(400, statuses.failure(400, str(error)))
                self._connection.close()
                return
            if request is None:
                return
            self._handle(request)
            if request.headers.get("connection", "").lower() == "close" and not self._busy:
                self._connection.close()

    def _answer(self, code: int, thing: object, **headers: str) -> None:
        self._connection.write(http1.json_response(code, thing, **headers))

    def _handle(self, request: http1.Request) -> None:
        user = self._api.access.identify(request.headers.get("authorization", ""), self._connection.certificate_subject)
        if user is None:
            self._answer(401, statuses.failure(401, "Unauthorized"))
            return
        try:
            found = _PODS.match(request.path)
            if found:
                self._pods(request, user, *found.groups())
            elif request.path == _REVIEWS and request.method == "POST":
                self._review(request, user)
            else:
                self._discover(request)
        except (selector.SelectorError, ValueError) as error:
            self._answer(400, statuses.failure(400, str(error)))

    def _meets_fault(self, on: str, pod: str = "") -> Fault | None:
        """The fault that the request meets, if it is not one that has been dealt with here."""
        self._api.counters.count(on)
        fault = self._api.faults.meet(on, pod)
        if fault is None:
            return None
        if fault.kind == "http":
            headers = {} if fault.retry_after_s is None else {"Retry-After": str(fault.retry_after_s)}
            text = fault.text or {401: "Unauthorized", 429: "too many requests, please try again later"}.get(
                fault.status, "the server is out of order on purpose"
            )
            self._answer(fault.status, statuses.failure(fault.status, text), **headers)
        elif fault.kind == "drop-before-upgrade":
            self._connection.close(reset=True)
        return fault

    def _done_with(self, fault: Fault | None) -> bool:
        return fault is not None and fault.kind in {"http", "drop-before-upgrade"}

    # Pods ------------------------------------------------------------------------------------------------------------

    def _pods(
        self, request: http1.Request, user: User, namespace: str | None, name: str | None, subresource: str | None
    ) -> None:
        if name and subresource == "exec" and namespace:
            self._exec(request, user, namespace, name)
            return
        if request.method != "GET" or subresource:
            self._answer(405, statuses.failure(405, "the stand-in only reads pods"))
            return
        watching = request.flag("watch")
        verb = "get" if name else "watch" if watching else "list"
        asked = name or selector.name_in(request.first("fieldSelector")) or ""
        if not user.may(verb, "pods", asked, namespace or ""):
            self._answer(403, statuses.forbidden(user.name, verb, "pods", asked, namespace or ""))
            return
        fault = self._meets_fault(verb, asked)
        if self._done_with(fault):
            return
        if name:
            thing = self._api.store.get(namespace or "", name)
            if thing is None:
                self._answer(404, statuses.not_found("pods", name))
            else:
                self._connection.write(http1.response(200, self._api.store.encoded(thing) + b"\n"))
        elif watching:
            self._watch(request, namespace, fault)
        else:
            code, body = self._api.lister.answer(namespace, request)
            self._connection.write(http1.response(code, body))

    def _watch(self, request: http1.Request, namespace: str | None, fault: Fault | None) -> None:
        watch = Watch(self._api.loop, self._api.store, self._connection, namespace)

        def over() -> None:
            self._api.watches.discard(watch)
            self._ended()

        self._api.watches.add(watch)
        watch.on_over = over
        self._busy = True
        if fault is not None and fault.kind == "gone":
            self._connection.write(http1.chunked_head())
            watch.fail(statuses.expired())
            return
        watch.start(request)

    # Exec ------------------------------------------------------------------------------------------------------------

    def _exec(self, request: http1.Request, user: User, namespace: str, name: str) -> None:
        verbs = {"GET": ["get"], "POST": ["create"]}.get(request.method, [])
        if request.method == "GET" and self._api.minor >= 35:
            verbs.append("create")  # kubernetes PR 134577
        for verb in verbs:
            if not user.may(verb, "pods/exec", name, namespace):
                self._answer(403, statuses.forbidden(user.name, verb, "pods/exec", name, namespace))
                return
        fault = self._meets_fault("exec", name)
        if self._done_with(fault):
            return
        refusal = self._refusal(request, namespace, name)
        if refusal is not None:
            self._answer(refusal["code"], refusal)
            return
        if request.method != "GET" or request.headers.get("upgrade", "").lower() != "websocket":
            self._answer(400, statuses.failure(400, "Upgrade request required"))
            return
        v4_only = self._api.minor < 29 or (fault is not None and fault.kind == "v4-only")
        protocol = _protocol(request.headers.get("sec-websocket-protocol", ""), v4_only=v4_only)
        if protocol is None:  # as golang.org/x/net/websocket refuses a handshake
            self._connection.write(http1.response(403, b"", "text/plain"))
            return
        streams = {stream: request.flag(stream) for stream in ("stdin", "stdout", "stderr", "tty")}
        options = Options(request.query["command"], protocol, **streams)
        self._open(request, options, namespace, name, fault)

    def _refusal(self, request: http1.Request, namespace: str, name: str) -> statuses.Status | None:
        """What the API server itself finds wrong: told by HTTP, in both protocols."""
        thing = self._api.store.get(namespace, name)
        if thing is None:
            return statuses.not_found("pods", name)
        if not request.query.get("command"):
            return statuses.failure(400, "you must specify at least 1 command for the container")
        if not any(request.flag(stream) for stream in ("stdin", "stdout", "stderr")):
            return statuses.failure(400, "you must specify at least 1 of stdin, stdout, stderr")
        container = request.first("container")
        if container and container not in pods.container_names(thing):
            return statuses.failure(400, f"container {container} is not valid for pod {name}")
        names = [one["name"] for one in thing["spec"]["containers"]]
        if not container and len(names) > 1:
            text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
            return statuses.failure(400, text)
        if not thing["spec"].get("nodeName"):
            return statuses.failure(400, f"pod {name} does not have a host assigned")
        return None

    def _open(self, request: http1.Request, options: Options, namespace: str, name: str, fault: Fault | None) -> None:
        api = self._api
        thing = api.store.get(namespace, name)
        assert thing is not None
        container = request.first("container") or thing["spec"]["containers"][0]["name"]
        api.counters.commands.append(
            {
                "pod": name,
                "namespace": namespace,
                "container": container,
                "command": options.command,
                "protocol": options.protocol,
                "stdin": options.stdin,
                "tty": options.tty,
            }
        )
        wrong = _kubelet_error(thing, container, fault)
        if wrong is not None and not options.v5:
            self._connection.write(http1.response(500, wrong.encode() + b"\n", "text/plain; charset=utf-8"))
            return
        self._busy = True
        accept = frames.accept_key(request.headers.get("sec-websocket-key", ""))
        self._connection.write(http1.switching_protocols(accept, options.protocol))
        if fault is not None and fault.kind == "drop-after-upgrade":
            self._connection.close(reset=True)
            return

        def over() -> None:
            del api.sessions[session]

        session = ExecSession(self._connection, options, fault, api.counters, over)
        api.sessions[session] = thing["metadata"]["uid"]
        session.take_over(self._reader.rest())
        if wrong is not None:
            session.fail(statuses.internal_error(wrong))
            return
        live = api.kubelet.find(namespace, name)
        session.start(api.kubelet.processes(live), api.kubelet.environ(live, container), api.kubelet.home(live))

    # The rest --------------------------------------------------------------------------------------------------------

    def _review(self, request: http1.Request, user: User) -> None:
        fault = self._meets_fault("review")
        if self._done_with(fault):
            return
        review = json.loads(request.body)
        asked = review.get("spec", {}).get("resourceAttributes", {})
        resource = "/".join(part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part)
        allowed = user.may(asked.get("verb", ""), resource, asked.get("name", ""), asked.get("namespace", ""))
        review["status"] = {"allowed": allowed} | ({} if allowed else {"reason": "no rule of the stand-in allows it"})
        self._answer(201, review)

    def _discover(self, request: http1.Request) -> None:
        self._api.counters.count("discovery")
        if request.path in {"/healthz", "/livez", "/readyz"}:
            self._connection.write(http1.response(200, b"ok", "text/plain; charset=utf-8"))
            return
        answer = _discovery(request.path.rstrip("/"), self._api.minor)
        if answer is None:
            self._answer(404, statuses.failure(404, "the server could not find the requested resource", details={}))
        else:
            self._answer(200, answer)


def _kubelet_error(thing: pods.Object, container: str, fault: Fault | None) -> str | None:
    """What goes wrong between API server and container: a Status after the 101 with v5, HTTP 500 with v4."""
    if fault is not None and fault.kind == "dial-error":
        if fault.text:
            return fault.text
        dial = "dial tcp 127.0.0.1:10250: connect: connection refused"
        return f"error dialing backend: {dial}"
    if not pods.runs(thing, container):
        return f'unable to upgrade connection: container not found ("{container}")'
    return None


def _protocol(offered: str, *, v4_only: bool) -> str | None:
    known = (frames.V4,) if v4_only else (frames.V5, frames.V4)
    return next((one for one in (word.strip() for word in offered.split(",")) if one in known), None)


def _discovery(path: str, minor: int) -> dict[str, object] | None:
    """What kubectl reads before it speaks of pods."""
    if path == "/version":
        version = f"v1.{minor}.0"
        return {"major": "1", "minor": str(minor), "gitVersion": version, "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        group = {"groupVersion": "authorization.k8s.io/v1", "version": "v1"}
        groups = [{"name": "authorization.k8s.io", "versions": [group], "preferredVersion": group}]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == "/api/v1":
        verbs = ["get", "list", "watch"]
        resources = [
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": verbs,
                "shortNames": ["po"],
            },
            {
                "name": "pods/exec",
                "singularName": "",
                "namespaced": True,
                "kind": "PodExecOptions",
                "verbs": ["create", "get"],
            },
        ]
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
    if path == "/apis/authorization.k8s.io/v1":
        name = "selfsubjectaccessreviews"
        resource = {
            "name": name,
            "singularName": "",
            "namespaced": False,
            "kind": "SelfSubjectAccessReview",
            "verbs": ["create"],
        }
        return {"kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/"), "resources": [resource]}
    return None
