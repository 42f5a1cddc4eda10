"""Pods as the tables that kubectl asks for. Pure but for the clock."""

from __future__ import annotations

import calendar
import time
from typing import Any

Object = dict[str, Any]

_COLUMNS = (
    ("Name", "string", "name"),
    ("Ready", "string", ""),
    ("Status", "string", ""),
    ("Restarts", "integer", ""),
    ("Age", "string", ""),
)


def wanted(accept: str) -> bool:
    """Whether the client would rather have a table (`as=Table` in its first media type)."""
    return "as=Table" in accept.split(",", maxsplit=1)[0].replace(" ", "")


def table(pods: list[Object], metadata: Object, *, head: bool = True) -> Object:
    """A meta.k8s.io/v1 Table; in a watch only the first one has its head."""
    columns = [
        {"name": name, "type": kind, "format": form, "description": "", "priority": 0} for name, kind, form in _COLUMNS
    ]
    rows = [
        {
            "cells": _cells(pod),
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod["metadata"]},
        }
        for pod in pods
    ]
    kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**kind, "columnDefinitions": columns if head else None, "rows": rows}


def _cells(pod: Object) -> list[Any]:
    statuses = pod["status"].get("containerStatuses", [])
    ready = sum(1 for status in statuses if status["ready"])
    restarts = sum(status["restartCount"] for status in statuses)
    count = f"{ready}/{len(pod['spec']['containers'])}"
    return [pod["metadata"]["name"], count, _word(pod, statuses), restarts, _age(pod["metadata"]["creationTimestamp"])]


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
