"""Other forms that clients ask objects in: kubectl's tables, and metadata alone. Pure except for the clock."""

from __future__ import annotations

import calendar
import json
import time
from typing import TYPE_CHECKING, Any

from agents.job.conditions import NOT_READY

if TYPE_CHECKING:
    from .resources import Resource

Object = dict[str, Any]

_COLUMNS = (
    ("Name", "string", "name"),
    ("Ready", "string", ""),
    ("Status", "string", ""),
    ("Restarts", "integer", ""),
    ("Age", "string", ""),
)
_OTHER_COLUMNS = {  # the operator's definitions have these of MPIJobs
    "mpijobs.kubeflow.org": ("Name", "State", "Ready workers", "Age"),
    "mpijobs.batch.tensorstack.dev": ("Name", "Phase", "Reason", "Age"),
    "virtualclusters.mpi-agents.io": ("Name", "Nodes", "Ready", "Login", "DVM", "Age"),
    "events": ("Last Seen", "Type", "Reason", "Object", "Message"),
}
METADATA = ("meta.k8s.io/v1", "PartialObjectMetadata")


def metadata_wanted(accept: str) -> bool:
    """Whether the client wants metadata alone (of lists with `List` behind the kind): the operator does, of Secrets."""
    return f"as={METADATA[1]}" in accept.split(",", maxsplit=1)[0].replace(" ", "")


def metadata_of(thing: Object) -> bytes:
    """An object's metadata, as JSON."""
    shown = {"kind": METADATA[1], "apiVersion": METADATA[0], "metadata": thing["metadata"]}
    return json.dumps(shown, separators=(",", ":")).encode()


def wanted(accept: str) -> bool:
    """Whether the client would rather have a table (`as=Table` in its first media type)."""
    return "as=Table" in accept.split(",", maxsplit=1)[0].replace(" ", "")


def table(resource: Resource, things: list[Object], metadata: Object, *, head: bool = True) -> Object:
    """A meta.k8s.io/v1 Table; in a watch only the first one has its head."""
    if resource.kind == "Pod":
        names: tuple[tuple[str, str, str], ...] = _COLUMNS
    else:
        words = _OTHER_COLUMNS.get(resource.key, ("Name", "Age"))
        names = tuple((word, "string", "name" if word == "Name" else "") for word in words)
    columns = [
        {"name": name, "type": kind, "format": form, "description": "", "priority": 0} for name, kind, form in names
    ]
    rows = [
        {
            "cells": _cells(resource.key, thing),
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": thing["metadata"]},
        }
        for thing in things
    ]
    kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**kind, "columnDefinitions": columns if head else None, "rows": rows}


def _cells(key: str, thing: Object) -> list[Any]:
    name, age = thing["metadata"]["name"], _age(thing["metadata"]["creationTimestamp"])
    if key == "pods":
        statuses = thing["status"].get("containerStatuses", [])
        ready = sum(1 for status in statuses if status["ready"])
        restarts = sum(status["restartCount"] for status in statuses)
        return [name, f"{ready}/{len(thing['spec']['containers'])}", _word(thing, statuses), restarts, age]
    if key == "mpijobs.batch.tensorstack.dev":
        status = thing.get("status") or {}
        return [name, str(status.get("phase", "")), _held(status), age]
    if key == "virtualclusters.mpi-agents.io":
        status, spec = thing.get("status") or {}, thing["spec"]
        login = [one["status"] for one in status.get("conditions") or () if one["type"] == "LoginReady"]
        has_dvm = str((spec.get("dvm") or {}).get("enabled", "")).lower()
        return [name, spec["nodes"].get("replicas"), status.get("readyNodes", ""), "".join(login), has_dvm, age]
    if key == "mpijobs.kubeflow.org":
        status = thing.get("status") or {}
        last = "".join(one["type"] for one in (status.get("conditions") or ())[-1:])
        return [name, _held(status) or last, status.get("readyWorkers", ""), age]
    if key == "events":
        about = thing.get("involvedObject") or {}
        what = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
        return [age, thing.get("type", ""), thing.get("reason", ""), what, thing.get("message", "")]
    return [name, age]


def _held(status: Object) -> str:
    """What the definition's columns say before a job's last condition."""
    types = {one["type"] for one in status.get("conditions") or ()}
    return next((str(one) for one in NOT_READY if one in types), "")


def _word(pod: Object, statuses: list[Object]) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for status in statuses:
        for state in ("waiting", "terminated"):
            reason = status["state"].get(state, {}).get("reason")
            if reason:
                return str(reason)
    return str(pod["status"].get("reason") or pod["status"]["phase"])


def _age(created: str) -> str:
    seconds = int(time.time() - calendar.timegm(time.strptime(created, "%Y-%m-%dT%H:%M:%SZ")))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(0, seconds)}s"
