"""Kubernetes objects in memory, of whatever kind, under resourceVersions of one count as etcd's."""

from __future__ import annotations

import copy
import threading
import time
import uuid
from collections import Counter
from typing import Any

Body = dict[str, Any]
Place = tuple[str, str, str]  # plural, namespace, name
T9K = "batch.tensorstack.dev"


class Failure(Exception):  # noqa: N818 (an answer, no error of ours)
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str = "", retry_after: str = "") -> None:
        super().__init__(message or reason)
        self.code, self.reason, self.retry_after = code, reason, retry_after


class Objects:
    """What is stored, and everything that has become of it."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 100
        self.stored: dict[Place, Body] = {}
        self.log: list[tuple[int, str, str, Body]] = []
        self.compacted = 0  # watches from before are told 410
        self.created: Counter[Place] = Counter()

    def put(self, plural: str, body: Body, event: str) -> Body:
        self.version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.version)
        place = (plural, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if event == "DELETED":
            self.stored.pop(place, None)
            self._collect(body["metadata"].get("uid", ""))
        else:
            self.stored[place] = body
        self.log.append((self.version, event, plural, body))
        self.changed.notify_all()
        return body

    def create(self, plural: str, namespace: str, body: Body) -> Body:
        place = (plural, namespace, body["metadata"]["name"])
        if place in self.stored:
            raise Failure(409, "AlreadyExists", f'{plural} "{place[2]}" already exists')
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        metadata = {**body["metadata"], "namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now}
        self.created[place] += 1
        return self.put(plural, {**body, "metadata": metadata | {"generation": 1}}, "ADDED")

    def get(self, place: Place) -> Body:
        try:
            return self.stored[place]
        except KeyError:
            raise Failure(404, "NotFound", f'{place[0]} "{place[2]}" not found') from None

    def replace(self, place: Place, body: Body, subresource: str) -> Body:
        before = self.get(place)
        if body["metadata"].get("resourceVersion") not in {None, before["metadata"]["resourceVersion"]}:
            raise Failure(409, "Conflict", "the object has been modified")
        if subresource == "status":
            ours = {"manager": "mpi-agents", "operation": "Update", "subresource": "status"}
            metadata = {**before["metadata"], "managedFields": [ours]}
            return self.put(place[0], {**before, "metadata": metadata, "status": body["status"]}, "MODIFIED")
        return self.put(place[0], {**body, "metadata": before["metadata"] | body["metadata"]}, "MODIFIED")

    def delete(self, place: Place, uid: str = "") -> Body:
        before = self.get(place)
        if uid and before["metadata"]["uid"] != uid:
            raise Failure(409, "Conflict", "the uid in the precondition is another")
        if place[0] != "pods":
            self.put(place[0], before, "DELETED")
            return {"kind": "Status", "status": "Success"}
        if "deletionTimestamp" not in before["metadata"]:
            before = {**before, "metadata": {**before["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
            return self.put("pods", before, "MODIFIED")
        return before

    def select(self, plural: str, namespace: str, selector: str) -> list[Body]:
        return [
            body
            for (its, its_namespace, _), body in list(self.stored.items())
            if its == plural and namespace in {"", its_namespace} and matches(body, selector)
        ]

    def _collect(self, uid: str) -> None:
        for (plural, _, _), body in list(self.stored.items()):
            if any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences", ())):
                self.put(plural, body, "DELETED")


def matches(body: Body, selector: str) -> bool:
    labels = body["metadata"].get("labels") or {}
    wanted = [part.partition("=") for part in selector.split(",") if part]
    return all(name in labels and (not equals or labels[name] == text) for name, equals, text in wanted)


def plural_of(job: Body) -> str:
    """How an MPIJob is stored: T9k's have their group behind the plural."""
    return f"mpijobs.{T9K}" if job["apiVersion"].startswith(T9K) else "mpijobs"


def conditions(job: Body) -> list[str]:
    """The types of a job's conditions that hold."""
    return [each["type"] for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"]


def only_metadata(answer: Body) -> Body:
    """An object, a list or a Status as who wants no more than metadata gets it (a Status is no such object)."""
    if answer.get("kind") == "Status":
        return answer
    if "items" in answer:
        return {**answer, "items": [only_metadata(each) for each in answer["items"]]}
    return {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": answer["metadata"]}


def running(pod: Body) -> Body:
    """The status of a pod that runs."""
    containers = [
        {
            "name": each["name"],
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        for each in pod["spec"]["containers"]
    ]
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": containers}


def merged(before: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(before, dict) or not isinstance(patch, dict):
        return patch
    after = dict(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after
