"""The API of objects without I/O: a request comes in, a response or a watch goes out.

`read` says what a request asks for, `authorize` whether its user may, `answer` carries it out; `handle` is all three.
Exec streams and logs are the server's: here they are read and authorized alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import discovery, selector, statuses, table, writes
from .deletion import Deletion
from .resources import PODS, RESOURCES, SERVICE_ACCOUNTS, target
from .watch import Lister, Watch, list_of, selector_of
from .writes import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .access import User
    from .request import Request
    from .resources import Resource, Target
    from .store import Store

Object = dict[str, Any]

REVIEW, DISCOVERY = "review", "discovery"  # what is asked for, where it is no verb of RBAC
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Response:
    """An answer that is whole."""

    code: int
    body: bytes
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, code: int, thing: object, **headers: str) -> Response:
        """An object's."""
        return cls(code, json.dumps(thing, separators=(",", ":")).encode() + b"\n", headers=headers)


@dataclass(frozen=True)
class Call:
    """What a request asks for: a verb of RBAC and what it is for, or REVIEW or DISCOVERY, which have no target."""

    verb: str
    request: Request
    target: Target | None = None

    @property
    def name(self) -> str:
        """The one object that it is for: RBAC's resourceNames apply to lists and watches of one, too."""
        if self.target is None:
            return ""
        return self.target.name or selector.name_in(self.request.first("fieldSelector")) or ""

    @property
    def resource(self) -> str:
        """As RBAC has it: pods, pods/log."""
        return "/".join(filter(None, (self.target.resource.plural, self.target.subresource))) if self.target else ""


