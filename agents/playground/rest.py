"""Requests for objects: who may, what is there, what a write makes of it. Watches, execs and logs are elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import partial, pods, statuses, table, writes
from .resources import PODS, SERVICE_ACCOUNTS
from .store import ExistsError
from .watch import selector_of

if TYPE_CHECKING:
    from .http1 import Request
    from .kubelet import Kubelet
    from .resources import Target
    from .store import Store
    from .watch import Lister

Object = dict[str, Any]
Answer = tuple[int, bytes]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_GRACE_S = 30.0  # of a pod that says nothing else
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def verb(request: Request, target: Target) -> str:
    """What RBAC calls the request; "" if the API has no such request."""
    if request.method == "GET" and not target.name:
        return "watch" if request.flag("watch") else "list"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    if (request.method == "POST") is bool(target.name):  # created in a collection, all else is by name
        return ""
    return _VERBS.get(request.method, "")


class Objects:
    """Answers all that ends with its answer."""

    def __init__(self, store: Store, lister: Lister, kubelet: Kubelet) -> None:
        self._store = store
        self._lister = lister
        self._kubelet = kubelet

    def answer(self, verb: str, request: Request, target: Target) -> Answer:
        """HTTP code and body."""
        try:
            return self._answer(verb, request, target)
        except writes.RefusedError as refused:
            return refused.status["code"], json.dumps(refused.status).encode()

    def _answer(self, verb: str, request: Request, target: Target) -> Answer:
        if verb == "list":
            return self._lister.answer(target, request)
        if verb == "create":
            return 201, self._shown(request, target, self._create(request, target))
        if verb == "deletecollection":
            return self._delete_all(request, target)
        thing = self._store.get(target.resource.key, target.namespace, target.name)
        if thing is None:
            raise writes.RefusedError(statuses.not_found(target.resource.key, target.name))
        if verb == "get":
            if table.wanted(request.headers.get("accept", "")):
                return 200, json.dumps(table.table(target.resource, [thing], {})).encode()
            return 200, self._shown(request, target, thing)
        if verb == "delete":
            return self._delete(request, target, thing)
        return 200, self._shown(request, target, self._change(verb, request, target, thing))

    def _create(self, request: Request, target: Target) -> Object:
        thing = writes.created(target, _body(request), _manager(request))
        key, meta = target.resource.key, thing["metadata"]
        if self._store.get(key, meta.get("namespace", ""), meta["name"]) is not None:
            raise writes.RefusedError(statuses.exists(key, meta["name"]))
        if target.resource is PODS:
            return self.make_pod(thing)
        try:
            return self._store.create(key, thing)
        except ExistsError:
            raise writes.RefusedError(statuses.exists(key, meta["name"])) from None

    def make_pod(self, thing: Object) -> Object:
        """Create a pod, which the kubelet then takes care of. Raises writes.RefusedError."""
        self._check_account(thing)
        return self._kubelet.accept(thing)

    def _check_account(self, pod: Object) -> None:
        """As the API server's admission does: no pod for a ServiceAccount that isn't there."""
        meta, account = pod["metadata"], pod["spec"].get("serviceAccountName") or "default"
        if account != "default" and self._store.get(SERVICE_ACCOUNTS.key, meta["namespace"], account) is None:
            missing = f'serviceaccount "{account}" not found'
            words = (
                f'pods "{meta["name"]}" is forbidden: error looking up service account {meta["namespace"]}/{account}'
            )
            raise writes.RefusedError(statuses.failure(403, f"{words}: {missing}"))

    def _change(self, verb: str, request: Request, target: Target, before: Object) -> Object:
        body, manager = _body(request), _manager(request)
        if verb == "update":
            after = writes.replaced(target, before, body, manager)
        else:
            _check_patch(request, body)
            after = writes.patched(target, before, body, manager)
        if after is None:
            return before

        def change(thing: Object) -> None:
            thing.clear()
            thing.update(after)

        changed = self._store.update(target.resource.key, target.namespace, target.name, change)
        is_released = "deletionTimestamp" in changed["metadata"] and not changed["metadata"].get("finalizers")
        if is_released and target.resource is not PODS:
            self._store.delete(target.resource.key, target.namespace, target.name)
        return changed

    def _delete(self, request: Request, target: Target, thing: Object) -> Answer:
        options = _body(request) if request.body else {}
        writes.check_preconditions(target, thing, options.get("preconditions") or {})
        left = self.remove(target.resource.key, thing, _grace_s(request, options, thing))
        if left is not None:
            return 200, self._shown(request, target, left)
        details = {"name": target.name, "kind": target.resource.plural, "uid": thing["metadata"]["uid"]}
        gone = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return 200, json.dumps(gone).encode()

    def _delete_all(self, request: Request, target: Target) -> Answer:
        options = _body(request) if request.body else {}
        match = selector_of(request, target.resource.kind)
        chosen = [one for one in self._store.all(target.resource.key, target.namespace or None) if match(one)]
        for thing in chosen:
            self.remove(target.resource.key, thing, _grace_s(request, options, thing))
        items = b",".join(self._shown(request, target, thing) for thing in chosen)
        meta = json.dumps({"resourceVersion": str(self._store.version)}).encode()
        head = f'{{"kind":"{target.resource.kind}List","apiVersion":"{target.api_version}","metadata":'.encode()
        return 200, head + meta + b',"items":[' + items + b"]}"

    def remove(self, key: str, thing: Object, grace_s: float | None = None) -> Object | None:
        """Delete an object; returns it if it is still there, as a pod is until it has ended."""
        meta = thing["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        if key == PODS.key:
            self._kubelet.delete(
                self._kubelet.find(namespace, name),
                lambda: None,
                grace_s=_grace_of(thing) if grace_s is None else grace_s,
            )
            return self._store.get(key, namespace, name)
        if meta.get("finalizers"):
            if "deletionTimestamp" in meta:
                return thing

            def mark(one: Object) -> None:
                one["metadata"] |= {"deletionTimestamp": pods.timestamp(), "deletionGracePeriodSeconds": 0}

            return self._store.update(key, namespace, name, mark)
        self._store.delete(key, namespace, name)
        return None

    def _shown(self, request: Request, target: Target, thing: Object) -> bytes:
        if partial.wanted(request.headers.get("accept", "")):
            return partial.encoded(thing) + b"\n"
        return self._store.encoded(thing, target.api_version) + b"\n"


def _body(request: Request) -> Object:
    body = json.loads(request.body)
    if not isinstance(body, dict):
        raise writes.RefusedError(statuses.failure(400, "the body is no object"))
    return body


def _manager(request: Request) -> str:
    """Who writes: the parameter, else the program's name, as the API server has it."""
    return request.first("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]


def _check_patch(request: Request, body: Object) -> None:
    """Only merge patches are known, and of strategic ones those that are nothing more. Raises RefusedError."""
    media = request.headers.get("content-type", "").partition(";")[0].strip()
    if media == _MERGE or (media == _STRATEGIC and not _is_strategic(body)):
        return
    words = f"the stand-in takes patches of type {_MERGE} (kubectl patch --type=merge), not this {media or 'one'}"
    raise writes.RefusedError(statuses.failure(415, words, reason="UnsupportedMediaType"))


def _is_strategic(body: Any) -> bool:
    if isinstance(body, dict):
        return any(key.startswith("$") or _is_strategic(value) for key, value in body.items())
    return isinstance(body, list) and any(isinstance(one, dict) for one in body)


def _grace_of(thing: Object) -> float:
    return float((thing.get("spec") or {}).get("terminationGracePeriodSeconds", _GRACE_S))


def _grace_s(request: Request, options: Object, thing: Object) -> float:
    asked = options.get("gracePeriodSeconds", request.first("gracePeriodSeconds") or None)
    return _grace_of(thing) if asked is None else float(asked)
