"""The API: who asks, for what, and who answers it."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

from . import batch, discovery, exec_request, frames, http1, logs, pods, rest, roles, selector, statuses
from .exec_session import ExecSession, Options
from .garbage import Collector
from .resources import PODS, target
from .watch import Lister, Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .access import Access, User
    from .connection import Connection
    from .counters import Counters
    from .faults import Fault, Faults
    from .kubelet import Kubelet
    from .loop import Loop
    from .resources import Target
    from .store import Store

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Api:
    """What all connections share."""

    def __init__(
        self,
        loop: Loop,
        store: Store,
        kubelet: Kubelet,
        access: Access,
        faults: Faults,
        counters: Counters,
        settings: Mapping[str, Any],
    ) -> None:
        self.loop = loop
        self.store = store
        self.kubelet = kubelet
        self.access = access
        self.faults = faults
        self.counters = counters
        self.minor = int(settings["minor"])  # of Kubernetes 1.x
        self.runtime = str(settings["runtime"])
        self.lister = Lister(store)
        self.objects = rest.Objects(store, self.lister, kubelet)
        self.collector = Collector(loop, store, self.objects.remove)
        self.jobs = batch.Controller(loop, store, self.objects.make_pod, self.objects.remove)
        kubelet.issue_token = lambda namespace, account: access.add_account(
            namespace, account, roles.bound(store, namespace, account)
        )
        self.conversations: set[Conversation] = set()
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
        api.conversations.add(self)
        connection.receive = self._receive
        connection.ended = self._ended

    def _ended(self) -> None:
        self._api.counters.connections -= 1
        self._api.conversations.discard(self)

    def cut(self) -> None:
        """Lose the connection."""
        self._connection.close(reset=True)

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
            named = target(request.path)
            if request.path == _REVIEWS and request.method == "POST":
                self._review(request, user)
            elif named is None:
                self._discover(request)
            elif named.subresource == "exec":
                self._exec(request, user, named.namespace, named.name)
            else:
                self._object(request, user, named)
        except (selector.SelectorError, ValueError) as error:
            self._answer(400, statuses.failure(400, str(error)))

    def _meets_fault(self, on: str, name: str = "", resource: str = "pods") -> Fault | None:
        """The fault that the request meets, if it is not one that has been dealt with here."""
        self._api.counters.count(on, resource)
        fault = self._api.faults.meet(on, name, resource)
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
        elif fault.kind == "no-answer":
            self._busy = True
        return fault

    def _done_with(self, fault: Fault | None) -> bool:
        return fault is not None and fault.kind in {"http", "no-answer", "drop-before-upgrade"}

    # Objects ---------------------------------------------------------------------------------------------------------

    def _object(self, request: http1.Request, user: User, named: Target) -> None:
        verb = rest.verb(request, named)
        if not verb:
            self._answer(405, statuses.failure(405, "the server does not allow this method on the requested resource"))
            return
        resource, asked = named.resource, named.name or selector.name_in(request.first("fieldSelector")) or ""
        path = "/".join(filter(None, (resource.plural, named.subresource)))
        if not user.may(verb, path, asked, named.namespace, resource.group):
            refusal = statuses.forbidden(user.name, verb, path, asked, named.namespace, resource.group)
            self._answer(403, refusal)
            return
        fault = self._meets_fault(verb, asked, resource.key)
        if self._done_with(fault):
            return
        if verb == "watch":
            self._watch(request, named, fault)
            return
        if named.subresource == "log":
            self._log(request, named)
            return
        code, body = self._api.objects.answer(verb, request, named)
        if fault is not None and fault.kind == "lost-answer":
            self._connection.close(reset=True)
            return
        self._connection.write(http1.response(code, body))

    def _watch(self, request: http1.Request, named: Target, fault: Fault | None) -> None:
        watch = Watch(self._api.loop, self._api.store, self._connection, named)

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

    def _log(self, request: http1.Request, named: Target) -> None:
        thing = self._api.store.get(PODS.key, named.namespace, named.name)
        if thing is None:
            self._answer(404, statuses.not_found("pods", named.name))
            return
        container = request.first("container")
        wrong = exec_request.wrong_container(container, named.name, thing)
        container = container or thing["spec"]["containers"][0]["name"]
        if wrong is None and pods.waits(thing, container):
            wrong = f'container "{container}" in pod "{named.name}" is waiting to start: {pods.waits(thing, container)}'
        if wrong is None and request.flag("previous"):
            wrong = "the stand-in keeps no output of earlier containers apart: it is all in one log"
        if wrong is not None:
            self._answer(400, statuses.failure(400, wrong))
            return
        live = self._api.kubelet.find(named.namespace, named.name)
        path = os.path.join(live.folder, f"{container}.log")
        lines = int(request.first("tailLines", "-1"))
        if request.flag("follow"):
            self._busy = True
            follower = logs.Follower(self._api.loop, self._connection, path, lambda: not self._runs(named, container))
            follower.start(lines if lines >= 0 else None)
            return
        data = logs.read(path)
        self._connection.write(http1.response(200, data if lines < 0 else logs.tail(data, lines), "text/plain"))

    def _runs(self, named: Target, container: str) -> bool:
        thing = self._api.store.get(PODS.key, named.namespace, named.name)
        return thing is not None and pods.runs(thing, container)

    # Exec ------------------------------------------------------------------------------------------------------------

    def _exec(self, request: http1.Request, user: User, namespace: str, name: str) -> None:
        for verb in exec_request.needed_verbs(request.method, self._api.minor):
            if not user.may(verb, "pods/exec", name, namespace):
                self._answer(403, statuses.forbidden(user.name, verb, "pods/exec", name, namespace))
                return
        fault = self._meets_fault("exec", name)
        if self._done_with(fault):
            return
        thing = self._api.store.get(PODS.key, namespace, name)
        refusal = exec_request.refusal(request, name, thing)
        if refusal is not None or thing is None:
            assert refusal is not None
            self._answer(refusal["code"], refusal)
            return
        v4_only = self._api.minor < 29 or (fault is not None and fault.kind == "v4-only")
        protocol = exec_request.protocol(request, v4_only=v4_only)
        if protocol is None:  # as golang.org/x/net/websocket refuses a handshake
            self._connection.write(http1.response(403, b"", "text/plain"))
            return
        streams = {stream: request.flag(stream) for stream in ("stdin", "stdout", "stderr", "tty")}
        options = Options(request.query["command"], protocol, self._api.runtime, **streams)
        self._open(request, options, thing, fault)

    def _open(self, request: http1.Request, options: Options, thing: pods.Object, fault: Fault | None) -> None:
        api = self._api
        namespace, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
        container = request.first("container") or thing["spec"]["containers"][0]["name"]
        place = {"pod": name, "namespace": namespace, "container": container}
        api.counters.commands.append({**place, **dataclasses.asdict(options)})
        wrong = exec_request.kubelet_error(thing, container, fault)
        if wrong is not None and not options.v5:
            self._connection.write(http1.response(500, wrong.encode() + b"\n", "text/plain; charset=utf-8"))
            return
        self._busy = True
        accept = frames.accept_key(request.headers.get("sec-websocket-key", ""))
        self._connection.write(http1.switching_protocols(accept, options.protocol))
        if fault is not None and fault.kind == "drop-after-upgrade":
            self._connection.close(reset=True)
            return
        session = ExecSession(self._connection, options, fault, api.counters, lambda: api.sessions.pop(session))
        api.sessions[session] = thing["metadata"]["uid"]
        session.take_over(self._reader.rest())
        if wrong is not None:
            session.fail(statuses.internal_error(wrong))
            return
        if fault is not None and fault.kind == "hang":
            session.hang()
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
        allowed = user.may(
            asked.get("verb", ""), resource, asked.get("name", ""), asked.get("namespace", ""), asked.get("group", "")
        )
        review["status"] = {"allowed": allowed} | ({} if allowed else {"reason": "no rule of the stand-in allows it"})
        self._answer(201, review)

    def _discover(self, request: http1.Request) -> None:
        self._api.counters.count("discovery")
        if request.path in {"/healthz", "/livez", "/readyz"}:
            self._connection.write(http1.response(200, b"ok", "text/plain; charset=utf-8"))
            return
        answer = discovery.answer(request.path.rstrip("/"), self._api.minor)
        if answer is None:
            self._answer(404, statuses.failure(404, "the server could not find the requested resource", details={}))
        else:
            self._answer(200, answer)