class ObjectApi:
    """What all requests share.

    `accept_pod` creates a pod and takes care of it, `end_pod` deletes it in so many seconds; without them a pod stays
    Pending until someone writes its status, and one on a node is deleted until someone says that it has ended.
    """

    def __init__(
        self,
        store: Store,
        *,
        accept_pod: Callable[[Object], Object] | None = None,
        end_pod: Callable[[Object, float], None] | None = None,
        resources: tuple[Resource, ...] = RESOURCES,
    ) -> None:
        self.store = store
        self.lister = Lister(store)
        self.deletion = Deletion(store, end_pod)
        self._accept_pod = accept_pod or self._keep_pod
        self._resources = resources
        self._target = functools.lru_cache(1024)(lambda path: target(path, resources))

    # A request -------------------------------------------------------------------------------------------------------

    def handle(self, request: Request, user: User) -> Response | Watch:
        """Answer a request."""
        try:
            call = self.read(request)
            self.authorize(call, user)
        except RefusedError as refused:
            return Response.of(refused.status["code"], refused.status)
        return self.answer(call, user)

    def read(self, request: Request) -> Call:
        """What a request asks for. Raises RefusedError."""
        if request.headers.get("content-type", "").startswith("application/vnd.kubernetes.protobuf"):
            words = "the stand-in reads JSON: write the object to a file, and `kubectl apply -f` that"
            raise RefusedError(statuses.failure(415, words, reason="UnsupportedMediaType"))
        if request.path == _REVIEWS and request.method == "POST":
            return Call(REVIEW, request)
        named = self._target(request.path)
        if named is None:
            return Call(DISCOVERY, request)
        if not (verb := _verb(request, named)):
            words = "the server does not allow this method on the requested resource"
            raise RefusedError(statuses.failure(405, words))
        try:
            call = Call(verb, request, named)
            _ = call.name
        except selector.SelectorError as error:
            raise RefusedError(statuses.failure(400, str(error))) from None
        return call

    @staticmethod
    def authorize(call: Call, user: User, *verbs: str) -> None:
        """Refuse what a user may not; an exec needs other verbs than its request's. Raises RefusedError."""
        if call.target is None:
            return
        namespace, group = call.target.namespace, call.target.resource.group
        for verb in verbs or (call.verb,):
            if not user.may(verb, call.resource, call.name, namespace, group):
                refusal = statuses.forbidden(user.name, verb, call.resource, call.name, namespace, group)
                raise RefusedError(refusal)

    def answer(self, call: Call, user: User) -> Response | Watch:
        """Carry out what a user may."""
        try:
            if call.target is None:
                return self._review(call, user) if call.verb == REVIEW else self._discover(call)
            if call.verb == "watch":
                return Watch(self.store, call.target, call.request)
            return Response(*self._answer(call.verb, call.request, call.target))
        except RefusedError as refused:
            return Response.of(refused.status["code"], refused.status)
        except ValueError as error:  # of selectors, too
            return Response.of(400, statuses.failure(400, str(error)))

    def _review(self, call: Call, user: User) -> Response:
        asked = _body(call.request).get("spec", {}).get("resourceAttributes", {})
        resource = "/".join(part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part)
        where = (asked.get("namespace", ""), asked.get("group", ""))
        allowed = user.may(asked.get("verb", ""), resource, asked.get("name", ""), *where)
        status = {"allowed": allowed} | ({} if allowed else {"reason": "no rule of the stand-in allows it"})
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}}
        return Response.of(201, {**kind, "spec": {"resourceAttributes": asked}, "status": status})

    def _discover(self, call: Call) -> Response:
        path = call.request.path
        if path in {"/healthz", "/livez", "/readyz"}:
            return Response(200, b"ok", "text/plain; charset=utf-8")
        found = discovery.answer(path.rstrip("/"), self._resources)
        if found is None:
            words = "the server could not find the requested resource"
            return Response.of(404, statuses.failure(404, words, details={}))
        return Response.of(200, found)

    def _answer(self, verb: str, request: Request, target: Target) -> tuple[int, bytes]:
        if verb == "list":
            return self.lister.answer(target, request)
        if verb == "create":
            return 201, self._shown(request, target, self._create(request, target))
        if verb == "deletecollection":
            return 200, self._delete_all(request, target)
        thing = self.store.get(target.resource.key, target.namespace, target.name)
        if thing is None:
            if _media(request) == _APPLY:
                return 201, self._shown(request, target, self._create(request, target))
            raise RefusedError(statuses.not_found(target.resource.key, target.name))
        if verb == "delete":
            return 200, self._delete(request, target, thing)
        if target.subresource == "scale":
            return 200, json.dumps(self._scaled(verb, request, target, thing)).encode()
        if verb == "get" and table.wanted(request.headers.get("accept", "")):
            return 200, json.dumps(table.table(target.resource, [thing], {})).encode()
        if verb != "get":
            thing = self._change(verb, request, target, thing)
        return 200, self._shown(request, target, thing)

    def _shown(self, request: Request, target: Target, thing: Object) -> bytes:
        if table.metadata_wanted(request.headers.get("accept", "")):
            return table.metadata_of(thing) + b"\n"
        if _is_dry(request):  # never stored: no version tells it from what is
            return json.dumps({**thing, "apiVersion": target.api_version}).encode()
        return self.store.encoded(thing, target.api_version) + b"\n"

    # Create and change -----------------------------------------------------------------------------------------------

    def _create(self, request: Request, target: Target) -> Object:
        thing = writes.created(self.store, target, _body(request), _manager(request))
        writes.check_fields(target, thing, request.first("fieldValidation"))
        key, meta = target.resource.key, thing["metadata"]
        if self.store.get(key, meta.get("namespace", ""), meta["name"]) is not None:
            raise RefusedError(statuses.exists(key, meta["name"]))
        if _is_dry(request):
            return thing
        if target.resource is PODS:
            return self.make_pod(thing)
        return self.store.create(key, thing)

    def make_pod(self, thing: Object) -> Object:
        """Create a pod, if its ServiceAccount is there: the API server's admission. Raises RefusedError."""
        meta, account = thing["metadata"], thing["spec"].get("serviceAccountName") or "default"
        if account != "default" and self.store.get(SERVICE_ACCOUNTS.key, meta["namespace"], account) is None:
            missing = f'serviceaccount "{account}" not found'
            words = (
                f'pods "{meta["name"]}" is forbidden: error looking up service account {meta["namespace"]}/{account}'
            )
            raise RefusedError(statuses.failure(403, f"{words}: {missing}"))
        return self._accept_pod(thing)

    def _keep_pod(self, thing: Object) -> Object:
        return self.store.create(PODS.key, {**thing, "status": {"phase": "Pending"}})

    def _change(self, verb: str, request: Request, target: Target, before: Object) -> Object:
        body, manager = _body(request), _manager(request)
        if verb == "update":
            after = writes.replaced(self.store, target, before, body, manager)
        else:
            _check_patch(request, body)
            after = writes.patched(self.store, target, before, body, manager)
        writes.check_fields(target, after or before, request.first("fieldValidation"))
        return self._changed(request, target, before, after)

    def _scaled(self, verb: str, request: Request, target: Target, before: Object) -> Object:
        """A job's workers as a Scale, read or written."""
        job = dataclasses.replace(target, subresource="")
        if verb != "get":
            replicas = (_body(request).get("spec") or {}).get("replicas", 0)
            patch: Object = {"replicas": replicas}
            for key in reversed(target.resource.scaled):
                patch = {key: patch}
            after = writes.patched(self.store, job, before, patch, _manager(request))
            before = self._changed(request, job, before, after)
        role, status = before, before.get("status") or {}
        for key in target.resource.scaled:
            role = role.get(key) or {}
        now = (status.get("replicaStatuses") or {}).get("Worker") or {}
        known = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {name: before["metadata"][name] for name in known},
            "spec": {"replicas": role.get("replicas", 0)},
            "status": {"replicas": status.get("replicas", now.get("active", 0))},
        }

    def _changed(self, request: Request, target: Target, before: Object, after: Object | None) -> Object:
        if after is None or _is_dry(request):
            return after or before
        return self.deletion.write(target.resource.key, before, after)

    # Delete ----------------------------------------------------------------------------------------------------------

    def _delete(self, request: Request, target: Target, thing: Object) -> bytes:
        options = _body(request) if request.body else {}
        writes.check_preconditions(target, thing, options.get("preconditions") or {})
        left: Object | None = thing
        if not _is_dry(request, options):
            left = self.deletion.remove(target.resource.key, thing, *_how(request, options))
        if left is not None:
            return self._shown(request, target, left)
        details = {"name": target.name, "kind": target.resource.plural, "uid": thing["metadata"]["uid"]}
        gone = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json.dumps(gone).encode()

    def _delete_all(self, request: Request, target: Target) -> bytes:
        options = _body(request) if request.body else {}
        match = selector_of(request, target.resource.kind)
        chosen = [one for one in self.store.all(target.resource.key, target.namespace or None) if match(one)]
        for thing in () if _is_dry(request, options) else chosen:
            self.deletion.remove(target.resource.key, thing, *_how(request, options))
        meta = {"resourceVersion": str(self.store.version)}
        items = (self._shown(request, target, thing) for thing in chosen)
        return list_of(target.resource.kind, target.api_version, meta, items)


def _verb(request: Request, target: Target) -> str:
    """What RBAC calls the request; "" if the API has no such request."""
    if target.subresource == "exec":
        return "exec"
    if request.method == "GET" and not target.name:
        return "watch" if request.flag("watch") else "list"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    if (request.method == "POST") is bool(target.name):  # created in a collection, all else is by name
        return ""
    return _VERBS.get(request.method, "")


def _is_dry(request: Request, options: Object | None = None) -> bool:
    """Whether to write nothing: `kubectl --dry-run=server`."""
    return bool(request.first("dryRun") or (options or {}).get("dryRun"))


def _body(request: Request) -> Object:
    body = json.loads(request.body)
    if not isinstance(body, dict):
        raise RefusedError(statuses.failure(400, "the body is no object"))
    return body


def _manager(request: Request) -> str:
    """Who writes: the parameter, else the program's name, as the API server has it."""
    return request.first("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]


def _check_patch(request: Request, body: Object) -> None:
    """Merge patches are known, what is applied is taken for one, and strategic ones that are nothing more.

    Raises RefusedError.
    """
    media = _media(request)
    if media in {_MERGE, _APPLY} or (media == _STRATEGIC and not _is_strategic(body)):
        return
    words = f"the stand-in takes patches of type {_MERGE} (kubectl patch --type=merge), not this {media or 'one'}"
    raise RefusedError(statuses.failure(415, words, reason="UnsupportedMediaType"))


def _media(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip()


def _is_strategic(body: Any) -> bool:
    if isinstance(body, dict):
        return any(key.startswith("$") or _is_strategic(value) for key, value in body.items())
    return isinstance(body, list) and any(isinstance(one, dict) for one in body)


def _how(request: Request, options: Object) -> tuple[float | None, str]:
    """A deletion's grace period, if one is given, and propagation policy."""
    grace_s = options.get("gracePeriodSeconds", request.first("gracePeriodSeconds") or None)
    policy = options.get("propagationPolicy") or request.first("propagationPolicy")
    return None if grace_s is None else float(grace_s), str(policy)
